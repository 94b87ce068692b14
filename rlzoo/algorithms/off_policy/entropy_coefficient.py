"""Entropy coefficient alpha of maximum-entropy learning: fixed, or learned to meet a target entropy."""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.accel.fast_mlp import KnownGradients, takes_arrays
from rlzoo.accel.flat_parameters import parameter_group
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Schedule
from rlzoo.optim.network_optimizer import NetworkOptimizer


class EntropyConfig(Protocol):
    """Hyperparameters of the entropy coefficient."""

    @property
    def ent_coef(self) -> float | str:
        """The coefficient, or how it is learned: `auto` or `auto_<number>`."""

    @property
    def target_entropy(self) -> float | str:
        """Entropy that a learned coefficient aims at; `auto`: minus the number of action dimensions."""


class MaximumEntropyModel(Protocol):
    """An algorithm that maximises entropy besides reward."""

    action_space: spaces.Space[object]
    device: torch.device
    schedules: dict[str, Schedule]

    @property
    def config(self) -> EntropyConfig:
        """The hyperparameters."""


def check_entropy(config: EntropyConfig) -> None:
    """Check `ent_coef` and `target_entropy` of a Config.

    :raises UserError: a string that is neither a number nor "auto" nor (for `ent_coef`) "auto_<number>", or a
        negative coefficient
    """
    initial_coefficient(config.ent_coef)
    target = config.target_entropy
    if target != "auto" and (isinstance(target, str) or not math.isfinite(target)):
        raise UserError(f"target_entropy must be a number or 'auto', not {target!r}")


def initial_coefficient(ent_coef: float | str) -> float:
    """Return the initial alpha: 0.1 for `auto_0.1`, 1 for `auto`, else the number (or string) itself.

    What follows a second underscore is ignored, as in stable-baselines3: `auto_0.1_0.05` is `auto_0.1`.
    """
    text = str(ent_coef)
    try:
        numbers = text.removeprefix("auto_").split("_") if is_learned(text) else [text.replace("_", "?")]
        initial, *_ = map(float, ["1"] if text == "auto" else numbers)
    except ValueError:
        initial = math.nan
    if not 0 <= initial < math.inf or (initial == 0 and is_learned(ent_coef)):
        raise UserError(
            f"ent_coef must be a number of at least 0, 'auto' or such as 'auto_0.1', not {ent_coef!r}"
        )
    return initial


def is_learned(ent_coef: float | str) -> bool:
    """Return whether alpha is learned: `auto` or `auto_<number>`."""
    return str(ent_coef).startswith("auto")


def target_entropy_of(model: MaximumEntropyModel) -> float:
    """Return the target entropy of a model; `auto` is minus the number of action dimensions."""
    target = model.config.target_entropy
    return -float(np.prod(model.action_space.shape or ())) if isinstance(target, str) else float(target)


class EntropyCoefficient:
    """alpha of a model with the hyperparameters `ent_coef` and `target_entropy`.

    Learned, it minimises J(alpha) = E[-log alpha (log pi(a|s) + target_entropy)] (eq. 18 of Haarnoja et al.
    2018 has alpha where this has log alpha): it rises while the entropy is below the target. Its optimiser is
    Adam without options, as in stable-baselines3: the policy's `optimizer_class` and `optimizer_kwargs` are
    for networks.
    """

    def __init__(self, model: MaximumEntropyModel) -> None:
        config = model.config
        initial = initial_coefficient(config.ent_coef)
        self.learned = is_learned(config.ent_coef)
        self.target_entropy = target_entropy_of(model)
        self.fixed = torch.tensor(initial, device=model.device)
        if self.learned:
            self.log_ent_coef = torch.nn.Parameter(self.fixed.log().reshape(1))
            parameters = parameter_group([self.log_ent_coef])
            self.optimizer = parameters.optimizer(torch.optim.Adam, lr=model.schedules["learning_rate"](1.0))
            self.minimizer = NetworkOptimizer(self, parameters)

    def replaced(self, model: MaximumEntropyModel) -> EntropyCoefficient:
        """Return the coefficient of the model's new `ent_coef`, which starts at its initial value."""
        new = EntropyCoefficient(model)
        if self.learned or new.learned:
            return new
        self.fixed.copy_(new.fixed)
        return self

    def value(self) -> torch.Tensor:
        """Return alpha, a scalar without gradient."""
        return self.log_ent_coef.detach().exp().squeeze(0) if self.learned else self.fixed

    def update(self, log_probs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Take a gradient step on J(alpha).

        :param log_probs: of the actor's actions, [batch], without gradient
        :return: alpha before the step; the loss, or None when alpha is fixed
        """
        ent_coef = self.value()
        if not self.learned:
            return ent_coef, None
        slope = -(log_probs.mean() + self.target_entropy)
        loss = self.log_ent_coef.squeeze(0) * slope
        in_arrays = takes_arrays(log_probs)  # then autograd need not find the slope again
        self.minimizer.step(KnownGradients([self.log_ent_coef], [slope.view(1)]) if in_arrays else loss)
        return ent_coef, loss.detach()

    def state(self) -> dict[str, Any]:
        """Return the entries of a checkpoint."""
        if not self.learned:
            return {}
        return {"log_ent_coef": self.log_ent_coef.detach(), "ent_coef_optimizer": self.optimizer}
