"""Monitor, its file, and reading the files back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.monitor import (
    LoadMonitorResultsError,
    Monitor,
    ResultsWriter,
    get_monitor_files,
    load_results,
)


class Counter(gym.Env[Any, Any]):
    """Pays 0.5 a step; ends after three steps."""

    observation_space = gym.spaces.Box(0, 1, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.step_number = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.step_number += 1
        info = {"is_success": action == 1}
        return np.zeros(1, np.float32), 0.5, self.step_number == 3, False, info


def play(env: gym.Env[Any, Any], episodes: int, action: int = 0) -> dict[str, Any]:
    info: dict[str, Any] = {}
    for _ in range(episodes):
        env.reset(seed=0)
        done = False
        while not done:
            _, _, terminated, truncated, info = env.step(action)
            done = terminated or truncated
    return info


def test_statistics_and_getters() -> None:
    env = Monitor(Counter())
    info = play(env, 2)
    assert info["episode"]["r"] == 1.5 and info["episode"]["l"] == 3 and info["episode"]["t"] >= 0
    assert env.get_total_steps() == 6
    assert env.get_episode_rewards() == [1.5, 1.5]
    assert env.get_episode_lengths() == [3, 3]
    assert len(env.get_episode_times()) == 2


def test_file_is_header_columns_rows(tmp_path: Path) -> None:
    env = Monitor(
        Counter(),
        tmp_path / "0",
        reset_keywords=("seed",),
        info_keywords=("is_success",),
    )
    info = play(env, 2, action=1)
    lines = (tmp_path / "0.monitor.csv").read_text().splitlines()
    assert lines[0].startswith("#") and set(json.loads(lines[0][1:])) == {
        "t_start",
        "env_id",
    }
    assert lines[1] == "r,l,t,seed,is_success"
    assert lines[2].startswith("1.5,3,") and lines[2].endswith(",0,True")
    assert len(lines) == 4
    assert info["episode"]["is_success"] is True and info["episode"]["seed"] == 0
    env.close()


@pytest.mark.parametrize(
    ("given", "file"),
    [("", "monitor.csv"), ("a", "a.monitor.csv"), ("a.monitor.csv", "a.monitor.csv")],
)
def test_file_names(tmp_path: Path, given: str, file: str) -> None:
    ResultsWriter(tmp_path / given if given else tmp_path).close()
    assert get_monitor_files(tmp_path) == [str(tmp_path / file)]


def test_early_reset_and_late_step_are_refused() -> None:
    env = Monitor(Counter(), allow_early_resets=False)
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)
    env.reset()
    env.step(0)
    with pytest.raises(RuntimeError, match="allow_early_resets"):
        env.reset()


def test_early_reset_drops_the_episode() -> None:
    env = Monitor(Counter())
    env.reset()
    env.step(0)
    assert play(env, 1)["episode"]["r"] == 1.5
    assert env.get_total_steps() == 4


def test_missing_keywords_are_named() -> None:
    with pytest.raises(UserError, match="'level'"):
        Monitor(Counter(), reset_keywords=("level",)).reset()
    with pytest.raises(UserError, match="'score'"):
        play(Monitor(Counter(), info_keywords=("score",)), 1)


def test_continuing_a_file_drops_a_half_row_and_keeps_one_clock(tmp_path: Path) -> None:
    file = tmp_path / "monitor.csv"
    file.write_text('#{"t_start": 1000.0, "env_id": "E"}\nr,l,t\n1.0,10,5.0\n2.0,2')
    writer = ResultsWriter(file, {"t_start": 1100.0}, override_existing=False)
    writer.write_row({"r": 3.0, "l": 30, "t": 1.5})
    writer.close()
    results = load_results(tmp_path)
    assert results["r"].tolist() == [1.0, 3.0]
    assert results["t"].tolist() == [5.0, 101.5]
    with pytest.raises(UserError, match="columns"):
        ResultsWriter(file, extra_keys=("score",), override_existing=False)
    ResultsWriter(file).close()
    assert load_results(tmp_path).empty


def test_load_results_merges_by_time(tmp_path: Path) -> None:
    for name, start, rows in (
        ("0", 1000.0, ((1, 10, 5), (2, 20, 9))),
        ("1", 1002.0, ((3, 30, 1),)),
    ):
        writer = ResultsWriter(tmp_path / name, {"t_start": start})
        for r, length, t in rows:
            writer.write_row({"r": r, "l": length, "t": t})
        writer.close()
    results = load_results(tmp_path)
    assert results["r"].tolist() == [3, 1, 2]
    assert results["t"].tolist() == [3, 5, 9]
    assert results.index.tolist() == [0, 1, 2]


def test_load_results_ignores_a_half_written_row(tmp_path: Path) -> None:
    (tmp_path / "0.monitor.csv").write_text('#{"t_start": 1.0}\nr,l,t\n1.0,10,5.0\n2.0,2')
    assert load_results(tmp_path)["l"].tolist() == [10]


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "r,l,t\n1,2,3\n",
        "#[1]\nr,l,t\n",
        '#{"t_start": 1}\nr,l\n1,2,3\n4,5,6,7,8\n',
    ],
)
def test_load_results_names_what_is_wrong(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "monitor.csv").write_text(text)
    with pytest.raises(LoadMonitorResultsError):
        load_results(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\n\x00\n",
        b"#" + b"[" * 100_000 + b"\nr,l,t\n1,2,3\n",
        b'#{"t_start": "x"}\nr,l,t\n1,2,3\n',
        b'#{"t_start": 1' + b"0" * 400 + b"}\nr,l,t\n1,2,3\n",
        b'#{"t_start": NaN}\nr,l,t\n1,2,3\n',
        b'#{"t_start": 1}\nr,l\n1,2\n',
        b'#{"t_start": 1}\nr,l,t\n1,2,x\n',
        b'#{"t_start": 1}\nr,l,t\n1,2,3,4\n1,2\n1,2,3,4,5,6\n',
        b'#{"t_start": 1}\n\n\n',
    ],
)
def test_damaged_monitor_file_is_one_line(content, tmp_path):
    (tmp_path / "0.monitor.csv").write_bytes(content)
    with pytest.raises(
        LoadMonitorResultsError, match=r"0\.monitor\.csv is (damaged|not a monitor file)"
    ) as caught:
        load_results(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"1,ab,3", "line 4 has 'ab' in the column 'l', not a number"),
        (b"1,2,3,4", "line 4 has 4 values for 3 columns"),
        (b"\x00\x00", r"line 4 has '\\x00\\x00' in the column 'r'"),
        (b"1,\xff,3", "line 4 is not text"),
    ],
)
def test_damaged_row_is_named_with_its_line(row, message, tmp_path):
    (tmp_path / "0.monitor.csv").write_bytes(b'#{"t_start": 1}\nr,l,t\n1,2,3\n' + row + b"\n1,2,3\n")
    with pytest.raises(LoadMonitorResultsError, match=rf"0\.monitor\.csv is damaged: {message}"):
        load_results(tmp_path)


def test_time_limit_is_a_known_keyword() -> None:
    info = play(Monitor(Counter(), info_keywords=("TimeLimit.truncated",)), 1)
    assert info["episode"]["TimeLimit.truncated"] is False
