"""Distributions of discrete actions with invalid action masking.

Huang and Ontañón (2020), "A closer look at invalid action masking in policy gradient algorithms",
https://arxiv.org/abs/2006.14171: logits of invalid actions are replaced by a large negative number, so that
their probabilities and gradients are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.core.errors import UnsupportedSpace
from rlzoo.core.preprocessing import action_size
from rlzoo.distributions.distribution import Categorical, MultiCategorical

Masks: TypeAlias = np.ndarray | Tensor | None
MASKED_LOGIT = -1e8
"""Logit of an invalid action. Its exponential is 0; minus infinity would make gradients NaN."""


class MaskableCategoricalDistribution(Categorical):
    """Categorical distribution with action masks."""

    __slots__ = ("_all_logits",)

    def proba_distribution(self, action_logits: Tensor) -> MaskableCategoricalDistribution:
        """Set the logits, reshaped to [B, action_dim]; all actions are valid."""
        if action_logits.dim() != 2 or action_logits.shape[1] != self.action_dim:
            action_logits = action_logits.reshape(-1, self.action_dim)
        super().proba_distribution(action_logits)
        self._all_logits = action_logits
        return self

    def apply_masking(self, masks: Masks) -> MaskableCategoricalDistribution:
        """Apply action masks.

        :param masks: bool [B, action_dim], True for valid actions; None: all are valid
        """
        logits = self._all_logits
        if masks is not None:
            logits = torch.where(_allowed(masks, logits), logits, MASKED_LOGIT)
        super().proba_distribution(logits)
        return self

    @property
    def distribution(self) -> MaskableCategorical:
        return MaskableCategorical(logits=self.logits)

    @distribution.setter  # type: ignore[override]
    def distribution(self, given: torch.distributions.Categorical) -> None:
        MaskableCategoricalDistribution.proba_distribution(self, given.logits)


def _allowed(masks: Masks, logits: Tensor) -> Tensor:
    return torch.as_tensor(masks, dtype=torch.bool, device=logits.device).reshape(logits.shape)


class MaskableCategorical(torch.distributions.Categorical):
    """PyTorch categorical distribution with action masks, for custom code.

    Policies use `MaskableCategoricalDistribution`, which is faster.

    :param probs: probabilities [..., n]; or
    :param logits: unnormalised log-probabilities [..., n]
    :param masks: bool [..., n], True for valid actions; None: all are valid
    """

    def __init__(
        self,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
        masks: Masks = None,
    ) -> None:
        super().__init__(probs, logits, validate_args)
        self._all_logits, self._validate = self.logits, validate_args
        self.apply_masking(masks)

    def apply_masking(self, masks: Masks) -> None:
        """Apply action masks in place of earlier ones.

        :param masks: bool [..., n], True for valid actions; None: all are valid
        """
        logits = self._all_logits
        self.masks = None if masks is None else _allowed(masks, logits)
        if self.masks is not None:
            logits = torch.where(self.masks, logits, MASKED_LOGIT)
        self.__dict__.pop("probs", None)  # cached, of the last mask
        super().__init__(logits=logits, validate_args=self._validate)

    def entropy(self) -> Tensor:
        """Return the entropy in nats, [...]; invalid actions add nothing."""
        terms = self.logits * self.probs
        if self.masks is not None:
            terms = torch.where(self.masks, terms, 0.0)
        return -terms.sum(-1)


class MaskableMultiCategoricalDistribution(MultiCategorical):
    """MultiCategorical distribution with action masks."""

    __slots__ = ()
    part_class = MaskableCategoricalDistribution

    def proba_distribution(self, action_logits: Tensor) -> MaskableMultiCategoricalDistribution:
        """Set the logits, reshaped to [B, sum(action_dims)]; all actions are valid."""
        super().proba_distribution(action_logits.reshape(-1, sum(self.action_dims)))
        return self

    def apply_masking(self, masks: Masks) -> MaskableMultiCategoricalDistribution:
        """Apply action masks.

        :param masks: bool [B, sum(action_dims)], concatenated over dimensions; None: all are valid
        """
        if masks is None:
            split: Sequence[Tensor | None] = [None] * len(self.action_dims)
        else:
            rows = torch.as_tensor(masks, dtype=torch.bool).reshape(-1, sum(self.action_dims))
            split = rows.split(self.action_dims, dim=-1)
        for mask, part in zip(split, self.parts, strict=True):
            cast(MaskableCategoricalDistribution, part).apply_masking(mask)
        return self


class MaskableBernoulliDistribution(MaskableMultiCategoricalDistribution):
    """Bernoulli distribution with action masks: each bit is a categorical distribution over 0 and 1.

    Actions are 0 or 1, [B, n_bits].
    """

    __slots__ = ()

    def __init__(self, action_dims: int) -> None:
        super().__init__([2] * action_dims)

    @property
    def probs(self) -> Tensor:
        """Probability of 1, [B, n_bits]."""
        return torch.stack([part.probs[..., 1] for part in self.parts], dim=-1)


MaskableDistribution = MaskableCategoricalDistribution | MaskableMultiCategoricalDistribution


def make_masked_proba_distribution(action_space: spaces.Space) -> MaskableDistribution:
    """Return the maskable distribution of an action space.

    :raises UnsupportedSpace: Box actions cannot be masked
    """
    if isinstance(action_space, spaces.Discrete):
        return MaskableCategoricalDistribution(int(action_space.n))
    if isinstance(action_space, spaces.MultiDiscrete):
        return MaskableMultiCategoricalDistribution(action_space.nvec.ravel().tolist())
    if isinstance(action_space, spaces.MultiBinary):
        return MaskableBernoulliDistribution(action_size(action_space))
    raise UnsupportedSpace(
        f"actions of a {type(action_space).__name__} space cannot be masked; "
        "those of Discrete, MultiDiscrete and MultiBinary can"
    )
