"""Collecting experience by the methods of stable-baselines3, which a subclass may override.

Agents that override none of them collect in `rlzoo.training.on_policy_loop` and
`rlzoo.training.off_policy_loop`, which are faster.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.algorithms.train_frequency import RolloutReturn, TrainFreq, should_collect_more_steps
from rlzoo.buffers.base_buffer import Obs, map_obs
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.rollout_buffer import DictRolloutBuffer, PolicyContext, RolloutBatch, RolloutBuffer
from rlzoo.callbacks.base_callback import BaseCallback, LoopLocals
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.errors import UnknownArgument, UserError
from rlzoo.core.observations import Info, copy_obs
from rlzoo.core.returns import gae
from rlzoo.core.signatures import constructor_parameters, is_own
from rlzoo.core.types import PolicyInput
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.training import overridden_loops
from rlzoo.training.learner import OnPolicyLearner
from rlzoo.training.on_policy_loop import collect
from rlzoo.training.training_state import record_episodes

GIVEN_BY_ALGORITHM = (
    "buffer_size", "observation_space", "action_space", "device", "gae_lambda", "gamma", "n_envs",
)  # fmt: skip
"""Arguments of a rollout buffer that are those of the algorithm."""
FILLING_METHODS = ("reset", "add", "compute_returns_and_advantage")
"""What fills a rollout buffer, where its class overrides one of them."""
UNCALLED_BUFFER_METHODS: Mapping[str, str] = dict.fromkeys(
    ("get", "_get_samples"), "update(rollout, counters) of the algorithm, or its train()"
)
"""Methods of a rollout buffer that few algorithms call, and what is overridden instead with the others."""


def check_buffer_class(algorithm: OnPolicyLearner, cls: object) -> bool:
    """Return whether a class of rollout buffers overrides how these are filled.

    :raises UserError: it is no RolloutBuffer, or overrides a method that is never called
    :raises UnknownArgument: the constructor does not take a keyword, or the algorithm itself gives it
    """
    if not (isinstance(cls, type) and issubclass(cls, RolloutBuffer)):
        raise UserError(f"rollout_buffer_class must be a class derived from RolloutBuffer, not {cls!r}")
    for name in algorithm.rollout_buffer_kwargs:
        if name not in constructor_parameters(cls):
            text = f"{cls.__name__} got an unexpected keyword argument {name!r}"
            raise UnknownArgument(f"rollout_buffer_kwargs: {text}")
        if name in GIVEN_BY_ALGORITHM:
            raise UnknownArgument(f"{name} is set by the algorithm; remove it from rollout_buffer_kwargs")
    called = algorithm.overrides_train or algorithm.learns_from_get
    refusal = None if called else uncalled_override(cls, UNCALLED_BUFFER_METHODS, type(algorithm).__name__)
    if refusal is not None:
        raise UserError(refusal)
    fills = _fills_itself(cls)
    if fills and algorithm.keeps_raw_rollouts:
        raise UserError(f"{type(algorithm).__name__} does not learn from the advantages of a {cls.__name__}")
    return fills


def _fills_itself(cls: type) -> bool:
    return not all(is_own(getattr(cls, name)) for name in FILLING_METHODS)


def uncalled_override(cls: type, replaced: Mapping[str, str], caller: str = "rlzoo") -> str | None:
    """Return a sentence when a user's subclass overrides a method that `caller` never calls, else None."""
    for base in cls.__mro__:
        for name in () if is_own(base) else replaced.keys() & vars(base).keys():
            return (
                f"{base.__name__} overrides {name}(), which {caller} never calls; override {replaced[name]}"
            )
    return None


class StepMethods:
    """What the methods that collect experience read and call for each step."""

    use_sde: bool = False
    use_sde_at_warmup: bool = False
    sde_sample_freq: int = -1

    def _update_info_buffer(self: Any, infos: Sequence[Info], dones: np.ndarray | None = None) -> None:
        """Keep the statistics of episodes that have ended."""
        record_episodes(self, infos)

    def _update_current_progress_remaining(self: Any, num_timesteps: int, total_timesteps: int) -> None:
        """Assign the argument of the schedules, until the next step."""
        self._current_progress_remaining = 1.0 - float(num_timesteps) / float(total_timesteps)

    def _convert_train_freq(self) -> None:
        """Do nothing: `train_freq` is converted when it is assigned."""


