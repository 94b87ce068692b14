"""Base class of off-policy algorithms: random warm-up, action noise, the replay buffer.

The equations are in the files of the algorithms, the loop in `rlzoo.training.off_policy_loop`.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.accel.flat_parameters import ParameterGroup
from rlzoo.accel.memory import available_memory
from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.collection import OffPolicyCollection
from rlzoo.algorithms.hyperparameters import check_range, check_value, field_names
from rlzoo.algorithms.overrides import NORM_STATS, norm_stats
from rlzoo.algorithms.stored_experience import stored_by_older, stored_dtypes, stored_experience
from rlzoo.algorithms.train_frequency import TrainFreq, TrainFrequencyUnit
from rlzoo.buffers.replay.her_replay_buffer import HerReplayBuffer
from rlzoo.buffers.replay.replay_buffer import NStepReplayBuffer, ReplayBuffer
from rlzoo.buffers.stored import Stored
from rlzoo.callbacks.progress import record_metrics
from rlzoo.config.legacy.her_keys import drop_her_keys
from rlzoo.core.action_noise import ActionNoise, VectorizedActionNoise
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.observations import map_obs
from rlzoo.core.schedules import Counters
from rlzoo.core.signatures import constructor_parameters
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput, TensorObs
from rlzoo.distributions import StateDependentNoise
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer
from rlzoo.envs.vec_wrappers.vec_frame_stack import n_stacked_frames
from rlzoo.io.container import PathOrFile
from rlzoo.optim.network_optimizer import mean_over_rows
from rlzoo.training.off_policy_loop import off_policy, take_gradient_steps

BUFFER_FIELDS = ("buffer_size", "n_steps", "replay_buffer_class", "replay_buffer_kwargs", "buffer_device")
BUILT_IN = (
    "use_sde", "param_noise", "normalize_observations", "observation_range",
    "normalize_returns", "return_range",
)  # fmt: skip
"""Hyperparameters that are read when the replay buffer, or the agent, is made."""
NETWORKS = (
    "actor", "actor_target", "critic", "critic_target", "q_net", "q_net_target", "quantile_net",
    "quantile_net_target",
)  # fmt: skip
GIVEN_BY_ALGORITHM = (
    "buffer_size", "observation_space", "action_space", "env", "device", "n_envs", "optimize_memory_usage",
    "gamma", "frame_stack", "obs_dtypes",
)  # fmt: skip
"""Arguments of replay buffers that are hyperparameters, or follow from the environment."""


def check_off_policy(config: Any) -> None:
    """Check the hyperparameters that every algorithm with replay has.

    :raises UserError: naming the one that is out of range
    """
    check_range(config, ("buffer_size", "n_steps"), low=1)
    check_range(config, ("batch_size",), low=1, high=2**31 - 1)
    if config.n_steps > config.buffer_size:
        raise UserError(
            f"n_steps ({config.n_steps}) is more than the replay buffer holds"
            f" (buffer_size {config.buffer_size})"
        )
    check_range(config, ("learning_starts",), low=0)
    check_range(config, ("gradient_steps",), low=-1)
    names = set(field_names(type(config)))
    check_range(config, [name for name in ("tau", "gamma", "random_exploration") if name in names], 0, 1)
    check_range(config, ("learning_rate",), low=0)
    buffer_class = config.replay_buffer_class
    if buffer_class is not None and not (
        isinstance(buffer_class, type) and issubclass(buffer_class, ReplayBuffer)
    ):
        raise UserError(
            f"replay_buffer_class must be a class derived from ReplayBuffer, not {buffer_class!r}"
        )
    if not isinstance(config.replay_buffer_kwargs or {}, dict):
        raise UserError(f"replay_buffer_kwargs must be a dictionary, not {config.replay_buffer_kwargs!r}")
    noise = getattr(config, "action_noise", None)
    if noise is not None and not isinstance(noise, ActionNoise):
        raise UserError(f"action_noise must be an ActionNoise such as NormalActionNoise, not {noise!r}")


def check_buffer_arguments(
    buffer_class: type[ReplayBuffer], kwargs: dict[str, Any], n_steps: int
) -> dict[str, Any]:
    """Return `replay_buffer_kwargs` in the types that the class declares.

    :param n_steps: of the algorithm
    :raises UserError: an argument that the algorithm itself gives, or of another type
    """
    if issubclass(buffer_class, HerReplayBuffer):
        drop_her_keys(kwargs)
    parameters = constructor_parameters(buffer_class)
    for name, value in kwargs.items():
        if name == "gamma" and issubclass(buffer_class, NStepReplayBuffer):
            continue
        if name in GIVEN_BY_ALGORITHM:
            raise UserError(f"{name} is set by the algorithm; remove it from replay_buffer_kwargs")
        if name == "n_steps" and n_steps not in (1, value):
            raise UserError(f"n_steps is {n_steps}, but {value} in replay_buffer_kwargs: set it in one place")
        annotation = str(parameters[name].annotation) if name in parameters else ""
        if set(annotation.split(" | ")) <= {"bool", "int", "float", "None"}:
            kwargs[name] = check_value(f"replay_buffer_kwargs: {name}", value, annotation)
    return kwargs


def weighted_mean(losses: torch.Tensor, weights: torch.Tensor | None, n_axes: int = 1) -> torch.Tensor:
    """Compute the mean of losses, weighted by importance where replay is prioritised.

    :param losses: [batch], or with `n_axes=2` [n_critics, batch]; of several agents [n_agents, ...]
    :return: a scalar; of several agents [n_agents]
    """
    return mean_over_rows(losses if weights is None else losses * weights, n_axes)


class _NoiseOfUnfinishedRound:
    """gSDE noise of an unfinished collection round, for checkpoints; empty between rounds."""

    def __init__(self, distribution: StateDependentNoise, counters: Counters) -> None:
        self._distribution, self._counters = distribution, counters

    def state_dict(self) -> dict[str, Any]:
        if not self._counters.collected:
            return {}
        noise = self._distribution
        return {"shared": noise.exploration_mat, "of_envs": noise.exploration_matrices}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the noise of `state_dict`.

        :raises CheckpointError: the noise does not fit the network
        """
        if not state:
            return
        noise = self._distribution
        shape = noise.exploration_mat.shape
        try:
            shared, of_envs = state["shared"], state["of_envs"]
            fits = shared.shape == shape and of_envs.ndim == 3 and of_envs.shape[1:] == shape
        except (AttributeError, KeyError, TypeError):
            fits = False
        if not fits:
            raise CheckpointError("the exploration noise in the file does not fit the network")
        noise.exploration_mat = shared.to(noise.exploration_mat)
        noise.exploration_matrices = of_envs.to(noise.exploration_mat)


