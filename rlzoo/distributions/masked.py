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


class MaskableCategoricalDistribution(Categorical):
    """Categorical whose choices can be forbidden."""

    __slots__ = ("_all_logits",)

    def proba_distribution(self, action_logits: Tensor) -> MaskableCategoricalDistribution:
        """As Categorical's; everything is allowed. Logits of another layout are made [B, action_dim]."""
        if action_logits.dim() != 2 or action_logits.shape[1] != self.action_dim:
            action_logits = action_logits.reshape(-1, self.action_dim)
        super().proba_distribution(action_logits)
        self._all_logits = action_logits
        return self

    def apply_masking(self, masks: Any) -> MaskableCategoricalDistribution:
        """Allow these choices and no others.

        :param masks: bool [B, action_dim], also as an array; None allows all
        """
        logits = self._all_logits
        if masks is not None:
            logits = torch.where(_allowed(masks, logits), logits, FORBIDDEN)
        super().proba_distribution(logits)
        return self

    @property
    def distribution(self) -> MaskableCategorical:
        return MaskableCategorical(logits=self.logits)


def _allowed(masks: Any, logits: Tensor) -> Tensor:
    return torch.as_tensor(masks, dtype=torch.bool, device=logits.device).reshape(logits.shape)


class MaskableCategorical(torch.distributions.Categorical):
    """A categorical distribution of PyTorch whose choices can be forbidden.

    For code of one's own; policies have a `MaskableCategoricalDistribution`, which is faster.

    :param probs: probabilities [..., n], or
    :param logits: logarithms of probabilities [..., n], up to a constant
    :param masks: what is allowed, bool [..., n]; None allows all
    """

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
        masks: Any = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self._all_logits, self._validate = self.logits, validate_args
        self.apply_masking(masks)

    def apply_masking(self, masks: Any) -> None:
        """Allow these choices and no others; a later mask replaces an earlier one.

        :param masks: bool [..., n], also as an array; None allows all
        """
        logits = self._all_logits
        self.masks = None if masks is None else _allowed(masks, logits)
        if self.masks is not None:
            logits = torch.where(self.masks, logits, FORBIDDEN)
        self.__dict__.pop("probs", None)  # those of the last mask
        super().__init__(logits=logits, validate_args=self._validate)

    def entropy(self) -> Tensor:
        """Entropy in nats, [...]; a forbidden choice adds nothing."""
        terms = self.logits * self.probs
        if self.masks is not None:
            terms = torch.where(self.masks, terms, 0.0)
        return -terms.sum(-1)


class MaskableMultiCategoricalDistribution(MultiCategorical):
    """MultiCategorical whose choices can be forbidden."""

    __slots__ = ()
    part_class = MaskableCategoricalDistribution

    def proba_distribution(self, action_logits: Tensor) -> MaskableMultiCategoricalDistribution:
        """As MultiCategorical's; everything is allowed. Logits of another layout are made two-dimensional."""
        super().proba_distribution(action_logits.reshape(-1, sum(self.action_dims)))
        return self

    def apply_masking(self, masks: Any) -> MaskableMultiCategoricalDistribution:
        """Allow these choices and no others.

        :param masks: bool [B, sum(action_dims)], the choices side by side; None allows all
        """
        if masks is None:
            split: Any = [None] * len(self.action_dims)
        else:
            rows = torch.as_tensor(masks, dtype=torch.bool).reshape(-1, sum(self.action_dims))
            split = rows.split(self.action_dims, dim=-1)
        for mask, part in zip(split, self.parts, strict=True):
            part.apply_masking(mask)
        return self


class MaskableBernoulliDistribution(MaskableMultiCategoricalDistribution):
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


MaskableDistribution = MaskableCategoricalDistribution | MaskableMultiCategoricalDistribution


def make_masked_proba_distribution(action_space: spaces.Space[Any]) -> MaskableDistribution:
    """The distribution over `action_space`, with everything allowed.

    :raises UserError: actions of a Box cannot be forbidden
    """
    if isinstance(action_space, spaces.Discrete):
        return MaskableCategoricalDistribution(int(action_space.n))
    if isinstance(action_space, spaces.MultiDiscrete):
        return MaskableMultiCategoricalDistribution(action_space.nvec.ravel().tolist())
    if isinstance(action_space, spaces.MultiBinary):
        return MaskableBernoulliDistribution(action_size(action_space))
    raise UserError(
        f"actions of a {type(action_space).__name__} space cannot be forbidden; "
        "those of Discrete, MultiDiscrete and MultiBinary can"
    )
