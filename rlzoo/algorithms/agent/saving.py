"""Save an algorithm to a checkpoint, and load an agent from one.

The file format is `rlzoo.training.checkpoint`; values are written by `rlzoo.io.encoding`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from rlzoo.accel.memory import FREE_BYTES, TooManyParameters, parameter_budget
from rlzoo.algorithms.agent import buffer_arguments
from rlzoo.algorithms.agent.buffer_arguments import decoded_buffer, encoded_buffer
from rlzoo.algorithms.agent.foreign import load_sb3
from rlzoo.algorithms.agent.position import ResumeState, env_id_of, last_obs, position, resume_from_last_obs
from rlzoo.algorithms.hyperparameters import field_names, schedule_names
from rlzoo.algorithms.own_classes import make_own
from rlzoo.config.legacy.sb2_translation import translate_sb2_kwargs
from rlzoo.core.action_noise import OtherNoise
from rlzoo.core.errors import CheckpointError, UserError, WrongParameters, unknown
from rlzoo.core.runtime import get_rng_state, get_system_info
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.envs.vec_env.vec_env import env_state
from rlzoo.io.encoding import decode_value, encode_value, pack, unpack
from rlzoo.io.space_json import space_from_json, space_to_json
from rlzoo.policies.policy_registry import policy_name
from rlzoo.training.checkpoint import (
    Checkpoint,
    ForeignCheckpoint,
    check_finite,
    load_module,
    load_optimizer,
    metadata,
    read_checkpoint,
    seekable,
)

if TYPE_CHECKING:
    from rlzoo.algorithms.agent.agent import Agent

_ARGUMENTS: dict[str, Any] = {
    "policy_kwargs": dict | None,
    "stats_window_size": int,
    "tensorboard_log": str | None,
    "verbose": int,
    "seed": int | None,
}
"""Constructor arguments that are saved beside the hyperparameters, with what a file may hold for them."""

MAX_ENVS = 2**16
"""Environments of a vector: noise has a copy for each."""

COUNTERS = ("num_timesteps", "total_timesteps", "iteration", "n_updates", "collected", "ended", "episodes")
"""Counters that are saved."""

FREE_TENSORS = 1000
"""Parameter tensors that the networks of a model file may have beyond those in it."""


def to_checkpoint(
    model: Agent,
    left_out: set[str] | frozenset[str] = frozenset(),
    actor_only: bool = False,
    with_position: bool = False,
) -> Checkpoint:
    """Collect what a restart needs: parameters, optimisers, counters, generators, statistics, hooks.

    :param actor_only: only what `predict` needs; so it is for a model that is no more than that
    :param with_position: also the episodes in progress and the rollout that they fill
    """
    actor_only = actor_only or model.actor_only
    weights: dict[str, torch.Tensor] = {}
    optimizers: dict[str, object] = {}
    others: dict[str, Any] = {}
    for name, part in _parts(model, actor_only).items():
        if isinstance(part, nn.Module):
            without = _training_only_keys(part) if actor_only else ()
            kept = {key: value for key, value in part.state_dict().items() if not key.startswith(without)}
            weights.update({f"{name}/{key}": value for key, value in kept.items()})
        elif isinstance(part, torch.optim.Optimizer):
            optimizers[name] = part.state_dict()
        else:
            others[name] = part.state_dict() if hasattr(part, "state_dict") else part
    optimizer_tree, optimizer_tensors = pack(optimizers, "optimizers")
    state: dict[str, Any] = {"clock": {name: getattr(model.counters, name) for name in COUNTERS}}
    if not actor_only:
        state |= {**_surroundings(model), "others": others}
        if with_position:
            state["position"] = position(model)
    state_tree, state_tensors = pack(state, "state")
    normalize_tree, normalize_tensors = pack(
        env_state(model.env) if model.env is not None else model.normalize_state
    )
    arguments = {name: encode_value(getattr(model, name)) for name in _ARGUMENTS if name not in left_out}
    if not actor_only:
        arguments |= encoded_buffer(model, left_out)
    left_out = left_out | set(model.exclude_from_checkpoint)
    config = {
        "hyperparameters": _encoded_hyperparameters(model, left_out),
        "arguments": arguments,
        "policy": encode_value(_policy_name(model)),
        "observation_space": space_to_json(model.observation_space),
        "action_space": space_to_json(model.action_space),
        "n_envs": model.n_envs * model.n_ranks,
    }
    origin = metadata(type(model).__name__, env_id_of(model))
    return Checkpoint(
        metadata={**origin, "actor_only": True} if actor_only else origin,
        config=config,
        weights=weights,
        optimizers={**optimizer_tensors, **state_tensors},
        normalize=normalize_tensors,
        state={"optimizers": optimizer_tree, "state": state_tree, "normalize": normalize_tree},
    )


def _encoded_hyperparameters(model: Agent, left_out: set[str] | frozenset[str]) -> dict[str, object]:
    encoded: dict[str, object] = {}
    schedules, progress = schedule_names(model.Config), model.counters.progress_remaining
    for name in field_names(model.Config):
        if name in left_out:
            continue
        value = getattr(model.config, name)
        try:
            encoded[name] = encode_value(value, progress if name in schedules else None)
        except UserError:
            if name not in model.own_names:
                raise
            warnings.warn(f"{name}, a {type(value).__name__}, is not saved: give it to load()", stacklevel=4)
    return encoded


def _policy_name(model: Agent) -> str | type:
    """Return the name of the policy in the agent's class, else where it is registered, else its class."""
    own = [name for name, known in model.policy_aliases.items() if known is model.policy_class]
    return own[0] if own else policy_name(model.policy_family, model.policy_class)


