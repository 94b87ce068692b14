"""Play episodes with a model, and evaluate it by their returns."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import gymnasium as gym
import numpy as np

from rlzoo.core.errors import UserError
from rlzoo.core.observations import copy_obs
from rlzoo.envs.action_masks import is_masking_supported, mask_reader
from rlzoo.envs.make_vec_env import as_vec_env
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.vec_env.vec_env import VecEnv, is_vecenv_wrapped
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor

StepHook: TypeAlias = Callable[[dict[str, Any], dict[str, Any]], object]


class Predictor(Protocol):
    """Anything that chooses actions: an algorithm, a policy, a script."""

    def predict(
        self,
        observation: object,
        state: tuple[np.ndarray, ...] | None = None,
        episode_start: np.ndarray | None = None,
        deterministic: bool = False,
    ) -> tuple[np.ndarray, tuple[np.ndarray, ...] | None]:
        """Return actions for observations [n_envs, ...] and the next state of a recurrent policy."""


@dataclass(slots=True)
class Episodes:
    """Finished episodes, in the order they ended.

    :param lengths: in steps
    :param successes: None where the environment does not report success
    :param n_steps: steps of all environments together, those of unfinished episodes included
    """

    returns: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    successes: list[bool | None] = field(default_factory=list)
    n_steps: int = 0

    def add(self, episode_return: float, length: int, info: Mapping[str, object]) -> None:
        """Add an episode that ended with this info."""
        self.returns.append(float(episode_return))
        self.lengths.append(int(length))
        success = info.get("is_success")
        self.successes.append(None if success is None else bool(success))

    @property
    def report_success(self) -> bool:
        """Whether any episode reported success or failure."""
        return any(success is not None for success in self.successes)

    @property
    def succeeded(self) -> list[bool]:
        """Per episode; one that reported nothing counts as a failure."""
        return [bool(success) for success in self.successes]

    def summary(self) -> str:
        """Return the mean return, length and success rate, one line each."""
        n = len(self.returns)
        if not n:
            return f"no episode ended in {self.n_steps:,} steps"
        lines = [
            f"{n:,} episode{'s' if n > 1 else ''}",
            f"return       {np.mean(self.returns):.2f} +/- {np.std(self.returns):.2f}",
            f"length       {np.mean(self.lengths):.2f} +/- {np.std(self.lengths):.2f}",
        ]
        if reported := [success for success in self.successes if success is not None]:
            lines.append(f"success rate {np.mean(reported):.1%} +/- {np.std(reported):.1%}")
        return "\n".join(lines)


def evaluate_policy(
    model: Predictor,
    env: VecEnv | gym.Env | str,
    n_eval_episodes: int = 10,
    deterministic: bool = True,
    render: bool = False,
    callback: StepHook | None = None,
    reward_threshold: float | None = None,
    return_episode_rewards: bool = False,
    warn: bool = True,
    use_masking: bool | None = None,
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Return the mean and standard deviation of the return over `n_eval_episodes` episodes.

    Each of n environments plays its share of the episodes, so that short episodes do not count more often.
    Returns and lengths are those of the Monitor where there is one: of the raw game, whatever wrappers do.

    :param model: anything with `predict`
    :param env: a `VecEnv`, a Gymnasium environment or an environment id
    :param callback: called with (locals, globals) after each step of each environment that still plays
    :param reward_threshold: the mean return that must be exceeded
    :param return_episode_rewards: return the lists of returns and lengths instead
    :param warn: say so when there is no Monitor
    :param use_masking: tell the model which actions the environment allows; None does where both can
    :raises AssertionError: the mean return is not above `reward_threshold`
    """
    venv = as_eval_env(env, warn)
    try:
        episodes = play_episodes(model, venv, n_eval_episodes, deterministic, render, callback, use_masking)
    finally:
        if isinstance(env, str):
            venv.close()
    mean, std = float(np.mean(episodes.returns)), float(np.std(episodes.returns))
    if reward_threshold is not None and not mean > reward_threshold:
        raise AssertionError(f"the mean return {mean:.2f} is not above the threshold {reward_threshold:.2f}")
    if return_episode_rewards:
        return episodes.returns, episodes.lengths
    return mean, std


