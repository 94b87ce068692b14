"""The only place where hyperparameters, environments and algorithms meet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rlzoo.algorithms.hyperparameters import field_names
from rlzoo.buffers.demonstrations import ExpertDataset, as_dataset, is_given
from rlzoo.callbacks.base_callback import as_callback
from rlzoo.callbacks.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from rlzoo.config import catalog
from rlzoo.config.hyperparams import lookup, merge, plays_stochastically
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.vec_env import VecEnv, load_env_state
from rlzoo.experiment.resolved_config import Blueprint, check_hyperparams, construct
from rlzoo.io.space_json import space_from_json
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint
from rlzoo.training.supervised import supervised

__all__ = [
    "Blueprint",
    "build_callbacks",
    "build_model",
    "check_hyperparams",
    "load_model",
    "make_blueprint",
    "warn_if_untrained",
]


def make_blueprint(run: RunConfig, read_demonstrations: bool = True, own: bool = True) -> Blueprint:
    """The checked hyperparameters of a run: those of its file, then the overrides of its command line.

    :param read_demonstrations: False: they may not be there yet
    :param own: the user named the file; see `check_hyperparams`
    :raises UserError: before anything is made or claimed
    """
    values = lookup(run.algo, run.env_id, run.conf_file).override(run.hyperparams).values
    if run.expert:
        values = merge(values, _expert_of(run))
    for key in ("env_kwargs", "eval_env_kwargs"):
        if given := getattr(run, key):
            values = merge(values, {key: dict(given)})
    if run.n_timesteps > 0:
        values["n_timesteps"] = run.n_timesteps
    blueprint = check_hyperparams(run.algo, values, own)
    if not blueprint.n_timesteps:
        raise UserError(
            f"how long? the hyperparameters of {run.algo} for {run.env_id} lack n_timesteps; give -n"
        )
    return _with_demonstrations(blueprint) if read_demonstrations else blueprint


def warn_if_untrained(blueprint: Blueprint) -> None:
    """Warn if a training ends before its algorithm begins to learn, as smoke tests do."""
    default = _default(blueprint, "learning_starts") or 0
    learning_starts = blueprint.hyperparams.get("learning_starts", default)
    if learning_starts >= blueprint.n_timesteps:
        warnings.warn(
            f"nothing is learned: learning_starts ({learning_starts:,}) is not below"
            f" n_timesteps ({blueprint.n_timesteps:,}), so that all actions are random",
            stacklevel=2,
        )


def _expert_of(run: RunConfig) -> dict[str, Any]:
    """What `--expert` adds to the hyperparameters."""
    if not _imitates(catalog.load(run.algo)):
        algos = [name for name in catalog.names() if _imitates(catalog.load(name))]
        raise UserError(f"--expert is for algorithms that imitate ({', '.join(algos)}); {run.algo} does not")
    return {"expert_dataset": {"expert_path": run.expert}}


def _imitates(algorithm: Any) -> bool:
    return hasattr(algorithm, "Config") and "expert_dataset" in field_names(algorithm.Config)


def _with_demonstrations(blueprint: Blueprint) -> Blueprint:
    """The blueprint with its demonstrations read, if its algorithm learns from any.

    :raises UserError: there are none, or their file is no use
    """
    if not _imitates(blueprint.algorithm):
        return blueprint
    source = blueprint.hyperparams.get("expert_dataset")
    if not is_given(source):
        raise UserError(
            f"{blueprint.algo} learns from demonstrations: give --expert FILE, made by `rlzoo record-expert`"
        )
    return replace(blueprint, hyperparams={**blueprint.hyperparams, "expert_dataset": as_dataset(source)})


def _default(blueprint: Blueprint, name: str) -> Any:
    """The default of a hyperparameter; None for one that the algorithm lacks."""
    algorithm: Any = blueprint.algorithm
    return getattr(algorithm.Config, name, None)


def hyperparameters(blueprint: Blueprint, venv: VecEnv) -> dict[str, Any]:
    """The fields of the algorithm's Config, with the noise that fits the actions of the environments."""
    if blueprint.noise is None:
        return blueprint.hyperparams
    n_calls = blueprint.n_timesteps // venv.num_envs
    return {**blueprint.hyperparams, **blueprint.noise.make(venv.action_space, n_calls)}


