"""Learning curves from the monitor files of finished or running trainings."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlzoo.core.errors import unknown
from rlzoo.envs.single_env.monitor import load_results

if TYPE_CHECKING:
    import pandas as pd

X_TIMESTEPS = "timesteps"
X_EPISODES = "episodes"
X_WALLTIME = "walltime_hrs"
POSSIBLE_X_AXES = (X_TIMESTEPS, X_EPISODES, X_WALLTIME)
EPISODES_WINDOW = 100

__all__ = [
    "EPISODES_WINDOW",
    "POSSIBLE_X_AXES",
    "X_EPISODES",
    "X_TIMESTEPS",
    "X_WALLTIME",
    "load_results",
    "plot_curves",
    "plot_results",
    "rolling_window",
    "ts2xy",
    "window_func",
]


def rolling_window(array: np.ndarray, window: int) -> np.ndarray:
    """Return runs of `window` neighbours: [..., n] -> [..., n - window + 1, window], a read-only view."""
    return np.lib.stride_tricks.sliding_window_view(array, window, axis=-1)


def window_func(
    var_1: np.ndarray, var_2: np.ndarray, window: int, func: Callable[..., np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Apply `func` to every window of `var_2`, with the value of `var_1` at the window's end.

    :param func: takes `axis`, such as `numpy.mean`
    :return: two arrays [n - window + 1], empty ones where there are fewer values than that
    """
    if len(var_2) < window:
        return var_1[:0], var_2[:0]
    return var_1[window - 1 :], func(rolling_window(var_2, window), axis=-1)


def ts2xy(data_frame: pd.DataFrame, x_axis: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the episodes of `load_results` as points.

    :param x_axis: X_TIMESTEPS (environment steps so far), X_EPISODES (number) or X_WALLTIME (hours)
    :return: x and the episodes' returns, both [n_episodes]
    :raises UserError: for any other axis
    """
    returns = data_frame["r"].to_numpy()
    if x_axis == X_TIMESTEPS:
        return data_frame["l"].cumsum().to_numpy(), returns
    if x_axis == X_EPISODES:
        return np.arange(len(data_frame)), returns
    if x_axis == X_WALLTIME:
        return data_frame["t"].to_numpy() / 3600.0, returns
    raise unknown("x axis", x_axis, POSSIBLE_X_AXES)


def plot_curves(
    xy_list: Sequence[tuple[np.ndarray, np.ndarray]],
    x_axis: str,
    title: str,
    figsize: tuple[float, float] = (8, 2),
) -> Any:
    """Draw every episode as a dot and the mean of the last 100 as a line, a colour for each of `xy_list`.

    :return: the matplotlib figure, which is also the current one
    """
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(num=title, figsize=figsize, clear=True)
    for x, y in xy_list:
        dots = axes.scatter(x, y, s=2)
        if len(x) >= EPISODES_WINDOW:
            axes.plot(*window_func(x, y, EPISODES_WINDOW, np.mean), color=dots.get_facecolor()[0])
    ends = [x[-1] for x, _ in xy_list if len(x)]
    if ends and max(ends) > 0:
        axes.set_xlim(0, max(ends))
    axes.set_title(title)
    axes.set_xlabel(x_axis)
    axes.set_ylabel("Episode Rewards")
    figure.tight_layout()
    return figure


def plot_results(
    dirs: Sequence[str | os.PathLike[str]],
    num_timesteps: int | None,
    x_axis: str,
    task_name: str,
    figsize: tuple[float, float] = (8, 2),
) -> Any:
    """Draw the curves of several folders of monitor files; `pyplot.show()` or `savefig` follows.

    :param num_timesteps: leave out what came later; None leaves out nothing
    :return: the matplotlib figure
    """
    curves = []
    for folder in dirs:
        episodes = load_results(folder)
        if num_timesteps is not None:
            episodes = episodes[episodes["l"].cumsum() <= num_timesteps]
        curves.append(ts2xy(episodes, x_axis))
    return plot_curves(curves, x_axis, task_name, figsize)
