"""The contract of an algorithm, and the public face that every algorithm shares.

An algorithm says how to act (`act`), how to learn from one batch of experience (`update`) and what must
survive a restart (`state`). It never steps an environment and never owns the clock: its `loop` does (see
`rlzoo.training`).
"""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.accel.threads import Threaded, one_thread
from rlzoo.accel.tune_malloc import available_memory, tune_malloc
from rlzoo.algorithms import saving
from rlzoo.algorithms.action_probability import action_probability
from rlzoo.algorithms.counters import CounterProperties
from rlzoo.algorithms.divergence import diverged
from rlzoo.algorithms.hyperparameters import (
    bind_arguments,
    build_config,
    check_range,
    check_value,
    constructor_signature,
    field_names,
    schedule_names,
    schedule_of,
)
from rlzoo.algorithms.overrides import OF_ALGORITHMS, OF_POLICIES, refuse_overrides
from rlzoo.algorithms.position import begin_episodes
from rlzoo.algorithms.self_description import SelfDescribing
from rlzoo.callbacks.callbacks import BaseCallback, to_callback
from rlzoo.config.legacy.sb2_translation import translate_sb2_kwargs
from rlzoo.core.device import get_device
from rlzoo.core.errors import UnsupportedSpace, UserError
from rlzoo.core.seeding import set_random_seed
from rlzoo.core.spaces import space_name
from rlzoo.core.types import Counters, PolicyInput, PolicyOutput
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_normalize import unwrap_vec_normalize
from rlzoo.io.encoding import MissingCallable
from rlzoo.metrics.logger import Logger, configure_logger
from rlzoo.networks.parameter_budget import parameter_budget
from rlzoo.networks.training_mode import depends_on_mode
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.params.search_parameters import SearchSpace
from rlzoo.policies.policy_kwargs import policy_keywords
from rlzoo.policies.policy_registry import get_policy_class
from rlzoo.training.supervised import pretrain

Metrics: TypeAlias = dict[str, Any]
"""Names without the `train/` prefix to scalar tensors or numbers."""

Self = TypeVar("Self", bound="Algorithm")

COMMON_ARGUMENTS: dict[str, Any] = {
    "policy_kwargs": None,
    "stats_window_size": 100,
    "tensorboard_log": None,
    "verbose": 0,
    "seed": None,
    "device": "auto",
    "_init_setup_model": True,
}
"""What every constructor takes besides the hyperparameters of its Config."""

OBSERVATION_SPACES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
"""What observations may be made of, alone or as the parts of a Dict."""


