"""Distributions over choices of which some are forbidden.

Huang and Ontañón (2020), "A closer look at invalid action masking in policy gradient algorithms",
https://arxiv.org/abs/2006.14171: the logit of a forbidden choice is replaced by a large negative number, so
that its probability is zero, and so is its gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.core.errors import UserError
from rlzoo.core.spaces import action_size
from rlzoo.distributions.categorical import Categorical, MultiCategorical

FORBIDDEN = -1e8
"""The logit of a forbidden choice. Its exponential is 0; an infinite one would make the gradients NaN."""


class MaskableCategorical(Categorical):
    """Categorical whose choices can be forbidden."""

    __slots__ = ("_all_logits",)

    def proba_distribution(self, action_logits: Tensor) -> MaskableCategorical:
        """As Categorical's; everything is allowed."""
        super().proba_distribution(action_logits)
        self._all_logits = action_logits
        return self

    def apply_masking(self, masks: Any) -> MaskableCategorical:
        """Allow these choices and no others.

        :param masks: bool [B, action_dim], also as an array; None allows all
        """
        logits = self._all_logits
        if masks is not None:
            allowed = torch.as_tensor(masks, dtype=torch.bool, device=logits.device).reshape(logits.shape)
            logits = torch.where(allowed, logits, FORBIDDEN)
        super().proba_distribution(logits)
        return self


class MaskableMultiCategorical(MultiCategorical):
    """MultiCategorical whose choices can be forbidden."""

    __slots__ = ()
    part_class = MaskableCategorical

    def apply_masking(self, masks: Any) -> MaskableMultiCategorical:
        """Allow these choices and no others.

        :param masks: bool [B, sum(action_dims)], the choices side by side; None allows all
        """
        if masks is None:
            split: Any = [None] * len(self.parts)
        else:
            rows = torch.as_tensor(masks, dtype=torch.bool).reshape(-1, sum(self.action_dims))
            split = rows.split(self.action_dims, dim=-1)
        for part, mask in zip(self.parts, split, strict=True):
            part.apply_masking(mask)
        return self


class MaskableBernoulli(MaskableMultiCategorical):
    """Independent bits whose values can be forbidden: each is a choice out of two, no and yes.

    Actions are 0 or 1, [B, n_bits].
    """

    __slots__ = ()

    def __init__(self, action_dims: int) -> None:
        super().__init__([2] * action_dims)

    @property
    def probs(self) -> Tensor:
        """Probability of a one, [B, n_bits]."""
        return torch.stack([part.probs[..., 1] for part in self.parts], dim=-1)


MaskableDistribution = MaskableCategorical | MaskableMultiCategorical


def make_masked_proba_distribution(action_space: spaces.Space[Any]) -> MaskableDistribution:
    """The distribution over `action_space`, with everything allowed.

    :raises UserError: actions of a Box cannot be forbidden
    """
    if isinstance(action_space, spaces.Discrete):
        return MaskableCategorical(int(action_space.n))
    if isinstance(action_space, spaces.MultiDiscrete):
        return MaskableMultiCategorical(action_space.nvec.ravel().tolist())
    if isinstance(action_space, spaces.MultiBinary):
        return MaskableBernoulli(action_size(action_space))
    raise UserError(
        f"actions of a {type(action_space).__name__} space cannot be forbidden; "
        "those of Discrete, MultiDiscrete and MultiBinary can"
    )
