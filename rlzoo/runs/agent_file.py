"""Model files outside of a run folder: whose agent it is and where it plays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import gymnasium as gym

from rlzoo.algorithms.agent.foreign import algorithm_of
from rlzoo.config import catalog
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import BEST_MODEL, PlayConfig, RunConfig, checkpoint_steps, safe_name
from rlzoo.config.values_as_text import merge, read_yaml
from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_wrappers.vec_normalize_pickle import SETTINGS, read_pickled_statistics
from rlzoo.interop.sb3_agent import statistics_beside
from rlzoo.runs.json_records import check_fields
from rlzoo.training.checkpoint import ForeignCheckpoint, find_checkpoint, read_checkpoint

ENV_KEYS = (
    "policy", "frame_stack", "env_wrapper", "vec_env_wrapper", "monitor_kwargs", "env_kwargs",
    "eval_env_kwargs",
)  # fmt: skip
"""Hyperparameters that say what an agent sees; the others are in its file."""


def identify(path: Path) -> tuple[str, str]:
    """Return the name of the algorithm of a model file, and the id of its environment ("" if unknown).

    :raises CheckpointError: the file is damaged, or of another kind
    """
    env_id = ""
    try:
        metadata = read_checkpoint(path).metadata
        written_by, env_id = str(metadata.get("algorithm")), str(metadata.get("env_id") or "")
    except ForeignCheckpoint as error:
        if error.kind != "stable-baselines3":
            raise
        written_by = algorithm_of(path)
    algos = [name for name in catalog.names() if catalog.resolve(name).endswith(f":{written_by}")]
    if not algos:
        raise UserError(f"{path} is of an algorithm called {written_by[:40]!r}, which rlzoo does not have")
    arguments = arguments_beside(path)
    known = env_id or str(arguments.get("env_id") or arguments.get("env") or "")
    return algos[0], known.rpartition(":")[2] or _env_of_name(path, algos[0])


def _env_of_name(path: Path, algo: str) -> str:
    """Return the environment that a file is named after: `CartPole-v1.zip`, `ppo-CartPole-v1.zip`."""
    if path.name == BEST_MODEL or checkpoint_steps(path.name) is not None:
        return ""
    stem = re.sub(rf"^{re.escape(algo)}[-_]", "", path.stem)
    known = next((env_id for env_id in gym.registry if safe_name(env_id) == stem), None)
    return known or (stem if re.fullmatch(r"[\w.-]+-v\d+", stem) else "")


def beside(path: Path, name: str) -> Path | None:
    """Return a file of the folder `<env>` next to a model, as RL Baselines3 Zoo and rlzoo write it."""
    places = [path.with_suffix("") / name, path.parent / name]
    if path.name == BEST_MODEL or checkpoint_steps(path.name) is not None:
        inside = sorted(path.parent.glob(f"*/{name}"))
        places += inside if len(inside) == 1 else []
    return next((place for place in places if place.is_file() and not place.is_symlink()), None)


def arguments_beside(path: Path) -> dict[str, object]:
    """Return the args.yml of a model file; empty without one."""
    file = beside(path, "args.yml")
    values = {} if file is None else read_yaml(file)
    return values if isinstance(values, dict) else {}


def hyperparams_beside(path: Path, algo: str, env_id: str) -> dict[str, object]:
    """Return what an agent outside of a run folder sees: of the config.yml beside it, else as the shipped
    hyperparameters for its environment have it, with the normalisation that the agent has statistics for."""
    if (file := beside(path, "config.yml")) is not None:
        return with_zoo_env_kwargs(lookup(algo, env_id, file).values, beside(path, "args.yml"))
    try:
        shipped = lookup(algo, env_id).values
    except UserError:  # nothing is shipped for it: it sees what the environment shows
        shipped = {"policy": "MlpPolicy"}
    return {**{key: shipped[key] for key in ENV_KEYS if key in shipped}, **_normalization(path)}


def is_of_zoo(arguments: object) -> bool:
    """Return whether an args.yml is of RL Baselines3 Zoo, which calls the environment `env`."""
    return isinstance(arguments, dict) and {"algo", "env"} <= arguments.keys() and "env_id" not in arguments


def with_zoo_env_kwargs(values: dict[str, object], file: Path | None) -> dict[str, object]:
    """Return the hyperparameters of a run with the `--env-kwargs` of RL Baselines3 Zoo.

    There only the args.yml holds them. A config.yml of rlzoo holds its own: nothing is added to it.

    :param file: the args.yml, if there is one
    :raises UserError: it is damaged
    """
    arguments = read_yaml(file) if file is not None and file.is_file() else {}
    if file is None or not is_of_zoo(arguments) or not arguments.get("env_kwargs"):
        return values
    given = check_fields(file, RunConfig, {"env_kwargs": arguments["env_kwargs"]})["env_kwargs"]
    shown = {key: value for key, value in given.items() if key != "render_mode"}
    return merge(values, {"env_kwargs": shown})


def _normalization(path: Path) -> Mapping[str, object]:
    try:
        return {"normalize": True} if read_checkpoint(path).normalize else {}
    except ForeignCheckpoint:
        statistics = statistics_beside(path)
    return {} if statistics is None else normalization_of(statistics)


def normalization_of(statistics: Path) -> dict[str, object]:
    """Return the hyperparameters of a pickled VecNormalize."""
    content = read_pickled_statistics(statistics)
    wanted = [name for name in SETTINGS if name != "training"]
    return {
        "normalize": True,
        "normalize_kwargs": {name: content[name] for name in wanted if name in content},
    }


def with_agent_file(config: PlayConfig) -> PlayConfig:
    """Fill in the algorithm and the environment of the file that `-i` names, where the flags leave them out.

    :raises UserError: there is no such file, or it does not tell
    """
    if not config.trained_agent:
        return config
    path = find_checkpoint(config.trained_agent)
    algo, env_id = (config.algo, config.env_id) if config.algo and config.env_id else identify(path)
    env_id = config.env_id or env_id
    if not env_id:
        raise UserError(f"{path} does not tell its environment: give --env")
    if not config.env_id:
        ensure_registered(env_id, config.gym_packages)
    return replace(config, algo=config.algo or algo, env_id=env_id, trained_agent=str(path))
