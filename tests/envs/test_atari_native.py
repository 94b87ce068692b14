"""Native Atari against the Python wrappers, step by step."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.atari import atari_native
from rlzoo.envs.atari.atari_native import make_native_atari
from rlzoo.envs.atari.atari_wrappers import AtariWrapper
from rlzoo.envs.single_env.monitor import Monitor, load_results

OUTLIVING = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from rlzoo.envs.atari.atari_native import make_native_atari

venv = make_native_atari("PongNoFrameskip-v4", 2, 0)

def reset():
    {wait}
    print(venv.reset().shape)

{start}
"""


def closeness(native: np.ndarray, python: np.ndarray) -> float:
    """Share of pixels within two grey levels."""
    assert native.shape == python.shape
    return float((np.abs(native.astype(int) - python.astype(int)) <= 2).mean())


@pytest.mark.parametrize(
    ("env_id", "env_kwargs", "wrapper_kwargs", "n_steps", "n_games", "n_ended"),
    [
        ("BreakoutNoFrameskip-v4", {}, {}, 300, 2, 8),  # lives and FIRE
        ("PongNoFrameskip-v4", {}, {"clip_reward": False}, 100, 0, 0),  # FIRE without lives
        ("MsPacmanNoFrameskip-v4", {}, {"frame_skip": 12}, 90, 0, 1),  # lives without FIRE
        (  # over in the no-op after a lost life
            "BreakoutNoFrameskip-v4",
            {"max_num_frames_per_episode": 102},
            {},
            60,
            0,
            3,
        ),
        (  # pooled in colour
            "ALE/AirRaid-v5",
            {"frameskip": 1, "repeat_action_probability": 0.0},
            {},
            60,
            0,
            0,
        ),
        (  # life loss does not count, and the game is over while FIRE is pressed
            "BreakoutNoFrameskip-v4",
            {},
            {"terminal_on_life_loss": False, "frame_skip": 60},
            40,
            2,
            2,
        ),
    ],
)
def test_equals_the_python_wrappers(
    env_id: str,
    env_kwargs: dict[str, Any],
    wrapper_kwargs: dict[str, Any],
    n_steps: int,
    n_games: int,
    n_ended: int,
) -> None:
    wrapper_kwargs = {"noop_max": 0, **wrapper_kwargs}
    native = make_native_atari(env_id, 2, 0, env_kwargs, wrapper_kwargs)
    assert native is not None
    python = [AtariWrapper(Monitor(gym.make(env_id, **env_kwargs)), **wrapper_kwargs) for _ in range(2)]
    assert native.action_space == python[0].action_space
    assert native.observation_space == python[0].observation_space
    rng = np.random.default_rng(0)
    obs = native.reset()
    shares = [closeness(obs[i], env.reset(seed=i)[0]) for i, env in enumerate(python)]
    n_ends = n_episodes = 0
    for _ in range(n_steps):
        actions = rng.integers(native.action_space.n, size=2)  # type: ignore[attr-defined]
        step = native.step_arrays(actions)
        for i, env in enumerate(python):
            observation, reward, terminated, truncated, info = env.step(int(actions[i]))
            assert (step.rewards[i], step.terminated[i], step.truncated[i]) == (reward, terminated, truncated)
            assert (i in step.ended) == (terminated or truncated)
            assert step.infos[i]["lives"] == info["lives"]
            assert ("episode" in step.infos[i]) == ("episode" in info)
            if "episode" in info:
                n_episodes += 1
                assert all(step.infos[i]["episode"][key] == info["episode"][key] for key in "rl")
            if terminated or truncated:
                n_ends += 1
                assert step.final_obs is not None
                shares.append(closeness(step.final_obs[step.ended.tolist().index(i)], observation))
                observation, _ = env.reset()
            shares.append(closeness(step.obs[i], observation))
    assert min(shares) >= 0.99
    assert n_episodes >= n_games
    assert n_ends >= n_ended
    native.close()


def test_native_atari_seeds_fix_games_and_vary_noops() -> None:
    def play(seed: int) -> tuple[np.ndarray, float]:
        venv = make_native_atari("BreakoutNoFrameskip-v4", 2, seed)
        assert venv is not None
        first = venv.reset().copy()
        rng = np.random.default_rng(0)
        total = sum(float(venv.step_arrays(rng.integers(4, size=2)).obs.sum()) for _ in range(30))
        venv.close()
        return first, total

    (first, total), (again, total_again), (other, other_total) = play(1), play(1), play(2)
    assert (first == again).all()
    assert total == total_again
    assert total != other_total
    assert (first[0] != first[1]).any()
    assert (first[1] == other[0]).all()  # environment i gets seed + i


def test_each_environment_shows_the_first_frame_of_its_own_game() -> None:
    def first_frames(n_envs: int, seed: int) -> np.ndarray:
        venv = make_native_atari("MsPacmanNoFrameskip-v4", n_envs, seed)
        assert venv is not None
        frames = venv.reset()
        venv.close()
        return frames

    together = first_frames(3, 0)
    alone = [first_frames(1, seed)[0] for seed in range(3)]
    assert len({frame.tobytes() for frame in alone}) == 3
    assert np.array_equal(together, alone)


