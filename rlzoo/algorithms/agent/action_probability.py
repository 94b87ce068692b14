"""Probabilities of actions, in the units of the environment, as `predict` returns actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from rlzoo.core.errors import UserError


def action_probability(
    policy: Any,
    space: spaces.Space[object],
    observation: object,
    state: tuple[np.ndarray, ...] | None = None,
    episode_start: Any = None,
    actions: Any = None,
    logp: bool = False,
    action_masks: npt.ArrayLike | None = None,
) -> Any:
    """See `Algorithm.action_probability`; `space` is the action space."""
    if not hasattr(policy, "get_distribution"):
        raise UserError(f"{type(policy).__name__} is deterministic: its actions have no probabilities")
    obs, vectorized = policy.obs_to_tensor(observation)
    n_obs = len(next(iter(obs.values())) if isinstance(obs, dict) else obs)
    recurrent = getattr(policy, "recurrent", False)
    context = {"rnn_state": policy.rnn_state_from(state, episode_start, n_obs)} if recurrent else {}
    if action_masks is not None:
        context["action_masks"] = policy.masks_of(action_masks, n_obs)

    def read(tensor: torch.Tensor) -> np.ndarray:
        array = tensor.cpu().numpy()
        return array if vectorized else array.squeeze(axis=0)

    was_training = policy.training
    policy.set_training_mode(False)
    try:
        with torch.no_grad():
            if actions is not None:
                log_prob = _log_probability(policy, space, obs, n_obs, actions, context)
                return read(log_prob if logp else log_prob.exp())
            distribution = policy.get_distribution(obs, **context)
            if isinstance(space, spaces.Box):
                return read(distribution.mode()), read(distribution.stddev)
            if isinstance(space, spaces.MultiDiscrete):
                return [read(part.probs) for part in distribution.parts]
            return read(distribution.probs)
    finally:
        policy.set_training_mode(was_training)


def _log_probability(
    policy: Any, space: spaces.Space[object], obs: Any, n_obs: int, actions: Any, context: dict[str, Any]
) -> torch.Tensor:
    """Return log-probabilities [batch] of actions [batch, ...] that an environment executed."""
    taken = np.asarray(actions).reshape(-1, *(space.shape or ()))
    if len(taken) != n_obs:
        raise UserError(f"{len(taken)} actions were given for {n_obs} observations")
    stretch = 0.0  # log of the volume that the policy's unit of action has in the environment
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        taken = taken - space.start
    elif isinstance(space, spaces.Box):
        taken = taken.astype(np.float32)
        if getattr(policy, "squash_output", False):
            taken = policy.scale_action(taken)
            stretch = float(np.log((space.high - space.low) / 2).sum())
    _, log_prob, _ = policy.evaluate_actions(obs, torch.as_tensor(taken, device=policy.device), **context)
    return log_prob - stretch  # type: ignore[no-any-return]