class Algorithm(SelfDescribing, CounterProperties, Threaded):
    """A learner.

    :param policy: a registered name (`"MlpPolicy"`, `"CnnPolicy"`, `"MultiInputPolicy"`) or a policy class
    :param env: an environment id, a Gymnasium environment, a `VecEnv` or a `gymnasium.vector.VectorEnv`
    :param policy_kwargs: keywords for the policy's constructor
    :param stats_window_size: number of episodes that `rollout/ep_rew_mean` and its like average over
    :param tensorboard_log: folder for TensorBoard event files
    :param verbose: 0 silent, 1 tables of metrics, 2 more
    :param seed: seeds Python, NumPy, PyTorch, the environments and their action spaces
    :param device: `"auto"`, `"cpu"`, `"cuda"` or a `torch.device`
    :raises UnknownArgument: a keyword that the algorithm lacks (a TypeError that names the nearest right one)
    :raises UserError: a value out of range, an unknown policy, a space that the algorithm does not support
    """

    Config: ClassVar[type]
    loop: ClassVar[Callable[..., None]]
    common_arguments: ClassVar[dict[str, Any]] = COMMON_ARGUMENTS
    search_space: ClassVar[SearchSpace] = {}  # what `rlzoo optimize` searches
    policy_family: ClassVar[str] = "actor_critic"
    action_spaces: ClassVar[tuple[type[spaces.Space[Any]], ...]] = (
        spaces.Box,
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
    )
    default_log_interval: ClassVar[int] = 1
    shown_otherwise: ClassVar[tuple[str, ...]] = ()  # hyperparameters with a property of a base class
    unsaved: ClassVar[tuple[str, ...]] = ()  # hyperparameters that a file does not hold
    wants_action_masks: bool = False  # the loop asks the environments which actions are allowed
    divergence_suspects: ClassVar[tuple[str, ...]] = ("learning_rate", "max_grad_norm", "vf_coef")
    rollout_buffer: Any = None
    position_restored = False  # the episodes of a loaded file are in progress
    actor_only: bool = False  # comes from a file without what training needs

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Hyperparameters become properties of the model and arguments of the constructor's signature."""
        super().__init_subclass__(**kwargs)
        if not hasattr(cls, "Config"):
            return  # what several algorithms derive from
        for name in set(field_names(cls.Config)) - set(cls.shown_otherwise):
            setattr(cls, name, _hyperparameter_property(name))
        cls.__signature__ = constructor_signature(cls.Config, cls.common_arguments)  # type: ignore[attr-defined]

    def __init__(self, policy: Any, env: Any = None, *args: Any, **kwargs: Any) -> None:
        refuse_overrides(type(self), OF_ALGORITHMS)
        if not hasattr(type(self), "Config"):
            raise UserError(
                f"{type(self).__name__} has no Config: derive it from an algorithm such as PPO or SAC, or"
                " give it a dataclass of its hyperparameters and an update(batch, clock)"
            )
        names = list(type(self).__signature__.parameters)[2:]  # type: ignore[attr-defined]
        arguments = bind_arguments(type(self).__name__, names, args, kwargs)
        arguments = translate_sb2_kwargs(type(self), arguments, {"n_envs": getattr(env, "num_envs", 1)})
        common = {name: arguments.pop(name, default) for name, default in self.common_arguments.items()}
        known = [name for name in self.common_arguments if not name.startswith("_")]
        self.config = build_config(self.Config, arguments, also_known=known)
        self.policy_name = policy
        self.policy_class = get_policy_class(self.policy_family, policy)
        refuse_overrides(self.policy_class, OF_POLICIES)
        self._take_common(common)
        if not isinstance(common["policy_kwargs"] or {}, Mapping):
            raise UserError(f"policy_kwargs must be a dictionary, not {common['policy_kwargs']!r}")
        self.policy_kwargs: dict[str, Any] = dict(common["policy_kwargs"] or {})
        self.tensorboard_log: str | None = common["tensorboard_log"]
        self.verbose: int = common["verbose"]
        self.seed: int | None = check_value("seed", common["seed"], "int | None")
        self.device = get_device(common["device"])
        self.stats_window_size: int = check_value("stats_window_size", common["stats_window_size"], "int")
        check_range(self, ("seed",), low=0)
        check_range(self, ("stats_window_size",), low=1)
        self.ep_info_buffer: deque[dict[str, Any]] = deque(maxlen=self.stats_window_size)
        self.ep_success_buffer: deque[bool] = deque(maxlen=self.stats_window_size)
        self.clock = Counters()
        self.env: VecEnv | None = None
        self.n_envs = 1
        self.start_time = 0.0
        self.normalize_state: dict[str, Any] = {}
        self._logger: Logger | None = None
        self._custom_logger = False
        self._last_obs: Any = None
        self._last_episode_starts: np.ndarray = np.ones(1, bool)
        self._resume: dict[str, Any] = {}
        self._saved_rollout: dict[str, Any] = {}
        self._saved_last_obs: dict[str, Any] = {}
        self._callback_states: Any = None
        if env is not None:
            vec_env = as_vec_env(env, verbose=self.verbose)
            self._set_spaces(vec_env.observation_space, vec_env.action_space)
            self._use_env(vec_env)
            if common["_init_setup_model"]:
                with parameter_budget(available_memory() // 2):  # they are copied into one vector
                    self._setup_model()

    # ------------------------------------------------------------------ what an algorithm implements

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Choose actions for every environment; runs under `torch.inference_mode`."""
        raise NotImplementedError

    def update(self, batch: Any, clock: Counters) -> Metrics:
        """Learn from one batch of experience; advances `clock.n_updates` by the gradient steps it took."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold: modules, optimisers, tensors, anything with `state_dict`."""
        return {"policy": self.policy, "policy.optimizer": self.policy.optimizer}

    def begin_rollout(self) -> None:
        """Called before each rollout: new exploration noise."""
        if getattr(self.config, "use_sde", False):
            self.policy.reset_noise(self.n_envs)

    def end_episodes(self, indices: np.ndarray) -> None:
        """Called with the indices of the environments whose episodes have just ended."""

    @classmethod
    def setup_problem(cls, config: Any, n_envs: int) -> str | None:
        """A sentence when hyperparameters do not fit the number of environments, else None."""
        return None

    # ------------------------------------------------------------------ construction

    def _take_common(self, arguments: dict[str, Any]) -> None:
        """Hook for arguments that a class adds to `common_arguments`."""

    def _set_spaces(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        if not isinstance(action_space, self.action_spaces):
            supported = ", ".join(space.__name__ for space in self.action_spaces)
            raise UnsupportedSpace(
                f"{type(self).__name__} does not support {space_name(action_space)} actions; "
                f"it supports {supported}"
            )
        parts: list[spaces.Space[Any]] = [observation_space]
        if is_dict := isinstance(observation_space, spaces.Dict):
            parts = list(observation_space.spaces.values())
        for part in parts:
            if not isinstance(part, OBSERVATION_SPACES):
                supported = ", ".join(space.__name__ for space in OBSERVATION_SPACES)
                raise UnsupportedSpace(
                    f"{type(self).__name__} does not support {space_name(part)} observations"
                    f"{' inside a Dict' if is_dict else ''}; it supports {supported} and a Dict of those"
                )
        self.observation_space, self.action_space = observation_space, action_space

    def _use_env(self, env: VecEnv) -> None:
        self.env, self.n_envs = env, env.num_envs
        self._last_obs = None

    def _setup_model(self) -> None:
        """Seed everything and build the policy."""
        if problem := self.setup_problem(self.config, self.n_envs):
            warnings.warn(problem, stacklevel=4)
        if self.device.type == "cpu":
            tune_malloc()
        self.set_random_seed(self.seed)
        self.schedules = {
            name: schedule
            for name in schedule_names(self.Config)
            if (schedule := schedule_of(self.config, name)) is not None
        }
        given = (self.observation_space, self.action_space, self.schedules["learning_rate"])
        policy = one_thread()(self.policy_class)(*given, **self.policy_arguments())
        self.policy = policy.to(self.device)
        self.has_modes = any(depends_on_mode(module) for module in self.policy.modules())
        self.setup_optimizers()
        convolutional = any(isinstance(part, nn.Conv2d) for part in self.policy.modules())
        self.shares_convolutions = convolutional and getattr(self.policy, "share_features_extractor", False)

    def setup_optimizers(self) -> None:
        """Lay parameters out in vectors, with an optimiser for each vector."""
        self.flat = parameter_group(self.policy.parameters())
        self.optimizer = NetworkOptimizer(self.policy, self.flat)
        if len(self.policy.optimizer.param_groups) == 1:  # a policy with groups of its own keeps them
            self.policy.optimizer = self.flat.optimizer(
                self.policy.optimizer_class,
                lr=self.schedules["learning_rate"](1.0),
                **self.policy.optimizer_kwargs,
            )

    def rollout_metrics(self) -> Metrics:
        """What is logged under `rollout/` besides the statistics of episodes."""
        return {}

    def parameter_vectors(self) -> list[torch.Tensor]:
        """What must stay finite: all that is learned, as few vectors."""
        return [self.flat.vector.detach()]

    def policy_arguments(self) -> dict[str, Any]:
        """Keywords for the policy: the user's `policy_kwargs` and what hyperparameters decide."""
        arguments = policy_keywords(self.policy_class, self.policy_kwargs)
        if "use_sde" in field_names(self.Config):
            arguments["use_sde"] = self.config.use_sde
        return arguments

    def _replace_config(self, **changes: Any) -> None:
        values = {name: getattr(self.config, name) for name in field_names(self.Config)}
        self.config = build_config(self.Config, {**values, **changes})
        renamed = {"lr_schedule": "learning_rate"}  # one is made from both
        for name in {renamed.get(name, name) for name in changes} & {*schedule_names(self.Config)}:
            self.schedules.pop(name, None)
            if (schedule := schedule_of(self.config, name)) is not None:
                self.schedules[name] = schedule

    # ------------------------------------------------------------------ plumbing for algorithms

    def refresh_noise(self, step: int) -> None:
        """New gSDE noise every `sde_sample_freq` steps of a rollout; never for -1."""
        if (
            getattr(self.config, "use_sde", False)
            and self.config.sde_sample_freq > 0
            and step % self.config.sde_sample_freq == 0
        ):
            self.policy.reset_noise(self.n_envs)

    def set_training_mode(self, mode: bool) -> None:
        """Switch dropout and normalisation layers; costs nothing where there are none."""
        if self.has_modes:
            self.policy.set_training_mode(mode)

    def to_env_action(self, actions: torch.Tensor) -> np.ndarray:
        """Stored actions [n_envs, ...] as the environments execute them: a Box's are clipped or unscaled to
        it."""
        array: np.ndarray = self.policy.env_actions(actions.cpu().numpy())
        return array

    def summarise(self, history: list[Metrics], clock: Counters) -> Metrics:
        """The mean of each metric over the minibatches of an update that have it.

        :raises TrainingDiverged: when a loss or a parameter is NaN or infinite
        """
        names = dict.fromkeys(name for metrics in history for name in metrics)
        means = {name: _mean([metrics[name] for metrics in history if name in metrics]) for name in names}
        sizes = [torch.linalg.vector_norm(vector) for vector in self.parameter_vectors()]
        self.check_losses(means, *sizes)
        return means

    def check_losses(self, metrics: Metrics, *others: torch.Tensor) -> None:
        """Ask that losses, and `others`, are numbers.

        :raises TrainingDiverged: one is NaN or infinite
        """
        losses = [value for name, value in metrics.items() if "loss" in name]
        if not math.isfinite(float(sum(losses) + sum(others))):
            raise diverged(self, metrics)

    # ------------------------------------------------------------------ training

    def learn(
        self: Self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = -1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Train for `total_timesteps` environment steps, counted over all environments.

        On the CPU, gradient steps of wide networks and of images use as many threads as are fastest at the
        time, at most `torch.get_num_threads()`; the rest uses one. The last bits of results can depend on the
        number; `model.num_threads = 1` fixes it.

        :param callback: a callback, a list of them, or a function `(locals, globals) -> bool`; False ends
            the training
        :param log_interval: iterations (off-policy algorithms: episodes) between two dumps of metrics; -1:
            the algorithm's default, None: never
        :param reset_num_timesteps: False goes on counting, so that logs and schedules continue
        :raises UserError: when there is no environment, or no more than the actor
        """
        self.require_whole()
        env = self._require_env()
        self._require_callables()
        total_timesteps = int(total_timesteps)
        if reset_num_timesteps:
            self.clock = Counters(total_timesteps=total_timesteps)
            self.ep_info_buffer.clear()
            self.ep_success_buffer.clear()
            self._callback_states = None  # they belong to the run that the file comes from
        else:
            self.clock.total_timesteps = self.clock.num_timesteps + total_timesteps
        if not self._custom_logger:
            name = tb_log_name or type(self).__name__
            self._logger = configure_logger(self.verbose, self.tensorboard_log, name, reset_num_timesteps)
        self.start_time = time.time()
        self._start_timesteps = self.clock.num_timesteps
        hooks = self._prepare_callback(callback, progress_bar)
        if self._last_obs is None or reset_num_timesteps:
            self._reset_envs(env, resume=not reset_num_timesteps)
        with self.training_threads():
            every = sys.maxsize if log_interval is None else log_interval
            type(self).loop(self, env, hooks, every if every > 0 else self.default_log_interval)
        return self

    def _prepare_callback(self, callback: Any, progress_bar: bool) -> BaseCallback:
        hooks = to_callback(callback, progress_bar=progress_bar)
        hooks.init_callback(self)
        if self._callback_states is not None:
            hooks.load_state_dict(self._callback_states)
            self._callback_states = None
        self._callback = hooks
        return hooks

    _reset_envs = begin_episodes

    def restart_seed(self) -> int:
        """The seed that environments get when training is taken up again from this moment."""
        entropy = [torch.initial_seed() if self.seed is None else self.seed, self.clock.num_timesteps]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

    pretrain = pretrain

    # ------------------------------------------------------------------ using the agent

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
        mask: np.ndarray | None = None,
    ) -> tuple[np.ndarray, Any]:
        """Actions for one observation or a batch of them, and the next state of a recurrent policy (else
        None).

        :param episode_start: bool array [n_envs], for recurrent policies; `mask` is its old name
        """
        starts = mask if episode_start is None else episode_start
        predicted: tuple[np.ndarray, Any] = self.policy.predict(observation, state, starts, deterministic)
        return predicted

    def action_probability(
        self,
        observation: Any,
        state: Any = None,
        mask: np.ndarray | None = None,
        actions: Any = None,
        logp: bool = False,
    ) -> Any:
        """The action distribution, or the (log-)probability of given actions.

        :param state: of a recurrent policy, as `predict` returned it; `mask` where it is forgotten
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
        for name in schedule_names(self.Config):
            if isinstance(value := getattr(self.config, name), MissingCallable):
                raise UserError(value.how_to_give_it(name))

    def get_env(self) -> VecEnv | None:
        return self.env

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Train on another environment with the same spaces and the same number of copies.

        :param force_reset: begin new episodes; otherwise the current ones go on
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
        """As `set_env`, with any number of copies of the environment."""
        vec_env = as_vec_env(env, verbose=self.verbose)
        for name in ("observation_space", "action_space"):
            mine, other = getattr(self, name), getattr(vec_env, name)
            if mine != other:
                raise UserError(f"the environment's {name} is {other}, but the agent was made for {mine}")
        if not force_reset and self._last_obs is not None and vec_env.num_envs != self.n_envs:
            raise UserError(
                f"force_reset=False goes on with the episodes of {self.n_envs} environments, "
                f"but the new vector has {vec_env.num_envs}"
            )
        last_obs = None if force_reset else self._last_obs
        self._use_env(vec_env)
        self._last_obs = last_obs

    def get_vec_normalize_env(self) -> Any:
        """The `VecNormalize` wrapper of the environment, or None."""
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
        """Names of hyperparameters that `save` leaves out; a subclass may add some."""
        return []

    def get_parameters(self) -> dict[str, dict[str, Any]]:
        """State dicts of the modules and optimisers, by name (`"policy"`, `"policy.optimizer"`)."""
        return saving.get_parameters(self)

    def set_parameters(
        self, load_path_or_dict: Any, exact_match: bool = True, device: torch.device | str = "auto"
    ) -> None:
        """Take parameters from a file or a dict: nested as `get_parameters` gives, or flat `{name: array}`.

        :param exact_match: every parameter must be there; otherwise what is given is set
        :param device: of no effect, for scripts that give one: values go to the device of the agent
        :raises UserError: a missing or unknown name, or a wrong shape
        """
        saving.set_parameters(self, load_path_or_dict, exact_match)

    load_parameters = set_parameters
    require_whole = saving.require_whole

    def save(self, path: Any, exclude: Any = None, include: Any = None, actor_only: bool = False) -> None:
        """Write the agent to `path` (`.zip` is appended when it has no suffix), or to a file object.

        :param exclude: names of hyperparameters or attributes to leave out
        :param include: names to keep although they would be left out; `"position"` adds the episodes in
            progress and the rollout that they fill, so that training can be resumed in the middle of both
        :param actor_only: write a small file that `predict` works from and training does not: without
            critics, copies, optimisers and random generators
        """
        saving.save(self, path, exclude, include, actor_only)

    @classmethod
    def load(
        cls: type[Self],
        path: Any,
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

        :param env: the environment to go on training with; None is enough for `predict`
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


def _mean(values: list[Any]) -> Any:
    """The mean of scalar tensors, a tensor, or of numbers."""
    tensors = isinstance(values[0], torch.Tensor)
    return torch.stack(values).mean() if tensors else math.fsum(values) / len(values)


def _hyperparameter_property(name: str) -> property:
    def read(self: Algorithm) -> Any:
        return getattr(self.config, name)

    def write(self: Algorithm, value: Any) -> None:
        self._replace_config(**{name: value})

    return property(read, write, doc=f"The hyperparameter `{name}`; assigning checks the value.")