def _parts(model: Agent, actor_only: bool) -> dict[str, Any]:
    """Return what a file holds of `model.state()`; of a compiled module, the original."""
    return {
        name: getattr(part, "_orig_mod", part)
        for name, part in model.state().items()
        if name == "policy" or not actor_only
    }


def _training_only_keys(part: nn.Module) -> tuple[str, ...]:
    return getattr(part, "training_only_keys", ())  # a policy of the user may be any module


def _surroundings(model: Agent) -> dict[str, object]:
    """Return what training resumes from besides the parts of the model."""
    return {
        "rng": get_rng_state(),
        "env_seed": model.restart_seed(),
        "ep_info_buffer": [dict(episode) for episode in model.ep_info_buffer],
        "ep_success_buffer": list(model.ep_success_buffer),
        "callbacks": model.callback_state(),
        "csv_rows": model.logged_rows(),
        "last_obs": last_obs(model),
    }


def load(
    cls: Any,
    path: Any,
    env: Any,
    device: torch.device | str,
    custom_objects: dict[str, Any] | None,
    print_system_info: bool,
    force_reset: bool,
    trusted_modules: tuple[str, ...],
    overrides: dict[str, Any],
) -> Any:
    """Make an agent from a file; see `Algorithm.load`."""
    custom_objects = custom_objects or {}

    def build(described: Checkpoint) -> Any:
        if print_system_info:
            print("== CURRENT SYSTEM INFO ==")
            get_system_info()
            print("== SAVED MODEL SYSTEM INFO ==")
            print("\n".join(f"- {name}: {value}" for name, value in described.metadata.items()))
        return from_config(cls, described, device, custom_objects, trusted_modules, overrides)

    path = seekable(path) if hasattr(path, "read") else path
    try:
        checkpoint = read_checkpoint(path)
    except ForeignCheckpoint as error:
        if error.kind != "stable-baselines3":
            raise
        env = None if env is None else as_vec_env(env)
        model = load_sb3(cls, path, env, {**custom_objects, **overrides}, build)
    else:
        written_by = checkpoint.metadata.get("algorithm")
        if written_by != cls.__name__:
            raise CheckpointError(f"this file holds a {written_by} agent; load it with {written_by}.load")
        model = build(checkpoint)
        _restore(model, checkpoint, given={*custom_objects, *overrides})
    if env is not None:
        model.replace_env(env, force_reset)
        if not force_reset:
            resume_from_last_obs(model)
    return model


