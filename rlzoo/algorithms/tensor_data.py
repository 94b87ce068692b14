"""Let an algorithm act on, and learn from, environments whose tensors stay on a device."""

from __future__ import annotations

from typing import Protocol

import torch
from gymnasium import spaces

from rlzoo.buffers.tensor_rollout import TensorRolloutBuffer
from rlzoo.envs.tensor.tensor_actions import TensorActions


class ActingPolicy(Protocol):
    """A policy with a range of actions."""

    squash_output: bool


class TensorLearner(Protocol):
    """An algorithm that acts in environments on a device."""

    action_space: spaces.Space[object]
    device: torch.device
    tensor_actions: TensorActions | None

    @property
    def policy(self) -> ActingPolicy:
        """The policy."""


def act_on_tensors(algorithm: TensorLearner) -> None:
    """Let an algorithm give tensors to its environments."""
    squash = algorithm.policy.squash_output
    algorithm.tensor_actions = TensorActions(algorithm.action_space, squash, algorithm.device)


def tensor_rollouts(algorithm: TensorLearner) -> type[TensorRolloutBuffer]:
    """Return the class of rollouts on a device, for an algorithm that acts on tensors from now on."""
    act_on_tensors(algorithm)
    return TensorRolloutBuffer
