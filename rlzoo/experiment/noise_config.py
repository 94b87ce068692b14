"""Action noise by its name in a hyperparameter file: `noise_type`, `noise_std`, `noise_std_final`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.hyperparameters import check_value, field_names
from rlzoo.core.action_noise import (
    AdaptiveParamNoiseSpec,
    LinearNormalActionNoise,
    NormalActionNoise,
    OrnsteinUhlenbeckActionNoise,
)
from rlzoo.core.errors import UserError, unknown

ADAPTIVE = "adaptive-param"
ORNSTEIN_UHLENBECK = "ornstein-uhlenbeck"
LINEAR = ("lin-normal", "normal-lin")
NOISE_TYPES = ("normal", *LINEAR, ORNSTEIN_UHLENBECK, ADAPTIVE)
NOISE_KEYS = ("noise_type", "noise_std", "noise_std_final")


@dataclass(frozen=True)
class NoisePlan:
    """Noise for which only the shape of the actions is missing.

    :param std: of the first noise, for actions in [-1, 1]; for noise on parameters, of what it does to them
    :param final_std: of Gaussian noise in the end; None: it stays as it is
    """

    noise_type: str
    std: float
    final_std: float | None

    def make(self, action_space: spaces.Space[object], n_calls: int) -> dict[str, object]:
        """Build the hyperparameter.

        :param n_calls: steps of each environment, in which the noise reaches its final size
        """
        if self.noise_type == ADAPTIVE:
            return {"param_noise": AdaptiveParamNoiseSpec(self.std, self.std)}
        shape = action_space.shape or ()
        mean, sigma = np.zeros(shape), np.full(shape, self.std)
        if self.noise_type == ORNSTEIN_UHLENBECK:
            return {"action_noise": OrnsteinUhlenbeckActionNoise(mean, sigma)}
        if self.final_std is None:
            return {"action_noise": NormalActionNoise(mean, sigma)}
        final = np.full(shape, self.final_std)
        return {"action_noise": LinearNormalActionNoise(mean, sigma, max(n_calls, 1), final)}


def plan_noise(values: Mapping[str, object], algorithm: type[Algorithm]) -> NoisePlan | None:
    """Return the noise of an entry; None: no noise.

    :raises UserError: a kind that is not known or that the algorithm does not have, or keys without effect
    """
    noise_type = values.get("noise_type")
    if noise_type is None or noise_type == "none":
        given = [key for key in NOISE_KEYS[1:] if values.get(key) is not None]
        if given and "noise_type" not in values:
            raise UserError(f"{given[0]} is of no use without noise_type, such as normal")
        return None
    if not isinstance(noise_type, str) or noise_type not in NOISE_TYPES:
        raise unknown("noise_type", str(noise_type), NOISE_TYPES)
    fields, name = field_names(algorithm.Config), algorithm.__name__
    if "action_noise" not in fields:
        raise UserError(f"noise_type: {name} has no action noise; DDPG, TD3 and SAC are among those that do")
    if noise_type == ADAPTIVE and "param_noise" not in fields:
        raise UserError(f"noise_type: {name} has no noise on parameters; {ADAPTIVE} is for DDPG")
    made = "param_noise" if noise_type == ADAPTIVE else "action_noise"
    if values.get(made) is not None:
        raise UserError(f"noise_type and {made} say the same: give one")
    if (std := _deviation(values, "noise_std")) is None:
        raise UserError(f"noise_type {noise_type} needs noise_std, such as 0.1")
    final_std = _deviation(values, "noise_std_final")
    if noise_type in LINEAR and final_std is None:
        final_std = 0.0
    if final_std is not None and noise_type not in ("normal", *LINEAR):
        raise UserError(f"noise_std_final is for normal noise, not for {noise_type}")
    if noise_type == ADAPTIVE and std == 0:
        raise UserError(f"noise_std must be above 0 for {ADAPTIVE}")
    return NoisePlan(noise_type, std, final_std)


def _deviation(values: Mapping[str, object], key: str) -> float | None:
    value: float | None = check_value(key, values.get(key), "float | None")
    if value is not None and not 0 <= value < float("inf"):
        raise UserError(f"{key} must be at least 0 and finite, not {value!r}")
    return value
