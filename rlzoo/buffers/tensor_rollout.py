"""Rollout buffer on a device, for environments whose observations and rewards are tensors there."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.buffers.base_buffer import Obs, map_obs
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.core.types import PolicyOutput


class TensorRolloutBuffer(RolloutBuffer):
    """Columns of a `RolloutBuffer` as tensors on the device of the algorithm; no step is copied to the host.

    Final observations have a column, so that nobody has to ask the device which episodes were truncated while
    the rollout is collected. A partly filled rollout is not saved in checkpoints.

    :param device: of all columns
    """

    on_device = True
    action_column: Any  # this and the following are tensors here
    reward_column: Any
    terminated: Any
    truncated: Any
    starts_column: Any

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        device: torch.device,
        gae_lambda: float = 1.0,
        gamma: float = 0.99,
        n_envs: int = 1,
    ) -> None:
        super().__init__(buffer_size, observation_space, action_space, device, gae_lambda, gamma, n_envs)

        def on_device(column: np.ndarray) -> Tensor:
            return torch.zeros(column.shape, dtype=torch.from_numpy(column).dtype, device=device)

        self.obs_column = map_obs(on_device, self.obs_column)
        self.obs_rows = self._obs_writers = [
            map_obs(lambda column, t=t: column[t], self.obs_column) for t in range(self.n_steps + 1)
        ]
        self.final_column: Obs = map_obs(lambda column: torch.zeros_like(column[1:]), self.obs_column)
        self.action_column = on_device(self.action_column)
        self.reward_column = on_device(self.reward_column)
        self.terminated = on_device(self.terminated)
        self.truncated = on_device(self.truncated)
        self.starts_column = on_device(self.starts_column)

    def store_like(self, obs: Obs) -> None:
        """Keep the types of the space: no VecNormalize makes these tensors."""

    def _check_memory(self, observation_space: spaces.Space) -> None:
        if self.device.type == "cpu":
            super()._check_memory(observation_space)

    def _write_obs(self, t: int, obs: Obs) -> None:
        map_obs(lambda row, new: row.copy_(torch.as_tensor(new)), self._obs_writers[t], obs)

    def add_step(self, t: int, step: PolicyOutput, result: Any, episode_start: Any) -> None:
        """Write step `t`: what was done (`step`) and what came of it (`result`, a `TensorStep`)."""
        self.action_column[t] = step.action
        self.reward_column[t] = result.rewards
        self.terminated[t] = result.terminated
        self.truncated[t] = result.truncated
        self.starts_column[t] = torch.as_tensor(episode_start)
        self._write_obs(t + 1, result.obs)
        map_obs(lambda column, new: column[t].copy_(new), self.final_column, result.next_obs)
        for name, value in step.extra.items():
            if name not in self.extra_columns:
                self.extra_columns[name] = value.new_zeros((self.n_steps, *value.shape))
            self.extra_columns[name][t] = value
        self.filled = t + 1

    def finals(self) -> Any:
        """Return final observations of truncated episodes, [n_truncated, ...], with their (steps, envs)."""
        steps, envs = (self.truncated & ~self.terminated).nonzero(as_tuple=True)
        if not len(steps):
            return None
        return map_obs(lambda column: column[steps, envs], self.final_column), (steps, envs)

    def flat_obs(self, device: torch.device) -> Obs:
        return map_obs(lambda column: column[:-1].flatten(0, 1).to(device), self.obs_column)

    def flat_actions(self, device: torch.device) -> Tensor:
        flat: Tensor = self.action_column.flatten(0, 1)
        return flat.to(device)

    def from_tensor(self, values: Tensor) -> Any:
        return values

    def check_finite(self, steps_before: int) -> None:
        """Do nothing: the environments check their tensors when they read statistics of episodes."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any], device: torch.device) -> None:
        """Do nothing: a rollout that was only partly filled is collected from its beginning."""
