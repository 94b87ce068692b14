"""Constraints between hyperparameters, applied to sampled values.

A constraint maps all values to the values that it requires. Only sampled values are changed: those that the
user fixed stay, and the sampled ones adapt to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

Values = Mapping[str, Any]
"""Hyperparameters by key path, defaults included."""

FEWEST_ROLLOUTS = 4
FEWEST_ROUNDS = 20
FEWEST_TARGETS = 10


def apply_constraints(values: Values, free: set[str]) -> dict[str, Any]:
    """Return the sampled values as changed by the constraints.

    :param free: keys that were sampled
    """
    changed = {key: int(value) if _is_whole(value) else value for key, value in values.items()}
    for constraint in CONSTRAINTS:
        wanted = constraint(changed, free)
        changed |= {key: value for key, value in wanted.items() if key in free}
    return {
        key: values[key] if changed[key] == values[key] else changed[key] for key in values if key in free
    }


def n_steps_within_budget(values: Values, free: set[str]) -> Values:
    """Limit `n_steps` to at least `FEWEST_ROLLOUTS` updates."""
    if not _learns_from_rollouts(values) or not values.get("n_timesteps"):
        return {}
    longest = int(values["n_timesteps"] / (FEWEST_ROLLOUTS * values["n_envs"]))
    if values["n_steps"] <= longest:
        return {}
    return {"n_steps": max(2, 2 ** (longest.bit_length() - 1)) if longest else 2}


def batch_size_divides_rollout(values: Values, free: set[str]) -> Values:
    """Make `batch_size` divide `n_steps * n_envs`."""
    batch_size = values.get("batch_size")
    if not _learns_from_rollouts(values) or batch_size is None:
        return {}
    n_envs = int(values["n_envs"])
    rows = values["n_steps"] * n_envs
    if batch_size >= rows:
        return {"batch_size": rows} if rows > 1 else {}
    if rows % batch_size == 0:
        return {}
    if "n_steps" in free:
        step = batch_size // math.gcd(batch_size, n_envs)
        return {"n_steps": max(1, values["n_steps"] // step) * step}
    divisors = (size for size in range(2, rows + 1) if rows % size == 0)
    return {"batch_size": min(divisors, key=lambda size: abs(math.log(size / batch_size)))}


def replay_start_within_buffer(values: Values, free: set[str]) -> Values:
    """ACER: make the whole trajectories in the replay buffer hold at least `replay_start` steps."""
    if "replay_start" not in values:
        return {}
    held = values["buffer_size"] // values["n_steps"] * values["n_steps"]
    needed = -(-values["replay_start"] // values["n_steps"]) * values["n_steps"]
    if values["replay_start"] <= held:
        return {}
    if "buffer_size" in free:
        return {"buffer_size": needed}
    return {"replay_start": held} if held else {"n_steps": values["buffer_size"]}


def cap_learning_starts(values: Values, free: set[str]) -> Values:
    """Limit `learning_starts` to the first half of training."""
    if not values.get("n_timesteps") or "learning_starts" not in values:
        return {}
    return {"learning_starts": min(values["learning_starts"], int(values["n_timesteps"]) // 2)}


def train_freq_within_budget(values: Values, free: set[str]) -> Values:
    """Limit `train_freq` to at least `FEWEST_ROUNDS` updates; `gradient_steps` scale with it."""
    rate, steps = values.get("train_freq"), values.get("gradient_steps")
    if not isinstance(rate, int) or not values.get("n_timesteps"):
        return {}
    most = max(1, int(values["n_timesteps"] / (FEWEST_ROUNDS * values["n_envs"])))
    if rate <= most or "train_freq" not in free:
        return {}
    scaled = {"gradient_steps": max(1, round(steps * most / rate))} if steps and steps > 0 else {}
    return {"train_freq": most, **scaled}


def target_updates_within_budget(values: Values, free: set[str]) -> Values:
    """DQN: update the target network at least `FEWEST_TARGETS` times."""
    if not values.get("n_timesteps") or "exploration_fraction" not in values:
        return {}
    longest = max(1, int(values["n_timesteps"]) // FEWEST_TARGETS)
    return {"target_update_interval": min(values["target_update_interval"], longest)}


def n_top_at_most_n_delta(values: Values, free: set[str]) -> Values:
    """ARS: limit `n_top` to `n_delta`."""
    top = values.get("n_top")
    if top is None or top <= values["n_delta"]:
        return {}
    return {"n_top": values["n_delta"]} if "n_top" in free else {"n_delta": top}


def dropped_quantiles_below_n_quantiles(values: Values, free: set[str]) -> Values:
    """TQC: drop fewer quantiles than there are."""
    dropped, there = values.get("top_quantiles_to_drop_per_net"), values.get("policy_kwargs.n_quantiles", 25)
    if dropped is None or dropped < there:
        return {}
    return (
        {"top_quantiles_to_drop_per_net": there - 1}
        if "top_quantiles_to_drop_per_net" in free
        else {"policy_kwargs.n_quantiles": dropped + 1}
    )


CONSTRAINTS: tuple[Callable[[Values, set[str]], Values], ...] = (
    n_steps_within_budget,
    batch_size_divides_rollout,
    replay_start_within_buffer,
    cap_learning_starts,
    train_freq_within_budget,
    target_updates_within_budget,
    n_top_at_most_n_delta,
    dropped_quantiles_below_n_quantiles,
)


def _is_whole(value: object) -> bool:
    """Return whether a float is an integer, such as 1e6 in a file."""
    return isinstance(value, float) and value.is_integer()


def _learns_from_rollouts(values: Values) -> bool:
    """Return whether `n_steps` is the length of a rollout; else it is that of n-step returns."""
    return "n_steps" in values and "train_freq" not in values
