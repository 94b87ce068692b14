"""`ExperimentManager`: a run or a search step by step, with parts that a subclass may replace."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import optuna

from rlzoo.callbacks.base_callback import BaseCallback
from rlzoo.callbacks.eval_callback import EvalCallback
from rlzoo.config.hyperparams import lookup, plays_stochastically, with_overrides
from rlzoo.config.run import EnvironmentName, RunConfig, is_atari, latest_run_id, run_name
from rlzoo.config.tune import TuneConfig
from rlzoo.config.values_as_text import overrides_of
from rlzoo.core.errors import RunFailed, UserError, printable
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.experiment.factories import (
    WrapperChain,
    build_callbacks,
    build_evaluation_env,
    build_training_env,
    evaluation_seed,
)
from rlzoo.experiment.resolved_config import ResolvedConfig
from rlzoo.experiment.session import Parts, TrainingSession
from rlzoo.experiment.training_run import check, create_run, learn, save
from rlzoo.processes.stop_signals import StopSignals
from rlzoo.tuning.report.study_results import top_table
from rlzoo.tuning.study.study import optimize, run_of_trial

if TYPE_CHECKING:
    from rlzoo.algorithms.base import Algorithm


@dataclass(eq=False)
class ExperimentManager:
    """A training run, or a search for hyperparameters, from its arguments to its saved agent.

    What it builds, a subclass may build otherwise: `create_envs` and `create_callbacks`. Before they are
    called by `setup_experiment`, it sets `log_path`, `save_path` and `params_path` to the folders of the
    run, and `seed`, `n_timesteps`, `n_envs`, `normalize`, `normalize_kwargs`, `frame_stack`, `env_kwargs`,
    `eval_env_kwargs`, `monitor_kwargs`, `env_wrapper`, `vec_env_wrapper` (functions of an environment, or
    None) and `specified_callbacks` to what the hyperparameters say.

    >>> manager = ExperimentManager(
    ...     argparse.Namespace(), "ppo", "CartPole-v1", "logs", n_timesteps=1000
    ... )  # doctest: +SKIP
    >>> model, hyperparams = manager.setup_experiment()  # doctest: +SKIP
    >>> manager.learn(model)  # doctest: +SKIP
    >>> manager.save_trained_model(model)  # doctest: +SKIP

    :param args: arguments of the script; `gym_packages` and `num_threads` of them are used
    :param algo: name of the algorithm
    :param env_id: environment id
    :param log_folder: where runs are kept
    :param n_timesteps: environment steps; 0 or less: from the hyperparameters
    :param eval_freq: environment steps between evaluations; 0 or less: never
    :param save_freq: environment steps between checkpoints; 0 or less: never
    :param hyperparams: overrides of the hyperparameters
    :param trained_agent: start from this agent
    :param optimize_hyperparameters: `setup_experiment` builds nothing and returns None
    :param uuid_str: not empty: append a random id to the name of the folder
    :param seed: -1: a random one
    :param log_interval: 0 or -1: the algorithm's; -2: never
    :param vec_env_type: dummy, subproc, native or auto
    :param config: hyperparameters from this file instead of the shipped ones
    :param trial_id: take the hyperparameters of this trial of the study
    """

    args: argparse.Namespace
    algo: str
    env_id: str
    log_folder: str
    tensorboard_log: str = ""
    n_timesteps: int = 0
    eval_freq: int = 10_000
    n_eval_episodes: int = 5
    save_freq: int = -1
    hyperparams: dict[str, Any] | None = None
    env_kwargs: dict[str, Any] | None = None
    eval_env_kwargs: dict[str, Any] | None = None
    trained_agent: str = ""
    optimize_hyperparameters: bool = False
    storage: str | None = None
    study_name: str | None = None
    n_trials: int = 1
    max_total_trials: int | None = None
    n_jobs: int = 1
    sampler: str = "tpe"
    pruner: str = "median"
    optimization_log_path: str | None = None
    n_startup_trials: int = 0
    n_evaluations: int | None = 1
    truncate_last_trajectory: bool = False
    uuid_str: str = ""
    seed: int = 0
    log_interval: int = 0
    save_replay_buffer: bool = False
    verbose: int = 1
    vec_env_type: str = "dummy"
    n_eval_envs: int = 1
    no_optim_plots: bool = False
    device: Any = "auto"
    config: str | None = None
    show_progress: bool = False
    trial_id: int | None = None

    def __post_init__(self) -> None:
        self.env_name = EnvironmentName(str(self.env_id))
        self.env_kwargs, self.eval_env_kwargs = dict(self.env_kwargs or {}), dict(self.eval_env_kwargs or {})
        self.custom_hyperparams = self.hyperparams
        self.continue_training = (
            str(self.trained_agent).endswith(".zip") and Path(self.trained_agent).is_file()
        )
        self.deterministic_eval = not plays_stochastically(self.env_name.gym_id)
        self.n_envs = 1
        self.normalize = False
        self.normalize_kwargs: dict[str, Any] = {}
        self.frame_stack: int | None = None
        self.monitor_kwargs: dict[str, Any] = {}
        self.env_wrapper: Callable[..., gym.Env] | None = None
        self.vec_env_wrapper: Callable[..., Any] | None = None
        self.vec_env_class = SubprocVecEnv if self.vec_env_type == "subproc" else DummyVecEnv
        self.vec_env_kwargs: dict[str, Any] = {}
        self.callbacks: list[BaseCallback] = []
        self.specified_callbacks: list[Any] = []
        number = latest_run_id(self.log_folder, self.algo, self.env_name) + 1
        self._name_folder(Path(self.log_folder) / self.algo / run_name(self.env_name, number))
        self._hyperparams: dict[str, Any] = overrides_of(self.hyperparams or {})
        self._session: TrainingSession | None = None
        self._resolved: ResolvedConfig | None = None
        self._folder: Path | None = None
        self._monitor_dir: Path | None = None
        self._eval_env: VecEnv | None = None
        self._saved_steps = -1

    @property
    def run(self) -> RunConfig:
        """The run as it is configured now; `_hyperparams` are overrides until it is set up."""
        if self._session is not None:
            return self._session.run
        run = RunConfig(
            algo=self.algo,
            env_id=self.env_name.gym_id,
            n_timesteps=self.n_timesteps if self.n_timesteps > 0 else -1,
            seed=self.seed,
            trained_agent=str(self.trained_agent or ""),
            conf_file=self.config,
            hyperparams=dict(self._hyperparams),
            env_kwargs=dict(self.env_kwargs or {}),
            eval_env_kwargs=dict(self.eval_env_kwargs or {}),
            gym_packages=tuple(getattr(self.args, "gym_packages", None) or ()),
            vec_env=self.vec_env_type,
            device=str(self.device),
            num_threads=getattr(self.args, "num_threads", None) or -1,
            verbose=self.verbose,
            progress=self.show_progress,
            log_folder=str(self.log_folder),
            uuid=bool(self.uuid_str),
            log_interval=self.log_interval or -1,
            eval_freq=self.eval_freq,
            eval_episodes=self.n_eval_episodes,
            n_eval_envs=self.n_eval_envs,
            save_freq=self.save_freq,
            save_replay_buffer=self.save_replay_buffer,
            truncate_last_trajectory=self.truncate_last_trajectory,
            tensorboard_log=str(self.tensorboard_log or ""),
        )
        return run if self.trial_id is None else run_of_trial(self._search(run), self.trial_id)

    def _search(self, run: RunConfig) -> TuneConfig:
        return TuneConfig(
            run=run,
            n_trials=self.max_total_trials or self.n_trials,
            n_jobs=self.n_jobs,
            sampler=self.sampler,
            pruner=self.pruner,
            n_startup_trials=self.n_startup_trials,
            n_evaluations=self.n_evaluations,
            storage=self.storage,
            study_name=self.study_name,
            log_path=str(self.optimization_log_path or ""),
            figures=not self.no_optim_plots,
        )

    # ------------------------------------------------------------------ a run

    def setup_experiment(self) -> tuple[Algorithm, dict[str, Any]] | None:
        """Check everything, make the folder of the run, and build the environments, the agent and callbacks.

        :return: the agent and its hyperparameters as they are saved; None for a search
        :raises UserError: the configuration is wrong
        """
        if self.optimize_hyperparameters:
            self._take(self._checked())
            return None
        parts = Parts(self._make_training_env, self._make_evaluation_env, self._make_callbacks, self._claimed)
        with StopSignals() as stop, stop.interruptible():
            self._session = create_run(self.run, shlex.join(sys.argv), parts=parts)
        self._hyperparams = dict(self._session.resolved.hyperparams)
        return self._session.model, dict(self._session.resolved.values)

    def learn(self, model: Algorithm) -> None:
        """Train the agent and save it; whatever ends the training, what had been learned is kept.

        :param model: the agent of `setup_experiment`
        """
        session = self._of(model)
        with StopSignals() as stop:
            learn(session, stop)
        self._saved_steps = model.num_timesteps

    def save_trained_model(self, model: Algorithm) -> None:
        """Save the agent, unless `learn` has saved it as it is.

        :param model: the agent of `setup_experiment`
        """
        session = self._of(model)
        if self._saved_steps != model.num_timesteps:
            kept = save(session, None)
            self._saved_steps = model.num_timesteps
            if self.verbose > 0:
                print(kept)

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> VecEnv:
        """Make the environments to learn in, or to evaluate in.

        :param eval_env: with statistics of normalisation that do not learn, and rewards as they are
        :param no_log: write no monitor files
        """
        run, resolved = self.run, replace(self._checked(), n_envs=n_envs)
        if eval_env:
            return build_evaluation_env(
                resolved, run.env_id, n_envs, evaluation_seed(self._seed), run.vec_env
            )
        monitor_dir = None if no_log else self._monitor_dir
        return build_training_env(resolved, run.env_id, self._seed, run.vec_env, monitor_dir)

    def create_callbacks(self) -> None:
        """Put the callbacks of the run into `callbacks`: those of the hyperparameters, for evaluation and for
        checkpoints."""
        if self._folder is None:
            raise UserError("create_callbacks is called by setup_experiment, which makes the run's folder")
        self.callbacks = build_callbacks(self._checked(), self.run, self._folder, self._eval_env)
        if self._eval_env is not None and isinstance(self.callbacks[-1], EvalCallback):
            self.callbacks[-1].deterministic = self.deterministic_eval

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the hyperparameters of the file with the overrides on top, and a copy of them."""
        run = self.run
        values = with_overrides(lookup(run.algo, run.env_id, run.conf_file), run.hyperparams).values
        return values, dict(values)

    # ------------------------------------------------------------------ a search

    def hyperparameters_optimization(self) -> optuna.Study:
        """Search for hyperparameters as `rlzoo optimize` does, and return the study.

        :raises UserError: a subclass defines `objective`
        :raises RunFailed: no trial is complete
        """
        if hasattr(self, "objective"):
            raise UserError(
                f"{type(self).__name__}.objective is not called by this search: give it to Optuna,"
                " optuna.create_study(...).optimize(manager.objective, n_trials=...)"
            )
        opened = optimize(self._search(self.run))
        if self.verbose > 0:
            print(printable(top_table(opened.study)))
            print(f"Everything is in {opened.folder}")
        if error := opened.no_result_reason():
            raise RunFailed(error)
        return opened.study

    @staticmethod
    def is_atari(env_id: str) -> bool:
        """Return whether an environment is an Atari game."""
        return is_atari(env_id)

    @staticmethod
    def is_robotics_env(env_id: str) -> bool:
        """Return whether an environment is one of the robots of Gym or panda-gym, which report success."""
        entry_point = str(gym.spec(env_id).entry_point)
        return "gym.envs.robotics" in entry_point or "panda_gym.envs" in entry_point

    # ------------------------------------------------------------------ what `create_run` calls

    def _make_training_env(
        self,
        resolved: ResolvedConfig,
        env_id: str,
        seed: int,
        backend: str,
        monitor_dir: Path | None,
        **_: object,
    ) -> VecEnv:
        self._resolved, self._monitor_dir = resolved, monitor_dir
        self.seed = self._seed = seed
        return self.create_envs(resolved.n_envs)

    def _make_evaluation_env(self, resolved: ResolvedConfig, *_: object) -> VecEnv:
        return self.create_envs(self.n_eval_envs, eval_env=True)

    def _make_callbacks(
        self, resolved: ResolvedConfig, run: RunConfig, folder: Path, eval_env: VecEnv | None
    ) -> list[BaseCallback]:
        self._eval_env = eval_env
        self.create_callbacks()
        return self.callbacks

    def _claimed(self, folder: Path, resolved: ResolvedConfig) -> None:
        self._folder = folder
        self._name_folder(folder)
        self._take(resolved)

    def _name_folder(self, folder: Path) -> None:
        """Set the paths of the run; before its folder is made, those that are free now."""
        self.log_path, self.save_path = f"{folder.parent}/", str(folder)
        self.params_path = str(folder / self.env_name)

    def _take(self, resolved: ResolvedConfig) -> None:
        """Set the attributes that are what the hyperparameters say."""
        self.n_envs, self.n_timesteps = resolved.n_envs, resolved.n_timesteps
        self.normalize, self.normalize_kwargs = resolved.normalize is not None, dict(resolved.normalize or {})
        self.frame_stack = resolved.frame_stack if resolved.frame_stack > 1 else None
        self.env_kwargs = dict(resolved.env_kwargs)
        self.eval_env_kwargs = {**resolved.env_kwargs, **resolved.eval_env_kwargs}
        self.monitor_kwargs = dict(resolved.monitor_kwargs)
        inner, outer = resolved.env_wrappers, resolved.vec_env_wrappers
        self.env_wrapper = WrapperChain(inner) if inner else None
        self.vec_env_wrapper = WrapperChain(outer) if outer else None
        given: Any = resolved.values.get("callback") or []
        self.specified_callbacks = given if isinstance(given, list) else [given]

    def _maybe_normalize(self, env: VecEnv, eval_env: bool) -> VecEnv:
        """Return environments normalised as the hyperparameters say, for a `create_envs` of a subclass."""
        if not self.normalize:
            return env
        fixed = {"norm_reward": False, "training": False} if eval_env else {}
        return VecNormalize(env, **{**self.normalize_kwargs, **fixed})

    def _checked(self) -> ResolvedConfig:
        if self._resolved is None:
            self._seed = max(self.seed, 0)
            self._resolved = check(self.run)
        return self._resolved

    def _of(self, model: Algorithm) -> TrainingSession:
        if self._session is None or model is not self._session.model:
            raise UserError("the agent must be the one that setup_experiment of this manager returned")
        return self._session
