"""The position of a training between two steps: episodes in progress, and the rollout that they fill.

Where the environments can be restored (see `VecEnv.episode_state`), training resumes in the middle of the
episodes. Elsewhere new episodes begin, and the steps that had been collected are still learned from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from rlzoo.core.errors import CheckpointError
from rlzoo.core.observations import Obs, copy_obs, copy_of, map_obs, n_bytes
from rlzoo.core.runtime import set_rng_state
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.evaluation.episodes import savable_episodes

if TYPE_CHECKING:
    from rlzoo.algorithms.agent.agent import Agent

Saved: TypeAlias = Mapping[str, Any]
"""A part of a checkpoint: JSON values, arrays and tensors by name."""

MAX_LAST_OBS = 2**20
"""Limit in bytes on the last observations in a file that is saved without the position."""

DAMAGED = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""Exceptions that reading a damaged checkpoint raises."""


@dataclass
class ResumeState:
    """What a loaded agent holds to resume the training of its file; empty in a new agent.

    :param rng: states of the random generators; None in a new agent
    :param env_seed: seed of the environments
    :param position: what `position` returned
    :param csv_rows: number of rows of each CSV file of the logger
    :param last_obs: what `last_obs` returned
    :param callbacks: `state_dict` of the callbacks
    """

    rng: Saved | None = None
    env_seed: int = 0
    position: Saved = field(default_factory=dict)
    csv_rows: list[int] = field(default_factory=list)
    last_obs: Saved = field(default_factory=dict)
    callbacks: Saved | None = None

    @property
    def continues_episodes(self) -> bool:
        """Whether training resumes within the episodes of the file."""
        return "envs" in self.position

    def restore_randomness(self, env: VecEnv) -> None:
        """Restore the random generators, and seed the environments; do nothing in a new agent.

        :raises CheckpointError: the saved state is damaged
        """
        if self.rng is None:
            return
        try:
            set_rng_state(dict(self.rng))
            env.seed(self.env_seed)
        except (LookupError, TypeError, ValueError) as error:
            raise CheckpointError(f"the random state in the model file is damaged: {error}") from None


def position(model: Agent) -> dict[str, object]:
    """Return the position of a model in training, for a checkpoint; empty before the first step.

    `envs` is missing where the environments cannot be restored.
    """
    obs = model.collector.obs
    if model.env is None or obs is None or model.ranks is not None:  # other ranks have the other episodes
        return {}
    rollout = model.last_rollout
    saved: dict[str, object] = {
        "last_obs": copy_obs(obs),
        "last_episode_starts": copy_of(model.collector.episode_starts),
        "memory": getattr(model, "rnn_state", None),
        "noise": _noise(model),
        "rollout": {} if rollout is None else rollout.state_dict(),
    }
    if (envs := savable_episodes(model.env)) is not None:
        saved["envs"] = envs
    return saved


def _noise(model: Agent) -> list[torch.Tensor] | None:
    """Return the gSDE noise of an unfinished rollout; off-policy algorithms keep theirs in their state."""
    if model.last_rollout is None or not getattr(model.config, "use_sde", False):
        return None
    distribution = model.policy.action_dist
    return [distribution.exploration_mat, distribution.exploration_matrices]


def last_obs(model: Agent) -> dict[str, object]:
    """Return the last observations of a model in training, for `resume_from_last_obs`.

    Empty before the first step, and where it would make a file large.
    """
    obs = model.collector.obs
    if model.env is None or obs is None or model.ranks is not None:
        return {}
    if n_bytes(obs) > MAX_LAST_OBS:
        return {}
    return {"obs": copy_obs(obs), "episode_starts": copy_of(model.collector.episode_starts)}


def resume_from_last_obs(model: Agent) -> None:
    """Resume a loaded model in the environments that it was saved with, in the same process.

    Nothing happens where there are more or fewer environments.

    :raises CheckpointError: what the file holds is damaged
    """
    saved, model.resume_state.last_obs = model.resume_state.last_obs, {}
    try:
        if not saved or len(saved["episode_starts"]) != model.n_envs:
            return
        model.policy.obs_to_tensor(saved["obs"])  # raises if keys or shapes are not those of the space
        model.collector.restore(saved["obs"], saved["episode_starts"])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"the last observations in the model file are damaged: {error}"[:300]) from None


def resume_episodes(model: Agent, env: VecEnv, saved: ResumeState) -> None:
    """Resume the training of a file: in the middle of its episodes, or where new ones begin.

    :raises CheckpointError: the position or the random state in the file is damaged
    """
    collector, at = model.collector, saved.position
    saved.restore_randomness(env)
    collector.reset(env)
    try:
        collector.saved_rollout = at.get("rollout") or {}
        if (rnn_state := at.get("memory")) is not None:
            restored = {name: value.to(model.device) for name, value in rnn_state.items()}
            model.rnn_state = restored  # type: ignore[attr-defined]  # of recurrent policies
        if "envs" in at and env.load_episode_state(at["envs"]):
            _restore(model, at)
            set_rng_state(dict(saved.rng or {}))  # resetting may have drawn numbers
    except DAMAGED as error:
        raise CheckpointError(f"the position in the model file cannot be restored: {error}"[:300]) from error


def _restore(model: Agent, at: Saved) -> None:
    collector, obs, starts = model.collector, at["last_obs"], at["last_episode_starts"]
    if _layout(obs) != _layout(collector.current_obs()) or _layout(starts) != _layout(
        collector.episode_starts
    ):
        raise ValueError("the last observations are of another shape or type")
    collector.restore(obs, starts)
    if at["noise"] is not None:
        distribution = model.policy.action_dist
        one, many = (torch.as_tensor(value).to(model.device) for value in at["noise"])
        distribution.exploration_mat, distribution.exploration_matrices = one, many
    collector.episodes_restored = True


def _layout(obs: Obs) -> object:
    """Return shape and dtype of each array."""
    return map_obs(lambda part: (part.shape, part.dtype), obs)


def env_id_of(model: Agent) -> str | None:
    """Return the registered id of the environment that the model trains on, where it has one."""
    env = model.env
    if env is None:
        return model.env_id
    spec = getattr(env, "spec", None)
    if spec is None:
        try:
            spec = env.get_attr("spec", 0)[0]
        except AttributeError:
            return None
    env_id: str | None = getattr(spec, "id", None)
    return env_id
