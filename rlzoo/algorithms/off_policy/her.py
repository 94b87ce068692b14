"""HER, hindsight experience replay: Andrychowicz et al. (2017), https://arxiv.org/abs/1707.01495.

An off-policy algorithm whose replay buffer relabels transitions: goals that were achieved replace the
desired ones. `HER(policy, env, SAC)` is SAC with a `HerReplayBuffer`, which does all of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from rlzoo.algorithms.agent.foreign import algorithm_of
from rlzoo.algorithms.base import Algorithm
from rlzoo.buffers.replay.her_replay_buffer import GoalSelectionStrategy, HerReplayBuffer
from rlzoo.config import catalog
from rlzoo.config.her_entries import HER as NAME
from rlzoo.config.her_entries import goal_policy, learner_name, require_replay
from rlzoo.config.legacy.her_keys import drop_her_keys
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.envs.single_env.goal_env import HERGoalEnvWrapper
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint


class NoLearner(UserError, ImportError):
    """HER without the algorithm that learns; scripts for stable-baselines3 expect an ImportError."""


class HER:
    """Factory for an agent of another algorithm with hindsight replay.

    Example:
        >>> from rlzoo import BitFlippingEnv
        >>> model = HER("MlpPolicy", BitFlippingEnv(n_bits=8), model_class="dqn").learn(200)

    :param policy: as for `model_class`; observations being a Dict, MlpPolicy means MultiInputPolicy
    :param env: a goal environment: its observations are a Dict of "observation", "achieved_goal" and
        "desired_goal", and it has `compute_reward(achieved_goal, desired_goal, info)`
    :param model_class: the algorithm that learns, a class (SAC) or its name ("sac")
    :param n_sampled_goal: relabelled transitions for each original one
    :param goal_selection_strategy: strategy for the new goals: "future", "final", "episode" or "random"
    :param online_sampling: of no effect, for scripts that give it: goals are always chosen on sampling
    :param max_episode_length: of no effect: episodes may be of any length
    :param kwargs: what `model_class` takes
    :return: an agent of class `model_class`
    :raises UserError: the algorithm does not replay experience, or the environment has no goals
    """

    def __new__(
        cls,
        policy: Any,
        env: Any = None,
        model_class: type[Algorithm] | str | None = None,
        n_sampled_goal: int = 4,
        goal_selection_strategy: GoalSelectionStrategy | str = "future",
        online_sampling: bool | None = None,
        max_episode_length: int | None = None,
        **kwargs: Any,
    ) -> Any:
        if model_class is None:
            raise NoLearner(
                "HER is a replay buffer, not an algorithm of its own: use"
                " SAC('MultiInputPolicy', env, replay_buffer_class=HerReplayBuffer), or HER(policy, env, SAC)"
            )
        drop_her_keys({"online_sampling": online_sampling, "max_episode_length": max_episode_length})
        learner: Any = (
            catalog.load(learner_name(model_class)) if isinstance(model_class, str) else model_class
        )
        _check_learner(learner)
        buffer_class = kwargs.setdefault("replay_buffer_class", HerReplayBuffer)
        if not isinstance(buffer_class, type) or not issubclass(buffer_class, HerReplayBuffer):
            raise UserError("the replay_buffer_class of HER must be derived from HerReplayBuffer")
        given = kwargs.get("replay_buffer_kwargs") or {}
        if not isinstance(given, Mapping):
            raise UserError(f"replay_buffer_kwargs must be a dictionary, not {given!r}")
        kwargs["replay_buffer_kwargs"] = {
            **given,
            "n_sampled_goal": n_sampled_goal,
            "goal_selection_strategy": GoalSelectionStrategy(goal_selection_strategy).value,
        }
        return learner(goal_policy(policy), _with_goals(env), **kwargs)

    @classmethod
    def load(cls, path: Any, env: Any = None, **kwargs: Any) -> Any:
        """Read an agent with the class that its file names; see `Algorithm.load`.

        :raises CheckpointError: the file is damaged, or its algorithm is not registered (see `register`)
        """
        try:
            written_by = read_checkpoint(path).metadata.get("algorithm")
        except ForeignCheckpoint as error:
            if error.kind != "stable-baselines3":
                raise
            written_by = algorithm_of(path)
        if hasattr(path, "seek"):
            path.seek(0)
        targets = {catalog.resolve(name) for name in catalog.names() if name != NAME}
        for module, _, name in (target.partition(":") for target in targets):
            if name == written_by:
                learner = getattr(importlib.import_module(module), name)
                return learner.load(path, env=_with_goals(env), **kwargs)
        raise CheckpointError(f"this file holds a {written_by} agent; load it with {written_by}.load")


def _check_learner(learner: Any) -> None:
    """Raise UserError if a class is not that of an algorithm with a replay buffer."""
    if not isinstance(learner, type) or not issubclass(learner, Algorithm):
        raise UserError(f"model_class must be an algorithm such as SAC, not {learner!r}")
    require_replay(learner)


def _with_goals(env: Any) -> Any:
    """Return the environment that shows its goals, where a wrapper hides them in a vector."""
    return env.env if isinstance(env, HERGoalEnvWrapper) else env
