"""How sampled hyperparameters are made to fit each other, and the configuration that they go into.

A rule looks at all values and says what it would have instead. Only what was sampled is changed: what the
user fixed stays, even where the sampled values must go out of their way.
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


def fitted(values: Values, free: set[str]) -> dict[str, Any]:
    """The free values, as changed by the rules.

    :param free: keys that were sampled
    """
    changed = {key: int(value) if _is_whole(value) else value for key, value in values.items()}
    for rule in RULES:
        wanted = rule(changed, free)
        changed |= {key: value for key, value in wanted.items() if key in free}
    return {
        key: values[key] if changed[key] == values[key] else changed[key] for key in values if key in free
    }


def rollouts_fit_into_the_budget(values: Values, free: set[str]) -> Values:
    """At least `FEWEST_ROLLOUTS` updates."""
    if not _learns_from_rollouts(values) or not values.get("n_timesteps"):
        return {}
    longest = int(values["n_timesteps"] / (FEWEST_ROLLOUTS * values["n_envs"]))
    if values["n_steps"] <= longest:
        return {}
    return {"n_steps": max(2, 2 ** (longest.bit_length() - 1)) if longest else 2}


def minibatches_divide_the_rollout(values: Values, free: set[str]) -> Values:
    """`batch_size` divides `n_steps * n_envs`."""
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


def memory_is_replayed(values: Values, free: set[str]) -> Values:
    """ACER: `replay_start` steps fit into whole trajectories in memory."""
    if "replay_start" not in values:
        return {}
    held = values["buffer_size"] // values["n_steps"] * values["n_steps"]
    needed = -(-values["replay_start"] // values["n_steps"]) * values["n_steps"]
    if values["replay_start"] <= held:
        return {}
    if "buffer_size" in free:
        return {"buffer_size": needed}
    return {"replay_start": held} if held else {"n_steps": values["buffer_size"]}


def learning_begins(values: Values, free: set[str]) -> Values:
    """`learning_starts` within the first half of the training."""
    if not values.get("n_timesteps") or "learning_starts" not in values:
        return {}
    return {"learning_starts": min(values["learning_starts"], int(values["n_timesteps"]) // 2)}


def rounds_fit_into_the_budget(values: Values, free: set[str]) -> Values:
    """At least `FEWEST_ROUNDS` rounds of updates; gradient steps keep their proportion."""
    rate, steps = values.get("train_freq"), values.get("gradient_steps")
    if not isinstance(rate, int) or not values.get("n_timesteps"):
        return {}
    most = max(1, int(values["n_timesteps"] / (FEWEST_ROUNDS * values["n_envs"])))
    if rate <= most or "train_freq" not in free:
        return {}
    scaled = {"gradient_steps": max(1, round(steps * most / rate))} if steps and steps > 0 else {}
    return {"train_freq": most, **scaled}


def targets_follow(values: Values, free: set[str]) -> Values:
    """DQN: the target network changes at least `FEWEST_TARGETS` times."""
    if not values.get("n_timesteps") or "exploration_fraction" not in values:
        return {}
    longest = max(1, int(values["n_timesteps"]) // FEWEST_TARGETS)
    return {"target_update_interval": min(values["target_update_interval"], longest)}


def the_best_are_among_all(values: Values, free: set[str]) -> Values:
    """ARS: `n_top` at most `n_delta`."""
    top = values.get("n_top")
    if top is None or top <= values["n_delta"]:
        return {}
    return {"n_top": values["n_delta"]} if "n_top" in free else {"n_delta": top}


def some_quantiles_stay(values: Values, free: set[str]) -> Values:
    """TQC: fewer quantiles are dropped than there are."""
    dropped, there = values.get("top_quantiles_to_drop_per_net"), values.get("policy_kwargs.n_quantiles", 25)
    if dropped is None or dropped < there:
        return {}
    return (
        {"top_quantiles_to_drop_per_net": there - 1}
        if "top_quantiles_to_drop_per_net" in free
        else {"policy_kwargs.n_quantiles": dropped + 1}
    )


RULES: tuple[Callable[[Values, set[str]], Values], ...] = (
    rollouts_fit_into_the_budget,
    minibatches_divide_the_rollout,
    memory_is_replayed,
    learning_begins,
    rounds_fit_into_the_budget,
    targets_follow,
    the_best_are_among_all,
    some_quantiles_stay,
)


def _is_whole(value: Any) -> bool:
    """1e6 in a file is a count like 1000000."""
    return isinstance(value, float) and value.is_integer()


def _learns_from_rollouts(values: Values) -> bool:
    """Otherwise `n_steps`, where it is, is that of n-step returns."""
    return "n_steps" in values and "train_freq" not in values
