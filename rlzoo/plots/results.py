"""Evaluations over seeds, algorithms and environments: gather them from runs, store them in a JSON file.

{"format": "rlzoo results", "version": 1, "measure": "return", "curves": [
  {"environment": "CartPole-v1", "name": "ppo", "algorithm": "ppo", "seeds": [0, 1],
   "steps": [10000, 20000], "scores": [[112.4, 500.0], [98.0, 500.0]]}]}
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rlzoo.core.errors import UserError, unknown
from rlzoo.plots.aggregates import Values
from rlzoo.plots.runs import COLUMNS, OWN_COLUMNS, evaluations_of, find_runs, select

if TYPE_CHECKING:
    import pandas as pd

FORMAT, VERSION = "rlzoo results", 1
Source: TypeAlias = "Results | pd.DataFrame | str | os.PathLike[str]"
_KEYS = {**COLUMNS, "reward": "return", "success_rate": "success"}


@dataclass(frozen=True, eq=False)
class Curve:
    """The evaluations of one algorithm, or variant, in one environment.

    :param seeds: seeds of the training runs; None if unknown
    :param steps: number of environment steps at each evaluation, [n_evaluations]
    :param scores: mean over the episodes of each evaluation, [n_runs, n_evaluations]
    """

    environment: str
    name: str
    algorithm: str
    seeds: tuple[int | None, ...]
    steps: np.ndarray
    scores: Values

    @property
    def final(self) -> Values:
        """Scores of the last evaluation, [n_runs]."""
        return self.scores[:, -1]


@dataclass(frozen=True, eq=False)
class Results:
    """Curves of algorithms in environments.

    :param measure: what the scores are: return, length, success or the name of another array
    """

    measure: str
    curves: tuple[Curve, ...]

    @property
    def environments(self) -> list[str]:
        """Ids of the environments, in their order."""
        return list(dict.fromkeys(curve.environment for curve in self.curves))

    @property
    def names(self) -> list[str]:
        """Algorithms and variants, in their order."""
        return list(dict.fromkeys(curve.name for curve in self.curves))

    def of(self, environment: str) -> list[Curve]:
        """Return the curves in one environment."""
        return [curve for curve in self.curves if curve.environment == environment]

    def curve(self, environment: str, name: str) -> Curve | None:
        """Return a curve, or None if there is none."""
        found = (c for c in self.curves if (c.environment, c.name) == (environment, name))
        return next(found, None)


def gather(
    folders: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    labels: Sequence[str] = (),
    algos: Iterable[str] = (),
    envs: Iterable[str] = (),
    key: str = "results",
    max_timesteps: int | None = None,
    min_timesteps: int | None = None,
) -> Results:
    """Gather the evaluations of the runs in folders.

    If the runs of a curve were evaluated at different steps, the steps of the run with the fewest evaluations
    are used, with the nearest evaluations of the others. A run that ended early is left out with a warning,
    unless `min_timesteps` allows it.

    :param labels: one for each folder, which becomes part of the names
    :param algos: names of algorithms or variants; empty: all
    :param envs: ids of environments or parts of ids; empty: all
    :param key: array of evaluations.npz, or column of `load_runs`
    :param max_timesteps: leave out later evaluations
    :param min_timesteps: leave out runs whose last evaluation is earlier; the others are cut to the shortest
    :raises UserError: nothing is left, `key` is unknown, or the labels are not one different label per folder
    """
    folders = [folders] if isinstance(folders, str | os.PathLike) else list(folders)
    if labels and len(labels) != len(folders):
        raise UserError(f"{len(folders)} folders need as many labels, not {len(labels)}")
    if len(set(labels)) < len(labels):
        raise UserError(f"the labels of folders must differ, unlike {', '.join(labels)}")
    found = {run: folder for folder in folders for run in find_runs(folder)}
    where = ", ".join(map(str, folders))
    runs = select(list(found), algos, envs, where)
    frame = evaluations_of(runs, where)
    if labels or len(folders) > 1:
        label_of = dict(zip(folders, labels or map(str, folders), strict=True))
        column = frame["run"].map({str(run.folder): label_of[found[run]] for run in runs})
        frame["name"] = column if frame["name"].nunique() == 1 else frame["name"] + ", " + column
    return from_frame(frame, key, max_timesteps, min_timesteps)


def from_frame(
    frame: pd.DataFrame,
    key: str = "results",
    max_timesteps: int | None = None,
    min_timesteps: int | None = None,
) -> Results:
    """Build results from the table of `load_runs`; the arguments are those of `gather`.

    :raises UserError: nothing is left, or `key` is unknown
    """
    column = _KEYS.get(key, key)
    known = [name for name in frame if name not in OWN_COLUMNS and frame[name].notna().any()]
    if column not in known:
        if column == "success":
            raise UserError("none of these runs has successes: their environments do not report is_success")
        raise unknown("key", key, [*known, *(array for array, name in COLUMNS.items() if name in known)])
    missing = {"name", "algorithm", "environment", "seed", "run", "step"} - set(frame)
    if missing:
        raise UserError(f"the table has no column {min(missing)!r}; load_runs makes one that has")
    curves, left_out = [], []
    for (environment, name), rows in frame.groupby(["environment", "name"], sort=False):
        runs = [_Evaluated(run, part, column) for run, part in rows.groupby("run", sort=False)]
        curve = _curve(environment, name, runs, max_timesteps, min_timesteps)
        if curve is None:
            left_out.append(f"{name} on {environment}")
        else:
            curves.append(curve)
    if not curves:
        raise UserError("no run is left: --min-timesteps is too high, or --max-timesteps too low")
    if left_out:
        why = "no run is left between --min-timesteps and --max-timesteps"
        warnings.warn(f"left out {', '.join(left_out)}: {why}", stacklevel=2)
    return Results(column, tuple(curves))


def as_results(source: Source) -> Results:
    """Return results as such, or those of a table of `load_runs`, of a results file or of a folder of runs.

    :raises UserError: it is none of these
    """
    if isinstance(source, Results):
        return source
    if isinstance(source, str | os.PathLike):
        return gather(source) if Path(source).is_dir() else read_results(source)
    return from_frame(source)


def results_text(results: Results) -> str:
    """Return the contents of a results file."""
    curves = [
        {
            "environment": curve.environment,
            "name": curve.name,
            "algorithm": curve.algorithm,
            "seeds": list(curve.seeds),
            "steps": curve.steps.tolist(),
            "scores": curve.scores.tolist(),
        }
        for curve in results.curves
    ]
    lines = ",\n ".join(json.dumps(curve, allow_nan=False) for curve in curves)
    head = f'"format": "{FORMAT}", "version": {VERSION}, "measure": {json.dumps(results.measure)}'
    return f'{{{head}, "curves": [\n {lines}\n]}}\n'


def read_results(path: str | os.PathLike[str]) -> Results:
    """Read a results file.

    :raises UserError: there is no such file, or it is of something else
    """
    try:
        content = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except (RecursionError, ValueError):
        content = None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        pickled = "; pickles, as all_plots of RL Baselines3 Zoo writes, are never loaded"
        hint = pickled if str(path).endswith((".pkl", ".pickle")) else ""
        raise UserError(f"{path} is no results file of `rlzoo plot compare -o`{hint}")
    if content.get("version") != VERSION:
        raise UserError(f"{path} has version {content.get('version')!r} of the format, not {VERSION}")
    try:
        measure = _text(content["measure"])
        curves = tuple(_curve_of(values) for values in content["curves"])
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        raise UserError(f"{path} is damaged: {type(error).__name__} {error}") from None
    if not curves or len({(curve.environment, curve.name) for curve in curves}) < len(curves):
        raise UserError(f"{path} is damaged: {'a curve is there twice' if curves else 'it has no curves'}")
    return Results(measure, curves)


def merge(results: Results, others: Iterable[Results]) -> Results:
    """Return the curves of several results; of two of one name and environment the later one.

    :raises UserError: they are of different measures
    """
    curves = {(curve.environment, curve.name): curve for curve in results.curves}
    for other in others:
        if other.measure != results.measure:
            raise UserError(f"results of {results.measure} and of {other.measure} cannot be merged")
        curves.update({(curve.environment, curve.name): curve for curve in other.curves})
    return Results(results.measure, tuple(curves.values()))


def choose(
    results: Results,
    keep_envs: Sequence[str] = (),
    skip_envs: Sequence[str] = (),
    keep_names: Sequence[str] = (),
    skip_names: Sequence[str] = (),
) -> Results:
    """Return some of the curves; empty arguments choose all.

    :raises UserError: a name is unknown, or nothing is left
    """
    for kind, asked, known in (
        ("environment", (*keep_envs, *skip_envs), results.environments),
        ("key", (*keep_names, *skip_names), results.names),
    ):
        for name in asked:
            if name not in known:
                raise unknown(kind, name, known)
    curves = [
        curve
        for curve in results.curves
        if (not keep_envs or curve.environment in keep_envs)
        and (not keep_names or curve.name in keep_names)
        and curve.environment not in skip_envs
        and curve.name not in skip_names
    ]
    if not curves:
        raise UserError("no curve is left")
    return Results(results.measure, tuple(curves))


def rename(results: Results, labels: Sequence[str]) -> Results:
    """Give the names of results other labels, in their order.

    :raises UserError: there is another number of names, or a label is there twice
    """
    if len(labels) != len(results.names) or len(set(labels)) < len(labels):
        raise UserError(f"{', '.join(results.names)} need {len(results.names)} labels that differ")
    label_of = dict(zip(results.names, labels, strict=True))
    curves = (replace(curve, name=label_of[curve.name]) for curve in results.curves)
    return Results(results.measure, tuple(curves))


def _curve_of(values: dict[str, Any]) -> Curve:
    """:raises KeyError, TypeError, ValueError: it is not what `results_text` writes"""
    steps, scores = np.array(values["steps"], np.float64), np.array(values["scores"], np.float64)
    seeds = tuple(values["seeds"])
    if scores.ndim != 2 or scores.size == 0 or scores.shape != (len(seeds), len(steps)):
        wanted = [len(seeds), len(steps)]
        raise ValueError(f"scores of the shape {list(scores.shape)}, not {wanted} (seeds, steps)")
    if not np.isfinite(scores).all():
        raise ValueError("a score that is not finite")
    if not (np.abs(steps) < 2**53).all() or (np.diff(steps) <= 0).any():
        raise ValueError("steps that do not increase")
    if any(type(seed) is not int and seed is not None for seed in seeds):
        raise ValueError("a seed that is no whole number")
    environment, name, algorithm = (_text(values[key]) for key in ("environment", "name", "algorithm"))
    return Curve(environment, name, algorithm, seeds, steps.astype(np.int64), scores)


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r:.40} is no text")
    return value


class _Evaluated:
    """The evaluations of one run."""

    def __init__(self, run: str, rows: pd.DataFrame, column: str) -> None:
        first = rows.iloc[0]
        self.run, self.algorithm = run, str(first["algorithm"])
        self.seed = int(first["seed"]) if rows["seed"].notna().iloc[0] else None
        self.steps = rows["step"].to_numpy(np.int64)
        self.scores = rows[column].to_numpy(np.float64)

    def until(self, steps: int | None) -> _Evaluated | None:
        """Leave out later evaluations; None if that leaves nothing."""
        if steps is not None:
            kept = self.steps <= steps
            self.steps, self.scores = self.steps[kept], self.scores[kept]
        return self if len(self.steps) else None


def _curve(
    environment: str, name: str, runs: list[_Evaluated], max_timesteps: int | None, min_timesteps: int | None
) -> Curve | None:
    """Put runs on common steps; None if none is left."""
    left_out = [run.run for run in runs if not np.isfinite(run.scores).all()]
    _say_left_out(left_out, "an evaluation is missing or not finite")
    runs = [run for run in runs if run.run not in left_out]
    if min_timesteps is not None:
        runs = [run for run in runs if run.steps[-1] >= min_timesteps]
    runs = [run for run in runs if run.until(max_timesteps)]
    if not runs:
        return None
    longest = max(runs, key=lambda run: run.steps[-1])
    if min_timesteps is None:
        interval = longest.steps[-1] / len(longest.steps)
        short = [run.run for run in runs if run.steps[-1] < longest.steps[-1] - interval]
        _say_left_out(short, f"it ended before {longest.steps[-1]:,} steps; --min-timesteps keeps it")
        runs = [run for run in runs if run.run not in short]
    coarsest = min(runs, key=lambda run: len(run.steps))
    end = min(run.steps[-1] for run in runs)
    n = max(1, int(np.searchsorted(coarsest.steps, end, side="right")))
    steps = coarsest.steps[:n]
    nearest = [np.abs(run.steps[:, None] - steps[None]).argmin(axis=0) for run in runs]
    scores = np.stack([run.scores[index] for run, index in zip(runs, nearest, strict=True)])
    seeds = tuple(run.seed for run in runs)
    return Curve(environment, name, runs[0].algorithm, seeds, steps, scores)


def _say_left_out(runs: list[str], why: str) -> None:
    if runs:
        more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
        warnings.warn(f"left out {runs[0]}{more}: {why}", stacklevel=2)
