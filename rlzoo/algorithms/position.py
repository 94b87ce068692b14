"""The position of a training between two steps: episodes in progress, and the rollout that they fill.

Where the environments can be restored (see `VecEnv.episode_state`), training resumes in the middle of the
episodes. Elsewhere new episodes begin, and the steps that had been collected are still learned from.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlzoo.core.errors import CheckpointError
from rlzoo.core.observations import copy_obs
from rlzoo.core.seeding import set_rng_state
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.evaluation.episodes import savable_episodes

MAX_LAST_OBS = 2**20
"""Bytes of the last observations that a file holds besides the position, which is saved when asked for."""


def position(model: Any) -> dict[str, Any]:
    """The position of a model in training, for a checkpoint; empty before the first step.

    `envs` is missing where the environments cannot be restored.
    """
    if model.env is None or model._last_obs is None:
        return {}
    rollout = model.rollout_buffer
    saved: dict[str, Any] = {
        "last_obs": copy_obs(model._last_obs),
        "last_episode_starts": model._last_episode_starts.copy(),
        "memory": getattr(model, "memory", None),
        "noise": _noise(model),
        "rollout": {} if rollout is None else rollout.state_dict(),
    }
    if (envs := savable_episodes(model.env)) is not None:
        saved["envs"] = envs
    return saved


def _noise(model: Any) -> Any:
    """The gSDE noise of an unfinished rollout; off-policy algorithms keep theirs in their own state."""
    if model.rollout_buffer is None or not getattr(model.config, "use_sde", False):
        return None
    distribution = model.policy.action_dist
    return [distribution.exploration_mat, distribution.exploration_matrices]


def last_obs(model: Any) -> dict[str, Any]:
    """What the environments of a model in training showed last, for `go_on_from_last_obs`.

    Empty before the first step, and where it would make a file large.
    """
    obs = model._last_obs
    if model.env is None or obs is None:
        return {}
    if sum(part.nbytes for part in (obs.values() if isinstance(obs, dict) else [obs])) > MAX_LAST_OBS:
        return {}
    return {"obs": copy_obs(obs), "episode_starts": model._last_episode_starts.copy()}


def go_on_from_last_obs(model: Any) -> None:
    """Let a loaded model go on in environments that stand where its file was written.

    They are those that it was saved with, in the same process; nothing happens where there are more or fewer.

    :raises CheckpointError: what the file holds is damaged
    """
    saved, model._saved_last_obs = model._saved_last_obs, {}
    try:
        if not saved or len(saved["episode_starts"]) != model.n_envs:
            return
        model.policy.obs_to_tensor(saved["obs"])  # asks for the keys and shapes of the space
        model._last_obs = copy_obs(saved["obs"])
        model._last_episode_starts = np.array(saved["episode_starts"], bool)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"the last observations in the model file are damaged: {error}"[:300]) from None


def continues_episodes(model: Any) -> bool:
    """Return whether a loaded model resumes within the episodes of its file."""
    return "envs" in model._resume["position"]


def saved_csv_rows(model: Any) -> list[int]:
    """Return how many rows each CSV file had when the file of a loaded model was written."""
    rows: list[int] = model._resume["csv_rows"]
    return rows


def begin_episodes(model: Any, env: VecEnv, resume: bool) -> None:
    """Reset the environments, or, when a saved training is resumed, continue where its file stands.

    :raises CheckpointError: the position or the random state in the file is damaged
    """
    saved: dict[str, Any] = model._resume if resume else {}
    model._resume, model.position_restored = {}, False
    if saved:
        continue_randomness(saved, env)
    model._last_obs = env.reset()
    model._last_episode_starts = np.ones(env.num_envs, bool)
    at: dict[str, Any] = saved.get("position") or {}
    try:
        model._saved_rollout = at.get("rollout") or {}
        if (memory := at.get("memory")) is not None:
            model.memory = {name: value.to(model.device) for name, value in memory.items()}
        if "envs" in at and env.load_episode_state(at["envs"]):
            _restore(model, at)
            set_rng_state(saved["rng"])  # resetting may have drawn numbers
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(f"the position in the model file cannot be restored: {error}"[:300]) from error


def _restore(model: Any, at: dict[str, Any]) -> None:
    last_obs, starts = at["last_obs"], at["last_episode_starts"]
    if _layout(last_obs) != _layout(model._last_obs) or _layout(starts) != _layout(
        model._last_episode_starts
    ):
        raise ValueError("the last observations are of another shape or type")
    model._last_obs, model._last_episode_starts = copy_obs(last_obs), starts.copy()
    if at["noise"] is not None:
        distribution = model.policy.action_dist
        one, many = (torch.as_tensor(value).to(model.device) for value in at["noise"])
        distribution.exploration_mat, distribution.exploration_matrices = one, many
    model.position_restored = True


def _layout(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: _layout(part) for key, part in obs.items()}
    return obs.shape, obs.dtype


def continue_randomness(saved: dict[str, Any], env: VecEnv) -> None:
    """Give the generators and the environments what the file recorded for resuming its training."""
    try:
        set_rng_state(saved["rng"])
        env.seed(saved["env_seed"])
    except (LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"the random state in the model file is damaged: {error}") from None
