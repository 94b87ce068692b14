"""The progress bar draws rarely and puts the console back as it was."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from typing import Any

import pytest

from rlzoo.callbacks import progress_bar
from rlzoo.callbacks.progress_bar import ProgressBar


@pytest.fixture
def draws(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What each drawing shows; the clock stands still unless a test moves it."""
    from rich.progress import Progress

    shown: list[dict[str, Any]] = []
    update = Progress.update

    def record(self: Any, task: Any, **values: Any) -> None:
        shown.append(values)
        update(self, task, **values)

    monkeypatch.setattr(Progress, "update", record)
    return shown


def test_it_draws_at_most_ten_times_a_second(
    draws: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(progress_bar.time, "perf_counter", lambda: now[0])
    bar = ProgressBar(1000, completed=200)
    for step in range(1, 201):
        now[0] += 0.01
        bar.update(200 + step)
    bar.close(400, "done")
    assert 18 <= len(draws) <= 21
    assert draws[-1]["completed"] == 400 and draws[-1]["text"] == "done"
    assert draws[-1]["speed"] == pytest.approx(100)


def test_going_beyond_the_end_is_the_end(draws: list[dict[str, Any]]) -> None:
    bar = ProgressBar(10)
    bar.close(12)
    assert draws[-1]["total"] == 12


def test_a_step_is_cheap(model: Any) -> None:
    from rlzoo.callbacks.callbacks import ProgressBarCallback

    callback = ProgressBarCallback()
    callback.init_callback(model)
    callback.on_training_start({}, {})
    n_calls, rounds = 2000, []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(n_calls):
            callback.on_step()
        rounds.append((time.perf_counter() - began) / n_calls)
    callback.on_training_end()
    assert min(rounds) < 5e-6


def test_learn_shows_progress_and_the_return(model: Any, make_env: Any, capsys: Any) -> None:
    model.env = make_env(3)
    model.learn(8, progress_bar=True)
    out = capsys.readouterr().out
    assert "8/8" in out and "return 3.0" in out


def test_an_interrupted_training_does_not_forbid_the_next(model: Any, capsys: Any) -> None:
    def interrupt(locals_: Any, globals_: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(
        KeyboardInterrupt
    ) as interrupted:  # holds the frames, and so the bar, as a notebook does
        model.learn(8, interrupt, progress_bar=True)
    model.learn(8, progress_bar=True)
    assert "9/9" in capsys.readouterr().out
    assert interrupted.type is KeyboardInterrupt


def test_the_table_of_the_logger_appears_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    from rlzoo.metrics.logger import configure_logger

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    terminal = sys.stdout
    logger = configure_logger(verbose=1)
    bar = ProgressBar(10)
    assert sys.stdout is not terminal  # the bar stands in for it
    logger.record("a", 1)
    logger.dump()
    bar.close(10)
    assert sys.stdout is terminal
    assert "| a | 1 |" in terminal.getvalue()  # type: ignore[attr-defined]


def test_an_uncaught_error_shows_the_cursor_again() -> None:
    code = (
        "import sys; sys.stdout.isatty = lambda: True\n"
        "from rlzoo.callbacks.progress_bar import ProgressBar\n"
        "bar = ProgressBar(10); bar.update(3); raise SystemExit(3)"
    )
    environment = {"TERM": "xterm", "FORCE_COLOR": "1", "PATH": ""}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert result.returncode == 3
    assert "\x1b[?25l" in result.stdout  # hidden, and last of all
    assert result.stdout.rindex("\x1b[?25h") > result.stdout.rindex("\x1b[?25l")
