"""The catalogue of algorithms: the name on the command line, and where the class is.

Classes are named, not imported: reading the catalogue costs nothing. `rlzoo.<Class>` is exported from here,
too. An algorithm outside the package is added with `register`.
"""

from __future__ import annotations

import importlib

from rlzoo.core.errors import UserError, unknown

_TARGETS: dict[str, str] = {
    "a2c": "rlzoo.algorithms.on_policy.a2c:A2C",
    "ars": "rlzoo.algorithms.ars:ARS",
    "acer": "rlzoo.algorithms.off_policy.acer:ACER",
    "acktr": "rlzoo.algorithms.on_policy.acktr:ACKTR",
    "her": "rlzoo.algorithms.off_policy.her:HER",
    "bc": "rlzoo.algorithms.imitation.bc:BC",
    "crossq": "rlzoo.algorithms.off_policy.crossq:CrossQ",
    "ddpg": "rlzoo.algorithms.off_policy.ddpg:DDPG",
    "dqn": "rlzoo.algorithms.off_policy.dqn:DQN",
    "gail": "rlzoo.algorithms.imitation.gail:GAIL",
    "ppo": "rlzoo.algorithms.on_policy.ppo:PPO",
    "ppo_lstm": "rlzoo.algorithms.on_policy.ppo_lstm:RecurrentPPO",
    "ppo_mask": "rlzoo.algorithms.on_policy.ppo_mask:MaskablePPO",
    "ppo1": "rlzoo.algorithms.on_policy.older_ppo:PPO1",
    "ppo2": "rlzoo.algorithms.on_policy.older_ppo:PPO2",
    "qrdqn": "rlzoo.algorithms.off_policy.qrdqn:QRDQN",
    "sac": "rlzoo.algorithms.off_policy.sac:SAC",
    "td3": "rlzoo.algorithms.off_policy.td3:TD3",
    "tqc": "rlzoo.algorithms.off_policy.tqc:TQC",
    "trpo": "rlzoo.algorithms.on_policy.trpo:TRPO",
}
ALL_SPACES = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
_ACTION_SPACES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("a2c", "ppo", "ppo_lstm", "ppo1", "ppo2", "trpo"), ALL_SPACES),
    **dict.fromkeys(("acktr", "ars", "bc", "gail", "her"), ("Box", "Discrete")),
    **dict.fromkeys(("acer", "dqn", "qrdqn"), ("Discrete",)),
    **dict.fromkeys(("crossq", "ddpg", "sac", "td3", "tqc"), ("Box",)),
    "ppo_mask": ("Discrete", "MultiDiscrete", "MultiBinary"),
}
"""Action spaces by algorithm, so that a list of them imports no algorithm."""
_ALIASES: dict[str, str] = {}
_CLASSES: dict[str, type] = {}  # added by `put`; they take precedence over `_TARGETS`


def register(name: str, target: str, *, aliases: tuple[str, ...] = ()) -> None:
    """Add an algorithm.

    :param name: the name for `--algo`, and of the hyperparameter file where there is one
    :param target: `"module:Class"`, imported when the algorithm is first used
    :param aliases: further names that `--algo` accepts
    :raises UserError: a name is taken by another algorithm, or the target has another form
    """
    module, colon, cls = target.partition(":")
    if not (module and colon and cls.isidentifier()):
        raise UserError(f"algorithm {name!r} must be registered as 'module:Class', not {target!r}")
    for candidate in (name, *aliases):
        taken = _TARGETS.get(_ALIASES.get(candidate, candidate))
        if taken not in (None, target):
            raise UserError(f"algorithm name {candidate!r} is already taken by {taken}")
    _TARGETS[name] = target
    _ALIASES.update(dict.fromkeys(aliases, name))


def exported_classes() -> dict[str, str]:
    """Return `"module:Class"` by the name of the class, for every algorithm."""
    return {target.partition(":")[2]: target for target in _TARGETS.values()}


def put(name: str, algorithm: type) -> None:
    """Add an algorithm to this process, or replace another one."""
    _TARGETS[canonical(name) if is_name(name) else name] = f"{algorithm.__module__}:{algorithm.__qualname__}"
    _CLASSES[canonical(name)] = algorithm


def is_of_this_process(name: str) -> bool:
    """Return whether an algorithm was added by `put`: other processes do not know it."""
    return canonical(name) in _CLASSES


def remove(name: str) -> None:
    """Remove an algorithm; see `canonical` for errors."""
    name = canonical(name)
    del _TARGETS[name]
    _CLASSES.pop(name, None)


def names() -> list[str]:
    """Return every algorithm name, without aliases, in alphabetical order."""
    return sorted(_TARGETS)


def is_name(text: str) -> bool:
    """Return whether an algorithm has this name or alias."""
    return _ALIASES.get(text, text) in _TARGETS


def canonical(name: str) -> str:
    """Return the name for an alias; a name is returned as it is.

    :raises UserError: no algorithm has this name or alias
    """
    found = _ALIASES.get(name, name)
    if found not in _TARGETS:
        raise unknown("algorithm", name, [*_TARGETS, *_ALIASES])
    return found


def resolve(name: str) -> str:
    """Return `"module:Class"` of an algorithm; see `canonical` for errors."""
    return _TARGETS[canonical(name)]


def class_name(name: str) -> str:
    """Return the name of the class of an algorithm; see `canonical` for errors."""
    return resolve(name).partition(":")[2]


def action_spaces(name: str) -> tuple[str, ...]:
    """Return the names of the action spaces that an algorithm supports; see `canonical` for errors."""
    name = canonical(name)
    if name in _ACTION_SPACES and name not in _CLASSES:
        return _ACTION_SPACES[name]
    return tuple(space.__name__ for space in getattr(load(name), "action_spaces", ()))


def load(name: str) -> type:
    """Return the class of an algorithm, whose module is imported. See `canonical` for errors."""
    if (found := _CLASSES.get(canonical(name))) is not None:
        return found
    module, _, cls = resolve(name).partition(":")
    loaded: type = getattr(importlib.import_module(module), cls)
    return loaded
