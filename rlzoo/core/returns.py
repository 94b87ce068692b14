"""Returns, advantages, log-probabilities and objectives of rollouts, as pure functions of arrays.

`bootstrap_values`, `gae` and `explained_variance` also take tensors, and then stay on their device.

Bootstrapping is decided here, for all on-policy algorithms: the value after a terminal state is 0; that after
a truncated episode is the value of its final observation.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
SMALLEST = np.finfo(np.float32).min
LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
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
    trace = (gamma * ~(terminated | truncated)[:-1] * np.minimum(ratios[1:], 1.0)).astype(np.float32)
    for t in range(len(targets) - 2, -1, -1):
        targets[t] += trace[t] * (targets[t + 1] - q_values[t + 1])
    return targets


@np.errstate(all="ignore")
def standardized(x: Floats) -> Floats:
    """Return numbers with mean 0 and standard deviation 1 (n - 1 degrees of freedom) on the last axis.

    The mean is rounded to double precision only: equal numbers must become 0.
    """
    n = x.shape[-1]
    centred = (x - x.sum(-1, dtype=np.float64, keepdims=True) / n).astype(np.float32)
    deviation = np.sqrt((centred * centred).sum(-1, keepdims=True) / np.float32(n - 1))
    scaled: Floats = centred / (deviation + np.float32(1e-8))
    return scaled


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


class CategoricalTerms:
    """Log-probabilities of actions and entropies of a Categorical, with derivatives in closed form.

    With p = softmax(logits): d log p_a / d logits = 1{a} - p, and dH / d logits = -p (log p + H).

    :param log_softmax: of the logits, [..., n]
    :param actions: indices, [...]
    :raises IndexError: an action is not below n, or negative
    """

    @np.errstate(all="ignore")
    def __init__(self, log_softmax: Floats, actions: NDArray[np.integer]) -> None:
        self.shape = log_softmax.shape
        log_probs = log_softmax.reshape(-1, self.shape[-1])
        self.chosen = np.arange(len(log_probs)), actions.reshape(-1)
        if actions.size and actions.min() < 0:  # NumPy would count from the end
            raise IndexError(f"an action is {actions.min()}, below 0")
        self.probs = np.exp(log_probs)
        self.log_probs = np.maximum(log_probs, SMALLEST)  # 0 log 0 is 0
        self.entropy = -np.einsum("ij,ij->i", self.probs, self.log_probs)
        log_prob = log_probs[self.chosen].reshape(self.shape[:-1])
        self.outputs = log_prob, self.entropy.reshape(self.shape[:-1])

    @np.errstate(all="ignore")
    def gradients(self, grad_log_prob: Floats | None, grad_entropy: Floats | None) -> tuple[Floats]:
        """Return the gradient of the logits, [..., n], from those of log-probabilities and entropies."""
        gradient = np.zeros_like(self.probs)
        if grad_log_prob is not None:
            rows = grad_log_prob.reshape(-1)
            gradient -= rows[:, None] * self.probs
            gradient[self.chosen] += rows
        if grad_entropy is not None:
            by_row = grad_entropy.reshape(-1, 1) * self.probs
            gradient -= by_row * (self.log_probs + self.entropy[:, None])
        return (gradient.reshape(self.shape),)


class GaussianTerms:
    """Log-densities of actions and entropies of a DiagGaussian, with derivatives in closed form.

    With z = (a - mean) / std: d log p / d mean = z / std, d log p / d log std = z^2 - 1, dH / d log std = 1.

    :param mean: [..., A]
    :param log_std: broadcasts to `mean`
    :param actions: [..., A]
    """

    @np.errstate(all="ignore")
    def __init__(self, mean: Floats, log_std: Floats, actions: Floats) -> None:
        self.inverse = np.exp(-log_std)
        self.z = (actions - mean) * self.inverse
        log_prob = -(np.float32(0.5) * self.z * self.z + log_std).sum(-1)
        log_prob -= np.float32(self.z.shape[-1] * LOG_SQRT_2PI)
        entropy = np.empty_like(log_prob)
        entropy[...] = (log_std + np.float32(0.5 + LOG_SQRT_2PI)).sum(-1)
        self.outputs = log_prob, entropy

    @np.errstate(all="ignore")
    def gradients(self, grad_log_prob: Floats | None, grad_entropy: Floats | None) -> tuple[Floats, Floats]:
        """Return the gradients of mean and log-std from those of log-densities and entropies."""
        grad_mean = grad_log_std = np.zeros_like(self.z)
        if grad_log_prob is not None:
            rows = grad_log_prob[..., None]
            grad_mean = rows * self.z
            grad_log_std = grad_mean * self.z - rows
            grad_mean *= self.inverse
        if grad_entropy is not None:
            grad_log_std = grad_log_std + grad_entropy[..., None]
        return grad_mean, sum_to_shape(grad_log_std, self.inverse.shape)


def sum_to_shape(x: Floats, shape: tuple[int, ...]) -> Floats:
    """Sum, in double precision, over the axes along which an array of a shape was broadcast to `x`."""
    before = x.ndim - len(shape)
    axes = tuple(k for k in range(x.ndim) if k < before or shape[k - before] < x.shape[k])
    return x.sum(axes, dtype=np.float64).astype(np.float32).reshape(shape) if axes else x


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
