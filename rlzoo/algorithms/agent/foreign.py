"""Agents made from model files of stable-baselines3 and sb3-contrib (see `rlzoo.interop`).

What a model file of ours holds and theirs does not starts fresh: random generators, the episodes in progress.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from rlzoo.algorithms.hyperparameters import field_names, schedule_names
from rlzoo.core.errors import CheckpointError
from rlzoo.interop.sb3_agent import BUFFERS, COUNTERS, Sb3Agent, read_algorithms, read_sb3_agent, renamed
from rlzoo.io.container import PathOrFile
from rlzoo.training.checkpoint import (
    Checkpoint,
    check_finite,
    check_fits,
    find_checkpoint,
    load_module,
    load_optimizer,
)

PREFIXES = {"policy.optimizer": "", "actor.optimizer": "actor.", "critic.optimizer": "critic."}
"""Names of optimisers -> how the names of their parameters begin."""
LEARNED = ("q_net.", "quantile_net.")
"""Networks whose parameters `policy.optimizer` may have alone."""


def load_sb3(
    cls: Any, path: PathOrFile, env: Any, given: Mapping[str, Any], build: Callable[[Checkpoint], Any]
) -> Any:
    """Make an agent from a stable-baselines3 file; see `Algorithm.load`.

    :param given: what the caller hands over: `custom_objects` and overrides
    :param build: makes a model from the description in a `Checkpoint`
    :raises CheckpointError: the file is damaged, of another algorithm, or needs what only its code would give
    """
    place = path if hasattr(path, "read") else find_checkpoint(path)
    agent = read_sb3_agent(place, env, given)
    _check_algorithm(cls, agent)
    names = [name for name in field_names(cls.Config) if name not in given]
    config = {**agent.config, "hyperparameters": agent.hyperparameters(names, schedule_names(cls.Config))}
    origin = {"algorithm": cls.__name__, "stable-baselines3": agent.file.version}
    model = build(Checkpoint(origin, config, agent.file.weights))
    _restore(model, agent)
    for notice in agent.notices:
        warnings.warn(f"from a stable-baselines3 file: {notice}", stacklevel=5)
    return model


def algorithm_of(path: PathOrFile) -> str:
    """Return the name of the class that a stable-baselines3 file is of.

    :raises CheckpointError: the file does not tell
    """
    found = read_algorithms(path if hasattr(path, "read") else find_checkpoint(path))
    if not found:
        raise CheckpointError("this stable-baselines3 file does not tell its algorithm: give it")
    return found[0]


def _check_algorithm(cls: Any, agent: Sb3Agent) -> None:
    known = agent.algorithms
    own = next(base.__name__ for base in cls.__mro__ if base.__module__.startswith("rlzoo."))
    if known and own not in known:
        raise CheckpointError(
            f"this stable-baselines3 file holds a {known[0]} agent; load it with {known[0]}.load"
        )


def _restore(model: Any, agent: Sb3Agent) -> None:
    """Restore parameters, optimisers, counters and statistics."""
    values, counters = agent.file.values, model.counters
    for ours, theirs in COUNTERS.items():
        count = values.get(theirs, 0)
        setattr(counters, ours, count if type(count) is int and 0 <= count < 2**63 else 0)
    policy = model.policy
    names = renamed(agent.file.weights, policy.state_dict())
    weights = {ours: agent.file.weights[theirs] for theirs, ours in names.items()}
    own = policy.state_dict()
    for name, value in weights.items():
        if name in own:
            check_fits(name, value, own[name])
    for name, part in model.state().items():
        if isinstance(part, torch.optim.Optimizer):
            _restore_optimizer(policy, part, name, names, agent)
    load_module(policy, weights)
    state = model.state()
    if "log_ent_coef" in state:
        _restore_entropy(state["log_ent_coef"], agent)
    if "target_updates" in state:
        state["target_updates"].load_state_dict({"last": counters.num_timesteps})
    statistics = {key: value for key, value in agent.statistics.items() if "_rms" in key}
    model.normalize_state = {f"0.VecNormalize.{key}": value for key, value in statistics.items()}
    _check_finite(policy)


def _check_finite(policy: torch.nn.Module) -> None:
    for name, value in policy.state_dict().items():
        if value.is_floating_point():
            check_finite(f"the parameter {name}", value)


def _restore_entropy(log_ent_coef: torch.Tensor, agent: Sb3Agent) -> None:
    value = agent.file.variables.get("log_ent_coef")
    if value is None or value.numel() != 1:
        agent.notices.append("the entropy coefficient starts fresh: log_ent_coef is not in it")
        return
    check_finite("log_ent_coef", value)
    log_ent_coef.copy_(value.reshape(1))


# -- optimisers ----------------------------------------------------------------------------------


def _restore_optimizer(
    policy: nn.Module, optimizer: torch.optim.Optimizer, name: str, names: Mapping[str, str], agent: Sb3Agent
) -> None:
    """Restore an optimiser, where it fits the parameters of the file; else a notice says that it starts
    fresh."""
    state = agent.file.states.get(name)
    if state is None:
        return
    try:
        entries, n_parameters = _entries(state)
        if not entries:
            return
        if name == "ent_coef_optimizer":
            merged = [_plain_entry(entries[0])]
        else:
            listed = _parameters_of(name, n_parameters, names, agent.file.weights)
            known = [(names[theirs], agent.file.weights[theirs]) for theirs in listed]
            merged = _laid_out(policy, optimizer, known, entries)
        own = optimizer.state_dict()["param_groups"]
        load_optimizer(optimizer, {"state": dict(enumerate(merged)), "param_groups": own}, name)
    except (
        CheckpointError,
        KeyError,
        IndexError,
        AttributeError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        agent.notices.append(f"{name} starts fresh: {str(error)[:150] or type(error).__name__}")


def _entries(state: Any) -> tuple[dict[int, dict[str, Any]], int]:
    """Return what an optimiser keeps of each parameter by index, and how many parameters it has."""
    indices = [index for group in state["param_groups"] for index in group["params"]]
    if indices != list(range(len(indices))):
        raise CheckpointError("its parameters are not numbered")
    return dict(state["state"]), len(indices)


def _parameters_of(
    name: str, n_parameters: int, names: Mapping[str, str], weights: Mapping[str, torch.Tensor]
) -> list[str]:
    """Return the file's names of the parameters that an optimiser has, in order: theirs numbers them."""
    prefix = PREFIXES[name]
    known = [
        theirs
        for theirs in weights
        if theirs in names and theirs.startswith(prefix) and not theirs.endswith(BUFFERS)
    ]
    without = [theirs for theirs in known if "features_extractor." not in theirs]
    learned = [theirs for theirs in known if theirs.startswith(LEARNED)]
    for candidate in (known, learned, without):
        if len(candidate) == n_parameters:
            return candidate
    raise CheckpointError(f"it has {n_parameters} parameters, the networks have {len(known)}")


