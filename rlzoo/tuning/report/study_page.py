"""`report.html`: a self-contained page about a study, plotly.js included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

from optuna.trial import FrozenTrial, TrialState

from rlzoo.config.values_as_text import load_yaml
from rlzoo.tuning.report.figures import Figure
from rlzoo.tuning.report.natural_units import natural_name, natural_range, natural_text
from rlzoo.tuning.report.page_parts import (
    document,
    escape,
    figure_section,
    missing_note,
    section,
    table,
    tile_row,
)
from rlzoo.tuning.report.plotly_figures import PlotlySpec
from rlzoo.tuning.report.study_results import (
    NOTHING,
    hyperparameters,
    importances,
    parameters,
    ranked,
    text,
)
from rlzoo.tuning.storage.study_settings import StudySettings

TOP = 15
OBJECTIVES = {
    "last": "mean return of the last third of the evaluations",
    "best": "mean return of the best evaluation",
    "auc": "mean return over all evaluations",
}


def page(
    name: str,
    settings: StudySettings,
    n_trials: int,
    trials: Sequence[FrozenTrial],
    figures: Sequence[Figure],
    best: str,
) -> str:
    """Return the page.

    :param name: name of the study
    :param n_trials: number of trials of the study, run or not
    :param trials: its trials, in any state
    :param best: content of best.yml; empty if there is none
    """
    sections: list[str] = []
    specs: dict[str, PlotlySpec] = {}
    for figure in figures:
        drawn, panels = figure_section(figure)
        sections.append(drawn)
        specs |= panels
    body = [
        _tiles(n_trials, trials),
        section("best", "Best trial", _best(trials, best)),
        section("top", "Top trials", _top(trials)),
        *sections,
        section("parameters", "Search space", _parameters(trials)),
        section("settings", "Settings", _settings(settings, n_trials)),
        _failures(trials),
    ]
    links = [
        ("best", "Best trial"),
        ("top", "Top trials"),
        *((figure.name, figure.title) for figure in figures),
    ]
    links += [("parameters", "Search space"), ("settings", "Settings")]
    title = f"{settings.algo.upper()} on {settings.env_id}"
    footer = "All trials are in trials.csv, the hyperparameters of the best in best.yml."
    return document(title, name, links, body, specs, footer)


def _tiles(n_trials: int, trials: Sequence[FrozenTrial]) -> str:
    states = Counter(trial.state for trial in trials)
    finished = sum(states[state] for state in (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL))
    best = next(iter(ranked(trials)), None)
    tiles = [
        (
            "best",
            text(best.values[0]) if best else NOTHING,
            f"best return, trial {best.number}" if best else "best return",
        ),
        ("", f"{finished} of {n_trials}", "trials finished"),
        ("", str(states[TrialState.COMPLETE]), "complete"),
        ("", str(states[TrialState.PRUNED]), "pruned"),
        ("", str(states[TrialState.FAIL]), "failed"),
        ("", _span(trials), "wall time, first start to last end"),
    ]
    return tile_row(tiles)


def _span(trials: Sequence[FrozenTrial]) -> str:
    starts = [trial.datetime_start for trial in trials if trial.datetime_start]
    ends = [trial.datetime_complete for trial in trials if trial.datetime_complete]
    return (
        str(timedelta(seconds=round((max(ends) - min(starts)).total_seconds())))
        if starts and ends
        else NOTHING
    )


def _best(trials: Sequence[FrozenTrial], best: str) -> str:
    if not best:
        return missing_note("No trial has finished yet.")
    trial = ranked(trials)[0]
    errors = "" if len(trial.values) == 1 else f" in {text(trial.values[1])} seconds"
    caption = f"Trial {trial.number} reached {text(trial.values[0])}{errors}. This is best.yml:"
    return f'<p class="caption">{escape(caption)}</p><pre>{escape(best)}</pre>'


def _top(trials: Sequence[FrozenTrial]) -> str:
    best = ranked(trials)[:TOP]
    if not best:
        return missing_note("No trial has finished yet.")
    keys, values = hyperparameters(trials)
    header = ["trial", "return", "seconds"][: 1 + len(best[0].values)] + keys
    rows = [
        [str(trial.number), *map(text, trial.values)]
        + [escape(text(values.get(trial.number, {}).get(key, NOTHING))) for key in keys]
        for trial in best
    ]
    return table(header, rows, [True] * len(header))


def _parameters(trials: Sequence[FrozenTrial]) -> str:
    known = parameters(trials)
    if not known:
        return missing_note("No parameter was sampled.")
    shares = importances(trials)
    best = next(iter(ranked(trials)), None)
    rows = []
    for name in sorted(known, key=lambda name: -shares.get(name, -1.0)):
        share = shares.get(name)
        bar = (
            "" if share is None else f'<span class="bar" style="width:{90 * share:.0f}px"></span>{share:.2f}'
        )
        value = NOTHING if best is None else natural_text(name, best.params.get(name, NOTHING))
        rows.append(
            [
                escape(natural_name(name)),
                escape(natural_range(name, known[name])),
                escape(value),
                bar or NOTHING,
            ]
        )
    return table(["parameter", "range", "best trial", "importance"], rows, [False] * 4)


def _settings(settings: StudySettings, n_trials: int) -> str:
    config = load_yaml(settings.config, "the study's configuration") or {}
    shown: dict[str, object] = {
        "Algorithm": settings.algo,
        "Environment": settings.env_id,
        "Trials": n_trials,
        "Steps of one training": f"{config['n_timesteps']:,.0f}" if "n_timesteps" in config else NOTHING,
        "Trainings of one trial": settings.n_seeds,
        "Evaluations": f"{settings.n_evaluations} in each training, {settings.eval_episodes} episodes each",
        "Objective": f"{settings.objective}: {OBJECTIVES.get(settings.objective, '')}",
        "Sampler": f"{settings.sampler}, the first {settings.n_startup_trials} trials random",
        "Pruner": settings.pruner,
        "Seed": settings.seed,
        "Vector environment": settings.vec_env,
        "Device": settings.device,
    }
    if settings.gym_packages:
        shown["Packages"] = ", ".join(settings.gym_packages)
    if settings.expert:
        shown["Expert"] = settings.expert
    entries = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in shown.items())
    summary = "<summary>Base hyperparameters (sampled values replace them)</summary>"
    return f"<dl>{entries}</dl><details>{summary}<pre>{escape(settings.config)}</pre></details>"


def _failures(trials: Sequence[FrozenTrial]) -> str:
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    if not failed:
        return ""
    rows = (
        [str(trial.number), escape(trial.user_attrs.get("error", "no error was recorded"))]
        for trial in failed
    )
    return section("failures", "Failed trials", table(["trial", "error"], rows, [True, False]))