def from_config(
    cls: Any,
    checkpoint: Checkpoint,
    device: torch.device | str,
    custom_objects: dict[str, Any],
    trusted_modules: tuple[str, ...],
    overrides: dict[str, Any],
) -> Any:
    """Return an agent with hyperparameters and spaces of a checkpoint, its parameters not yet loaded."""
    config = checkpoint.config
    try:
        known, given = {**config["hyperparameters"], **config["arguments"]}, {*custom_objects, *overrides}
        decoded = {
            name: decode_value(value, custom_objects, trusted_modules)
            for name, value in known.items()
            if name not in given and name not in buffer_arguments.KINDS
        }
        decoded |= decoded_buffer(config["arguments"], custom_objects, trusted_modules, given)
        policy = overrides.pop("policy", None) or custom_objects.get("policy_class")
        if policy is None:
            policy = decode_value(config["policy"], custom_objects, trusted_modules)
        observation_space = custom_objects.get(
            "observation_space", space_from_json(config["observation_space"])
        )
        action_space = custom_objects.get("action_space", space_from_json(config["action_space"]))
        n_envs = config["n_envs"]
        for name, kinds in _ARGUMENTS.items():
            if name in decoded and not isinstance(decoded[name], kinds):
                raise TypeError(f"{name} is {str(decoded[name])[:40]!r}")
        if (place := decoded.pop("tensorboard_log", None)) is not None:
            warnings.warn(
                f"this agent was made with tensorboard_log={place!r}, which a file may not decide: give"
                " tensorboard_log to load() to go on with it",
                stacklevel=4,
            )
        if type(n_envs) is not int or not 1 <= n_envs <= MAX_ENVS:
            raise TypeError(f"n_envs is {str(n_envs)[:40]!r}")
    except (KeyError, AttributeError, TypeError) as error:
        raise CheckpointError(f"config.json of the model file is damaged: {error!r}") from None
    replaced = {
        name: value
        for name, value in custom_objects.items()
        if name in known or name in field_names(cls.Config) or name in buffer_arguments.KINDS
    }
    overrides = translate_sb2_kwargs(cls, overrides, {**decoded, "n_envs": n_envs})
    arguments = {**decoded, **replaced, **overrides, "device": device}
    try:
        model = make_own(cls, policy, arguments) if cls.saves_attributes else cls(policy, None, **arguments)
        seed, model.seed = model.seed, None  # a loaded agent does not reseed the process
        with _budget(checkpoint, model, arguments):
            model.build(observation_space, action_space, n_envs)
        model.seed = seed
    except _CANNOT_BUILD as error:
        if isinstance(error, UserError) and not isinstance(error, TooManyParameters):
            raise
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CheckpointError(f"the agent that the model file describes cannot be built: {reason}") from error
    return model


# What building networks from values that do not go together raises.
_CANNOT_BUILD = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError,
    ValueError,
)  # fmt: skip


def _budget(checkpoint: Checkpoint, model: Agent, arguments: Any) -> AbstractContextManager[None]:
    """Return a limit on the networks that a file describes, from the weights that it holds.

    A file for acting lacks those of the critics and of the copies. Where classes of the caller take part,
    which may make networks that are not saved, there is no limit.
    """
    if _from_elsewhere(type(model)) or _from_elsewhere(model.policy_class) or _from_elsewhere(arguments):
        return nullcontext()
    factor, sizes = (8 if checkpoint.actor_only else 2), checkpoint.weights.values()
    n_bytes = sum(tensor.numel() * tensor.element_size() for tensor in sizes)
    return parameter_budget(factor * n_bytes + FREE_BYTES, factor * len(sizes) + FREE_TENSORS)