class OnPolicyCollection(StepMethods):
    """`collect_rollouts` of on-policy algorithms, and their rollout buffer."""

    overridden_loop: ClassVar[Callable[..., None]] = overridden_loops.on_policy
    assigned_rollout: RolloutBuffer | None = None  # by a script, or by its `_setup_model`
    own_buffer_class: type[RolloutBuffer] | None = None  # given by the user
    learns_from_get: ClassVar[bool] = False  # whether a buffer's own `get` may yield the batches

    @property
    def rollout_buffer_class(self: Any) -> type[RolloutBuffer] | None:
        """Class of the rollout buffer; assigning one does not replace the present buffer.

        None where the algorithm takes its own, until there are networks: see `replay_buffer_class`.
        """
        if not hasattr(self, "policy"):
            return self.own_buffer_class  # type: ignore[no-any-return]
        is_dict = isinstance(self.observation_space, spaces.Dict)
        return self.own_buffer_class or (DictRolloutBuffer if is_dict else RolloutBuffer)

    @rollout_buffer_class.setter
    def rollout_buffer_class(self: Any, value: type[RolloutBuffer] | None) -> None:
        self.own_buffer_class = value

    @property
    def rollout_buffer(self: Any) -> RolloutBuffer | None:
        """The rollout buffer; before the first training an empty one, None without environments."""
        last = self.last_rollout
        made_for = None if last is None else (last.n_steps, last.n_envs)
        is_stale = made_for != (self.config.n_steps, self.n_envs)
        if is_stale and self.env is not None and hasattr(self, "policy"):
            self.last_rollout = self.make_rollout_buffer(self.env)
        return self.last_rollout  # type: ignore[no-any-return]

    @rollout_buffer.setter
    def rollout_buffer(self: Any, rollout: RolloutBuffer | None) -> None:
        """Train with another buffer from now on, which computes advantages with its own discount factor.

        None: with those that the algorithm makes.

        :raises UserError: it is no RolloutBuffer, or of another size or other spaces than the agent's
        """
        self.assigned_rollout = self.last_rollout = None
        self.fills_by_add = check_buffer_class(self, self.own_buffer_class or RolloutBuffer)
        if rollout is None:
            return
        check_buffer_class(self, type(rollout))
        made_for = (rollout.n_steps, rollout.n_envs, rollout.observation_space, rollout.action_space)
        needed = (self.config.n_steps, self.n_envs, self.observation_space, self.action_space)
        if made_for != needed:
            text = "{} steps of {} environments with the spaces {} and {}"
            raise UserError(f"the rollout buffer is for {text.format(*made_for)}, not {text.format(*needed)}")
        rollout.algorithm = weakref.ref(self)
        self.assigned_rollout = self.last_rollout = rollout
        self.fills_by_add = not self.keeps_raw_rollouts

    @rollout_buffer.deleter
    def rollout_buffer(self: Any) -> None:
        self.rollout_buffer = None

    def take_assigned_rollout(self: Any) -> RolloutBuffer:
        """Return the assigned buffer, empty, and of the present size."""
        size = (self.config.n_steps, self.n_envs)
        if (self.assigned_rollout.n_steps, self.assigned_rollout.n_envs) != size:
            self.assigned_rollout = self.assigned_rollout.resized(*size)
        self.assigned_rollout.reset()
        return self.assigned_rollout  # type: ignore[no-any-return]

    def collect_rollouts(
        self: Any,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
    ) -> bool:
        """Collect one rollout with the present policy.

        Where a subclass overrides it, or a buffer overrides `add` or `compute_returns_and_advantage`, `learn`
        calls it. It fills the buffer by these two methods, moves `_last_obs` and `_last_episode_starts` on,
        and counts `num_timesteps`.

        :param n_rollout_steps: steps of each environment
        :return: False when a callback ends the training
        """
        if n_rollout_steps != rollout_buffer.n_steps:
            raise UserError(f"a rollout has {rollout_buffer.n_steps} steps, not {n_rollout_steps}")
        rollout_buffer.algorithm = weakref.ref(self)
        self.collector.take_rollout()  # a part of one in a checkpoint
        if self.fills_by_add or _fills_itself(type(rollout_buffer)):
            return overridden_loops.collect_by_add(self, env, callback, rollout_buffer)
        rollout_buffer.reset()
        locals_ = LoopLocals(self, callback, rollout_buffer=rollout_buffer)
        return collect(self, env, rollout_buffer, callback, locals_)

    def own_minibatches(
        self, rollout: RolloutBuffer, batch_size: int | None = None
    ) -> Iterator[RolloutBatch]:
        """Yield what the `get` of a user's rollout buffer yields, as batches to learn from."""
        stored, yielded = torch.from_numpy(rollout.action_column), False
        for samples in rollout.get(batch_size):
            actions = samples.actions.reshape(-1, *stored.shape[2:]).to(stored.dtype)
            context: PolicyContext = {}
            if (masks := getattr(samples, "action_masks", None)) is not None:
                context["action_masks"] = masks.bool()
            columns = (samples.old_values, samples.old_log_prob, samples.advantages, samples.returns)
            yielded = True
            flat = (column.float().flatten() for column in columns)
            yield RolloutBatch(samples.observations, actions, context, *flat)
        if not yielded:
            raise UserError(f"{type(rollout).__name__}.get({batch_size}) has yielded no batch")

    def estimate(
        self: Any, rollout: RolloutBuffer
    ) -> tuple[np.ndarray, torch.Tensor, np.ndarray, np.ndarray]:
        """Compute values, log-probabilities, advantages and returns of a rollout, for scripts that read them.

        :raises UserError: the algorithm has no `gae_lambda`
        """
        config = self.config
        if not hasattr(config, "gae_lambda"):
            raise UserError(f"{type(self).__name__} does not learn from advantages")
        log_probs, values, next_values = self.old_values(rollout, self.read_rollout(rollout))
        ends = (rollout.without_value, rollout.truncated)
        gae_lambda = 1.0 if config.gae_lambda is None else config.gae_lambda
        advantages, returns = gae(rollout.reward_column, values, next_values, *ends, config.gamma, gae_lambda)
        return values, log_probs, advantages, returns