def play_episodes(
    model: Predictor,
    env: VecEnv,
    n_eval_episodes: int | None,
    deterministic: bool = True,
    render: bool = False,
    callback: StepHook | None = None,
    use_masking: bool | None = None,
    *,
    n_steps: int | None = None,
    wrapped_rewards: bool = False,
    episodes: Episodes | None = None,
    on_step: Callable[[int], None] | None = None,
    on_episode: Callable[[Episodes], None] | None = None,
) -> Episodes:
    """Play episodes to their end; the other arguments are those of `evaluate_policy`.

    :param n_eval_episodes: each environment plays its share of them; None: until `n_steps`
    :param n_steps: stop after so many steps of each environment, within episodes
    :param wrapped_rewards: sum the rewards that the model sees, instead of taking the return of the Monitor
    :param episodes: each episode is added to it when it ends
    :param on_step: called after each step with the number of finished episodes, or of steps where
        `n_eval_episodes` is None
    :param on_episode: called after each episode
    """
    n_envs = env.num_envs
    is_monitor_wrapped = is_monitored(env)
    masks = mask_keywords(model, env, use_masking)
    episodes = Episodes() if episodes is None else episodes
    episode_rewards, episode_lengths = episodes.returns, episodes.lengths
    episode_count_targets = _share(n_eval_episodes, n_envs)
    episode_counts = np.zeros(n_envs, dtype=int)
    current_rewards, current_lengths = np.zeros(n_envs), np.zeros(n_envs, dtype=int)
    seen_rewards = np.zeros(n_envs)  # of the whole game: a lost life may end an episode before it
    step = 0
    observations = copy_obs(env.reset())  # `callback` compares them with what the first step leads to
    states: tuple[np.ndarray, ...] | None = None
    episode_starts = np.ones(n_envs, dtype=bool)
    while (playing := episode_counts < episode_count_targets).any() and step != n_steps:
        actions, states = model.predict(
            observations, state=states, episode_start=episode_starts, deterministic=deterministic, **masks()
        )
        new_observations, rewards, dones, infos = env.step(actions)
        step += 1
        episodes.n_steps += n_envs
        current_rewards += rewards
        current_lengths += 1
        seen_rewards += rewards
        for i in np.flatnonzero(playing if callback is not None else playing & dones).tolist():
            reward, done, info = rewards[i], dones[i], infos[i]
            if callback is not None:
                callback(locals(), globals())
            # A Monitor inside knows when the game is over; a lost life may end an episode before that.
            if not done or (is_monitor_wrapped and "episode" not in info):
                continue
            statistics = {"r": current_rewards[i], "l": current_lengths[i]}
            if is_monitor_wrapped:
                statistics = info["episode"]
            episodes.add(seen_rewards[i] if wrapped_rewards else statistics["r"], statistics["l"], info)
            episode_counts[i] += 1
            seen_rewards[i] = 0
            if on_episode is not None:
                on_episode(episodes)
        current_rewards[dones] = 0
        current_lengths[dones] = 0
        observations, episode_starts = new_observations, dones
        if render:
            env.render()
        if on_step is not None:
            on_step(step if n_eval_episodes is None else len(episode_rewards))
    return episodes


def _share(n_episodes: int | None, n_envs: int) -> np.ndarray:
    """Return the number of episodes of each environment, [n_envs]."""
    if n_episodes is None:
        return np.full(n_envs, np.iinfo(int).max)
    if n_episodes < 1:
        raise UserError(f"n_eval_episodes must be at least 1, not {n_episodes}")
    return np.array([(n_episodes + i) // n_envs for i in range(n_envs)])


def evaluate_masked_policy(
    model: Predictor, env: VecEnv | gym.Env | str, *args: Any, use_masking: bool = True, **kwargs: Any
) -> tuple[float, float] | tuple[list[float], list[int]]:
    """Evaluate as `evaluate_policy`, in an environment with action masks.

    :raises UserError: it does not, and `use_masking` is not False
    """
    return evaluate_policy(model, env, *args, **{"use_masking": use_masking, **kwargs})


def mask_keywords(model: Predictor, env: VecEnv, use_masking: bool | None) -> Callable[[], dict[str, Any]]:
    """Return a function that returns keywords for `predict`: `{"action_masks": ...}`, or none.

    :param use_masking: None: where the model takes masks and the environment has them
    :raises UserError: masks are asked for, and the model or the environment lacks them
    """
    takes_masks = "action_masks" in inspect.signature(model.predict).parameters
    if use_masking is None:
        use_masking = takes_masks and is_masking_supported(env)
    if not use_masking:
        return dict
    if not takes_masks:
        raise UserError(f"use_masking=True, but {type(model).__name__} takes no action masks")
    ask = mask_reader(env)
    return lambda: {"action_masks": ask()}


def as_eval_env(env: VecEnv | gym.Env | str, warn: bool = True) -> VecEnv:
    """Return the environment as a `VecEnv`, the channels of images first.

    :param warn: say so when it came without a Monitor
    """
    venv = as_vec_env(env)
    if warn and not is_monitored(env if isinstance(env, gym.Env) else venv):
        warnings.warn(
            "the evaluation environment has no Monitor: its wrappers may change returns and lengths",
            stacklevel=3,
        )
    return venv


def is_monitored(env: object) -> bool:
    """Return whether `info["episode"]` has the statistics of an ended episode of the raw game."""
    if isinstance(env, VecEnv):
        return is_vecenv_wrapped(env, VecMonitor) or env.env_is_wrapped(Monitor)[0]
    while isinstance(env, gym.Wrapper):
        if isinstance(env, Monitor):
            return True
        env = env.env
    return False
