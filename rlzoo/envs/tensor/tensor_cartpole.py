"""CartPole on tensors: thousands of environments step in a few operations of the device.

The dynamics are those of Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve
difficult learning control problems", with the constants, Euler steps, rewards and initial states of
Gymnasium's CartPole, in single precision.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.envs.tensor.tensor_vec_env import TensorVecEnv
from rlzoo.envs.vec_env.native import (
    ANGLE_LIMIT,
    FORCE,
    GRAVITY,
    HALF_LENGTH,
    POLE_MASS,
    POSITION_LIMIT,
    START_LIMIT,
    TAU,
    TOTAL_MASS,
)


class TensorCartPole(TensorVecEnv):
    """`num_envs` CartPoles whose states [num_envs, 4] are position, velocity, angle and angular velocity.

    >>> from rlzoo import PPO
    >>> model = PPO("MlpPolicy", TensorCartPole(256), n_steps=32, batch_size=1024).learn(100_000)

    :param max_episode_steps: steps after which an episode is truncated
    :param device: of the states until actions come from another one
    :param spec: registration of a Gymnasium environment with the same dynamics, which draws images
    """

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int = 500,
        device: torch.device | str = "auto",
        spec: gym.envs.registration.EnvSpec | None = None,
    ) -> None:
        high = np.array([2 * POSITION_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], dtype=np.float32)
        space = spaces.Box(-high, high, dtype=np.float32)
        super().__init__(num_envs, space, spaces.Discrete(2), max_episode_steps, device, spec)

    def initial_states(self, n: int) -> Tensor:
        uniform = torch.rand(n, 4, generator=self.generator, device=self.device)
        return (2 * uniform - 1) * START_LIMIT

    def transition(self, states: Tensor, actions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        position, velocity, angle, spin = states.unbind(1)
        force = (2 * actions - 1) * FORCE
        cos, sin = angle.cos(), angle.sin()
        push = (force + POLE_MASS * HALF_LENGTH * spin.square() * sin) / TOTAL_MASS
        spin_rate = (GRAVITY * sin - cos * push) / (
            HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos.square() / TOTAL_MASS)
        )
        acceleration = push - POLE_MASS * HALF_LENGTH * spin_rate * cos / TOTAL_MASS
        position, velocity = position + TAU * velocity, velocity + TAU * acceleration
        angle, spin = angle + TAU * spin, spin + TAU * spin_rate
        fallen = (position.abs() > POSITION_LIMIT) | (angle.abs() > ANGLE_LIMIT)
        return torch.stack([position, velocity, angle, spin], dim=1), torch.ones_like(position), fallen

    def observe(self, states: Tensor) -> Tensor:
        return states
