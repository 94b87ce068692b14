from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import rlzoo
from rlzoo import PPO, VecNormalize
from rlzoo.config.run import PlayConfig
from rlzoo.core.errors import UserError
from rlzoo.evaluation.evaluate import Episodes, play_episodes
from rlzoo.experiment.training_run import train
from rlzoo.playback.expert_recording import record_expert
from rlzoo.playback.play import play


@pytest.fixture
def look(logs):
    """Makes the PlayConfig of a look at an agent of the test's runs."""

    def make(**fields):
        defaults = {
            "algo": "ppo",
            "env_id": "CartPole-v1",
            "folder": str(logs),
            "no_render": True,
            "device": "cpu",
        }
        return PlayConfig(**{**defaults, **fields})

    return make


def test_episodes_are_counted_and_summed_up(run, look, capsys):
    train(run())
    scores = play(look(n_episodes=7, n_envs=3, verbose=0))
    assert len(scores.returns) == len(scores.lengths) == 7
    assert scores.returns == scores.lengths  # each step of CartPole is worth 1
    output = capsys.readouterr().out
    assert "7 episodes" in output
    assert f"{np.mean(scores.returns):.2f} +/- {np.std(scores.returns):.2f}" in output


def test_steps_are_counted_without_n_episodes(run, look):
    train(run())
    assert play(look()).n_steps == 1000
    assert play(look(n_timesteps=150, n_envs=2)).n_steps == 300


@pytest.mark.parametrize(
    ("env_id", "asked", "deterministic"),
    [
        ("CartPole-v1", {}, True),
        ("CartPole-v1", {"stochastic": True}, False),
        ("MiniGrid-DoorKey-5x5-v0", {}, False),
        ("MiniGrid-DoorKey-5x5-v0", {"deterministic": True}, True),
    ],
)
def test_deterministic_default_depends_on_env(env_id, asked, deterministic):
    assert PlayConfig(algo="ppo", env_id=env_id, **asked).is_deterministic is deterministic


@pytest.mark.parametrize("asked", ["deterministic", "stochastic"])
def test_an_agent_acts_as_it_is_asked_to(run, look, monkeypatch, asked):
    train(run())
    seen = []
    predict = PPO.predict
    monkeypatch.setattr(
        PPO, "predict", lambda *given, **how: seen.append(how["deterministic"]) or predict(*given, **how)
    )
    play(look(n_timesteps=2, **{asked: True}))
    record_expert(look(n_episodes=1, **{asked: True}), Path(look().folder) / "expert")
    assert len(seen) > 2 and set(seen) == {asked == "deterministic"}


def test_the_same_seed_plays_the_same_games(run, look):
    train(run())
    one, two = (play(look(n_episodes=5, stochastic=True, seed=4)).returns for _ in range(2))
    assert one == two
    assert play(look(n_episodes=5, stochastic=True, seed=5)).returns != one


def test_statistics_come_from_the_file_that_is_played(run, look, monkeypatch):
    train(run(env_id="Pendulum-v1", save_freq=100))
    counts = []
    original = VecNormalize.reset

    def reset(self):
        counts.append(float(self.obs_rms.count))
        assert not self.training
        return original(self)

    monkeypatch.setattr(VecNormalize, "reset", reset)
    for steps in (100, 400):
        play(look(env_id="Pendulum-v1", load_checkpoint=steps, n_timesteps=10))
    play(look(env_id="Pendulum-v1", n_timesteps=10))
    assert counts[0] < 110
    assert counts[1] > 390
    assert counts[2] >= counts[1]


def test_returns_are_raw_unless_norm_reward(run, look):
    train(run(env_id="Pendulum-v1"))
    (raw,) = play(look(env_id="Pendulum-v1", n_episodes=1)).returns
    (normalised,) = play(look(env_id="Pendulum-v1", n_episodes=1, norm_reward=True)).returns
    assert raw < -100
    assert abs(normalised) < abs(raw) / 5


