"""`her` as the name of an algorithm: the algorithm in `model_class` with a HerReplayBuffer.

An entry of hyperparams/her.yml has the arguments of the replay buffer beside the hyperparameters of that
algorithm, as in RL Baselines3 Zoo. `expand_her` makes it an entry of that algorithm; what follows does not
know `her`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlzoo.config import catalog
from rlzoo.config.raw import RawConfig
from rlzoo.config.values_as_text import Name, parse_value
from rlzoo.core.errors import UserError

HER = "her"
BUFFER_KEYS = ("n_sampled_goal", "goal_selection_strategy", "copy_info_dict")


def expand_her(raw: RawConfig) -> RawConfig:
    """Turn an entry of `her` into one of the algorithm that learns; any other is returned unchanged.

    >>> expanded = expand_her(RawConfig("her", {"model_class": "sac", "policy": "MlpPolicy"}))
    >>> expanded.algo, expanded.values  # doctest: +NORMALIZE_WHITESPACE
    ('sac', {'policy': 'MultiInputPolicy', 'replay_buffer_class': Name(path='rlzoo.HerReplayBuffer'),
             'replay_buffer_kwargs': {}})

    :raises UserError: `model_class` is missing, or names no algorithm with a replay buffer
    """
    if catalog.canonical(raw.algo) != HER:
        return raw
    entry = dict(raw.values)
    learner = learner_name(entry.pop("model_class", None))
    require_replay(catalog.load(learner))
    kwargs = entry.pop("replay_buffer_kwargs", None) or {}
    kwargs = parse_value(kwargs) if isinstance(kwargs, str) else kwargs
    if not isinstance(kwargs, Mapping):
        raise UserError(f"replay_buffer_kwargs must be a mapping such as {{name: value}}, not {kwargs!r}")
    given = {key: entry.pop(key) for key in BUFFER_KEYS if key in entry}
    entry["policy"] = goal_policy(entry.get("policy", "MultiInputPolicy"))
    entry.setdefault("replay_buffer_class", Name("rlzoo.HerReplayBuffer"))
    entry["replay_buffer_kwargs"] = {**kwargs, **given}
    return replace(raw, algo=learner, values=entry, translated_keys=("model_class", *BUFFER_KEYS))


def learner_name(model_class: object) -> str:
    """Return the algorithm's name in `model_class`: `sac`, `SAC` or `stable_baselines3.SAC`.

    :raises UserError: there is none, or it names `her` itself or no algorithm
    """
    text = model_class.path if isinstance(model_class, Name) else model_class
    if not isinstance(text, str) or not text:
        raise UserError("her needs a model_class, the algorithm that learns, such as sac")
    learner = catalog.canonical(text.rpartition(".")[2].lower())
    if learner == HER:
        raise UserError("model_class must be another algorithm than her, such as sac")
    return learner


def require_replay(algorithm: type) -> None:
    """Raise UserError if an algorithm has no replay buffer."""
    if not hasattr(getattr(algorithm, "Config", None), "replay_buffer_class"):
        raise UserError(f"HER needs an algorithm with a replay buffer, such as SAC, not {algorithm.__name__}")


def goal_policy(policy: object) -> object:
    """Return the policy for Dict observations where one for flat observations is named."""
    return "MultiInputPolicy" if policy in ("MlpPolicy", "CnnPolicy") else policy
