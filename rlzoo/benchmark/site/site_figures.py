"""Figures of the results page: the learning curve of a row, and the aggregates of a suite."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlzoo.benchmark.site.site_rows import SiteRow
from rlzoo.envs.single_env.monitor import get_monitor_files
from rlzoo.plots.aggregate_figures import intervals, profiles
from rlzoo.plots.comparison import compare
from rlzoo.plots.normalisation import normalise
from rlzoo.plots.results import Curve, Results, from_frame
from rlzoo.plots.runs import EVALUATIONS, evaluations_of, find_runs
from rlzoo.plots.style import rendered
from rlzoo.plots.training_figure import train

CURVE_SIZE = (6.4, 3.2)  # inches
AGGREGATES_WIDTH, PROFILES_SIZE = 7.5, (7.5, 3.6)
OF_EVALUATIONS = (
    "Mean over the training seeds of evaluations during the training, with a 95% bootstrap interval."
)
OF_ONE_SEED = "Evaluations during the training with seed {seed}, whose agent is kept."
OF_EPISODES = "Returns of training episodes (rolling mean over 100), of training seed {seed}."
INTERVALS = (
    "Interquartile mean, median, mean and optimality gap of normalised scores, with 95% bootstrap intervals."
)
PROFILES = "Performance profiles: the share of runs whose normalised score is above each threshold."


def learning_curve(row: SiteRow) -> tuple[bytes, str]:
    """Draw the evaluations of a row's trainings, or else the episodes of one of them.

    :return: svg and caption; empty where nothing is known of the trainings
    """
    evaluated = {seed: run for seed, run in row.folders.items() if (run / EVALUATIONS).is_file()}
    recorded = [(seed, run) for seed, run in sorted(row.folders.items()) if get_monitor_files(str(run))]
    if evaluated:
        runs = [run for place in evaluated.values() for run in find_runs(place)]
        key = "successes" if row.row.measure == "success" else "results"
        figure = compare(from_frame(evaluations_of(runs, row.slug), key), figsize=CURVE_SIZE)
        caption = OF_EVALUATIONS if len(evaluated) > 1 else OF_ONE_SEED.format(seed=min(evaluated))
    elif recorded:
        seed, run = recorded[0]
        figure, caption = train(run, figsize=CURVE_SIZE), OF_EPISODES.format(seed=seed)
    else:
        return b"", ""
    return rendered(figure, "svg"), caption


def suite_figures(rows: Sequence[SiteRow], suite: str, files: dict[str, bytes]) -> dict[str, Any]:
    """Draw aggregates over the environments of a suite; empty where there are too few to compare.

    :param rows: of this suite
    :param files: the svg files are added to, by their names
    :return: caption and figures
    """
    compared = comparable([row for row in rows if row.row.measure == "return"])
    if not compared:
        return {}
    scores = normalise(final_scores(compared))
    size = (AGGREGATES_WIDTH, 1.6 + 0.4 * len(scores.names))
    drawings = {
        "aggregates": (intervals(scores, figsize=size), INTERVALS),
        "profiles": (profiles(scores, figsize=PROFILES_SIZE), PROFILES),
    }
    slug = suite.lower().replace(" ", "-")
    figures = []
    for name, (figure, caption) in drawings.items():
        file = f"{slug}-{name}.svg"
        files[file] = rendered(figure, "svg")
        figures.append({"file": file, "alt": f"{suite}: {name}", "caption": caption})
    caption = f"Over {', '.join(scores.environments)}; normalised scores ({scores.caption})."
    return {"caption": caption, "figures": figures}


def comparable(rows: Sequence[SiteRow]) -> list[SiteRow]:
    """Choose the rows of labels that have all of the same environments: as many rows as possible.

    :return: empty where no two labels share two environments
    """
    envs_of: dict[str, set[str]] = {}
    for row in rows:
        envs_of.setdefault(row.row.label, set()).add(row.row.env)
    best: list[SiteRow] = []
    for shared in (first & second for first in envs_of.values() for second in envs_of.values()):
        labels = {label for label, envs in envs_of.items() if envs >= shared}
        found = [row for row in rows if row.row.label in labels and row.row.env in shared]
        if len(shared) > 1 and len(labels) > 1 and len(found) > len(best):
            best = found
    return best


def final_scores(rows: Sequence[SiteRow]) -> Results:
    """Put the scores of final agents into the form of evaluations, of which there is one."""
    curves = [
        Curve(
            environment=row.row.env,
            name=row.row.label,
            algorithm=row.row.algo,
            seeds=tuple(row.table.seeds),
            steps=np.array([row.table.n_timesteps]),
            scores=np.array(row.table.means)[:, None],
        )
        for row in rows
    ]
    return Results("return", tuple(curves))
