"""Read agents of stable-baselines3 and sb3-contrib: algorithm, spaces, policy and hyperparameters.

The networks of rlzoo have the same parameter names, except for a few that `renamed` maps.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.envs.vec_wrappers.vec_normalize_pickle import read_pickled_statistics
from rlzoo.interop.sb3_file import Sb3File, read_sb3_file
from rlzoo.interop.sb3_spaces import actions_of, observations_of, read_space
from rlzoo.interop.sb3_values import PLAIN_BUFFERS, THEIRS, Unreadable, encode
from rlzoo.io.pickle_tree import Reference
from rlzoo.io.space_json import space_to_json

MAX_ENVS = 2**16
STATISTICS = ("vecnormalize.pkl", "vec_normalize.pkl")
COUNTERS = {
    "num_timesteps": "num_timesteps",
    "total_timesteps": "_total_timesteps",
    "n_updates": "_n_updates",
    "episodes": "_episode_num",
}
"""Counters of rlzoo, and the attributes of stable-baselines3."""
RENAMED_HYPERPARAMETERS = {"delta_std": "delta_std_schedule", "stats_window_size": "_stats_window_size"}
"""Hyperparameters of rlzoo that have another name as attributes of stable-baselines3."""
PathOrFile: TypeAlias = str | os.PathLike[str] | BinaryIO


@dataclass
class Sb3Agent:
    """An agent of stable-baselines3.

    :ivar algorithms: possible algorithms, the most likely first; empty if unknown
    :ivar config: `policy`, `arguments`, spaces and `n_envs`, as in config.json of rlzoo's model files
    :ivar file: contents of the file
    :ivar beside: hyperparameters of the config.yml next to the file
    :ivar statistics: settings and statistics of the VecNormalize next to the file
    :ivar notices: messages for the user
    """

    algorithms: tuple[str, ...]
    config: dict[str, Any]  # JSON
    file: Sb3File
    beside: dict[str, object] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)

    def hyperparameters(self, names: Sequence[str], schedules: Sequence[str]) -> dict[str, object]:
        """Return the encoded values of hyperparameters.

        A value that cannot be read is taken from the config.yml next to the file. Otherwise a schedule keeps
        its last value and must be passed again to train; others keep their defaults. A notice says so.

        :param names: of the Config of the algorithm
        :param schedules: those of `names` that may be functions
        """
        found: dict[str, object] = {}
        for name in names:
            try:
                found[name] = self._hyperparameter(name)
            except KeyError:
                continue
            except Unreadable as error:
                if isinstance(self.beside.get(name), str | int | float):
                    found[name] = self.beside[name]
                elif name in schedules:
                    found[name] = {"$callable": f"{name}: {error}", "value": self._last(name)}
                    self.notices.append(f"{name} is {error}, which is not read: to train, give {name}=...")
                else:
                    self.notices.append(f"{name} is {error}, which is not read: give {name}=...")
        return found

    def _hyperparameter(self, name: str) -> object:
        values = self.file.values
        key = RENAMED_HYPERPARAMETERS.get(name, name)
        if key in self.file.unread:
            raise Unreadable(self.file.unread[key])
        if name == "use_rms_prop" and isinstance(values.get("policy_kwargs"), dict):
            return "optimizer_class" in values["policy_kwargs"]
        value = values[key]
        if name == "replay_buffer_class":
            return _buffer_class(value)
        if name == "replay_buffer_kwargs" and isinstance(value, dict):
            value = {key: item for key, item in value.items() if key not in ("env", *HANDLED_BY_BUFFER)}
        return encode(value)

    def _last(self, name: str) -> float | None:
        """Return the last value of the learning rate, from the optimiser."""
        if name == "learning_rate":
            for state in self.file.states.values():
                groups = state.get("param_groups") if isinstance(state, dict) else None
                first = groups[0] if isinstance(groups, list) and groups else None
                if isinstance(first, dict) and isinstance(rate := first.get("lr"), float):
                    return rate
        return None


HANDLED_BY_BUFFER = ("handle_timeout_termination", "optimize_memory_usage", "n_steps", "gamma")


def _buffer_class(value: object) -> object:
    if isinstance(value, Reference) and value.module.startswith(THEIRS):
        if value.name in PLAIN_BUFFERS:
            return None  # chosen by the observations and n_steps
    return encode(value)


def read_sb3_agent(
    path: PathOrFile, env: object = None, given: Mapping[str, object] | None = None
) -> Sb3Agent:
    """Read a model file, and the config.yml and VecNormalize statistics next to it.

    :param path: an existing path, or a binary file object
    :param env: an environment, whose spaces are used if those of the file are not readable
    :param given: values to use instead of the file's: spaces, `policy_class` and `policy_kwargs`
    :raises CheckpointError: the file is damaged, or a space is not known
    """
    agent = _agent_of(_read(path), env, given or {})
    if not isinstance(path, str | os.PathLike):
        return agent
    agent.beside = _hyperparameters_beside(Path(path))
    if (statistics := statistics_beside(Path(path))) is not None:
        agent.statistics = read_pickled_statistics(statistics)
    return agent


def read_algorithms(path: PathOrFile) -> tuple[str, ...]:
    """Return the possible algorithms of a model file; see `read_sb3_agent` for `path` and errors."""
    return algorithms_of(_read(path))


def _read(path: PathOrFile) -> Sb3File:
    if not isinstance(path, str | os.PathLike):
        return read_sb3_file(path, "the file object")
    with open(path, "rb") as file:
        return read_sb3_file(file, str(path))


def _agent_of(file: Sb3File, env: object, given: Mapping[str, object]) -> Sb3Agent:
    arguments: dict[str, object] = {
        "policy_kwargs": None if "policy_kwargs" in given else policy_kwargs(file)
    }
    for name, kinds in {"stats_window_size": int, "verbose": int, "seed": int}.items():
        value = file.values.get(RENAMED_HYPERPARAMETERS.get(name, name))
        if type(value) is kinds:
            arguments[name] = value
    n_envs = file.values.get("n_envs", 1)
    config = {
        "policy": None if {"policy", "policy_class"} & given.keys() else policy_name(file),
        "arguments": arguments,
        "observation_space": _space(file, "observation_space", env, given),
        "action_space": _space(file, "action_space", env, given),
        "n_envs": n_envs if type(n_envs) is int and 1 <= n_envs <= MAX_ENVS else 1,
    }
    return Sb3Agent(algorithms_of(file), config, file, notices=list(file.notices))


def _space(file: Sb3File, name: str, env: object, given: Mapping[str, object]) -> object:
    """Return a space as JSON: from the file, else from the environment, else from the networks."""
    if name in given:
        return space_to_json(cast("spaces.Space[object]", given[name]))
    try:
        space: object = read_space(file.values.get(name))
        other = getattr(env, name, None)
        if _differ_in_bounds(space, other) and (name == "observation_space" or _close(space, other)):
            space = other
    except CheckpointError as error:
        reason = file.unread.get(name, str(error))
        space = getattr(env, name, None)
        if not isinstance(space, spaces.Space):
            try:
                space = (observations_of if name == "observation_space" else actions_of)(file.weights)
            except CheckpointError as other:
                raise CheckpointError(
                    f"{other} ({reason}): give env=... or custom_objects={{{name!r}: ...}}"
                ) from None
    return space_to_json(cast("spaces.Space[object]", space))


def _differ_in_bounds(space: object, other: object) -> bool:
    """Return whether two spaces differ only in their bounds, which versions of environments changed."""
    if isinstance(space, spaces.Dict) and isinstance(other, spaces.Dict):
        same_keys = list(space.spaces) == list(other.spaces)
        return same_keys and all(
            part == other.spaces[key] or _differ_in_bounds(part, other.spaces[key])
            for key, part in space.spaces.items()
        )
    if not isinstance(space, spaces.Box) or not isinstance(other, spaces.Box):
        return False
    return space.dtype == other.dtype == np.float32 and space.shape == other.shape


def _close(space: object, other: object) -> bool:
    """Return whether two Boxes are the same except for rounding: actions are scaled to the bounds."""
    if not isinstance(space, spaces.Box) or not isinstance(other, spaces.Box):
        return False
    return bool(np.allclose(space.low, other.low) and np.allclose(space.high, other.high))


# -- algorithm and policy ------------------------------------------------------------------------

_SIGNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("n_delta", "alive_bonus_offset"), "ARS"),
    (("top_quantiles_to_drop_per_net",), "TQC"),
    (("policy_delay", "target_policy_noise"), "TD3"),
    (("policy_delay", "target_entropy"), "CrossQ"),
    (("target_entropy", "target_update_interval"), "SAC"),
    (("exploration_fraction", "target_update_interval"), "DQN"),
    (("cg_max_steps", "line_search_max_iter"), "TRPO"),
    (("n_epochs", "batch_size"), "PPO"),
    (("gae_lambda", "vf_coef"), "A2C"),
)
"""Attributes that identify an algorithm; the first matching row counts."""


def algorithms_of(file: Sb3File) -> tuple[str, ...]:
    """Return the possible algorithms of a file, the most likely first: the file does not name it."""
    known = file.values.keys() | file.unread.keys()
    found = next((name for signs, name in _SIGNS if known >= set(signs)), None)
    policy = file.values.get("policy_class")
    module = policy.module if isinstance(policy, Reference) else ""
    if found == "DQN" and any(name.startswith("quantile_net.") for name in file.weights):
        return ("QRDQN",)
    if found == "TD3" and (file.values.get("policy_delay"), file.values.get("target_noise_clip")) == (1, 0.0):
        return ("DDPG", "TD3")
    if found == "PPO" and any(name.startswith("lstm_actor.") for name in file.weights):
        return ("RecurrentPPO",)
    if found == "PPO" and "maskable" in module:
        return ("MaskablePPO",)
    if found == "PPO" and not module.startswith(THEIRS) and "use_sde" not in known:
        return ("MaskablePPO", "PPO")
    return () if found is None else (found,)


_OURS = {
    "ActorCriticPolicy": "MlpPolicy",
    "ActorCriticCnnPolicy": "CnnPolicy",
    "MultiInputActorCriticPolicy": "MultiInputPolicy",
    "MaskableActorCriticPolicy": "MlpPolicy",
    "MaskableActorCriticCnnPolicy": "CnnPolicy",
    "MaskableMultiInputActorCriticPolicy": "MultiInputPolicy",
    "RecurrentActorCriticPolicy": "MlpLstmPolicy",
    "RecurrentActorCriticCnnPolicy": "CnnLstmPolicy",
    "RecurrentMultiInputActorCriticPolicy": "MultiInputLstmPolicy",
    **dict.fromkeys(
        ("MlpPolicy", "DQNPolicy", "QRDQNPolicy", "TD3Policy", "SACPolicy", "TQCPolicy", "CrossQPolicy"),
        "MlpPolicy",
    ),
    "CnnPolicy": "CnnPolicy",
    "MultiInputPolicy": "MultiInputPolicy",
    "ARSPolicy": "MlpPolicy",
    "ARSLinearPolicy": "LinearPolicy",
}
"""Policy classes of stable-baselines3 and sb3-contrib, and their names in rlzoo."""


def policy_name(file: Sb3File) -> object:
    """Return the name of a policy of rlzoo, or an encoded class that must be passed to the reader.

    :raises CheckpointError: the policy cannot be read
    """
    policy = file.values.get("policy_class")
    if "policy_class" in file.unread:
        raise CheckpointError(
            f"the policy is not read ({file.unread['policy_class']});"
            ' pass it: custom_objects={"policy_class": ...}'
        )
    if policy is None:
        return "LinearPolicy" if _is_linear(file) else _guessed_policy(file)
    if isinstance(policy, Reference) and policy.module.startswith(THEIRS) and policy.name in _OURS:
        return _OURS[policy.name]
    try:
        return encode(policy)
    except Unreadable as error:
        raise CheckpointError(
            f'the policy is {error}, which is not read; pass it: custom_objects={{"policy_class": ...}}'
        ) from None


def _is_linear(file: Sb3File) -> bool:
    return {name for name in file.weights if name.endswith("weight")} == {"action_net.0.weight"}


def _guessed_policy(file: Sb3File) -> str:
    recurrent = "Lstm" if any(name.startswith("lstm_actor.") for name in file.weights) else ""
    extractors = [name for name in file.weights if "features_extractor." in name]
    kind = "MultiInput" if any(".extractors." in name for name in extractors) else "Cnn"
    return f"{kind if extractors else 'Mlp'}{recurrent}Policy"


def policy_kwargs(file: Sb3File) -> object:
    """Return the encoded policy_kwargs, by their names in rlzoo.

    :raises CheckpointError: they cannot be read
    """
    given = file.values.get("policy_kwargs")
    hint = 'pass them: custom_objects={"policy_kwargs": {...}}'
    if "policy_kwargs" in file.unread:
        raise CheckpointError(f"policy_kwargs are not read ({file.unread['policy_kwargs']}); {hint}")
    if given is None:
        return None
    if not isinstance(given, dict):
        raise CheckpointError(f"policy_kwargs are no dictionary; {hint}")
    kwargs = {name: value for name, value in given.items() if name != "use_sde"}  # follows from the algorithm
    if kwargs.get("sde_net_arch", 0) is None:
        del kwargs["sde_net_arch"]
    if _shares_extractor(file.weights):  # the default of older versions
        kwargs.setdefault("share_features_extractor", True)
    arch = kwargs.get("net_arch")
    shares = any(name.startswith("mlp_extractor.shared_net.") for name in file.weights)
    if shares and isinstance(arch, list) and all(type(width) is int for width in arch):
        kwargs["net_arch"] = [*arch, {"pi": [], "vf": []}]  # a plain list was shared before 1.8
    elif isinstance(arch, list) and len(arch) == 1 and isinstance(arch[0], dict):  # before 1.8, too
        kwargs["net_arch"] = arch[0]
    try:
        return encode(kwargs)
    except Unreadable as error:
        raise CheckpointError(f"policy_kwargs hold {error}, which is not read; {hint}") from None


def _shares_extractor(weights: Mapping[str, torch.Tensor]) -> bool:
    """Return whether actor and critics share their features extractor: the tensors are the same."""
    pairs = [
        (weights[name], weights[other])
        for name in weights
        if name.startswith("actor.features_extractor.")
        and (other := name.replace("actor.", "critic.", 1)) in weights
    ]
    return bool(pairs) and all(one.data_ptr() == two.data_ptr() for one, two in pairs)


# -- parameters ----------------------------------------------------------------------------------

BUFFERS = ("running_mean", "running_var", "num_batches_tracked", "ra_mean", "ra_var", "steps")
"""Last parts of the names of buffers, which are not optimised."""


def renamed(weights: Mapping[str, torch.Tensor], ours: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """Return the name in rlzoo of each parameter; leave out further names of the same tensor.

    :param weights: the parameters of stable-baselines3
    :param ours: the state dict of the policy of rlzoo
    """
    names: dict[str, str] = {}
    seen: set[tuple[int, int | torch.SymInt]] = set()
    for name, tensor in weights.items():
        place = (tensor.untyped_storage().data_ptr(), tensor.storage_offset())
        own = _our_name(name, ours)
        if own in names.values() or (own not in ours and (place in seen or _is_second_name(name, weights))):
            continue
        seen.add(place)
        names[name] = own
    return names


def _our_name(name: str, ours: Mapping[str, torch.Tensor]) -> str:
    candidates = (
        name,
        name.replace("action_net.0.", "action_net."),  # a linear policy of ARS
        name.replace("actor.mu.", "actor.mu.0."),  # gSDE without a bound on the mean
        f"pi_{name}",  # the actor's extractor, where the critic has another
    )
    return next((candidate for candidate in candidates if candidate in ours), name)


def _is_second_name(name: str, weights: Mapping[str, torch.Tensor]) -> bool:
    """Return whether a tensor belongs to the extractor that actor and critic share."""
    for prefix in ("pi_", "vf_"):
        first = weights.get(name.removeprefix(prefix))
        if name.startswith(f"{prefix}features_extractor.") and first is not None:
            return first.shape == weights[name].shape and torch.equal(first, weights[name])
    return False


# -- files next to the model file ---------------------------------------------------------------------


def _hyperparameters_beside(path: Path) -> dict[str, object]:
    """Return the config.yml of RL Baselines3 Zoo next to a model file; empty if missing or damaged."""
    for place in (path.with_suffix("") / "config.yml", *_in_folder(path, "config.yml")):
        if place.is_file() and not place.is_symlink():
            try:
                values = read_yaml(place)
            except UserError:
                return {}
            return values if isinstance(values, dict) else {}
    return {}


def statistics_beside(path: Path) -> Path | None:
    """Return the path of the VecNormalize that was saved with a model, if any."""
    steps = path.stem.removeprefix("rl_model_")
    names = (f"rl_model_vecnormalize_{steps}.pkl", *STATISTICS)
    places = [path.with_suffix("") / name for name in names]
    places += [place for name in names for place in _in_folder(path, name)]
    return next((place for place in places if place.is_file() and not place.is_symlink()), None)


def _in_folder(path: Path, name: str) -> list[Path]:
    """Return paths of a file name next to a model; for a checkpoint, also in the only folder that has it."""
    inside: list[Path] = []
    if path.stem == "best_model" or path.stem.startswith("rl_model_"):
        inside = sorted(path.parent.glob(f"*/{name}"))
    return [path.parent / name, *(inside if len(inside) == 1 else [])]
