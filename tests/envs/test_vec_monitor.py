from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.monitor import Monitor, load_results
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.native import NativeCartPole
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor


def play(venv: VecEnv, n_steps: int) -> list[tuple[int, dict[str, float]]]:
    """Every ended episode as (environment, statistics); the action is always 1."""
    episodes = []
    for _ in range(n_steps):
        step = venv.step_arrays(np.ones(venv.num_envs, dtype=int))
        episodes += [(index, step.infos[index]["episode"]) for index in step.ended.tolist()]
        assert all("episode" not in step.infos[i] for i in range(venv.num_envs) if i not in step.ended)
    return episodes


def test_vec_monitor_equals_one_monitor_per_env() -> None:
    vector = VecMonitor(NativeCartPole("CartPole-v1", 3))
    each = DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))] * 3)
    played = []
    for venv in (vector, each):
        venv.seed(0)
        venv.reset()
        played.append([(i, episode["r"], episode["l"]) for i, episode in play(venv, 60)])
    assert played[0] == played[1]
    assert len(played[0]) > 12
    assert all(isinstance(r, float) and isinstance(length, int) for _, r, length in played[0])


def test_a_reset_drops_what_was_counted() -> None:
    venv = VecMonitor(NativeCartPole("CartPole-v1", 2))
    venv.seed(0)
    venv.reset()
    play(venv, 5)
    assert venv.episode_returns.tolist() == [5.0, 5.0]
    assert venv.episode_lengths.tolist() == [5, 5]
    venv.reset()
    assert venv.episode_returns.tolist() == [0.0, 0.0]
    assert venv.episode_lengths.tolist() == [0, 0]


def test_a_folder_gets_one_file_per_environment(tmp_path: Path) -> None:
    venv = VecMonitor(NativeCartPole("CartPole-v1", 2), tmp_path, start_index=3)
    venv.seed(0)
    venv.reset()
    episodes = play(venv, 40)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["3.monitor.csv", "4.monitor.csv"]
    rows = (tmp_path / "4.monitor.csv").read_text().splitlines()
    assert '"env_id": "CartPole-v1"' in rows[0]
    assert rows[1] == "r,l,t"
    assert [float(row.split(",")[0]) for row in rows[2:]] == [e["r"] for index, e in episodes if index == 1]
    assert len(load_results(tmp_path)) == len(episodes)
    venv.close()
    venv.close()
    more = VecMonitor(NativeCartPole("CartPole-v1", 2), tmp_path, override_existing=False, start_index=3)
    more.reset()
    added = play(more, 40)
    more.close()
    assert len(load_results(tmp_path)) == len(episodes) + len(added)


def test_a_file_name_is_one_file_for_all(tmp_path: Path) -> None:
    venv = VecMonitor(NativeCartPole("CartPole-v1", 2), tmp_path / "all")
    venv.reset()
    episodes = play(venv, 40)
    venv.close()
    assert [path.name for path in tmp_path.iterdir()] == ["all.monitor.csv"]
    assert len(load_results(tmp_path)) == len(episodes)


def test_chosen_infos_are_recorded(tmp_path: Path) -> None:
    class Tagged(gym.Wrapper):  # type: ignore[type-arg]
        def step(self, action):  # type: ignore[no-untyped-def]
            *rest, info = super().step(action)
            return *rest, {**info, "tag": 7}

    make = [lambda: Tagged(gym.make("CartPole-v1"))]
    venv = VecMonitor(DummyVecEnv(make), tmp_path, info_keywords=("tag",))
    venv.reset()
    episodes = play(venv, 40)
    venv.close()
    assert episodes[0][1]["tag"] == 7
    assert load_results(tmp_path)["tag"].tolist() == [7] * len(episodes)
    missing = VecMonitor(DummyVecEnv(make), info_keywords=("colour",))
    missing.reset()
    with pytest.raises(UserError, match=r"no 'colour'; it has \['tag'\]"):
        play(missing, 40)


def test_two_statistics_of_one_thing_are_warned_about() -> None:
    with pytest.warns(UserWarning, match="have a Monitor"):
        VecMonitor(DummyVecEnv([lambda: Monitor(gym.make("CartPole-v1"))]))


def test_vec_monitor_counts_episodes(tmp_path: Path) -> None:
    venv = VecMonitor(NativeCartPole("CartPole-v1", 2), str(tmp_path / "all"))
    venv.reset()
    ends = sum(int(venv.step(np.zeros(2, dtype=int))[2].sum()) for _ in range(50))
    assert venv.episode_count == ends > 0
    assert venv.results_writer is not None
    venv.close()


def test_time_limits_are_recorded_like_infos(tmp_path: Path) -> None:
    make = [lambda: gym.make("CartPole-v1", max_episode_steps=5)]
    venv = VecMonitor(DummyVecEnv(make), tmp_path, info_keywords=("TimeLimit.truncated",))
    venv.reset()
    assert play(venv, 12)[0][1]["TimeLimit.truncated"] is True
    venv.close()