class OffPolicyCollection(StepMethods):
    """`collect_rollouts` of off-policy algorithms, and the methods that it calls for each step."""

    overridden_loop: ClassVar[Callable[..., None]] = overridden_loops.off_policy
    shown_otherwise: ClassVar[tuple[str, ...]] = (
        "train_freq", "replay_buffer_class", "replay_buffer_kwargs",
    )  # fmt: skip
    _last_original_obs: Obs | None = None  # before VecNormalize
    _noted_obs: Obs | None = None  # the present observations when that was noted

    @property
    def replay_buffer_class(self: Any) -> type[ReplayBuffer] | None:
        """Class of the replay buffer: the hyperparameter, or what the algorithm takes without it.

        None where it takes its own, until there are networks: `_setup_model` of a script may choose one then.
        """
        if not hasattr(self, "policy"):
            return self.config.replay_buffer_class  # type: ignore[no-any-return]
        return self.replay_class()[0]  # type: ignore[no-any-return]

    @replay_buffer_class.setter
    def replay_buffer_class(self: Any, value: type[ReplayBuffer] | None) -> None:
        self.replace_config(replay_buffer_class=value)

    @property
    def replay_buffer_kwargs(self: Any) -> dict[str, object]:
        """Further arguments of the replay buffer's class: the hyperparameter, or {}."""
        return dict(self.config.replay_buffer_kwargs or {})

    @replay_buffer_kwargs.setter
    def replay_buffer_kwargs(self: Any, value: dict[str, object] | None) -> None:
        self.replace_config(replay_buffer_kwargs=value)

    def prepare_collection(self: Any) -> None:
        """Note the present observations, which the next transition begins with, unless that has been done."""
        if self._noted_obs is self._last_obs:
            return
        self.buffer_in_sync = False
        normalizer = self._vec_normalize_env
        obs = self._last_obs if normalizer is None else normalizer.get_original_obs()
        self._last_original_obs, self._noted_obs = copy_obs(obs), self._last_obs

    def collect_rollouts(
        self: Any,
        env: VecEnv,
        callback: BaseCallback,
        train_freq: TrainFreq,
        replay_buffer: ReplayBuffer,
        action_noise: ActionNoise | None = None,
        learning_starts: int = 0,
        log_interval: int | None = None,
    ) -> RolloutReturn:
        """Collect transitions until the next round of updates.

        Where a subclass overrides it, or a method that it calls, `learn` calls it.

        :param action_noise: is added to actions
        :param learning_starts: steps of random actions at the beginning
        :param log_interval: episodes between two dumps of metrics
        """
        self.prepare_collection()
        self.set_training_mode(False)
        steps = episodes = 0
        with torch.no_grad():
            self.begin_rollout()
        callback.on_rollout_start()
        while should_collect_more_steps(train_freq, steps, episodes):
            self.counters.collected = steps
            with torch.no_grad():
                self.refresh_noise(steps)
            actions, buffer_actions = self._sample_action(learning_starts, action_noise, env.num_envs)
            new_obs, rewards, dones, infos = env.step(actions)
            self.num_timesteps += env.num_envs
            steps += 1
            callback.update_locals(locals())
            if not callback.on_step():
                return RolloutReturn(steps * env.num_envs, episodes, continue_training=False)
            self._update_info_buffer(infos, dones)
            self._store_transition(replay_buffer, buffer_actions, new_obs, rewards, dones, infos)
            self._last_episode_starts = dones
            self._on_step()
            for index in np.flatnonzero(dones):
                episodes += 1
                self._episode_num += 1
                self.end_episodes(np.array([index]))
                if log_interval is not None and self._episode_num % log_interval == 0:
                    self.dump_logs()
        callback.on_rollout_end()
        return RolloutReturn(steps * env.num_envs, episodes, continue_training=True)

    def _sample_action(
        self: Any, learning_starts: int, action_noise: ActionNoise | None = None, n_envs: int = 1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the actions [n_envs, ...] of a step, for the environments and for the replay buffer.

        :param learning_starts: steps of random actions at the beginning
        :param action_noise: is added, where it is not that of the agent already
        """
        self.prepare_collection()
        counters = self.counters
        counters.warm_up = counters.num_timesteps < learning_starts
        obs = map_obs(lambda rows: torch.as_tensor(rows, device=self.device), self._last_obs)
        before, self.action_noise = self.action_noise, action_noise
        try:
            with torch.no_grad():
                # step -1: `collect_rollouts` draws the noise
                step = self.act(PolicyInput(obs, self._last_episode_starts, -1, counters))
        finally:
            self.action_noise = before
        return step.env_action, step.action.cpu().numpy()

    def _store_transition(
        self: Any,
        replay_buffer: ReplayBuffer,
        buffer_action: np.ndarray,
        new_obs: Obs,
        reward: np.ndarray,
        dones: np.ndarray,
        infos: Sequence[Info],
    ) -> None:
        """Store a transition of each environment, and move on to the new observations.

        Experience is stored as it was before VecNormalize. Where an episode has ended, `new_obs` is the first
        observation of the next one, and the final one is in `infos`.

        :param buffer_action: [n_envs, ...], as `_sample_action` returned it
        """
        normalizer = self._vec_normalize_env
        raw_obs = new_obs if normalizer is None else normalizer.get_original_obs()
        raw_reward = reward if normalizer is None else normalizer.get_original_reward()
        next_obs: Obs = copy_obs(raw_obs)
        for index in np.flatnonzero(dones):
            final = infos[int(index)]["terminal_observation"]
            if normalizer is not None:
                final = normalizer.unnormalize_obs(final)
            if isinstance(next_obs, dict):
                for key, rows in next_obs.items():
                    rows[index] = final[key]
            else:
                next_obs[index] = final
        replay_buffer.add(self._last_original_obs, next_obs, buffer_action, raw_reward, dones, infos)
        self.collector.obs = self._noted_obs = new_obs
        self._last_original_obs = copy_obs(raw_obs)

    def _on_step(self) -> None:
        """Hook after each step of the environments."""