def _from_elsewhere(value: object) -> bool:
    """Return whether there is a class or function in `value` that is neither ours nor PyTorch's."""
    if isinstance(value, Mapping):
        return any(_from_elsewhere(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_from_elsewhere(item) for item in value)
    return callable(value) and not str(getattr(value, "__module__", "")).startswith(("rlzoo.", "torch."))


def _restore(model: Agent, checkpoint: Checkpoint, given: set[str]) -> None:
    """Restore parameters, optimisers, counters and everything else that `to_checkpoint` wrote.

    :param given: hyperparameters that replace those of the file; action noise of another class than the
        file's keeps its initial state
    """
    model.actor_only = checkpoint.actor_only
    others: Any = {}
    try:
        state = unpack(checkpoint.state["state"], checkpoint.optimizers)
        optimizers = unpack(checkpoint.state["optimizers"], checkpoint.optimizers)
        if not isinstance(state, dict) or not isinstance(optimizers, dict):
            raise TypeError("no dictionary")
        model.normalize_state = unpack(checkpoint.state["normalize"], checkpoint.normalize)
        for name in COUNTERS:
            setattr(model.counters, name, _count(name, state["clock"][name]))
        if not model.actor_only:
            for episode in state["ep_info_buffer"]:
                model.ep_info_buffer.append({**episode, "r": float(episode["r"]), "l": int(episode["l"])})
            model.ep_success_buffer.extend(bool(success) for success in state["ep_success_buffer"])
            model.resume_state = ResumeState(
                rng=state["rng"] or {},
                env_seed=_count("env_seed", state["env_seed"]),
                position=dict(state.get("position") or {}),
                csv_rows=[_count("csv_rows", count) for count in state.get("csv_rows") or ()],
                last_obs=dict(state.get("last_obs") or {}),
                callbacks=state["callbacks"],
            )
            others = state["others"]
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"state.json of the model file is damaged: {error!r}"[:300]) from None
    model.env_id = checkpoint.metadata.get("env_id")
    for name, part in _parts(model, model.actor_only).items():
        if isinstance(part, nn.Module):
            without = _training_only_keys(part) if model.actor_only else ()
            load_module(part, checkpoint.weights, f"{name}/", without)
        elif isinstance(part, torch.optim.Optimizer):
            load_optimizer(part, optimizers.get(name), name)
        else:
            _restore_other(name, part, others, given)
    _check_finite(model)


def _check_finite(model: Agent) -> None:
    """Check that parameters and running statistics are finite; an agent with NaN would act without an error.

    :raises CheckpointError: a parameter or a running statistic is NaN or infinite
    """
    for part in model.state().values():
        if isinstance(part, nn.Module):
            for name, value in part.named_parameters():
                if value.requires_grad:
                    check_finite(f"the parameter {name}", value.detach())
            for name, buffer in part.named_buffers():
                if buffer.is_floating_point() and name.endswith(("mean", "var", "count")):
                    check_finite(f"the statistic {name}", buffer)


def _count(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise CheckpointError(f"state.json of the model file is damaged: {name} is {str(value)[:40]!r}")
    return value


def _restore_other(name: str, part: Any, others: Any, given: set[str]) -> None:
    """Restore what is neither a module nor an optimiser: a tensor, or anything with `load_state_dict`."""
    if name in given and name not in others:
        return
    try:
        if hasattr(part, "load_state_dict"):
            part.load_state_dict(others[name])
        else:
            with torch.no_grad():
                part.copy_(others[name])
    except CheckpointError as error:
        if not isinstance(error, OtherNoise) or name not in given:
            raise
    except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"state.json of the model file is damaged: {name}: {error!r}"[:300]) from None


def get_parameters(model: Agent) -> dict[str, dict[str, Any]]:
    """Return state dicts of the modules and optimisers of a model, by name."""
    parts = _parts(model, actor_only=False).items()
    return {
        name: part.state_dict() for name, part in parts if isinstance(part, nn.Module | torch.optim.Optimizer)
    }