def test_games_are_loaded_once_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    venv = make_native_atari("PongNoFrameskip-v4", 3, 0)
    assert venv is not None
    expected, loaded = venv.reset(), []
    again = make_native_atari("PongNoFrameskip-v4", 3, 0)
    assert again is not None
    reset = type(again)._with_noops
    monkeypatch.setattr(type(again), "_with_noops", lambda *given: loaded.append(given[1]) or reset(*given))
    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(atari_native, "available_cores", lambda: 3)
    assert np.array_equal(again.reset(), expected) and loaded == [0, 1, 2]
    monkeypatch.setattr(type(again), "_with_noops", lambda *given: [][0])
    with pytest.raises(IndexError):
        again.seed(1)
        again.reset()


@pytest.mark.parametrize(
    ("wait", "start"),
    [
        ("threading.main_thread().join()", "threading.Thread(target=reset).start()"),
        ("time.sleep(1)", "ThreadPoolExecutor(1).submit(reset)"),  # the main thread waits for it at its end
    ],
)
def test_a_thread_can_reset_when_the_script_has_ended(wait: str, start: str) -> None:
    program = OUTLIVING.format(wait=wait, start=start)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "(2, 84, 84, 1)", done.stderr


def test_whole_game_statistics_also_in_files(tmp_path: Path) -> None:
    venv = make_native_atari("BreakoutNoFrameskip-v4", 2, 0, monitor_dir=tmp_path, start_index=3)
    assert venv is not None
    assert all(venv.env_is_wrapped(Monitor))
    venv.reset()
    rng = np.random.default_rng(0)
    episodes = []
    while len(episodes) < 2:
        _, rewards, dones, infos = venv.step(rng.integers(4, size=2))
        assert set(np.unique(rewards)) <= {-1.0, 0.0, 1.0}
        episodes += [info["episode"] for info in infos if "episode" in info]
        assert all(("terminal_observation" in info) == done for info, done in zip(infos, dones, strict=True))
    venv.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["3.monitor.csv", "4.monitor.csv"]
    results = load_results(tmp_path)
    assert sorted(results["r"]) == sorted(episode["r"] for episode in episodes)
    assert sorted(results["l"]) == sorted(episode["l"] for episode in episodes)


@pytest.mark.parametrize(
    ("env_id", "env_kwargs", "wrapper_kwargs"),
    [
        ("CartPole-v1", {}, {}),
        ("ALE/Pong-v5", {}, {}),  # skips frames by itself
        ("PongNoFrameskip-v4", {"obs_type": "ram"}, {}),
        ("Pong-ramNoFrameskip-v4", {}, {}),
        ("PongNoFrameskip-v4", {"render_mode": "rgb_array"}, {}),
        ("PongNoFrameskip-v4", {"mode": 1}, {}),
        ("PongNoFrameskip-v4", {"mode": 0}, {}),
        ("PongNoFrameskip-v4", {"difficulty": 0}, {}),
        ("PongNoFrameskip-v0", {}, {"action_repeat_probability": 0.1}),  # sticky twice
        ("PongNoFrameskip-v4", {}, {"unknown": 1}),
    ],
)
def test_leaves_the_rest_to_the_wrappers(
    env_id: str, env_kwargs: dict[str, Any], wrapper_kwargs: dict[str, Any]
) -> None:
    assert make_native_atari(env_id, 1, env_kwargs=env_kwargs, wrapper_kwargs=wrapper_kwargs) is None


def test_wrong_use_is_an_error_and_not_a_hang() -> None:
    venv = make_native_atari("PongNoFrameskip-v4", 2, wrapper_kwargs={"screen_size": 42})
    assert venv is not None
    with pytest.raises(UserError, match="reset"):
        venv.step(np.zeros(2, np.int64))
    assert venv.reset().shape == (2, 42, 42, 1)
    with pytest.raises(EnvironmentFailed, match="environment 1 got the action 6") as caught:
        venv.step(np.array([0, 6]))
    assert caught.value.env_index == 1
    with pytest.raises(UserError, match="2 environments"):
        venv.step(np.zeros(3, np.int64))
    venv.step_async(np.zeros(2, np.int64))
    venv.reset()  # drops the step under way
    venv.step(np.zeros(2, np.int64))
    assert venv.env_method("get_action_meanings", indices=0)[0][:2] == ["NOOP", "FIRE"]
    assert venv.get_attr("spec")[0].id == "PongNoFrameskip-v4"
    assert not venv.has_attr("ale")
    for use in (
        lambda: venv.get_attr("ale"),
        lambda: venv.set_attr("ale", 1),
        lambda: venv.env_method("render"),
    ):
        with pytest.raises(AttributeError, match="backend='dummy'"):
            use()
    venv.close()


def test_every_game_begins_with_at_least_one_noop() -> None:
    limit = {"max_num_frames_per_episode": 8}  # two steps; no-ops come on top
    venv = make_native_atari("MsPacmanNoFrameskip-v4", 1, 0, limit, {"noop_max": 1})
    assert venv is not None
    for game in range(20):
        if game < 10:  # the others are begun by the step that ends the one before
            venv.reset()
        venv.step_arrays(np.zeros(1, np.int64))
        assert venv.step_arrays(np.zeros(1, np.int64)).infos[0]["episode"]["l"] == 9
    venv.close()
