"""Names for the types of environments, observations and steps, for annotations in users' code."""

from __future__ import annotations

from typing import Any, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
import torch

GymEnv: TypeAlias = gymnasium.Env[Any, Any] | Any  # an environment, or a vector of them
GymObs: TypeAlias = tuple[Any, ...] | dict[str, Any] | np.ndarray | int
GymResetReturn: TypeAlias = tuple[GymObs, dict[str, Any]]
GymStepReturn: TypeAlias = tuple[GymObs, float, bool, bool, dict[str, Any]]
AtariResetReturn: TypeAlias = tuple[np.ndarray, dict[str, Any]]
AtariStepReturn: TypeAlias = tuple[np.ndarray, SupportsFloat, bool, bool, dict[str, Any]]
TensorDict: TypeAlias = dict[str, torch.Tensor]
PyTorchObs: TypeAlias = torch.Tensor | dict[str, torch.Tensor]
OptimizerStateDict: TypeAlias = dict[str, Any]