def set_parameters(model: Agent, source: Any, exact_match: bool) -> None:
    """Take parameters from a file, a nested dict or a flat one; see `Algorithm.set_parameters`."""
    if not isinstance(source, dict):
        source = _parameters_in(source, type(model))
    parts = {
        name: part
        for name, part in _parts(model, actor_only=False).items()
        if isinstance(part, nn.Module | torch.optim.Optimizer)
    }
    if source and not any(isinstance(value, dict) for value in source.values()):
        source = _nested(source, parts, exact_match)
        optional = {name for name, part in parts.items() if isinstance(part, torch.optim.Optimizer)}
    else:
        optional = set()
    for name in source:
        if name not in parts:
            raise unknown("part of the model", name, parts)
    if exact_match and (missing := parts.keys() - source.keys() - optional):
        raise UserError(
            f"parameters of {sorted(missing)[0]!r} are missing; with exact_match=False the rest is set"
        )
    for name, values in source.items():
        target = parts[name]
        if isinstance(target, torch.optim.Optimizer):
            load_optimizer(target, values, name)
        else:
            _set_module(target, name, values, exact_match)


def _parameters_in(path: Any, algorithm: Any) -> dict[str, Any]:
    """Return the parameters and the states of optimisers in a model file, by part."""
    try:
        checkpoint = read_checkpoint(path)
    except ForeignCheckpoint as error:
        if error.kind != "stable-baselines3":
            raise
        parameters: dict[str, Any] = algorithm.load(path, device="cpu").get_parameters()
        return parameters
    found: dict[str, Any] = {}
    for name, value in checkpoint.weights.items():
        part, _, key = name.partition("/")
        found.setdefault(part, {})[key] = value
    return {**found, **_optimizer_states(checkpoint)}


def _optimizer_states(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return state dicts of the optimisers in a model file, by name."""
    try:
        states = unpack(checkpoint.state["optimizers"], checkpoint.optimizers)
    except CheckpointError:
        raise
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"state.json of the model file is damaged: {error!r}"[:300]) from None
    if not isinstance(states, dict) or not all(isinstance(state, dict) for state in states.values()):
        raise CheckpointError("state.json of the model file is damaged: optimizers")
    return states


def _nested(flat: dict[str, Any], parts: dict[str, Any], exact_match: bool) -> dict[str, dict[str, Any]]:
    """Sort flat parameter names (with or without the name of their module in front) into modules."""
    modules = {name: part for name, part in parts.items() if isinstance(part, nn.Module)}
    nested: dict[str, dict[str, Any]] = {}
    known = {name: part.state_dict().keys() for name, part in modules.items()}
    for full_name, value in flat.items():
        for name, keys in known.items():
            key = full_name.removeprefix(f"{name}.").removeprefix(f"{name}/")
            if key in keys:
                nested.setdefault(name, {})[key] = value
                break
        else:
            if exact_match:
                raise unknown("parameter", full_name, [key for keys in known.values() for key in keys])
    return nested


def _set_module(module: nn.Module, name: str, values: dict[str, Any], exact_match: bool) -> None:
    current = module.state_dict()
    if not exact_match:
        values = {key: value for key, value in values.items() if key in current}
    for key in values:
        if key not in current:
            raise unknown(f"parameter of {name}", key, current, WrongParameters)
    if exact_match and (missing := current.keys() - values.keys()):
        raise WrongParameters(
            f"parameter {sorted(missing)[0]!r} of {name} is missing; with exact_match=False the rest is set"
        )
    for key, value in values.items():
        tensor = torch.as_tensor(np.asarray(value) if not isinstance(value, torch.Tensor) else value)
        if tensor.shape != current[key].shape:
            raise WrongParameters(
                f"parameter {key!r} of {name} is {tuple(current[key].shape)}, not {tuple(tensor.shape)}"
            )
        with torch.no_grad():
            current[key].copy_(tensor)