class OffPolicyAlgorithm(OffPolicyCollection, Algorithm):
    """Base class of off-policy algorithms; subclasses define `update`, `setup_optimizers` and `state`."""

    loop = off_policy
    default_log_interval = 4
    divergence_suspects: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "gradient_steps",
        "max_grad_norm",
        "gamma",
    )

    config: Any
    action_noise: ActionNoise | None = None
    noise_shape: tuple[int, ...] = ()  # of the noise of all environments
    trained_externally = False  # whether a ParallelTrainCallback takes the gradient steps
    buffer_in_sync = False  # whether the buffer continues the current episodes
    _replay_buffer: ReplayBuffer | None = None
    _replay_deleted = False  # `del model.replay_buffer`, until another one is loaded or assigned

    def __getattr__(self, name: str) -> Any:
        """Return a network of the policy as the agent's, as scripts for other libraries have it."""
        if name in NETWORKS and "policy" in self.__dict__ and hasattr(self.policy, name):
            return getattr(self.policy, name)
        if NORM_STATS in name and "policy" in self.__dict__:
            return norm_stats(self.policy, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    # ------------------------------------------------------------------ what an algorithm implements

    def explore(self, obs: TensorObs) -> torch.Tensor:
        """Return actions [n_envs, ...] for collecting, as they are stored; by default, samples of the policy.

        Random exploration and action noise come on top.
        """
        actions: torch.Tensor = self.policy.predict_actions(obs)
        return actions

    def update(self, batch: Any, counters: Counters) -> Metrics:
        """Take a gradient step on a `ReplayBatch`, and advance `counters.n_updates` by one.

        With prioritised replay it passes the TD errors to `batch.set_priorities`.
        """
        raise NotImplementedError

    # ------------------------------------------------------------------ acting

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        use_sde = getattr(self.config, "use_sde", False)
        self.refresh_noise(inputs.step)
        if inputs.counters.warm_up and not (use_sde and self.config.use_sde_at_warmup):
            actions = self.random_actions()
        else:
            is_ours = all(type(one).predict.__module__.startswith("rlzoo.") for one in (self, self.policy))
            actions = self.explore(inputs.obs) if is_ours else self._predicted(inputs.obs)
            if getattr(self.config, "random_exploration", 0.0):
                at_random = torch.rand(self.n_envs) < self.config.random_exploration
                at_random = at_random.to(actions.device).view(-1, *[1] * (actions.dim() - 1))
                actions = torch.where(at_random, self.random_actions(), actions)
        if self.action_noise is not None:
            noise = torch.as_tensor(self.action_noise(), dtype=torch.float32, device=actions.device)
            if self.ranks is not None:
                noise = noise[self.own_envs]
            actions = (actions + noise.reshape(self.noise_shape)).clamp_(-1, 1)
        return PolicyOutput(actions, self.to_env_action(actions))

    def _predicted(self, obs: TensorObs) -> torch.Tensor:
        """Return the actions of a `predict` of the user's own, of agent or policy, as they are stored."""
        executed, _ = self.predict(map_obs(lambda rows: rows.cpu().numpy(), obs), deterministic=False)
        if isinstance(self.action_space, spaces.Discrete):
            executed = np.asarray(executed) - self.action_space.start
        elif self.policy.squash_output:
            executed = self.policy.scale_action(np.asarray(executed, np.float32))
        return torch.as_tensor(executed, device=self.device)

    def random_actions(self) -> torch.Tensor:
        """Draw uniform actions [n_envs, ...] as they are stored: in [-1, 1], or choices from zero on."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return torch.randint(int(space.n), (self.n_envs,))
        return torch.empty(self.n_envs, *(space.shape or ()), device=self.device).uniform_(-1, 1)

    @property
    def own_envs(self) -> slice:
        """The environments of this rank among those of all ranks, which noise is drawn for."""
        first = 0 if self.ranks is None else self.ranks.rank * self.n_envs
        return slice(first, first + self.n_envs)

    @property
    def noise_follows_episodes(self) -> bool:
        """Whether exploration has noise that is drawn anew, or reset, in each episode."""
        return self.action_noise is not None or getattr(self, "parameter_noise", None) is not None

    def end_episodes(self, indices: np.ndarray) -> None:
        if isinstance(self.action_noise, VectorizedActionNoise):
            self.action_noise.reset(indices if self.ranks is None else indices + self.own_envs.start)
        elif self.action_noise is not None:
            self.action_noise.reset()

    @property
    def train_freq(self) -> TrainFreq:
        """How many steps of each environment, or episodes, are between two rounds of updates.

        A number of steps, `(n, "step")`, `(n, "episode")` or a `TrainFreq` may be assigned.
        """
        count, in_episodes = self.update_period()
        return TrainFreq(count, TrainFrequencyUnit.EPISODE if in_episodes else TrainFrequencyUnit.STEP)

    @train_freq.setter
    def train_freq(self, value: TrainFreq | tuple[int, str] | int) -> None:
        self.replace_config(train_freq=value)

    def train(self, gradient_steps: int, batch_size: int | None = None) -> None:
        """Take gradient steps on the replay buffer now, as `learn` takes them between steps.

        Where a subclass overrides it, `learn` calls it. `learning_starts` does not count. Metrics of the
        steps are recorded, but not dumped.

        :param batch_size: by default the hyperparameter
        :raises UserError: the replay buffer has nothing to sample

        >>> SAC("MlpPolicy", "Pendulum-v1").learn(1000).save_replay_buffer("expert")
        >>> model = SAC("MlpPolicy", "Pendulum-v1")
        >>> model.load_replay_buffer("expert")
        >>> model.train(gradient_steps=10)
        """
        self.require_trainable()
        if not self.replay_buffer.can_sample():
            raise UserError("the replay buffer has nothing to sample: fill it before train()")
        self.replay_buffer.progress = 1 - self._current_progress_remaining
        history = take_gradient_steps(self, gradient_steps, batch_size or self.config.batch_size)
        record_metrics(self, self.summarise(history, self.counters) if history else {})

    def update_period(self) -> tuple[int, bool]:
        """Return steps of each environment between two rounds of updates, or (with True) episodes."""
        train_freq = self.config.train_freq
        count, unit = train_freq if isinstance(train_freq, tuple) else (train_freq, "step")
        return count, unit == "episode"

    # ------------------------------------------------------------------ environment and replay buffer

    def replace_config(self, **changes: object) -> None:
        """Change hyperparameters.

        :raises UserError: the agent was built with the present value
        """
        for name, value in changes.items():
            of_buffer = name in BUFFER_FIELDS or name.startswith("prioritized_replay")
            if value == getattr(self.config, name):
                continue
            if name in BUILT_IN or (of_buffer and self._replay_buffer is not None):
                remedy = ", or assign replay_buffer = None first, which empties it" if of_buffer else ""
                raise UserError(
                    f"{name} cannot be changed, since the agent was built with it; save the agent and give"
                    f" {name} to load{remedy}"
                )
        super().replace_config(**changes)

    @property
    def replay_buffer(self) -> ReplayBuffer:
        """Made when it is first needed: an agent that only acts has none."""
        if self._replay_deleted:
            raise AttributeError("the replay buffer was deleted; load_replay_buffer makes another one")
        if self._replay_buffer is None:
            self._replay_buffer = self._make_replay_buffer()
        return self._replay_buffer

    @replay_buffer.deleter
    def replay_buffer(self) -> None:
        self._replay_buffer, self._replay_deleted = None, True

    @replay_buffer.setter
    def replay_buffer(self, replay_buffer: ReplayBuffer) -> None:
        if not isinstance(replay_buffer, ReplayBuffer | None):
            raise UserError(f"replay_buffer must be a ReplayBuffer, not {replay_buffer!r}")
        if replay_buffer is not None:
            made_for = (replay_buffer.n_envs, replay_buffer.observation_space, replay_buffer.action_space)
            if made_for != (self.n_envs, self.observation_space, self.action_space):
                raise UserError(
                    "the replay buffer is for {} environments with the spaces {} and {}, ".format(*made_for)
                    + f"the agent for {self.n_envs} with {self.observation_space} and {self.action_space}"
                )
            self._connect(replay_buffer)
        self._replay_buffer, self._replay_deleted = replay_buffer, False
        self.buffer_in_sync = False

    def replay_class(self) -> tuple[type[ReplayBuffer], dict[str, Any]]:
        """Return the class of the replay buffer, and its own arguments."""
        if self.env is not None and self.env.on_device and self._samples_tensors():
            from rlzoo.buffers.replay.tensor_replay import TensorReplayBuffer

            return TensorReplayBuffer, {}
        default = ReplayBuffer if self.config.n_steps == 1 else NStepReplayBuffer
        return self.config.replay_buffer_class or default, dict(self.config.replay_buffer_kwargs or {})

    def _samples_tensors(self) -> bool:
        """Return whether experience may stay on the device: plain replay, with updates after steps."""
        config = self.config
        special = (config.replay_buffer_class, config.replay_buffer_kwargs, config.n_steps > 1)
        prioritised = getattr(config, "prioritized_replay", False)
        return not (any(special) or prioritised or self.update_period()[1])

    def prepare_actions(self) -> None:
        """Give environments tensors where the replay buffer stores tensors, else arrays."""
        self.tensor_actions = None
        if self.replay_buffer.on_device:
            from rlzoo.algorithms.tensor_data import act_on_tensors

            act_on_tensors(self)

    def _set_spaces(
        self, observation_space: spaces.Space[object], action_space: spaces.Space[object]
    ) -> None:
        super()._set_spaces(observation_space, action_space)
        self.replay_class()[0].check_space(observation_space)

    def _make_replay_buffer(self) -> ReplayBuffer:
        buffer_class, kwargs = self.replay_class()
        kwargs = check_buffer_arguments(buffer_class, kwargs, self.config.n_steps)
        asked = self.config.buffer_device
        buffer_device = self.device if asked == "auto" else torch.device(asked)
        shared: dict[str, Any] = {
            "n_steps": self.config.n_steps,
            "buffer_device": buffer_device,
            "frame_stack": 1 if self.env is None else n_stacked_frames(self.env),
        }
        if self.env is not None and (dtypes := stored_dtypes(self.env)):
            shared["obs_dtypes"] = dtypes
        size = self.config.buffer_size // self.n_ranks
        shape = (size, self.observation_space, self.action_space)
        needed = buffer_class.required_bytes(*shape, self.n_envs, **{**shared, **kwargs})
        on_host = buffer_device.type == "cpu" and not buffer_class.on_device
        if on_host and needed > (free := available_memory()):
            warnings.warn(
                f"a replay buffer of {self.config.buffer_size:,} transitions needs {needed / 1e9:,.1f} GB, "
                f"but {free / 1e9:,.1f} GB of memory are free; a smaller buffer_size needs less",
                stacklevel=2,
            )
        if buffer_class.needs_env:
            shared["env"] = self._require_env()
        if self.config.n_steps == 1:  # a buffer class may have its own default
            del shared["n_steps"]
        shared |= {"gamma": self.config.gamma, "device": self.device}
        shared["optimize_memory_usage"] = self.config.optimize_memory_usage
        taken = constructor_parameters(buffer_class)  # a class of the user's may have fewer than ours
        arguments = {**{name: value for name, value in shared.items() if name in taken}, **kwargs}
        try:
            replay = buffer_class(*shape, n_envs=self.n_envs, **arguments)
        except (AttributeError, TypeError) as error:  # an AttributeError would hide behind `__getattr__`
            if "argument" not in str(error):
                raise RuntimeError(f"{buffer_class.__name__}(): {error}") from error
            raise UserError(f"replay_buffer_kwargs: {error}") from error
        except (MemoryError, ValueError, torch.OutOfMemoryError) as error:
            if isinstance(error, ValueError) and needed <= sys.maxsize:  # else too large for numpy
                raise
            raise UserError(
                f"there is no memory for a replay buffer of {self.config.buffer_size:,} transitions,"
                f" which needs {needed / 1e9:,.1f} GB; choose a smaller buffer_size"
            ) from error
        replay.own_gamma = "gamma" in kwargs
        self._connect_statistics(replay)
        return replay

    def _use_env(self, env: VecEnv) -> None:
        super()._use_env(env)
        self.buffer_in_sync = False
        replay = self._replay_buffer
        if replay is not None and replay.n_envs != env.num_envs:
            if len(replay):
                warnings.warn(
                    f"the {len(replay):,} transitions of {replay.n_envs} environments in the replay buffer "
                    f"are dropped: there are {env.num_envs} now",
                    stacklevel=3,
                )
            self._replay_buffer = None
        elif replay is not None and replay.on_device != env.on_device:
            self._replay_buffer = None  # its experience is of another kind of environments
        elif replay is not None:
            self._connect(replay)
        if hasattr(self, "policy"):
            self._setup_noise()

    def _connect(self, replay: ReplayBuffer) -> None:
        """Let a replay buffer ask the present environments for statistics and rewards."""
        self._connect_statistics(replay)
        if replay.needs_env and self.env is not None:
            replay.set_env(self.env)

    def _connect_statistics(self, replay: ReplayBuffer) -> None:
        """Make a replay buffer store unnormalised experience, and normalise what is sampled from it."""
        replay.normalizer, was = ExperienceNormalizer.of(self.env), replay.stored
        of_goals = isinstance(replay, HerReplayBuffer)
        replay.stored = stored_experience(self.env, warn=not of_goals)
        if of_goals and replay.stored != Stored():
            raise UserError(
                "HER compares goals from before VecNormalize, but a wrapper around it changes observations or"
                " rewards; put VecNormalize outermost"
            )
        replay.stored_by_older = stored_by_older(self.env)
        kinds = {was.observations, replay.stored.observations}
        if len(replay) and "raw stacks" in kinds and len(kinds) > 1:
            warnings.warn(
                f"the {len(replay):,} transitions in the replay buffer are dropped: the new environment"
                " normalises stacked observations differently",
                stacklevel=4,
            )
            replay.reset()

    def _setup_model(self) -> None:
        super()._setup_model()
        self._setup_noise()

    def _setup_noise(self) -> None:
        noise = getattr(self.config, "action_noise", None)
        n_envs = self.n_envs * self.n_ranks
        if isinstance(noise, VectorizedActionNoise) and noise.n_envs != n_envs:
            noise = noise.base_noise
        actions = self.action_space.shape or ()
        shape = getattr(getattr(noise, "base_noise", noise), "_shape", actions)
        if math.prod(shape) not in (1, math.prod(actions)):
            raise UserError(f"action_noise is of shape {shape}, but actions are of shape {actions}")
        # one number is the noise of every dimension of the action
        self.noise_shape = (-1, *(1 if math.prod(shape) == 1 else n for n in actions))
        if noise is not None and n_envs > 1 and not isinstance(noise, VectorizedActionNoise):
            noise = VectorizedActionNoise(noise, n_envs)
        self.action_noise = noise

    def _start_episodes(self, env: VecEnv, resume: bool) -> None:
        is_new = self.collector.obs is None and self.resume_state.rng is None
        super()._start_episodes(env, resume)
        restored = self.collector.episodes_restored
        self.buffer_in_sync = self.buffer_in_sync and restored
        if not (is_new or restored):  # noise of the episodes before ends with them
            self.end_episodes(np.arange(env.num_envs))

    def make_optimizer(self, flat: ParameterGroup, **changes: Any) -> torch.optim.Optimizer:
        """Return the policy's optimiser for a vector of parameters.

        :raises UserError: it does not take the policy's `optimizer_kwargs`
        """
        kwargs = {"lr": self.schedules["learning_rate"](1.0), **self.policy.optimizer_kwargs, **changes}
        try:
            return flat.optimizer(self.policy.optimizer_class, **kwargs)
        except (TypeError, ValueError) as error:
            raise UserError(f"the policy's optimizer_class or optimizer_kwargs: {error}") from error

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = {} if self.action_noise is None else {"action_noise": self.action_noise}
        if getattr(self.config, "use_sde", False):
            state["sde_noise"] = _NoiseOfUnfinishedRound(self.policy.actor.action_dist, self.counters)
        return state

    def save_replay_buffer(self, path: PathOrFile) -> None:
        """Write the replay buffer to a path (`.safetensors` is appended when it has no suffix) or file."""
        from rlzoo.buffers.replay import replay_file

        replay_file.save_replay_buffer(path, self.replay_buffer.for_file())

    def load_replay_buffer(self, path: PathOrFile, truncate_last_traj: bool = True) -> None:
        """Fill the replay buffer from a file; nothing in it is executed.

        :param truncate_last_traj: truncate the episodes that were unfinished when the buffer was saved;
            False: the next step of each environment continues them, as in the same process
        :raises CheckpointError: the file is damaged, or of another kind of buffer, space or number of
            environments
        """
        if not (isinstance(path, str | os.PathLike) or hasattr(path, "read")):
            raise UserError(f"a replay buffer is read from a path or a file object, not from {path!r}")
        from rlzoo.buffers.replay import replay_file

        self._replay_deleted = False
        replay = self.replay_buffer
        replay.device = self.device  # a script may have assigned it since
        if truncate_last_traj and isinstance(replay, HerReplayBuffer):
            replay_file.load_replay_buffer(path, replay, truncate_last_traj=False)
            replay.truncate_last_trajectory()  # says so
        else:
            host = replay.for_file()
            replay_file.load_replay_buffer(path, host, truncate_last_traj)
            replay.take_file(host)
        self.buffer_in_sync = not truncate_last_traj
