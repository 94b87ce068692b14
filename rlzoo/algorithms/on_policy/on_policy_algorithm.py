"""Base class of on-policy algorithms: acting, and reading a rollout as the policy saw it.

Plumbing only; objectives and the order of updates are written out in the file of each algorithm.
Besides observations a policy may need a *context*, keywords for its methods: a recurrent policy the sequences
that rows belong to (`sequences`), a masked one the choices that were allowed (`action_masks`).
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.accel.fast_mlp import has_own_forward
from rlzoo.algorithms.base import COMMON_ARGUMENTS, Algorithm
from rlzoo.algorithms.collection import OnPolicyCollection, check_buffer_class
from rlzoo.buffers.base_buffer import Obs, map_obs
from rlzoo.buffers.rollout_buffer import (
    DictRolloutBuffer,
    PolicyContext,
    RawRollout,
    RolloutBatch,
    RolloutBuffer,
    minibatches,
)
from rlzoo.buffers.sequences import rollout_sequences, sequence_minibatches
from rlzoo.callbacks.progress import record_metrics
from rlzoo.core.errors import UserError
from rlzoo.core.returns import bootstrap_values
from rlzoo.core.runtime import gpu_hint
from rlzoo.core.types import PolicyInput, PolicyOutput
from rlzoo.distributions import StateDependentNoise
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer
from rlzoo.training.on_policy_loop import on_policy


class OnPolicyAlgorithm(OnPolicyCollection, Algorithm):
    """Base class of on-policy algorithms (rollouts are discarded after each update)."""

    loop = on_policy
    common_arguments = {**COMMON_ARGUMENTS, "rollout_buffer_class": None, "rollout_buffer_kwargs": None}
    needs_old_values: ClassVar[bool] = True  # `old_values` is called; False: the update computes its own
    takes_tensors: ClassVar[bool] = False  # whether rollouts may be tensors, of environments on a device
    whole_rollouts: ClassVar[bool] = False  # whether a step takes all rows of a rollout at once
    keeps_raw_rollouts: ClassVar[bool] = False  # whether rollouts also hold what a VecNormalize was given
    rnn_state: dict[str, torch.Tensor] | None = None  # of a recurrent policy, after the last step of training

    @property
    def recurrent(self) -> bool:
        """Whether the policy is recurrent; False where a user's own does not say."""
        return bool(getattr(self.policy, "recurrent", False))

    def _take_common(self, arguments: dict[str, Any]) -> None:
        self.own_buffer_class = arguments["rollout_buffer_class"]
        self.rollout_buffer_kwargs: dict[str, Any] = dict(arguments["rollout_buffer_kwargs"] or {})
        if self.own_buffer_class is not None or self.rollout_buffer_kwargs:
            self.fills_by_add = check_buffer_class(self, self.own_buffer_class or RolloutBuffer)

    def _setup_model(self) -> None:
        super()._setup_model()
        n_envs_hint = self.n_envs_hint(self.config, self.n_envs * self.n_ranks)
        for hint in filter(None, (n_envs_hint, self._device_hint())):
            warnings.warn(hint, stacklevel=4)

    @classmethod
    def n_envs_hint(cls, config: Any, n_envs: int) -> str | None:
        """Return a sentence when hyperparameters fit the number of environments, but hardly as meant."""
        return None

    def _device_hint(self) -> str | None:
        """Return a sentence when small networks learn on a GPU from environments on the CPU."""
        small = self.policy_class.__name__ == "ActorCriticPolicy" and not (self.env and self.env.on_device)
        return gpu_hint(self.device, type(self).__name__) if small else None

    def make_rollout_buffer(self, env: VecEnv) -> RolloutBuffer:
        """Return an empty buffer for one rollout of the environments, or the one that a script has assigned.

        :raises UserError: the class does not take `rollout_buffer_kwargs`
        """
        rollout = self._new_rollout(env) if self.assigned_rollout is None else self.take_assigned_rollout()
        rollout.store_like(self.collector.obs)
        return rollout

    def _new_rollout(self, env: VecEnv) -> RolloutBuffer:
        is_dict = isinstance(env.observation_space, spaces.Dict)
        buffer_class = self.own_buffer_class or (DictRolloutBuffer if is_dict else RolloutBuffer)
        self.tensor_actions = None
        plain = not (self.recurrent or self.wants_action_masks or self.own_buffer_class)
        if env.on_device and self.takes_tensors and plain:
            from rlzoo.algorithms.tensor_data import tensor_rollouts

            buffer_class = tensor_rollouts(self)
        arguments: dict[str, Any] = {"device": self.device, "n_envs": env.num_envs}
        factors = {name: getattr(self.config, name, None) for name in ("gamma", "gae_lambda")}
        arguments |= {name: value for name, value in factors.items() if value is not None}
        arguments |= self.rollout_buffer_kwargs
        try:
            made = buffer_class(self.config.n_steps, env.observation_space, env.action_space, **arguments)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise UserError(f"rollout_buffer_kwargs: {error}") from error
        made.algorithm = weakref.ref(self)
        if self.keeps_raw_rollouts and (normalizer := ExperienceNormalizer.of(env)) is not None:
            made.raw = RawRollout(made.n_steps, normalizer)
        return made

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        self.refresh_noise(inputs.step)
        context: dict[str, torch.Tensor] = {}
        if inputs.action_masks is not None:
            context["action_masks"] = torch.from_numpy(inputs.action_masks).to(self.device)
        if self.recurrent:
            return self._act_recurrent(inputs)
        if self.shares_convolutions and self.needs_old_values:
            # a second pass through them would cost more than keeping two columns
            actions, values, log_probs = self.policy.act_with_values(inputs.obs, **context)
            context.update(values=values, log_probs=log_probs)
        elif has_own_forward(self.policy):
            actions, values, log_probs = self.policy(inputs.obs, **context)
            context.update(values=values.flatten(), log_probs=log_probs)
        else:
            actions = self.policy.act(inputs.obs, **context)
        return PolicyOutput(actions, self.to_env_action(actions), {**context, **self._before_tanh()})

    def _before_tanh(self) -> dict[str, torch.Tensor]:
        """Return the last actions of a squashed policy before the tanh, which has no exact inverse."""
        distribution = getattr(self.policy, "action_dist", None)
        if isinstance(distribution, StateDependentNoise) and distribution.gaussian_actions is not None:
            return {"gaussian_actions": distribution.gaussian_actions}
        return {}

    def _act_recurrent(self, inputs: PolicyInput) -> PolicyOutput:
        """Act on observations and the recurrent state; the rollout stores the state before each step."""
        if self.rnn_state is None or len(next(iter(self.rnn_state.values()))) != self.n_envs:
            self.rnn_state = self.policy.initial_state(self.n_envs)
        starts = torch.from_numpy(inputs.episode_start).to(self.device)
        before = self.rnn_state
        actions, values, log_probs, self.rnn_state = self.policy.step(inputs.obs, before, starts)
        extra = {"values": values, "log_probs": log_probs, **before, **self._before_tanh()}
        return PolicyOutput(actions, self.to_env_action(actions), extra)

    def train(self) -> None:
        """Learn once more from the last rollout, as if the present policy had collected it.

        Where a subclass overrides it, `learn` calls it. Metrics are recorded, but not dumped. Schedules stand
        where `learn` left them: a learning rate of 0, as of ACER and ACKTR by default, gives a warning.

        :raises UserError: there is no rollout yet, or it is not full
        """
        self.require_trainable()
        rollout = self.last_rollout
        kept = self.keeps_raw_rollouts and self.counters.num_timesteps > 0  # these are not marked as full
        if rollout is None or not (rollout.full or (kept and rollout.pos == 0)):
            raise UserError("there is no full rollout to learn from: learn() collects one")
        metrics = self.update(rollout, self.counters)
        record_metrics(self, metrics)
        if metrics.get("learning_rate") == 0:
            warnings.warn(
                "train() has learned with a learning rate of 0, where its schedule ends: assign a function,"
                " such as model.learning_rate = lambda _: 1e-4",
                stacklevel=2,
            )

    def read_rollout(self, rollout: RolloutBuffer) -> RolloutBatch:
        """Return `obs`, `actions` and `context` of a rollout as tensors on the device, step after step."""
        context: PolicyContext = {}
        if self.recurrent:
            context["sequences"] = rollout_sequences(rollout, self._rnn_state_columns(rollout))
        if "action_masks" in rollout.extra_columns:
            masks = rollout.extra_columns["action_masks"].flatten(0, 1).clone()  # autograd keeps it
            context["action_masks"] = masks.to(self.device)
        if "gaussian_actions" in rollout.extra_columns:
            context["gaussian_actions"] = rollout.extra_columns["gaussian_actions"].flatten(0, 1).clone()
        return RolloutBatch(rollout.flat_obs(self.device), rollout.flat_actions(self.device), context)

    def flat_columns(self, *arrays: np.ndarray) -> Iterator[torch.Tensor]:
        """Yield arrays [n_steps, n_envs] as tensors [n_steps * n_envs] on the device."""
        return (torch.as_tensor(array.reshape(-1), device=self.device) for array in arrays)

    def old_values(
        self, rollout: RolloutBuffer, batch: RolloutBatch
    ) -> tuple[torch.Tensor, np.ndarray, np.ndarray]:
        """Return log-probabilities [n_steps * n_envs], values and next values [n_steps, n_envs].

        They are those of the policy that collected the rollout: one batched pass, where they were not kept.
        """
        if rollout.is_given:
            given = rollout.estimated()
            return torch.as_tensor(given.log_probs.flatten(), device=self.device), given.values, given.values
        if "values" in rollout.extra_columns:
            values, log_probs = rollout.extra_columns["values"], rollout.extra_columns["log_probs"].flatten()
        else:
            with torch.no_grad():
                values, log_probs, _ = self.policy.evaluate_actions(batch.obs, batch.actions, **batch.context)
        array = rollout.from_tensor(values.reshape(rollout.n_steps, rollout.n_envs))
        return log_probs, array, self.next_values(rollout, array)

    def baseline(
        self, rollout: RolloutBuffer, batch: RolloutBatch, values: torch.Tensor | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return values and next values, [n_steps, n_envs], for an update that is one gradient step.

        The policy has not changed since it acted, so they are the values that are about to be learned
        (`values`, with gradients). Not so where layers behave differently in training: there they are
        computed before training mode is switched on, without `values`.
        """
        if values is None or has_own_forward(self.policy) or rollout.is_given:
            return self.old_values(rollout, batch)[1:]
        array = rollout.from_tensor(values.detach()).reshape(rollout.reward_column.shape)
        return array, self.next_values(rollout, array)

    def next_values(self, rollout: RolloutBuffer, values: np.ndarray) -> np.ndarray:
        """Return the value of what each step led to: where an episode was truncated, its final observation.

        :param values: V of the observations that were acted on, [n_steps, n_envs]
        """
        last_values = rollout.from_tensor(self.last_values(rollout))
        finals = rollout.finals()
        if finals is None:
            return bootstrap_values(values, last_values)
        final_obs, (steps, envs) = finals
        final_state = {name: rows[steps + 1, envs] for name, rows in self._rnn_state_columns(rollout).items()}
        final_values = rollout.from_tensor(self._values(final_obs, final_state))
        return bootstrap_values(values, last_values, final_values, (steps, envs))

    def last_values(self, rollout: RolloutBuffer) -> torch.Tensor:
        """Return the values of the observations after the last step, [n_envs]."""
        return self._values(rollout.last_obs(), dict(self.rnn_state or {}))

    def _values(self, obs: Obs, rnn_state: dict[str, torch.Tensor]) -> torch.Tensor:
        tensors = map_obs(lambda array: torch.as_tensor(array, device=self.device), obs)
        with torch.no_grad():
            values = self.policy.predict_values(tensors, **({"rnn_state": rnn_state} if rnn_state else {}))
        return values.flatten()  # type: ignore[no-any-return]

    def _rnn_state_columns(self, rollout: RolloutBuffer) -> dict[str, torch.Tensor]:
        """Return the recurrent states before each step and after the last, [n_steps + 1, n_envs, ...].

        They are not reset where an episode starts: the reader does that. Without a recurrent policy: {}.
        """
        if self.rnn_state is None:
            return {}
        return {
            name: torch.cat([rollout.extra_columns[name], value.unsqueeze(0)])
            for name, value in self.rnn_state.items()
        }

    def minibatches(
        self, batch: RolloutBatch, batch_size: int, rollout: RolloutBuffer
    ) -> Iterator[RolloutBatch]:
        """Yield shuffled minibatches of `batch_size` rows; of neighbouring rows for a recurrent policy."""
        if rollout.has_own_get and self.learns_from_get:
            batches: Iterator[RolloutBatch] = self.own_minibatches(rollout, batch_size)
        elif self.ranks is not None:
            batches = self.ranks.minibatches(batch, batch_size, rollout, self._rnn_state_columns(rollout))
        elif self.recurrent:
            batches = sequence_minibatches(batch, batch_size, rollout, self._rnn_state_columns(rollout))
        else:
            batches = minibatches(batch, batch_size, rollout.n_steps * rollout.n_envs, self.device)
        return iter(self.threads.timed(batches))