def _laid_out(
    policy: nn.Module,
    optimizer: torch.optim.Optimizer,
    listed: list[tuple[str, torch.Tensor]],
    entries: dict[int, dict[str, Any]],
) -> list[dict[str, Any]]:
    """Return the state for our parameters, which may be one vector.

    The moments of each parameter are loaded into the policy as if they were its values, and read from where
    the values are.

    :param listed: our name of each parameter, and its value
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    steps = {float(entry["step"]) if "step" in entry else None for entry in entries.values()}
    if len(steps) != 1:
        raise CheckpointError("its parameters have taken different numbers of steps")
    first, (step,) = next(iter(entries.values())), steps  # SGD counts no steps
    made: list[dict[str, Any]] = [{} if step is None else {"step": torch.tensor(step)} for _ in parameters]
    for kind, example in first.items():
        if kind == "step" or not isinstance(example, torch.Tensor):
            continue
        moments = {}
        for index, (name, value) in enumerate(listed):
            moments[name] = entries[index][kind] if index in entries else torch.zeros_like(value)
            check_fits(f"{kind} of {name}", moments[name], value)
        for parameter in parameters:
            parameter.data.fill_(torch.nan)  # what is not loaded is noticed
        policy.load_state_dict(moments, strict=False)
        for entry, parameter in zip(made, parameters, strict=True):
            check_finite(kind, parameter.detach())
            entry[kind] = parameter.detach().clone()
    return made


def _plain_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of one parameter with its step count, where it has one, as a tensor."""
    return {**entry, "step": torch.tensor(float(entry["step"]))} if "step" in entry else dict(entry)