def test_env_kwargs_of_the_run_hold_unless_others_are_given(run, look, monkeypatch):
    train(run(env_id="Pendulum-v1", env_kwargs={"g": 3.0}, n_timesteps=40))
    seen = []
    original = rlzoo.playback.play.load_model

    def load_model(resolved, path, venv, *rest):
        seen.append(venv.get_attr("g")[0])
        return original(resolved, path, venv, *rest)

    monkeypatch.setattr("rlzoo.playback.play.load_model", load_model)
    play(look(env_id="Pendulum-v1", n_timesteps=5))
    play(look(env_id="Pendulum-v1", n_timesteps=5, env_kwargs={"g": 4.0}))
    assert seen == [3.0, 4.0]


def test_without_a_display_no_window_is_opened(run, look, capsys, monkeypatch):
    train(run(n_timesteps=40))
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    play(look(no_render=False, n_timesteps=5))
    assert "no window" in capsys.readouterr().out


def test_with_a_display_the_environment_shows_itself(run, look, monkeypatch):
    train(run(n_timesteps=40))
    modes = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    original = play_episodes

    def watch(model, venv, *rest, **options):
        modes.append(venv.render_mode)
        return original(model, venv, *rest, **options)

    monkeypatch.setattr("rlzoo.playback.play.play_episodes", watch)
    play(look(no_render=False, n_timesteps=2))
    assert modes == ["human"]


def test_rewards_are_logged_where_asked(run, look, tmp_path):
    train(run(n_timesteps=40))
    scores = play(look(reward_log=str(tmp_path / "rewards"), n_episodes=3))
    returns = rlzoo.load_results(str(tmp_path / "rewards"))["r"].tolist()
    assert returns[:3] == scores.returns


def test_rewards_are_not_logged_into_a_file(run, look, tmp_path):
    train(run())
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="--reward-log wants a folder"):
        play(look(n_episodes=1, reward_log=str(tmp_path / "file")))


def test_play_that_cannot_begin_leaves_no_reward_log(run, look, tmp_path):
    train(run(n_timesteps=40))
    (tmp_path / "there").mkdir()
    for folder in (tmp_path / "there", tmp_path / "new" / "rewards"):
        with pytest.raises(UserError, match="unknown device"):
            play(look(n_episodes=1, reward_log=str(folder), device="nosuch"))
    assert (tmp_path / "there").is_dir()
    assert not (tmp_path / "new").exists()


def test_an_agent_that_is_not_there_is_said_so(look, tmp_path):
    with pytest.raises(UserError, match="rlzoo train --algo ppo --env FrozenLake-v1"):
        play(dataclasses.replace(look(), env_id="FrozenLake-v1", folder=str(tmp_path)))


class Counter:
    """A model that does the same always."""

    def predict(self, obs, state=None, episode_start=None, deterministic=False):
        return np.zeros(len(obs), int), state


def test_short_episodes_are_not_preferred():
    venv = rlzoo.make_vec_env("CartPole-v1", n_envs=4, seed=0)
    counts = []
    episodes = play_episodes(
        Counter(), venv, 6, on_episode=lambda episodes: counts.append(len(episodes.returns))
    )
    assert len(episodes.returns) == 6
    assert counts == [1, 2, 3, 4, 5, 6]


def test_play_episodes_stops_within_episodes_after_n_steps():
    venv = rlzoo.make_vec_env("CartPole-v1", n_envs=2, seed=0)
    steps = []
    episodes = play_episodes(Counter(), venv, None, n_steps=3, on_step=steps.append)
    assert steps == [1, 2, 3]
    assert (episodes.n_steps, episodes.returns) == (6, [])


def test_a_summary_names_what_it_counts():
    scores = Episodes(returns=[1.0, 3.0], lengths=[2, 2], successes=[True, False], n_steps=4)
    assert scores.summary().splitlines() == [
        "2 episodes",
        "return       2.00 +/- 1.00",
        "length       2.00 +/- 0.00",
        "success rate 50.0% +/- 50.0%",
    ]
    assert Episodes(n_steps=9).summary() == "no episode ended in 9 steps"


def test_a_loaded_agent_can_be_played_by_hand(run):
    result = train(run(n_timesteps=40))
    model, venv = PPO.load(result.model_path, device="cpu"), rlzoo.make_vec_env("CartPole-v1", seed=0)
    scores = play_episodes(model, venv, 2)
    assert rlzoo.evaluate_policy(model, rlzoo.make_vec_env("CartPole-v1", seed=0), 2)[0] == np.mean(
        scores.returns
    )
