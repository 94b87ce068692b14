"""Build environments, models, their replay buffers and callbacks from a resolved configuration."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sized
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeGuard

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import load_env_creator

from rlzoo.algorithms.agent.position import ResumeState
from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.hyperparameters import check_arguments
from rlzoo.buffers.demonstrations import ExpertDataset
from rlzoo.callbacks.base_callback import as_callback
from rlzoo.callbacks.callbacks import BaseCallback, CheckpointCallback, EvalCallback
from rlzoo.config.hyperparams import plays_stochastically
from rlzoo.config.run import RunConfig, bare_id
from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.core.signatures import is_own
from rlzoo.envs.make_vec_env import as_vec_env, make_vec_env
from rlzoo.envs.single_env.env_failures import describe
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.vec_env.vec_env import VecEnv, load_env_state
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.experiment.named_classes import construct
from rlzoo.experiment.resolved_config import Class, EnvironmentConfig, ResolvedConfig
from rlzoo.io.space_json import space_from_json
from rlzoo.runs import run_folder
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint
from rlzoo.training.supervised import supervised


class WrapperChain:
    """Wrappers as one callable, the first innermost; it can be sent to a worker process."""

    def __init__(self, wrappers: tuple[Class, ...]) -> None:
        self.wrappers = wrappers

    def __call__(self, env: gym.Env) -> gym.Env:
        for wrapper, kwargs in self.wrappers:
            env = construct("env_wrapper", wrapper, env, **kwargs)
        return env


def build_training_env(
    resolved: EnvironmentConfig,
    env_id: str,
    seed: int,
    backend: str,
    monitor_dir: Path | None,
    append: bool = False,
    start_index: int = 0,
) -> VecEnv:
    """Build the training environments; environment i is seeded with seed + start_index + i.

    :param append: append to the monitor files of an earlier session of the run
    :param start_index: number of the first environment, for seeds and monitor files
    """
    monitor_kwargs = {**resolved.monitor_kwargs, **({"override_existing": False} if append else {})}
    resolved = replace(resolved, monitor_kwargs=monitor_kwargs)
    venv = _base(
        resolved, env_id, resolved.n_envs, seed, backend, resolved.env_kwargs, monitor_dir, start_index
    )
    if start_index:  # make_vec_env counts it for action spaces only
        venv.seed(seed + start_index)
    return _wrapped(resolved, venv, resolved.normalize)


def build_evaluation_env(
    resolved: EnvironmentConfig,
    env_id: str,
    n_envs: int,
    seed: int,
    backend: str,
    *,
    monitor_dir: Path | None = None,
    norm_reward: bool = False,
) -> VecEnv:
    """Build evaluation environments: same arguments and wrappers, frozen running statistics.

    :param seed: apart from training's; see `evaluation_seed`
    """
    env_kwargs = {**resolved.env_kwargs, **resolved.eval_env_kwargs}
    venv = _base(resolved, env_id, n_envs, seed, backend, env_kwargs, monitor_dir)
    normalize = resolved.normalize
    if normalize is not None:
        norm_reward = norm_reward and normalize.get("norm_reward", True)
        normalize = {**normalize, "training": False, "norm_reward": norm_reward}
    return _wrapped(resolved, venv, normalize)


def check_env_arguments(resolved: EnvironmentConfig, env_id: str) -> None:
    """Check the names of `env_kwargs`, `eval_env_kwargs` and `monitor_kwargs`; no environment is made.

    :raises UserError: names the nearest argument, or says why the environment's code cannot be found
    """
    check_arguments("monitor_kwargs", Monitor, resolved.monitor_kwargs)
    entry_point = gym.spec(bare_id(env_id)).entry_point
    if entry_point is None:
        return
    try:
        creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except Exception as error:
        raise UserError(f"cannot make {env_id}: {describe(error)}") from error
    of_make = ("max_episode_steps", "render_mode")
    check_arguments(env_id, creator, {**resolved.env_kwargs, **resolved.eval_env_kwargs}, of_make)


def evaluation_seed(seed: int) -> int:
    """Return a seed for evaluation: a function of the run's seed, far from every `seed + i` of training."""
    return int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]) % 2**31


def _base(
    resolved: EnvironmentConfig,
    env_id: str,
    n_envs: int,
    seed: int,
    backend: str,
    env_kwargs: dict[str, object],
    monitor_dir: Path | None,
    start_index: int = 0,
) -> VecEnv:
    wrapper: Callable[..., gym.Env] | None = None
    wrapper_kwargs: dict[str, object] = {}
    if len(resolved.env_wrappers) == 1 and is_own(resolved.env_wrappers[0][0]):
        wrapper, wrapper_kwargs = resolved.env_wrappers[0]  # for some, make_vec_env has a native equivalent
    elif resolved.env_wrappers:
        wrapper = WrapperChain(resolved.env_wrappers)
    # Wrappers and callbacks may ask for images; nothing else does.
    images = bool(resolved.env_wrappers or resolved.vec_env_wrappers or resolved.callbacks)
    try:
        venv = make_vec_env(
            env_id,
            n_envs=n_envs,
            seed=seed,
            start_index=start_index,
            monitor_dir=None if monitor_dir is None else str(monitor_dir),
            wrapper_class=wrapper,
            wrapper_kwargs=wrapper_kwargs or None,
            env_kwargs=env_kwargs or None,
            monitor_kwargs=resolved.monitor_kwargs or None,
            backend=backend,
            images=images,
        )
    except (UserError, RunFailed):
        raise
    except Exception as error:
        raise RunFailed(f"cannot make {env_id}: {describe(error)}") from error
    # Whoever saves an agent asks for it; worker processes need not be there to answer.
    venv.spec = gym.spec(bare_id(env_id))  # type: ignore[attr-defined]
    return venv


def _wrapped(resolved: EnvironmentConfig, venv: VecEnv, normalize: dict[str, Any] | None) -> VecEnv:
    try:
        for wrapper, kwargs in resolved.vec_env_wrappers:
            venv = construct("vec_env_wrapper", wrapper, venv, **kwargs)
        if normalize is not None:
            venv = VecNormalize(venv, **normalize)
        if resolved.frame_stack > 1:
            venv = VecFrameStack(venv, n_stack=resolved.frame_stack)
        return as_vec_env(venv)  # the channels of images come first
    except BaseException:
        venv.close()
        raise


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
