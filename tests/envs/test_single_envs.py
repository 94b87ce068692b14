"""The single environments of whatever `make_vec_env` and the algorithms make."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.envs.atari.atari_native import NativeAtariVecEnv
from rlzoo.envs.examples.toy import IdentityEnv
from rlzoo.envs.make_atari import make_atari_env
from rlzoo.envs.make_vec_env import make_vec_env
from rlzoo.envs.single_env.monitor import Monitor, load_results
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.envs.vec_wrappers.vec_frame_stack import VecFrameStack
from rlzoo.envs.vec_wrappers.vec_video_recorder import VecVideoRecorder

PONG = "PongNoFrameskip-v4"


class Sized(gym.Wrapper):  # type: ignore[type-arg]
    """Registered around an environment by a user."""


def play(venv: Any, n_steps: int) -> list[dict[str, Any]]:
    actions = np.random.default_rng(0).integers(2, size=(n_steps, venv.num_envs))
    return [info["episode"] for row in actions for info in venv.step(row)[3] if "episode" in info]


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCar-v0"])
def test_statistics_move_into_monitors_when_asked(env_id: str, tmp_path: Path) -> None:
    def make(folder: str) -> Any:
        venv = make_vec_env(env_id, 2, seed=3, monitor_dir=tmp_path / folder)
        venv.reset()
        return venv

    counted, moved = make("counted"), make("moved")
    before = play(counted, 250), play(moved, 250)
    monitors = moved.envs
    assert all(isinstance(env, Monitor) for env in monitors)
    assert [env.get_total_steps() for env in monitors] == [250, 250]
    after = play(counted, 250), play(moved, 250)
    assert type(moved) is DummyVecEnv
    for one, other in (before, after):
        assert [(e["r"], e["l"]) for e in one] == [(e["r"], e["l"]) for e in other]
    returns = [value for env in monitors for value in env.get_episode_rewards()]
    assert sorted(returns) == sorted(episode["r"] for episode in [*before[1], *after[1]])
    assert len(returns) > 1
    moved.close()
    assert sorted(load_results(tmp_path / "moved")["r"]) == sorted(returns)


def test_asking_for_single_envs_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    for env_id in ("CartPole-v1", "Acrobot-v1"):
        venv = make_vec_env(env_id)
        with caplog.at_level(logging.DEBUG):
            caplog.clear()
            venv.reset()
            assert venv.env_is_wrapped(Monitor) == [True]
            assert venv.has_attr("get_episode_lengths")
            assert not venv.has_attr("get_episode_length")
            assert not caplog.messages
            assert venv.env_method("get_episode_lengths") == [[]]
            assert any("single environments were accessed" in text for text in caplog.messages)


def test_every_backend_is_of_the_class_that_was_meant() -> None:
    assert isinstance(make_vec_env("CartPole-v1"), NativeCartPole)
    assert isinstance(make_vec_env("CartPole-v1"), DummyVecEnv)
    assert isinstance(make_atari_env(PONG), DummyVecEnv)
    assert type(make_vec_env("Acrobot-v1")) is DummyVecEnv
    workers = make_vec_env("CartPole-v1", 2, vec_env_cls=SubprocVecEnv)
    assert type(workers) is SubprocVecEnv
    assert workers.env_is_wrapped(Monitor) == [True, True]
    workers.reset()
    assert workers.env_method("get_total_steps") == [0, 0]
    workers.close()


def test_algorithms_put_a_monitor_around_their_env() -> None:
    env = gym.make("MountainCar-v0")
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8).learn(8)
    assert type(model.env) is DummyVecEnv
    monitor = model.env.envs[0]
    assert isinstance(monitor, Monitor)
    assert monitor.env is env
    assert monitor.total_steps == 8
    assert monitor.return_so_far == -8
    assert not hasattr(monitor, "rewards")


def test_render_before_reset_says_what_is_missing() -> None:
    for venv in (make_vec_env("CartPole-v1"), make_atari_env(PONG)):
        with pytest.raises(gym.error.ResetNeeded):
            venv.render()
        venv.reset()
        image = venv.render("rgb_array")
        assert image is not None
        assert image.shape[2] == 3


def test_state_before_reset_is_that_of_the_environment() -> None:
    assert make_vec_env("CartPole-v1", 2).get_attr("state") == [None, None]
    venv = make_vec_env("CartPole-v1")
    venv.set_attr("state", np.zeros(4))
    assert venv.get_attr("state")[0].tolist() == [0.0] * 4


def test_atari_turns_real_before_the_first_reset() -> None:
    venv: Any = VecFrameStack(make_atari_env(PONG, 2, seed=0), 4)
    assert isinstance(venv.venv, NativeAtariVecEnv)
    assert [type(env).__name__ for env in venv.envs] == ["AtariWrapper"] * 2
    assert type(venv.venv) is DummyVecEnv
    first = venv.reset()
    again: Any = VecFrameStack(make_atari_env(PONG, 2, seed=0, vec_env_cls=DummyVecEnv), 4)
    np.testing.assert_array_equal(first, again.reset())
    assert venv.render().shape == (420, 160, 3)
    assert len(np.unique(venv.render().reshape(-1, 3), axis=0)) > 2
    assert venv.get_attr("lives") == again.get_attr("lives")


def test_atari_in_progress_names_the_cure(tmp_path: Path) -> None:
    venv: Any = make_atari_env(PONG, 2, seed=0, monitor_dir=str(tmp_path))
    assert venv.has_attr("ale")
    venv.reset()
    venv.step(np.zeros(2, int))
    assert not venv.has_attr("ale")
    for ask in (lambda: venv.envs, lambda: venv.set_attr("x", 1), lambda: venv.env_method("clone_state")):
        with pytest.raises(AttributeError, match=r"call reset\(\) and try again, or make them with vec_env"):
            ask()
    seen = venv.render()
    assert seen.shape == (420, 160, 3)
    assert seen.any()
    assert venv.reset().shape == (2, 84, 84, 1)
    assert len(venv.envs) == len(venv.get_attr("ale")) == 2
    venv.step(np.zeros(2, int))
    venv.close()
    assert len(list(tmp_path.glob("*.monitor.csv"))) == 2


def test_atari_after_a_reset_restarts_as_real_games() -> None:
    venv: Any = make_atari_env(PONG, 2, seed=0)
    venv.reset()
    with pytest.warns(UserWarning, match="restart, because single environments were accessed after"):
        frames = [env.unwrapped.ale.getEpisodeFrameNumber() for env in venv.envs]
    seeded: Any = make_atari_env(PONG, 2, seed=0, vec_env_cls=DummyVecEnv)
    seeded.reset()
    assert frames == [env.unwrapped.ale.getEpisodeFrameNumber() for env in seeded.envs]
    obs = venv.step(np.zeros(2, int))[0]
    np.testing.assert_array_equal(obs, seeded.step(np.zeros(2, int))[0])
    venv.close()


def test_a_video_of_atari_games_shows_the_screens(tmp_path: Path) -> None:
    venv: Any = VecVideoRecorder(make_atari_env(PONG), tmp_path, lambda step: step == 0, video_length=2)
    venv.reset()
    assert type(venv.unwrapped) is DummyVecEnv
    venv.close()


@pytest.mark.parametrize("change", ["class", "kwargs", "limit", "wrapper", "edit", "entry"])
def test_registered_anew_is_never_native(change: str) -> None:
    old = gym.registry["CartPole-v1"]
    limit = old.max_episode_steps
    limit_500 = {"max_episode_steps": 500}
    cartpole = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"
    wrapper = (gym.envs.registration.WrapperSpec("Sized", f"{__name__}:Sized", {}),)
    given: dict[str, Any] = {
        "class": {"entry_point": IdentityEnv},
        "kwargs": {
            "entry_point": cartpole,
            "kwargs": {"sutton_barto_reward": True},
            "max_episode_steps": 500,
        },
        "limit": {"entry_point": cartpole, "max_episode_steps": 7},
        "wrapper": {"entry_point": cartpole, **limit_500, "additional_wrappers": wrapper},
    }
    try:
        if change == "edit":
            old.max_episode_steps = 7
        elif change == "entry":
            gym.registry["CartPole-v1"] = gym.registry["Acrobot-v1"]
        else:
            gym.register("CartPole-v1", **given[change])
        assert type(make_vec_env("CartPole-v1")) is DummyVecEnv
    finally:
        old.max_episode_steps = limit
        gym.registry["CartPole-v1"] = old
    assert type(make_vec_env("CartPole-v1", env_kwargs={"sutton_barto_reward": True})) is DummyVecEnv
    assert type(make_vec_env("CartPole-v1")) is NativeCartPole


def test_a_later_registration_leaves_native_envs_alone() -> None:
    venv: Any = make_vec_env("CartPole-v1")
    spec = gym.registry["CartPole-v1"]
    try:
        spec.max_episode_steps = 3
        assert venv.envs[0].get_wrapper_attr("_max_episode_steps") == 500
    finally:
        spec.max_episode_steps = 500


def test_dummy_vec_env_passes_options_only_when_given() -> None:
    class Plain(IdentityEnv):
        def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
            return super().reset(seed=seed)

    venv = DummyVecEnv([lambda: Plain(3)])
    assert venv.reset().shape == (1,)


@pytest.mark.parametrize("structure", [gym.spaces.Dict, gym.spaces.Tuple])
def test_workers_take_actions_of_several_parts(structure: Any) -> None:
    parts = [gym.spaces.Discrete(3), gym.spaces.Box(-1, 1, (2,))]
    space = structure(dict(zip("ab", parts, strict=True)) if structure is gym.spaces.Dict else parts)

    def make() -> Any:
        class Echo(gym.Env):  # type: ignore[type-arg]
            observation_space, action_space = parts[0], space

            def reset(self, *, seed: Any = None, options: Any = None) -> Any:
                return 0, {}

            def step(self, action: Any) -> Any:
                one = action["a" if structure is gym.spaces.Dict else 0]
                return int(one), 0.0, False, False, {"valid": space.contains(action)}

        return Echo()

    venv = SubprocVecEnv([make] * 3, n_workers=2)
    venv.reset()
    actions: Any = [space.sample() for _ in range(3)]
    obs, _, _, infos = venv.step(actions)
    assert obs.tolist() == [action["a" if structure is gym.spaces.Dict else 0] for action in actions]
    assert all(info["valid"] for info in infos)
    venv.close()
