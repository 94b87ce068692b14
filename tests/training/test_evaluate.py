"""evaluate_policy: whole episodes, fair shares, the raw game's returns."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.evaluation.evaluate import evaluate_policy, play_episodes


def test_short_episodes_do_not_count_more_often(model: Any, make_env: Any) -> None:
    env = make_env(2, 20)
    returns, lengths = evaluate_policy(model, env, n_eval_episodes=6, return_episode_rewards=True)
    assert sorted(returns) == [2, 2, 2, 20, 20, 20]
    assert lengths == [int(value) for value in returns]
    assert evaluate_policy(model, env, n_eval_episodes=6) == (11.0, 9.0)


def test_shares_differ_by_at_most_one(model: Any, make_env: Any) -> None:
    for n_episodes in (1, 2, 3, 4, 5):
        returns, _ = evaluate_policy(
            model, make_env(1, 2, 3), n_eval_episodes=n_episodes, return_episode_rewards=True
        )
        counts = np.bincount(np.array(returns, dtype=int), minlength=4)[1:]
        assert counts.sum() == n_episodes and counts.max() - counts.min() <= 1


def test_results_are_plain_numbers(model: Any, make_env: Any) -> None:
    mean, std = evaluate_policy(model, make_env(3), 2)
    assert (type(mean), type(std)) == (float, float)
    returns, lengths = evaluate_policy(model, make_env(3), 2, return_episode_rewards=True)
    assert {type(value) for value in returns} == {float} and {type(value) for value in lengths} == {int}


class HalveRewards(VecEnvWrapper):
    def step_wait(self) -> Any:
        obs, rewards, dones, infos = self.venv.step_wait()
        return obs, rewards / 2, dones, infos


def test_returns_are_those_of_the_monitor_below_wrappers(model: Any, make_env: Any) -> None:
    assert evaluate_policy(model, HalveRewards(make_env(4)), 2) == (4.0, 0.0)
    assert evaluate_policy(model, HalveRewards(make_env(4, monitor=False)), 2, warn=False) == (2.0, 0.0)


def test_a_missing_monitor_is_said(model: Any, make_env: Any) -> None:
    with pytest.warns(UserWarning, match="Monitor"):
        evaluate_policy(model, make_env(2, monitor=False), 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate_policy(model, make_env(2, monitor=False), 1, warn=False)
        evaluate_policy(model, make_env(2), 1)


class LoseALife(gym.Wrapper):
    """Ends an episode after every second step, as a lost life does; resets the game only when it is over."""

    def reset(self, **kwargs: Any) -> Any:
        return self.env.reset(**kwargs) if not hasattr(self, "obs") or self.over else (self.obs, {})

    def step(self, action: Any) -> Any:
        self.obs, reward, self.over, truncated, info = self.env.step(action)
        return self.obs, reward, self.over or self.env.get_wrapper_attr("t") % 2 == 0, truncated, info


def test_a_lost_life_is_no_game(model: Any, make_env: Any) -> None:
    game = make_env(6, monitor=False).envs[0]
    env = DummyVecEnv([lambda: LoseALife(Monitor(game))])
    returns, lengths = evaluate_policy(model, env, 3, return_episode_rewards=True)
    assert (returns, lengths) == ([6.0] * 3, [6] * 3)


def test_callback_sees_each_step_of_each_playing_environment(model: Any, make_env: Any) -> None:
    seen = []

    def callback(locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        assert locals_["info"] is locals_["infos"][locals_["i"]]
        seen.append((int(locals_["i"]), bool(locals_["done"]), float(locals_["reward"])))

    evaluate_policy(model, make_env(1, 3), 2, callback=callback)
    assert seen == [(0, True, 1.0), (1, False, 1.0), (1, False, 1.0), (1, True, 1.0)]


@pytest.mark.parametrize("monitor", [True, False])
def test_callback_sees_whether_there_is_a_monitor(model: Any, make_env: Any, monitor: bool) -> None:
    seen = []
    hook = lambda locals_, globals_: seen.append(locals_["is_monitor_wrapped"])  # noqa: E731
    evaluate_policy(model, make_env(2, monitor=monitor), 1, callback=hook, warn=False)
    assert seen == [monitor] * 2


def test_states_and_episode_starts_reach_the_model(model: Any, make_env: Any) -> None:
    evaluate_policy(model, make_env(2, 3), 2)
    assert [starts.tolist() for starts in model.starts] == [[True, True], [False, False], [True, False]]


def test_reward_threshold(model: Any, make_env: Any) -> None:
    evaluate_policy(model, make_env(5), 1, reward_threshold=4.9)
    with pytest.raises(AssertionError, match=r"5\.00 is not above the threshold 5\.00"):
        evaluate_policy(model, make_env(5), 1, reward_threshold=5)


def test_no_episodes_is_a_mistake(model: Any, make_env: Any) -> None:
    with pytest.raises(UserError, match="n_eval_episodes"):
        evaluate_policy(model, make_env(5), 0)


def test_success_is_reported_as_the_environment_says(model: Any, make_env: Any) -> None:
    assert play_episodes(model, make_env(1, success=True), 2).successes == [True, True]
    assert play_episodes(model, make_env(1, success=False), 1).successes == [False]
    silent = play_episodes(model, make_env(1), 1)
    assert silent.successes == [None] and not silent.report_success


def test_an_id_or_a_plain_environment_will_do(model: Any) -> None:
    mean, _ = evaluate_policy(model, "CartPole-v1", 2)
    assert 8 <= mean <= 11
    env = gym.make("CartPole-v1")
    with pytest.warns(UserWarning, match="Monitor"):
        mean, _ = evaluate_policy(model, env, 2)
    assert 8 <= mean <= 11
