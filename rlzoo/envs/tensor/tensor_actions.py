"""Actions of a network as environments execute them, without a copy to the host."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor


class TensorActions:
    """Clip or unscale the actions of a policy on their device; see `BasePolicy.env_actions`.

    :param space: the action space
    :param squash_output: the policy's actions are in [-1, 1], and are scaled to the bounds of a Box
    :param device: of the actions
    """

    def __init__(self, space: spaces.Space[object], squash_output: bool, device: torch.device) -> None:
        self.shape = (-1, *(space.shape or ()))
        self.low = self.high = self.start = None
        self.squash_output = squash_output
        if isinstance(space, spaces.Box):
            self.low = torch.as_tensor(np.asarray(space.low, np.float32), device=device)
            self.high = torch.as_tensor(np.asarray(space.high, np.float32), device=device)
        elif isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
            self.start = torch.as_tensor(space.start, device=device)

    def __call__(self, actions: Tensor) -> Tensor:
        """Return what the environment executes for the network's actions [n_envs, ...]."""
        if self.low is not None and self.high is not None:
            if self.squash_output:
                actions = self.low + 0.5 * (actions + 1.0) * (self.high - self.low)
            actions = torch.minimum(torch.maximum(actions, self.low), self.high)
        elif self.start is not None:
            actions = actions + self.start
        return actions.reshape(self.shape)
