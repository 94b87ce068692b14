"""Protocols of algorithms, as the training loops use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import torch

from rlzoo.accel.threads import ThreadTuner
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.callbacks.progress import Reporter
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, PolicyInput, PolicyOutput
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.training.training_state import Collector

if TYPE_CHECKING:
    from rlzoo.distributed.ranks import Ranks


class Learner(Reporter, Protocol):
    """An algorithm that acts in environments."""

    collector: Collector
    threads: ThreadTuner
    device: torch.device
    n_ranks: int

    @property
    def overrides_train(self) -> bool:
        """Whether a `train` of the user takes the gradient steps."""

    def act(self, inputs: PolicyInput) -> PolicyOutput:
        """Choose actions for every environment."""

    def begin_rollout(self) -> None:
        """Draw new exploration noise."""

    def end_episodes(self, indices: np.ndarray) -> None:
        """Take note of environments whose episodes have just ended."""

    def set_training_mode(self, mode: bool) -> None:
        """Switch dropout and normalisation layers."""


class OnPolicyLearner(Learner, Protocol):
    """An algorithm that learns from whole rollouts, each once."""

    last_rollout: RolloutBuffer | None
    ranks: Ranks | None
    wants_action_masks: bool
    keeps_raw_rollouts: ClassVar[bool]
    learns_from_get: ClassVar[bool]
    rollout_buffer_kwargs: dict[str, object]

    def make_rollout_buffer(self, env: VecEnv) -> RolloutBuffer:
        """Return an empty buffer for one rollout."""

    def update(self, batch: RolloutBuffer, counters: Counters) -> Metrics:
        """Learn from one rollout."""

    def train(self) -> None:
        """Learn from the rollout buffer, where a user's subclass overrides it."""


class ReplayConfig(Protocol):
    """Hyperparameters that the off-policy loop reads."""

    @property
    def learning_starts(self) -> int:
        """Steps of all environments before the first update."""

    @property
    def gradient_steps(self) -> int:
        """Gradient steps of an update; -1: as many as environment steps."""

    @property
    def batch_size(self) -> int:
        """Transitions of a batch."""

    @property
    def gamma(self) -> float:
        """The discount factor."""


class PrioritizedBuffer(Protocol):
    """A replay buffer that samples by priority."""

    def update_priorities(self, indices: np.ndarray, priorities: torch.Tensor) -> None:
        """Store absolute TD errors [B] of the transitions at indices [B]."""


class OffPolicyLearner(Learner, Protocol):
    """An algorithm that learns from a replay buffer."""

    env: VecEnv | None
    ranks: Ranks | None
    buffer_in_sync: bool
    trained_externally: bool

    @property
    def config(self) -> ReplayConfig:
        """The hyperparameters."""

    @property
    def replay_buffer(self) -> ReplayBuffer:
        """The replay buffer."""

    @property
    def noise_follows_episodes(self) -> bool:
        """Whether exploration has noise that is drawn anew, or reset, in each episode."""

    def prepare_actions(self) -> None:
        """Choose whether environments are given tensors or arrays."""

    def update_period(self) -> tuple[int, bool]:
        """Return the steps of each environment between two updates, or (with True) the episodes."""

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        """Take one gradient step."""

    def prepare_train(self) -> None:
        """Do what precedes `train`."""

    def train(self, gradient_steps: int, batch_size: int) -> None:
        """Take gradient steps on the replay buffer, where a user's subclass overrides it."""

    def check_losses(self, metrics: Metrics) -> None:
        """Raise if a loss is NaN or infinite."""
