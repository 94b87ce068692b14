"""Returns, advantages and objectives of rollouts, as pure functions of arrays.

`bootstrap_values`, `gae` and `explained_variance` also take tensors, and then stay on their device.

Bootstrapping is decided here, for all on-policy algorithms: the value after a terminal state is 0; that after
a truncated episode is the value of its final observation.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


def bootstrap_values(
    values: Floats,
    last_values: Floats,
    final_values: Floats | None = None,
    final_index: tuple[NDArray[np.intp], NDArray[np.intp]] | None = None,
) -> Floats:
    """Return the value of the next state of each step.

    :param values: V(s_t), [n_steps, n_envs]
    :param last_values: V of the observation after the last step, [n_envs]
    :param final_values: V of the final observations of truncated episodes, [n_truncated]
    :param final_index: their (steps, envs) in the rollout: the next row there is of the next episode
    :return: V(s_{t+1}), [n_steps, n_envs]; undefined where the episode terminated
    """
    if isinstance(values, np.ndarray):
        next_values = np.concatenate([values[1:], last_values[None]])
    else:
        next_values = values.roll(-1, 0)
        next_values[-1] = last_values
    if final_values is not None and final_index is not None:
        next_values[final_index] = final_values
    return next_values


def gae(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Bools,
    truncated: Bools,
    gamma: float,
    gae_lambda: float,
) -> tuple[Floats, Floats]:
    """Compute generalised advantage estimates (Schulman et al. 2016, eq. 16), all arrays [n_steps, n_envs].

    With `delta_t = r_t + gamma V(s_{t+1}) - V(s_t)` the advantage is `sum_l (gamma lambda)^l delta_{t+l}`
    up to the end of the episode, where `V(s_{t+1})` is 0 after termination and `next_values` after
    truncation.

    :return: advantages, and the lambda-returns `advantages + values` that the value function is fitted to
    """
    deltas = rewards + gamma * next_values * ~terminated - values
    decay = (gamma * gae_lambda) * ~(terminated | truncated)
    advantages = deltas
    if isinstance(rewards, np.ndarray):
        decay, advantages = decay.astype(np.float32), deltas.astype(np.float32)
    for t in range(len(advantages) - 2, -1, -1):
        advantages[t] += decay[t] * advantages[t + 1]
    return advantages, advantages + values


def retrace(
    rewards: Floats,
    q_values: Floats,
    next_values: Floats,
    ratios: Floats,
    terminated: Bools,
    truncated: Bools,
    gamma: float,
) -> Floats:
    """Compute Retrace(1) targets (Munos et al. 2016, eq. 4) for Q of the actions taken; arrays are
    [n_steps, n_envs].

    `Q_t + sum_l gamma^l (c_{t+1} ... c_{t+l}) delta_{t+l}` with `delta_t = r_t + gamma V(s_{t+1}) - Q_t` and
    `c = min(1, ratio)`, up to the end of the episode. `next_values` as in `gae`.

    :param q_values: Q of the actions taken
    :param next_values: V of the next states under the target policy
    :param ratios: importance ratios pi(a|s) / mu(a|s) of target policy and behaviour policy
    """
    targets = (rewards + gamma * next_values * ~terminated).astype(np.float32)
    carried = (gamma * ~(terminated | truncated)[:-1] * np.minimum(ratios[1:], 1.0)).astype(np.float32)
    for t in range(len(targets) - 2, -1, -1):
        targets[t] += carried[t] * (targets[t + 1] - q_values[t + 1])
    return targets


class PolicyLoss(NamedTuple):
    """The loss of a policy on a minibatch, or on one of each of several agents: then scalars are [n_seeds].

    :param name: of the loss among the metrics
    :param loss: the negated objective
    :param derivative: of `loss` with respect to the log-probabilities, [..., n_rows]
    :param metrics: further ones by name
    """

    name: str
    loss: Floats
    derivative: Floats
    metrics: dict[str, Floats]


@np.errstate(all="ignore")
def clipped_surrogate(
    log_probs: Floats, old_log_probs: Floats, advantages: Floats, clip_range: float
) -> PolicyLoss:
    """Compute the negated clipped surrogate of PPO (Schulman et al. 2017, eq. 7) and its derivative.

    With `r = exp(log_probs - old_log_probs)` it is the mean of `min(r A, clip(r, 1 - eps, 1 + eps) A)`. The
    derivative of this minimum with respect to `log_probs` is `r A` in rows where it is `r A`, else 0.

    :param log_probs: like the other arrays [n_rows], or [n_seeds, n_rows] of several agents
    """
    n_rows = log_probs.shape[-1]
    log_ratio = log_probs - old_log_probs
    ratio = np.exp(log_ratio)
    clipped_ratio = np.minimum(np.maximum(ratio, np.float32(1 - clip_range)), np.float32(1 + clip_range))
    unclipped, clipped = advantages * ratio, advantages * clipped_ratio
    loss = np.minimum(unclipped, clipped).sum(-1) / -n_rows
    derivative = np.where(unclipped > clipped, np.float32(0), unclipped) * np.float32(-1 / n_rows)
    metrics = {
        "approx_kl": (ratio - 1 - log_ratio).sum(-1) / n_rows,  # k3 of http://joschu.net/blog/kl-approx.html
        "clip_fraction": np.count_nonzero(ratio != clipped_ratio, -1) / n_rows,
    }
    return PolicyLoss("policy_gradient_loss", loss, derivative, metrics)


@np.errstate(all="ignore")
def policy_gradient(log_probs: Floats, advantages: Floats) -> PolicyLoss:
    """Compute the negated mean of `A log pi` (Mnih et al. 2016, section 4) and its derivative.

    :param log_probs: like `advantages` [n_rows], or [n_seeds, n_rows] of several agents
    """
    n_rows = log_probs.shape[-1]
    loss = (advantages * log_probs).sum(-1) / -n_rows
    return PolicyLoss("policy_loss", loss, advantages * np.float32(-1 / n_rows), {})


def explained_variance(y_pred: Floats, y_true: Floats) -> float:
    """Compute `1 - Var[y_true - y_pred] / Var[y_true]`; NaN for constant targets.

    1 is a perfect prediction; 0 is as good as a constant, below 0 is worse.

    >>> explained_variance(np.array([1.0, 2.0]), np.array([1.0, 2.0]))
    1.0
    """
    variance = _variance(y_true)
    return float("nan") if variance <= 0 else 1 - _variance(y_true - y_pred) / variance


def safe_mean(arr: Collection[float] | np.ndarray) -> float:
    """Return the mean of numbers; NaN without a warning if there are none."""
    return float("nan") if len(arr) == 0 else float(np.mean(arr))  # type: ignore[arg-type]


def _variance(values: Floats) -> float:
    """Compute np.var with fewer calls, because it runs at every update."""
    if not isinstance(values, np.ndarray):
        return float(values.double().var(unbiased=False))
    flat = values.ravel().astype(np.float64)
    flat -= flat.sum() / flat.size
    return float(flat @ flat) / flat.size
