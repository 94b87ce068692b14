"""Returns and advantages of collected experience, as pure functions of arrays.

Whether an episode terminated (its future is worth nothing) or was truncated (its future is worth the value of
its final observation) is decided here, once, for every on-policy algorithm.
"""

from __future__ import annotations

from collections.abc import Collection

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
    """The value of the state that each step led to.

    :param values: V(s_t), [n_steps, n_envs]
    :param last_values: V of the observation after the last step, [n_envs]
    :param final_values: V of the final observations of truncated episodes, [n_truncated]
    :param final_index: their (steps, envs) in the rollout; there the next row belongs to another episode
    :return: V(s_{t+1}), [n_steps, n_envs]; meaningless where the episode terminated
    """
    following = np.concatenate([values[1:], last_values[None]])
    if final_values is not None and final_index is not None:
        following[final_index] = final_values
    return following


def gae(
    rewards: Floats,
    values: Floats,
    next_values: Floats,
    terminated: Bools,
    truncated: Bools,
    gamma: float,
    gae_lambda: float,
) -> tuple[Floats, Floats]:
    """Generalised advantage estimation (Schulman et al. 2016, eq. 16), all arrays [n_steps, n_envs].

    With `delta_t = r_t + gamma V(s_{t+1}) - V(s_t)` the advantage is `sum_l (gamma lambda)^l delta_{t+l}`
    up to the end of the episode. `V(s_{t+1})` counts as zero after termination, and as given in
    `next_values` after truncation.

    :return: advantages, and the lambda-returns `advantages + values` that the value function is fitted to
    """
    deltas = rewards + gamma * next_values * ~terminated - values
    decay = (gamma * gae_lambda) * ~(terminated | truncated)
    decay = decay.astype(np.float32)
    advantages = deltas.astype(np.float32)
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
    """The targets of Retrace(1) (Munos et al. 2016, eq. 4) for Q of the actions taken, all arrays
    [n_steps, n_envs].

    `Q_t + sum_l gamma^l (c_{t+1} ... c_{t+l}) delta_{t+l}` with `delta_t = r_t + gamma V(s_{t+1}) - Q_t` and
    `c = min(1, ratio)`, up to the end of the episode. `next_values` count as in `gae`.

    :param q_values: Q of the actions taken
    :param next_values: V of what each step led to, under the policy that is evaluated
    :param ratios: its probability of the action taken over that of the policy which acted
    """
    targets = (rewards + gamma * next_values * ~terminated).astype(np.float32)
    carried = (gamma * ~(terminated | truncated)[:-1] * np.minimum(ratios[1:], 1.0)).astype(np.float32)
    for t in range(len(targets) - 2, -1, -1):
        targets[t] += carried[t] * (targets[t + 1] - q_values[t + 1])
    return targets


def explained_variance(y_pred: Floats, y_true: Floats) -> float:
    """`1 - Var[y_true - y_pred] / Var[y_true]`: 1 is perfect, 0 no better than a constant; NaN for constant
    targets."""
    variance = _variance(y_true)
    return float("nan") if variance <= 0 else 1 - _variance(y_true - y_pred) / variance


def safe_mean(arr: Collection[float] | np.ndarray) -> float:
    """The mean of numbers; NaN, without a warning, of none."""
    return float("nan") if len(arr) == 0 else float(np.mean(arr))  # type: ignore[arg-type]


def _variance(values: Floats) -> float:
    """As `np.var`, in a few calls fewer: this runs after every update."""
    flat = values.ravel().astype(np.float64)
    flat -= flat.sum() / flat.size
    return float(flat @ flat) / flat.size
