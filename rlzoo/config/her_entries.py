"""`her` as the name of an algorithm: hindsight experience replay around the one that `model_class` names.

An entry of hyperparams/her.yml is an entry of that algorithm with the arguments of the replay buffer beside
its own, as the older zoos write it; here it is turned into the entry that is meant.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from rlzoo.config import catalog
from rlzoo.config.literals import Name, parse_value
from rlzoo.core.errors import UserError

HER = "her"
BUFFER_KEYS = ("n_sampled_goal", "goal_selection_strategy", "copy_info_dict")
OLD_KEYS = {
    "online_sampling": "goals are always relabelled when a batch is drawn",
    "max_episode_length": "episodes may be of any length",
}


def learner_entry(algo: str, values: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The algorithm that an entry is for and that algorithm's hyperparameters; only `her` is another one.

    >>> learner_entry("her", {"model_class": "sac", "policy": "MlpPolicy", "n_sampled_goal": 4})
    ... # doctest: +NORMALIZE_WHITESPACE
    ('sac', {'policy': 'MultiInputPolicy', 'replay_buffer_class': Name(path='rlzoo.HerReplayBuffer'),
             'replay_buffer_kwargs': {'n_sampled_goal': 4}})
    """
    if catalog.canonical(algo) != HER:
        return algo, dict(values)
    entry = dict(values)
    learner = learner_name(entry.pop("model_class", None))
    kwargs = entry.pop("replay_buffer_kwargs", None) or {}
    kwargs = parse_value(kwargs) if isinstance(kwargs, str) else kwargs
    if not isinstance(kwargs, Mapping):
        raise UserError(f"replay_buffer_kwargs must be a mapping such as {{name: value}}, not {kwargs!r}")
    given = {key: entry.pop(key) for key in BUFFER_KEYS if key in entry}
    drop_old_keys(entry)
    entry["policy"] = goal_policy(entry.get("policy", "MultiInputPolicy"))
    entry.setdefault("replay_buffer_class", Name("rlzoo.HerReplayBuffer"))
    return learner, {**entry, "replay_buffer_kwargs": {**kwargs, **given}}


def learner_name(model_class: Any) -> str:
    """The algorithm's name in `model_class`: `sac`, `SAC` or `stable_baselines3.SAC`.

    :raises UserError: there is none, or it names `her` itself or no algorithm
    """
    text = model_class.path if isinstance(model_class, Name) else model_class
    if not isinstance(text, str) or not text:
        raise UserError("her needs a model_class, the algorithm that learns, such as sac")
    learner = catalog.canonical(text.rpartition(".")[2].lower())
    if learner == HER:
        raise UserError("model_class must be another algorithm than her, such as sac")
    return learner


def goal_policy(policy: Any) -> Any:
    """The policy for Dict observations where an older one for flat observations is named."""
    return "MultiInputPolicy" if policy in ("MlpPolicy", "CnnPolicy") else policy


def drop_old_keys(values: dict[str, Any]) -> None:
    """Take out what no longer means anything, with a notice."""
    for key, reason in OLD_KEYS.items():
        if values.pop(key, None) is not None:
            warnings.warn(f"{key} is no longer needed: {reason}", stacklevel=3)