def build_model(blueprint: Blueprint, venv: VecEnv, seed: int, device: str, verbose: int) -> Any:
    """A new agent of a blueprint."""
    try:
        return blueprint.algorithm(
            blueprint.policy,
            venv,
            **hyperparameters(blueprint, venv),
            policy_kwargs=blueprint.policy_kwargs,
            stats_window_size=blueprint.stats_window_size,
            seed=seed,
            device=device,
            verbose=verbose,
        )
    except TypeError as error:  # optimisers, extractors and the user's own policy take what they declare
        if "argument" not in str(error):
            raise
        raise UserError(f"policy_kwargs: {error}") from error


def load_model(
    blueprint: Blueprint,
    path: Path,
    venv: VecEnv,
    device: str,
    verbose: int = 0,
    new_run_seed: int | None = None,
) -> Any:
    """An agent from a file, with the normalisation statistics of that very file in its environment.

    Classes that the blueprint names are trusted: the person who wrote it put them there.

    :param new_run_seed: a new run starts from this agent, with this seed and the blueprint's hyperparameters;
        None: it goes on as it was
    """
    read = {key: value for key, value in blueprint.hyperparams.items() if isinstance(value, ExpertDataset)}
    overrides: dict[str, Any] = read  # no file of an agent holds them
    if new_run_seed is not None:
        overrides = {**hyperparameters(blueprint, venv), "seed": new_run_seed}
        _check_spaces(path, venv)
    algorithm: Any = blueprint.algorithm
    model = algorithm.load(
        path,
        env=venv,
        device=device,
        custom_objects=trusted_classes(blueprint),
        verbose=verbose,
        **overrides,
    )
    if model.normalize_state and model.get_vec_normalize_env() is not None:
        load_env_state(venv, model.normalize_state)
    if new_run_seed is not None:
        model.set_random_seed(new_run_seed)
    return model


def _check_spaces(path: Path, venv: VecEnv) -> None:
    """Before hyperparameters that suit the environment are given to an agent that does not."""
    try:
        config = read_checkpoint(path).config
    except ForeignCheckpoint:  # loading compares the spaces of those that can be read
        return
    for name in ("observation_space", "action_space"):
        theirs, ours = space_from_json(config.get(name)), getattr(venv, name)
        if theirs != ours:
            raise UserError(f"{path} is an agent for another environment: its {name} is {theirs}, not {ours}")


def trusted_classes(blueprint: Blueprint) -> dict[str, Any]:
    """Dotted name to class, for each class that the hyperparameters name."""
    classes = {}
    pending: list[Any] = [blueprint.policy, blueprint.policy_kwargs, blueprint.hyperparams]
    while pending:
        value = pending.pop()
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list | tuple):
            pending += value
        elif callable(value) and hasattr(value, "__qualname__"):
            classes[f"{value.__module__}.{value.__qualname__}"] = value
    return classes


def build_callbacks(
    blueprint: Blueprint, run: RunConfig, folder: Path, eval_env: VecEnv | None
) -> list[BaseCallback]:
    """What runs beside the training: the entries of `callback`, checkpoints, evaluation.

    Frequencies are given in environment steps; a callback counts steps of the vector of environments, or
    minibatches of demonstrations.
    """
    algorithm: Any = blueprint.algorithm
    timesteps_per_call = blueprint.n_envs
    if algorithm.loop is supervised:
        timesteps_per_call = blueprint.hyperparams.get("batch_size", _default(blueprint, "batch_size"))
    built = (construct("callback", build, **kwargs) for build, kwargs in blueprint.callbacks)
    callbacks = [as_callback(callback) for callback in built]
    if run.save_freq > 0:
        callbacks.append(
            CheckpointCallback(
                save_freq=max(run.save_freq // timesteps_per_call, 1),
                save_path=str(folder),
                name_prefix="rl_model",
                save_replay_buffer=run.save_replay_buffer,
                verbose=run.verbose,
            )
        )
    if eval_env is not None:
        callbacks.append(
            EvalCallback(
                eval_env,
                n_eval_episodes=run.eval_episodes,
                eval_freq=max(run.eval_freq // timesteps_per_call, 1),
                best_model_save_path=str(folder),
                log_path=str(folder),
                deterministic=not plays_stochastically(run.env_id),
                verbose=run.verbose,
            )
        )
    return callbacks
