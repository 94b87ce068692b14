"""Expert files that are no use: one line, exit code 2, and no run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlzoo.cli.main import main


def content(**changes: Any) -> dict[str, Any]:
    """Demonstrations for CartPole-v1."""
    data = {
        "obs": np.zeros((6, 4), np.float32),
        "actions": np.array([[0], [1]] * 3),
        "rewards": np.ones(6),
        "episode_starts": np.arange(6) % 3 == 0,
        "episode_returns": np.full(2, 3.0),
    }
    return {key: value for key, value in {**data, **changes}.items() if value is not None}


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], *named: str) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("rlzoo: error: ") and error.count("\n") == 1, error
    for text in named:
        assert text in error


FILES: list[tuple[dict[str, Any], str]] = [
    ({"obs": np.zeros((6, 3))}, "demonstrations of another environment: its observations are of shape (3,)"),
    ({"actions": np.full((6, 1), 2)}, "of another environment: its actions are not all in Discrete(2)"),
    ({"actions": np.full((6, 1), 0.3)}, "demonstrations of another environment: its actions"),
    ({"actions": None, "acts": np.zeros((6, 1))}, "holds no demonstrations: it lacks 'actions'"),
    ({"obs": np.array([{"a": 1}] * 6, dtype=object)}, "'obs' holds pickled Python objects"),
    ({"actions": np.array([["left"]] * 6)}, "'actions' holds values of type <U4 instead of numbers"),
    ({"rewards": np.array(["1"] * 6)}, "'rewards' holds values of type <U1 instead of numbers"),
    ({"obs": np.zeros((6, 4), "datetime64[D]")}, "'obs' holds values of type datetime64[D]"),
    ({"obs": np.zeros((6, 4), complex)}, "'obs' holds values of type complex128"),
    ({"obs": np.full((6, 4), np.nan)}, "'obs' holds NaN"),
    ({"obs": np.full((6, 4), 1e300)}, "numbers beyond single precision"),
    ({"episode_returns": np.zeros(0)}, "holds no episodes"),
    ({key: value[:0] for key, value in content().items()}, "holds no episodes"),
]


@pytest.mark.parametrize("algo", ["bc", "gail"])
@pytest.mark.parametrize(("changes", "text"), FILES)
def test_a_file_that_is_no_use(
    algo: str,
    changes: dict[str, Any],
    text: str,
    tmp_path: Path,
    logs: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    np.savez(tmp_path / "expert.npz", **content(**changes))
    base = ["train", "--algo", algo, "--env", "CartPole-v1", "-n", "100", "--device", "cpu", "-f", str(logs)]
    refused([*base, "--expert", str(tmp_path / "expert.npz")], capsys, "expert.npz", text)
    assert not logs.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--algo", "bc"], ["--expert", "rlzoo record-expert"]),
        (["--algo", "gail"], ["--expert"]),
        (["--algo", "bc", "--expert", "none.npz"], ["there is no file none.npz"]),
        (["--algo", "ppo", "--expert", "none.npz"], ["--expert", "bc, gail", "ppo"]),
        (["--algo", "gail", "--expert", "none.npz", "-params", "n_epoch:3"], ["n_epochs"]),
        (["--algo", "bc", "--exprt", "none.npz"], ["--expert"]),
    ],
)
def test_a_mistake_on_the_command_line(
    arguments: list[str], named: list[str], logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused(["train", "--env", "CartPole-v1", "-n", "100", *arguments, "-f", str(logs)], capsys, *named)
    assert not logs.exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-n", "2"], ["-o"]),
        (["-n", "0", "-o", "x.npz"], ["at least 1"]),
        (["-o", "x.npz", "--algo", "ppp"], ["ppo"]),
        (["-o", "x.npz", "--env", "CartPol-v1"], ["CartPole-v1"]),
        (["-o", "x.npz", "--env", "FrozenLake-v1"], ["no agent of ppo for FrozenLake-v1"]),
    ],
)
def test_a_mistake_when_recording(
    arguments: list[str],
    named: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    refused(["record-expert", "-f", str(tmp_path), *arguments], capsys, *named)
    assert not Path("x.npz").exists()
