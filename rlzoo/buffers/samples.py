"""Batches of experience as named tuples, in the order of fields that scripts unpack."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch


class RolloutBufferSamples(NamedTuple):
    """B steps of a rollout: observations and actions [B, ...], the rest [B]."""

    observations: torch.Tensor
    actions: torch.Tensor
    old_values: torch.Tensor
    old_log_prob: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class DictRolloutBufferSamples(NamedTuple):
    """`RolloutBufferSamples` of Dict observations."""

    observations: dict[str, torch.Tensor]
    actions: torch.Tensor
    old_values: torch.Tensor
    old_log_prob: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor


class MaskableRolloutBufferSamples(NamedTuple):
    """`RolloutBufferSamples` with the choices that were valid, 1 or 0, [B, n_choices]."""

    observations: torch.Tensor
    actions: torch.Tensor
    old_values: torch.Tensor
    old_log_prob: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    action_masks: torch.Tensor


class MaskableDictRolloutBufferSamples(NamedTuple):
    """`MaskableRolloutBufferSamples` of Dict observations."""

    observations: dict[str, torch.Tensor]
    actions: torch.Tensor
    old_values: torch.Tensor
    old_log_prob: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    action_masks: torch.Tensor


class _Transitions(NamedTuple):
    observations: Any
    actions: torch.Tensor
    next_observations: Any
    dones: torch.Tensor
    rewards: torch.Tensor
    discounts: torch.Tensor | None = None


class ReplayBufferSamples(_Transitions):
    """B transitions: observations [B, ...], actions [B, n]; dones, rewards and discounts [B, 1].

    `dones` is 1 where the task ended, and 0 where an episode was truncated. `discounts`, of n-step returns,
    is gamma^m for the m steps that a transition spans; None where each spans one.
    """

    indices: np.ndarray | None = None  # [B], position of the transitions in the buffer
    weights: torch.Tensor | None = None  # [B], importance weights of prioritised replay


class DictReplayBufferSamples(_Transitions):
    """`ReplayBufferSamples` of Dict observations."""

    indices: np.ndarray | None = None
    weights: torch.Tensor | None = None
