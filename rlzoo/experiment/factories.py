"""Build models, their replay buffers and callbacks from a resolved configuration."""

from __future__ import annotations

import io
import sys
from collections.abc import Sized
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeGuard

from rlzoo.algorithms.agent.position import ResumeState
from rlzoo.algorithms.base import Algorithm
from rlzoo.buffers.demonstrations import ExpertDataset
from rlzoo.callbacks.base_callback import as_callback
from rlzoo.callbacks.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import RunConfig
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.envs.vec_env.vec_env import VecEnv, load_env_state
from rlzoo.experiment.named_classes import construct
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.io.space_json import space_from_json
from rlzoo.runs import run_folder
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint
from rlzoo.training.supervised import supervised


def hyperparameters(resolved: ResolvedConfig, venv: VecEnv) -> dict[str, Any]:
    """Return the fields of the algorithm's Config, with noise of the shape of the actions."""
    if resolved.noise is None:
        return resolved.hyperparams
    n_envs = venv.num_envs if venv.ranks is None else resolved.n_envs
    n_calls = resolved.n_timesteps // n_envs
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


class ReplayModel(Protocol):
    """A model with a replay buffer."""

    resume_state: ResumeState

    @property
    def replay_buffer(self) -> Sized:
        """The replay buffer, made when it is first used."""

    def save_replay_buffer(self, path: Path | BinaryIO) -> None:
        """Write the replay buffer to a file."""

    def load_replay_buffer(self, path: Path, truncate_last_traj: bool = True) -> None:
        """Read the replay buffer from a file."""


def has_buffer(model: Algorithm) -> TypeGuard[ReplayModel]:
    """Return whether a model has a replay buffer."""
    return hasattr(type(model), "save_replay_buffer")


def prepare_replay(model: ReplayModel, run: RunConfig, agent: Path | None, resumed: bool) -> None:
    """Make the replay buffer, so that mistakes in it are found now, and load the experience of the agent.

    :param agent: the file that the agent was loaded from
    :raises UserError: the environment has no goals for hindsight, the buffer's arguments are wrong, or it is
        to be saved and cannot be
    :raises CheckpointError: a new run starts from an agent whose replay buffer cannot be read
    """
    replay = model.replay_buffer
    if run.save_replay_buffer:
        model.save_replay_buffer(io.BytesIO())  # still empty
    if agent is None:
        return
    path = run_folder.replay_of(agent, saved_together=resumed)
    if path is None:
        if resumed:
            print(
                f"rlzoo: no replay buffer was saved with {agent} (see --save-replay-buffer);"
                " the run continues with an empty one",
                file=sys.stderr,
            )
        return
    in_progress = resumed and model.resume_state.continues_episodes  # else new episodes end those stored
    try:
        model.load_replay_buffer(path, truncate_last_traj=run.truncate_last_trajectory and not in_progress)
    except CheckpointError as error:
        if not resumed:
            raise CheckpointError(f"{error}; move it away to start with an empty replay buffer") from error
        print(f"rlzoo: {error}; the run continues with an empty replay buffer", file=sys.stderr)
        return
    if run.verbose > 0:
        print(f"replay buffer: {len(replay):,} transitions from {path}")


def build_callbacks(
    resolved: ResolvedConfig, run: RunConfig, folder: Path, eval_env: VecEnv | None
) -> list[BaseCallback]:
    """Build the callbacks of a training: the entries of `callback`, checkpoints, evaluation.

    Frequencies are given in environment steps; a callback counts steps of the vector of environments, or
    minibatches of demonstrations.
    """
    timesteps_per_call = resolved.n_envs
    if resolved.algorithm.loop is supervised:
        timesteps_per_call = resolved.config.batch_size
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
