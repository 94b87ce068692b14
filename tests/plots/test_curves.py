"""Learning curves from monitor files."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.single_env.monitor import LoadMonitorResultsError, ResultsWriter
from rlzoo.plots import curves

matplotlib.use("Agg")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """150 episodes of ten steps each, an hour apart, episode n returning n."""
    writer = ResultsWriter(tmp_path, {"t_start": 0.0})
    for number in range(150):
        writer.write_row({"r": float(number), "l": 10, "t": 3600.0 * number})
    writer.close()
    return tmp_path


def test_points(folder: Path) -> None:
    episodes = curves.load_results(folder)
    for axis, expected in (
        (curves.X_TIMESTEPS, [10, 20, 30]),
        (curves.X_EPISODES, [0, 1, 2]),
        (curves.X_WALLTIME, [0.0, 1.0, 2.0]),
    ):
        x, y = curves.ts2xy(episodes, axis)
        assert x[:3].tolist() == expected
        assert y.tolist() == list(range(150))
    with pytest.raises(UserError, match="'timesteps'"):
        curves.ts2xy(episodes, "timestep")


def test_rolling_window() -> None:
    assert curves.rolling_window(np.arange(5), 3).tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert curves.rolling_window(np.zeros((2, 5)), 3).shape == (2, 3, 3)
    assert [len(part) for part in curves.window_func(np.arange(2), np.arange(2), 3, np.mean)] == [0, 0]
    x, y = curves.window_func(np.arange(5) * 10, np.arange(5), 3, np.mean)
    assert x.tolist() == [20, 30, 40]
    assert y.tolist() == [1, 2, 3]


def test_plot_results_draws_dots_and_mean(folder: Path, tmp_path: Path) -> None:
    figure = curves.plot_results([folder], None, curves.X_TIMESTEPS, "Task")
    (axes,) = figure.axes
    assert len(axes.collections[0].get_offsets()) == 150
    x, y = axes.lines[0].get_data()
    assert (x[0], y[0]) == (1000, 49.5)
    assert axes.get_title() == "Task"
    assert axes.get_xlim() == (0, 1500)
    figure.savefig(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_plot_results_cuts_at_num_timesteps(folder: Path) -> None:
    figure = curves.plot_results([str(folder)], 500, curves.X_EPISODES, "Task")
    (axes,) = figure.axes
    assert len(axes.collections[0].get_offsets()) == 50
    assert not axes.lines  # too few episodes for a mean


def test_nothing_to_plot(tmp_path: Path) -> None:
    with pytest.raises(LoadMonitorResultsError, match="no monitor file"):
        curves.plot_results([tmp_path], None, curves.X_TIMESTEPS, "Task")
