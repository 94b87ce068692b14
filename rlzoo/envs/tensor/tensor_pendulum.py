"""Pendulum on tensors: thousands of environments step in a few operations of the device.

Dynamics, costs and initial states are those of Gymnasium's Pendulum, in single precision: a pendulum of
mass 1 and length 1 is swung up by a bounded torque; angle 0 is upright.
"""

from __future__ import annotations

import math

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.envs.tensor.tensor_vec_env import TensorVecEnv

GRAVITY = 10.0
MAX_SPEED = 8.0
MAX_TORQUE = 2.0
SECONDS = 0.05  # of a step


class TensorPendulum(TensorVecEnv):
    """`num_envs` Pendulums whose states [num_envs, 2] are angle and angular velocity.

    >>> from rlzoo import SAC
    >>> model = SAC("MlpPolicy", TensorPendulum(64), learning_starts=1000, gradient_steps=32)
    >>> model = model.learn(20_000)

    :param max_episode_steps: steps after which an episode is truncated
    :param device: of the states until actions come from another one
    :param spec: registration of a Gymnasium environment with the same dynamics, which draws images
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int = 200,
        device: torch.device | str = "auto",
        spec: gym.envs.registration.EnvSpec | None = None,
    ) -> None:
        high = np.array([1.0, 1.0, MAX_SPEED], dtype=np.float32)
        actions = spaces.Box(-MAX_TORQUE, MAX_TORQUE, (1,), np.float32)
        super().__init__(num_envs, spaces.Box(-high, high), actions, max_episode_steps, device, spec)

    def initial_states(self, n: int) -> Tensor:
        uniform = 2 * torch.rand(n, 2, generator=self.generator, device=self.device) - 1
        return torch.stack([math.pi * uniform[:, 0], uniform[:, 1]], dim=1)

    def transition(self, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angle, speed = states.unbind(1)
        torque = actions[:, 0].clamp(-MAX_TORQUE, MAX_TORQUE)
        wrapped = torch.remainder(angle + math.pi, 2 * math.pi) - math.pi
        cost = wrapped.square() + 0.1 * speed.square() + 0.001 * torque.square()
        speed = speed + (1.5 * GRAVITY * angle.sin() + 3.0 * torque) * SECONDS
        speed = speed.clamp(-MAX_SPEED, MAX_SPEED)
        angle = angle + speed * SECONDS
        return torch.stack([angle, speed], dim=1), -cost, torch.zeros_like(cost, dtype=torch.bool)

    def observe(self, states: Tensor) -> Tensor:
        angle, speed = states.unbind(1)
        return torch.stack([angle.cos(), angle.sin(), speed], dim=1)
