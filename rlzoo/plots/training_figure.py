"""Returns, lengths or successes of training episodes, from monitor files."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rlzoo.core.errors import UserError, unknown
from rlzoo.plots.runs import Run, find_runs, select
from rlzoo.plots.style import FONT_SIZE, PALETTE, describe, legend_below, looks, panels, shown, steps_axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

X_AXES = ("steps", "episodes", "time")
Y_AXES = {
    "reward": ("r", "episode return"),
    "success": ("is_success", "success rate"),
    "length": ("l", "episode length (steps)"),
}
WINDOW = 100  # episodes


def train(
    folder: str | os.PathLike[str],
    algos: Iterable[str] = (),
    envs: Iterable[str] = (),
    *,
    x: str = "steps",
    y: str = "reward",
    window: int = WINDOW,
    max_timesteps: int | None = None,
    plain_steps: bool = False,
    figsize: Sequence[float] | None = None,
    fontsize: float = FONT_SIZE,
) -> Figure:
    """Draw rolling means over the training episodes of runs, a panel for each environment.

    Up to seven runs of one algorithm in one environment have a colour each; otherwise each algorithm has one.
    Of a run that is shorter than the window, the mean is over all episodes so far.

    :param folder: of runs, at any depth
    :param algos: names of algorithms or variants; empty: all
    :param envs: ids of environments or parts of ids; empty: all
    :param x: "steps" (environment steps), "episodes" or "time" (since the start of the run)
    :param y: "reward" (return of an episode), "success" or "length"
    :param window: episodes that are averaged
    :param max_timesteps: leave out what came later
    :param plain_steps: no thousands or millions of steps
    :return: the figure; `figure.savefig("train.png")` writes it
    :raises UserError: there is nothing to draw

    >>> figure = rlzoo.plots.train("logs", ["ppo"], ["CartPole-v1"], window=50)
    """
    if x not in X_AXES:
        raise unknown("x axis", x, X_AXES)
    if y not in Y_AXES:
        raise unknown("y axis", y, Y_AXES)
    if window < 1:
        raise UserError(f"the window must be at least 1 episode, not {window}")
    episodes = _episodes(select(find_runs(folder), algos, envs, str(folder)), y, max_timesteps, str(folder))
    by_env: dict[str, list[Run]] = {}
    for run in episodes:
        by_env.setdefault(run.environment, []).append(run)
    figure, axes_of = panels(len(by_env), figsize, fontsize)
    unit = _time_unit(episodes.values()) if x == "time" else (1.0, "")
    look = _looks(episodes, by_env)
    for axes, (environment, runs) in zip(axes_of, by_env.items(), strict=True):
        for run in runs:
            xs, ys = _line(episodes[run], x, Y_AXES[y][0], window)
            kind = look[_legend_name(run, look)]
            marker = "." if len(xs) == 1 else ""
            axes.plot(xs / unit[0], ys, linewidth=1.1, marker=marker, **kind)
        label = _x_label(axes, x, [episodes[run] for run in runs], unit[1], plain_steps)
        describe(axes, label, f"{Y_AXES[y][1]}, mean of {window}", environment, fontsize)
    legend_below(figure, _handles(look, episodes), fontsize, grow=figsize is None)
    return figure


def _episodes(runs: Sequence[Run], y: str, max_timesteps: int | None, where: str) -> dict[Run, pd.DataFrame]:
    """Load the episodes of the runs that have some."""
    from rlzoo.envs.single_env.monitor import get_monitor_files, load_results

    found, n_monitored = {}, 0
    for run in runs:
        if not get_monitor_files(run.folder):
            continue
        n_monitored += 1
        table = load_results(run.folder)
        if max_timesteps is not None:
            table = table[table["l"].cumsum() <= max_timesteps]
        column = Y_AXES[y][0]
        if len(table) and column in table:
            try:
                found[run] = table.assign(**{column: table[column].astype(float)})
            except (TypeError, ValueError) as error:
                raise UserError(f"{run.folder} has damaged monitor files: {column}: {error}") from None
    if found:
        return found
    if not n_monitored:
        raise UserError(f"no run in {where} has monitor files (*.monitor.csv)")
    if y == "success":
        raise UserError(
            f"the monitor files in {where} have no episode with is_success; where the environment reports it,"
            " train with the hyperparameter monitor_kwargs: {info_keywords: [is_success]}"
        )
    raise UserError(f"the monitor files in {where} have no finished episode")


def _line(table: pd.DataFrame, x: str, column: str, window: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rolling mean of a column; of fewer episodes than the window the mean so far."""
    axis = {
        "steps": table["l"].cumsum().to_numpy(np.float64),
        "episodes": np.arange(1.0, len(table) + 1),
        "time": table["t"].to_numpy(np.float64),
    }[x]
    means = table[column].rolling(window, min_periods=1).mean().to_numpy()
    first = window - 1 if len(table) >= window else 0
    return axis[first:], means[first:]


def _time_unit(tables: Iterable[pd.DataFrame]) -> tuple[float, str]:
    longest = max(float(table["t"].max()) for table in tables)
    return (3600.0, "hours") if longest >= 7200 else (60.0, "minutes") if longest >= 120 else (1.0, "seconds")


def _x_label(axes: Axes, x: str, tables: Sequence[pd.DataFrame], unit: str, plain: bool) -> str:
    if x == "steps":
        return steps_axis(axes, max(float(table["l"].sum()) for table in tables), plain=plain)
    return "episodes" if x == "episodes" else f"time since the start ({unit})"


def _looks(episodes: dict[Run, Any], by_env: dict[str, list[Run]]) -> dict[str, dict[str, Any]]:
    """Return colours by run where all runs are of one algorithm in one environment, else by algorithm."""
    names = list(dict.fromkeys(run.name for run in episodes))
    if len(names) == 1 and len(by_env) == 1 and len(episodes) <= len(PALETTE):
        return looks(run.folder.name for run in episodes)
    return looks(names)


def _legend_name(run: Run, look: dict[str, Any]) -> str:
    return run.folder.name if run.folder.name in look else run.name


def _handles(look: dict[str, dict[str, Any]], episodes: dict[Run, Any]) -> Sequence[Artist]:
    from matplotlib.lines import Line2D

    handles = []
    for name, kind in look.items():
        found = Counter(run.environment for run in episodes if _legend_name(run, look) == name).values()
        number = str(max(found)) if min(found) == max(found) else f"{min(found)}-{max(found)}"
        runs = f" ({number} runs)" if max(found) > 1 else ""
        handles.append(Line2D([], [], label=shown(name) + runs, **kind))
    return handles
