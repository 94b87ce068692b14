"""The search space of one configuration: the rows of its algorithm's table that suit it.

The table of an algorithm is `SEARCH_SPACE` in its file. Rows that have no effect in a configuration, or on
the actions of its environment, are left out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from gymnasium import spaces as gym_spaces

from rlzoo.config import catalog
from rlzoo.config.her_entries import HER, expand_her
from rlzoo.config.legacy.sb2_translation import translate_sb2_entry
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import interpret, merge, plain
from rlzoo.core.errors import UserError
from rlzoo.params import ranges
from rlzoo.params.search_parameters import OneOrSampled, SearchSpace
from rlzoo.params.shared import FILE_KEYS
from rlzoo.tuning.space.constraints import apply_constraints
from rlzoo.tuning.space.search_space import Space, flat
from rlzoo.tuning.space.space_file import space_from_file

__all__ = ["Space", "complete", "learner_of", "overrides", "search_space", "space_from_file", "space_of"]


def space_of(learner: str) -> SearchSpace:
    """Return the table of an algorithm: `search_space` of its class; empty where it has none.

    A subclass has the table of its base, without hyperparameters that its Config lacks.
    """
    algorithm = catalog.load(learner)
    table: SearchSpace = getattr(algorithm, "search_space", {})
    config = getattr(algorithm, "Config", None)
    known = {*FILE_KEYS, *(field.name for field in (fields(config) if config else ()))}
    return {key: row for key, row in table.items() if key.partition(".")[0] in known}


def search_space(algo: str, values: Mapping[str, Any], action_space: gym_spaces.Space[object]) -> Space:
    """Return the rows of an algorithm's table that suit a configuration.

    :param values: resolved hyperparameters: the policy, the number of environments, the noise, ...
    :param action_space: of the environment
    :raises UserError: the algorithm has no search space
    """
    learner, entry = learner_of(algo, values)
    table = space_of(learner)
    if not table:
        raise UserError(f"{algo} has no search space; give one with --space FILE")
    known = complete(algo, values)
    if catalog.canonical(algo) == HER:
        table = {**table, **ranges.LARGE_BATCHES, **ranges.HINDSIGHT}
    elif "Her" in str(entry.get("replay_buffer_class")):
        below = {f"replay_buffer_kwargs.{key}": row for key, row in ranges.HINDSIGHT.items()}
        table = {**table, **ranges.LARGE_BATCHES, **below}
    unsuited = _unsuited(entry, known, action_space)
    rows = {key: row for key, row in table.items() if not unsuited & {key, key.partition(".")[0]}}
    if known.get("n_envs", 1) > 1 and isinstance(whole_episodes := rows.get("train_freq"), OneOrSampled):
        rows["train_freq"] = whole_episodes.other  # one environment has episodes that all may wait for
    needed = {key for row in rows.values() for key in row.needs()}
    return Space(rows, {key: plain(known[key]) for key in sorted(needed & known.keys())})


def _unsuited(
    entry: Mapping[str, Any], known: Mapping[str, Any], action_space: gym_spaces.Space[object]
) -> set[str]:
    """Return keys without effect or in conflict with the configuration; `policy_kwargs` means all."""
    policy, given = entry.get("policy"), flat(entry)
    unsuited = {key for key, value in given.items() if isinstance(value, float) and math.isinf(value)}
    if not isinstance(action_space, gym_spaces.Box):
        unsuited |= {*ranges.STATE_DEPENDENT_NOISE, *ranges.ACTION_NOISE, "policy_kwargs.log_std_init"}
    if not isinstance(policy, str) or "." in policy:
        unsuited |= {"policy_kwargs"}  # a custom policy has other keywords
    elif policy.startswith(("Cnn", "Linear")):
        layers = {"policy_kwargs.net_arch", "policy_kwargs.activation_fn"}
        unsuited |= layers - given.keys()  # none, unless the configuration puts some behind the images
        unsuited |= {"buffer_size"}  # how many images fit is a question of memory
    elif policy.startswith("Ln"):
        unsuited |= {"policy_kwargs.layer_norm"}
    rates = {"actor_lr", "critic_lr"}
    unsuited |= {"learning_rate"} if rates & given.keys() else rates
    if {"action_noise", "param_noise"} & given.keys():
        unsuited |= {"noise_type", "noise_std"}
    if "noise_std_final" in given:
        unsuited |= {"noise_type"}
    if "replay_buffer_class" in given:
        unsuited |= {"prioritized_replay", *ranges.PRIORITIES}
        unsuited |= {"n_steps"} if "train_freq" in known else set()
    if any(key.startswith("prioritized_replay_") for key in given):
        unsuited |= {"prioritized_replay"}
    if "policy_kwargs.optimizer_class" in given:
        unsuited |= {"use_rms_prop"}
    return unsuited


def overrides(algo: str, values: Mapping[str, Any], sampled: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a trial changes in a configuration, nested, to be merged into it.

    Sampled values are made to fit each other and the configuration; see `fitting`.

    :param values: resolved hyperparameters
    :param sampled: what `Space.sample` returned
    """
    nested: dict[str, Any] = {}
    for key, value in apply_constraints({**complete(algo, values), **sampled}, set(sampled)).items():
        for part in reversed(key.split(".")):
            value = {part: value}
        nested = merge(nested, value)
    return interpret(nested)


def complete(algo: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration by key path, under current names, with defaults for what it leaves out."""
    learner, entry = learner_of(algo, values)
    config = getattr(catalog.load(learner), "Config", None)
    defaults = {
        field.name: field.default
        for field in (fields(config) if config else ())
        if field.default is not MISSING
    }
    return {"n_envs": 1, "noise_type": "none", **defaults, **flat(entry)}


def learner_of(algo: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the algorithm that learns, and a configuration under the names that it has for things."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever checks the configuration says what is old about it
        raw = expand_her(translate_sb2_entry(RawConfig(algo, dict(values))))
    return catalog.canonical(raw.algo), interpret(raw.values)
