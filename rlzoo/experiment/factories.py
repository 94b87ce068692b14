"""Build models and callbacks from a resolved configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlzoo.algorithms.base import Algorithm
from rlzoo.buffers.demonstrations import ExpertDataset
from rlzoo.callbacks.base_callback import as_callback
from rlzoo.callbacks.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import UserError
from rlzoo.envs.vec_env.vec_env import VecEnv, load_env_state
from rlzoo.experiment.named_classes import construct
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.io.space_json import space_from_json
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint
from rlzoo.training.supervised import supervised


def hyperparameters(resolved: ResolvedConfig, venv: VecEnv) -> dict[str, Any]:
    """Return the fields of the algorithm's Config, with noise of the shape of the actions."""
    if resolved.noise is None:
        return resolved.hyperparams
    n_calls = resolved.n_timesteps // venv.num_envs
    return {**resolved.hyperparams, **resolved.noise.make(venv.action_space, n_calls)}


def build_model(resolved: ResolvedConfig, venv: VecEnv, seed: int, device: str, verbose: int) -> Algorithm:
    """Build an untrained agent."""
    try:
        return resolved.algorithm(
            resolved.policy,
            venv,
            **hyperparameters(resolved, venv),
            policy_kwargs=resolved.policy_kwargs,
            stats_window_size=resolved.stats_window_size,
            seed=seed,
            device=device,
            verbose=verbose,
        )
    except TypeError as error:  # optimisers, extractors and the user's own policy take what they declare
        if "argument" not in str(error):
            raise
        raise UserError(f"policy_kwargs: {error}") from error


def load_model(
    resolved: ResolvedConfig,
    path: Path,
    venv: VecEnv,
    device: str,
    verbose: int = 0,
    new_run_seed: int | None = None,
) -> Algorithm:
    """Load an agent, and its normalisation statistics into its environments.

    Classes that `resolved` names are trusted: the person who wrote it put them there.

    :param new_run_seed: a new run starts from this agent, with this seed and these hyperparameters;
        None: it continues with its own
    """
    read = {key: value for key, value in resolved.hyperparams.items() if isinstance(value, ExpertDataset)}
    overrides: dict[str, Any] = read  # no file of an agent holds them
    if new_run_seed is not None:
        overrides = {**hyperparameters(resolved, venv), "seed": new_run_seed}
        _check_spaces(path, venv)
    model = resolved.algorithm.load(
        path,
        env=venv,
        device=device,
        custom_objects=resolved.named_classes(),
        verbose=verbose,
        **overrides,
    )
    if model.normalize_state and model.get_vec_normalize_env() is not None:
        load_env_state(venv, model.normalize_state)
    if new_run_seed is not None:
        model.set_random_seed(new_run_seed)
    return model


def _check_spaces(path: Path, venv: VecEnv) -> None:
    """Raise UserError if an agent was trained in environments with other spaces."""
    try:
        config = read_checkpoint(path).config
    except ForeignCheckpoint:  # loading compares the spaces of those that can be read
        return
    for name in ("observation_space", "action_space"):
        theirs, ours = space_from_json(config.get(name)), getattr(venv, name)
        if theirs != ours:
            raise UserError(f"{path} is an agent for another environment: its {name} is {theirs}, not {ours}")


def build_callbacks(
    resolved: ResolvedConfig, run: RunConfig, folder: Path, eval_env: VecEnv | None
) -> list[BaseCallback]:
    """Build the callbacks of a training: the entries of `callback`, checkpoints, evaluation.

    Frequencies are given in environment steps; a callback counts steps of the vector of environments, or
    minibatches of demonstrations.
    """
    timesteps_per_call = resolved.n_envs
    if resolved.algorithm.loop is supervised:
        timesteps_per_call = resolved.hyperparameter("batch_size")
    built = (construct("callback", build, **kwargs) for build, kwargs in resolved.callbacks)
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
