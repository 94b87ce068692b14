"""The user-facing side of a model: training, prediction, environments, saving and loading.

`Agent` has the methods that stable-baselines3 users know; what an algorithm implements is in
`rlzoo.algorithms.base`.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.accel.threads import Threaded
from rlzoo.algorithms.agent import saving
from rlzoo.algorithms.agent.action_probability import action_probability
from rlzoo.algorithms.agent.position import ResumeState, resume_episodes
from rlzoo.algorithms.agent.save_names import EXCLUDED, left_out
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.callbacks.base_callback import BaseCallback, CallbackLike, to_callback
from rlzoo.callbacks.callbacks import ProgressBarCallback
from rlzoo.core.errors import UserError
from rlzoo.core.runtime import set_random_seed
from rlzoo.core.schedules import Counters
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize, unwrap_vec_normalize
from rlzoo.io.container import PathOrFile
from rlzoo.io.encoding import MissingCallable
from rlzoo.metrics.logger import Logger, configure_logger
from rlzoo.training.checkpoint import write_checkpoint
from rlzoo.training.supervised import pretrain
from rlzoo.training.training_state import Collector, CounterProperties

if TYPE_CHECKING:
    from rlzoo.distributed.ranks import Ranks

Self = TypeVar("Self", bound="Agent")


class Agent(CounterProperties, Threaded):
    """A model as users see it; `Algorithm` adds construction and what algorithms implement."""

    Config: ClassVar[type]
    loop: ClassVar[Callable[..., None]]
    overridden_loop: ClassVar[Callable[..., None]]  # the one that calls methods of subclasses and of buffers
    fills_by_add: bool = False  # whether a rollout buffer overrides how it is filled
    policy_family: ClassVar[str]
    policy_aliases: ClassVar[Mapping[str, type]] = {}  # policies by names that a subclass defines
    default_log_interval: ClassVar[int] = 1
    own_names: ClassVar[frozenset[str]] = frozenset()  # parameters of a user's class that has no Config
    exclude_from_checkpoint: ClassVar[tuple[str, ...]] = ()  # hyperparameters that a file does not hold
    actor_only: bool = False  # comes from a file without what training needs
    last_rollout: RolloutBuffer | None = None  # of the training; scripts read `rollout_buffer`
    ranks: Ranks | None = None  # processes that train the agent together
    n_ranks: int = 1
    config: Any
    policy: Any
    policy_class: type
    policy_name: object
    policy_kwargs: dict[str, Any]
    observation_space: spaces.Space[object]
    action_space: spaces.Space[object]
    device: torch.device
    verbose: int
    seed: int | None
    tensorboard_log: str | None
    stats_window_size: int

    def _init_agent(self) -> None:
        """Set up what does not depend on hyperparameters or environments."""
        self.ep_info_buffer: deque[dict[str, Any]] = deque(maxlen=self.stats_window_size)
        self.ep_success_buffer: deque[bool] = deque(maxlen=self.stats_window_size)
        self.counters = Counters()
        self.collector = Collector()
        self.resume_state = ResumeState()
        self.env: VecEnv | None = None
        self.env_id: str | None = None  # of the file that the agent comes from
        self.n_envs = 1
        self.normalize_state: dict[str, Any] = {}
        self._logger: Logger | None = None
        self._custom_logger = False
        self._callback: BaseCallback | None = None

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: modules, optimisers, tensors, anything with `state_dict`."""
        raise NotImplementedError

    def build(
        self, observation_space: spaces.Space[object], action_space: spaces.Space[object], n_envs: int = 1
    ) -> None:
        """Build policy and optimisers without an environment."""
        self._set_spaces(observation_space, action_space)
        self.n_envs = n_envs
        self._setup_model()

    def _set_spaces(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        raise NotImplementedError

    def _setup_model(self) -> None:
        raise NotImplementedError

    def _use_env(self, env: VecEnv) -> None:
        self.env, self.n_envs = env, env.num_envs
        if env.ranks is not None:
            cast("Ranks", env.ranks).adopt(self)
        self.collector.obs = None

    # ------------------------------------------------------------------ training

    def learn(
        self: Self,
        total_timesteps: int,
        callback: CallbackLike = None,
        log_interval: int | None = -1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` environment steps, counted over all environments.

        On the CPU, gradient steps of wide networks and of images use as many threads as are fastest, at most
        `torch.get_num_threads()`. Last bits of results can depend on it: `model.num_threads = 1` fixes it.

        :param callback: a callback, a list of them, or a function `(locals, globals) -> bool`; False ends
            the training
        :param log_interval: iterations (off-policy: episodes) between two logs; -1: as usual, None: never
        :param tb_log_name: name of the run under `tensorboard_log`; None: that of the class
        :param reset_num_timesteps: False continues the step count, and with it logs and schedules
        :raises UserError: when there is no environment, or no more than the actor
        """
        with nullcontext() if self.ranks is None else self.ranks.training(self):
            name = tb_log_name or type(self).__name__
            given = (total_timesteps, callback, reset_num_timesteps, name, progress_bar)
            self.counters.total_timesteps, hooks = self._setup_learn(*given)
            with self.training_threads(), self.accelerated():
                every = sys.maxsize if log_interval is None else log_interval
                loop = type(self).overridden_loop if self.fills_by_add else type(self).loop
                loop(self, self.env, hooks, every if every > 0 else self.default_log_interval)
        return self

    def _setup_learn(
        self, total_timesteps: int, callback: CallbackLike = None, reset_num_timesteps: bool = True,
        tb_log_name: str = "run", progress_bar: bool = False,
    ) -> tuple[int, BaseCallback]:  # fmt: skip
        """Prepare a training, also for a custom `learn`; return its final step count and its callback."""
        self.require_trainable()
        self.optimize_assigned_policy()
        env = self._require_env()
        if self.ranks is not None and "update" not in vars(self):  # `Ranks.training` sets it
            raise UserError("several processes are trained by the inherited learn() alone")
        self._require_callables()
        if reset_num_timesteps:
            self.counters = Counters(total_timesteps=int(total_timesteps))
            self.ep_info_buffer.clear()
            self.ep_success_buffer.clear()
            self.resume_state.callbacks = None  # they belong to the run that the file comes from
        else:
            self.counters.total_timesteps = self.counters.num_timesteps + int(total_timesteps)
        if not self._custom_logger:
            path = (self.tensorboard_log, tb_log_name)
            self._logger = configure_logger(self.verbose, *path, reset_num_timesteps)
        self.assigned_progress = None
        self.collector.start_training(self.counters.num_timesteps)
        hooks = self._init_callback(callback, progress_bar)
        if self.collector.obs is None or reset_num_timesteps:
            self._start_episodes(env, resume=not reset_num_timesteps)
        return self.counters.total_timesteps, hooks

    def _init_callback(self, callback: CallbackLike, progress_bar: bool = False) -> BaseCallback:
        if self.ranks is not None and self.ranks.rank:
            callback, progress_bar = None, False  # those of rank 0 decide
        hooks = to_callback(callback, *([ProgressBarCallback()] if progress_bar else []))
        hooks.init_callback(self)
        if self.resume_state.callbacks is not None:
            hooks.load_state_dict(self.resume_state.callbacks)
            self.resume_state.callbacks = None
        self._callback = hooks
        return hooks

    def _start_episodes(self, env: VecEnv, resume: bool) -> None:
        """Begin new episodes, or resume those of the file that the agent comes from."""
        saved, self.resume_state = self.resume_state, ResumeState()
        if resume:
            resume_episodes(self, env, saved)
        else:
            self.collector.reset(env)

    def restart_seed(self) -> int:
        """Return the seed that environments get when training is resumed from this moment."""
        entropy = [torch.initial_seed() if self.seed is None else self.seed, self.counters.num_timesteps]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

    pretrain = pretrain

    # ------------------------------------------------------------------ using the agent

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return actions for one observation or a batch [n_envs, ...], and the next recurrent state.

        :param state: recurrent state that the last call has returned; None at the start
        :param episode_start: bool [n_envs], True where an episode begins; `mask` is its old name
        :param deterministic: the most probable action instead of a sample
        """
        starts = mask if episode_start is None else episode_start
        predicted: tuple[np.ndarray, Any] = self.policy.predict(observation, state, starts, deterministic)
        return predicted

    def action_probability(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        mask: np.ndarray | None = None,
        actions: Any = None,
        logp: bool = False,
    ) -> Any:
        """Return the action distribution, or the (log-)probability of given actions.

        :param state: recurrent state, as `predict` returned it; it is reset where `mask` is True
        :param actions: as many as there are observations, as `predict` returns them
        :param logp: give logarithms of the probabilities of `actions`
        :return: without `actions` the probabilities of the choices [batch, n] (a list of them for
            MultiDiscrete), or (mean, standard deviation) of a Box; with `actions` their probability mass
            or density [batch]; without the batch axis when `observation` has none
        :raises UserError: another number of actions than of observations, or a deterministic policy
        """
        return action_probability(self.policy, self.action_space, observation, state, mask, actions, logp)

    # ------------------------------------------------------------------ environment, logger, seeds

    def _require_env(self) -> VecEnv:
        if self.env is None:
            raise UserError(
                f"{type(self).__name__} has no environment; "
                "give it one with set_env(env) or load(path, env=env)"
            )
        return self.env

    def _require_callables(self) -> None:
        for name, value in vars(self.config).items():
            if isinstance(value, MissingCallable):
                raise UserError(value.how_to_give_it(name))

    def get_env(self) -> VecEnv | None:
        return self.env

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train on another environment with the same spaces and the same number of copies.

        :param force_reset: begin new episodes; False: continue the current ones
        :raises UserError: another number of copies; `load(path, env=env)` takes any
        """
        vec_env = as_vec_env(env, verbose=self.verbose)
        if self.env is not None and vec_env.num_envs != self.n_envs:
            raise UserError(
                f"the agent was made for {self.n_envs} environments, but the new vector has"
                f" {vec_env.num_envs}; save the agent and give it the environments:"
                f" {type(self).__name__}.load(path, env=env)"
            )
        self.replace_env(vec_env, force_reset)

    def replace_env(self, env: Any, force_reset: bool = True) -> None:
        """Do as `set_env`, with any number of copies of the environment."""
        vec_env = as_vec_env(env, verbose=self.verbose)
        for name in ("observation_space", "action_space"):
            mine, other = getattr(self, name), getattr(vec_env, name)
            if mine != other:
                raise UserError(f"the environment's {name} is {other}, but the agent was made for {mine}")
        if not force_reset and self.collector.obs is not None and vec_env.num_envs != self.n_envs:
            raise UserError(
                f"force_reset=False goes on with the episodes of {self.n_envs} environments, "
                f"but the new vector has {vec_env.num_envs}"
            )
        obs = None if force_reset else self.collector.obs
        self._use_env(vec_env)
        self.collector.obs = obs

    def get_vec_normalize_env(self) -> VecNormalize | None:
        """Return the `VecNormalize` wrapper of the environment, or None."""
        return None if self.env is None else unwrap_vec_normalize(self.env)

    @property
    def logger(self) -> Logger:
        if self._logger is None:
            self._logger = configure_logger(self.verbose, None, type(self).__name__, True)
        return self._logger

    def set_logger(self, logger: Logger) -> None:
        self._logger, self._custom_logger = logger, True

    def set_random_seed(self, seed: int | None) -> None:
        """Seed Python, NumPy, PyTorch, the action space and the environments; None does nothing."""
        if seed is None:
            return
        set_random_seed(seed, using_cuda=self.device.type == "cuda")
        self.action_space.seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    # ------------------------------------------------------------------ saving and loading

    def _excluded_save_params(self) -> list[str]:
        """Return names of attributes that `save` leaves out; a subclass may add hyperparameters."""
        return [*EXCLUDED]

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """Return state dicts of the modules and optimisers, by name (`"policy"`, `"policy.optimizer"`)."""
        return saving.get_parameters(self)

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: torch.device | str = "auto"
    ) -> None:
        """Take parameters from a file or a dict: nested as `get_parameters` gives, or flat `{name: array}`.

        :param exact_match: all parameters must be there and no others; otherwise those that both have are set
        :param device: of no effect, for scripts that give one: values go to the device of the agent
        :raises UserError: a missing or unknown name, or a wrong shape
        """
        saving.set_parameters(self, load_path_or_dict, exact_match)

    load_parameters = set_parameters

    def require_trainable(self, file: str = "the file of this agent") -> None:
        """Check that the agent can be trained.

        :raises UserError: it comes from a file that holds the actor only
        """
        if self.actor_only:
            raise UserError(f"{file} holds the actor only: it plays, but cannot be trained on")

    def callback_state(self) -> dict[str, object] | None:
        """Return the state of the callbacks of the last training, None before the first."""
        return None if self._callback is None else self._callback.state_dict()

    def logged_rows(self) -> list[int]:
        """Return the number of rows in each CSV file of the logger."""
        return self._logger.csv_rows() if isinstance(self._logger, Logger) else []

    def save(
        self, path: PathOrFile, exclude: Any = None, include: Any = None, actor_only: bool = False
    ) -> None:
        """Write the agent to `path` (`.zip` is appended when it has no suffix), or to a file object.

        :param exclude: names of hyperparameters or attributes to leave out
        :param include: names to keep although they would be left out; `"position"` adds the episodes in
            progress and the rollout that they fill, so that training can be resumed in the middle of both
        :param actor_only: write a small file that `predict` works from and training does not: without
            critics, copies, optimisers and random generators
        """
        omitted = left_out(self._excluded_save_params(), exclude, include)
        checkpoint = saving.to_checkpoint(self, omitted, actor_only, "position" in (include or ()))
        write_checkpoint(path, checkpoint)

    @classmethod
    def load(
        cls: type[Self],
        path: PathOrFile,
        env: Any = None,
        device: torch.device | str = "auto",
        custom_objects: dict[str, Any] | None = None,
        print_system_info: bool = False,
        force_reset: bool = True,
        trusted_modules: tuple[str, ...] = (),
        **overrides: Any,
    ) -> Self:
        """Read an agent; nothing in the file is executed.

        Files of stable-baselines3 and sb3-contrib are read, too, as far as that needs none of their code;
        what is left out is said in a warning.

        :param env: the environment for further training; None is enough for `predict`
        :param custom_objects: values for hyperparameters, or classes for dotted names, that the file only
            mentions
        :param trusted_modules: modules from which classes named in the file may be imported
        :param overrides: hyperparameters or arguments that replace the file's
        :raises CheckpointError: the file is damaged, foreign, of another algorithm, or names an unknown class
        """
        model: Self = saving.load(
            cls, path, env, device, custom_objects, print_system_info, force_reset, trusted_modules, overrides
        )
        return model
