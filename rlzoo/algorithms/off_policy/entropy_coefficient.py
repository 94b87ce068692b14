"""The temperature alpha of maximum-entropy learning: fixed, or learned so that the entropy meets a target."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.core.errors import UserError


def check_entropy(config: Any) -> None:
    """Check `ent_coef` and `target_entropy` of a Config.

    :raises UserError: a text that is neither a number nor "auto" nor (for `ent_coef`) "auto_<number>", or a
        negative coefficient
    """
    initial_coefficient(config.ent_coef)
    target = config.target_entropy
    if target != "auto" and (isinstance(target, str) or not math.isfinite(target)):
        raise UserError(f"target_entropy must be a number or 'auto', not {target!r}")


def initial_coefficient(ent_coef: float | str) -> float:
    """Where alpha begins: 0.1 for `auto_0.1`, 1 for `auto`, else the number itself (also as a text)."""
    text = str(ent_coef)
    try:
        initial = 1.0 if text == "auto" else float(text.removeprefix("auto_"))
    except ValueError:
        initial = math.nan
    if not 0 <= initial < math.inf or (initial == 0 and is_learned(ent_coef)):
        raise UserError(
            f"ent_coef must be a number of at least 0, 'auto' or such as 'auto_0.1', not {ent_coef!r}"
        )
    return initial


def is_learned(ent_coef: float | str) -> bool:
    """Whether alpha is more than a number: `auto` or `auto_<number>`."""
    return str(ent_coef).startswith("auto")


class EntropyCoefficient:
    """alpha of a model with the hyperparameters `ent_coef` and `target_entropy`.

    Learned, it minimises J(alpha) = -log alpha (log pi(a|s) + target_entropy) (Haarnoja et al. 2018, eq. 18
    with the logarithm as the parameter): it rises while the entropy is below the target. Its optimiser is
    Adam without options, as in stable-baselines3: the policy's `optimizer_class` and `optimizer_kwargs` are
    for networks.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        initial = initial_coefficient(config.ent_coef)
        self.learned = is_learned(config.ent_coef)
        auto = isinstance(config.target_entropy, str)
        self.target_entropy = (
            -float(np.prod(model.action_space.shape)) if auto else float(config.target_entropy)
        )
        self.fixed = torch.tensor(initial, device=model.device)
        if self.learned:
            self.flat = FlatParameters([torch.nn.Parameter(self.fixed.log().reshape(1))])
            self.optimizer = self.flat.optimizer(torch.optim.Adam, lr=model.schedules["learning_rate"](1.0))

    def value(self) -> torch.Tensor:
        """alpha, a scalar without gradient."""
        return self.flat.vector.detach().exp().squeeze(0) if self.learned else self.fixed

    def update(
        self, log_probs: torch.Tensor, learning_rate: float
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """alpha as it is now, then a step on J(alpha).

        :param log_probs: of the actor's actions, [batch], without gradient
        :return: alpha before the step; the loss, or None when alpha is fixed
        """
        ent_coef = self.value()
        if not self.learned:
            return ent_coef, None
        gap = log_probs.mean() + self.target_entropy
        log_ent_coef, gradient = self.flat.vector, self.flat.vector.grad
        assert gradient is not None
        gradient.copy_(-gap)  # dJ / d log alpha
        self.optimizer.param_groups[0]["lr"] = learning_rate
        loss = -log_ent_coef.detach().squeeze(0) * gap
        self.optimizer.step()
        return ent_coef, loss

    def state(self) -> dict[str, Any]:
        """What a checkpoint holds of it."""
        if not self.learned:
            return {}
        return {"log_ent_coef": self.flat.vector.detach(), "ent_coef_optimizer": self.optimizer}
