"""`report.html`: a self-contained page about a study, plotly.js included."""

from __future__ import annotations

import html
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta

from optuna.trial import FrozenTrial, TrialState

from rlzoo.config.values_as_text import load_yaml
from rlzoo.tuning.report.figures import Figure
from rlzoo.tuning.report.natural_units import natural_name, natural_range, natural_text
from rlzoo.tuning.report.plotly_figures import PlotlySpec, plotly_specs
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
STYLE = """
:root { --ink: #1d2530; --soft: #5d6875; --line: #e2e6eb; --back: #f6f7f9; --accent: #2f6db5; --best: #d9731a;
  --mono: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); line-height: 1.5; font-size: 15px;
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main, header > div { max-width: 1120px; margin: 0 auto; padding: 0 24px; }
header { background: #fff; border-bottom: 1px solid var(--line); padding: 32px 0 0; }
h1 { font-size: 27px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 18px; margin: 0 0 4px; }
header p, .caption { color: var(--soft); margin: 0; }
.caption { font-size: 14px; max-width: 90ch; margin-bottom: 12px; }
nav { display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 18px 0 12px; font-size: 14px; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px;
  margin: 24px 0; }
.tile, section { background: #fff; border: 1px solid var(--line); border-radius: 8px; }
.tile { padding: 14px 18px; }
.tile b { display: block; font-size: 24px; line-height: 1.25; font-weight: 600;
  font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; }
.tile.best b { color: var(--best); }
section { padding: 20px 24px; margin: 0 0 20px; scroll-margin-top: 12px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { padding: 6px 12px 6px 0; text-align: left; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; color: var(--soft); white-space: nowrap; border-bottom-width: 2px; }
td.number, th.number { text-align: right; white-space: nowrap; }
tr:last-child td { border-bottom: 0; }
tr.first td { font-weight: 600; }
td.error { font-family: var(--mono); font-size: 12.5px; overflow-wrap: anywhere; }
.bar { display: inline-block; height: 9px; border-radius: 2px; background: var(--accent); margin-right: 8px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 24px; margin: 8px 0 0; font-size: 14px; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--back); border: 1px solid var(--line); border-radius: 6px; padding: 12px 16px;
  margin: 12px 0 0; overflow-x: auto; font: 13px/1.5 var(--mono); }
details { margin-top: 14px; } summary { cursor: pointer; color: var(--accent); font-size: 14px; }
.panels { display: grid; gap: 8px 16px; grid-template-columns: 1fr; }
.panels.many { grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); }
.missing { color: var(--soft); font-style: italic; margin: 4px 0 0; }
footer { color: var(--soft); font-size: 13px; padding: 4px 0 40px; }
@media (max-width: 600px) { dl { grid-template-columns: 1fr; } dd { margin-bottom: 6px; } }
@media print { nav { display: none; } section { break-inside: avoid; } }
"""
SCRIPT = """
const specs = JSON.parse(document.getElementById("specs").textContent);
for (const [name, spec] of Object.entries(specs)) {
  const place = document.getElementById(name);
  const small = place.parentElement.classList.contains("many");
  const settings = { responsive: true, displaylogo: false, displayModeBar: small ? false : "hover" };
  Plotly.newPlot(place, spec.data, spec.layout, settings);
}
"""


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
    from plotly.offline import get_plotlyjs

    sections: list[str] = []
    specs: dict[str, PlotlySpec] = {}
    for figure in figures:
        drawn = plotly_specs(figure)
        sections.append(_figure(figure, drawn))
        specs |= {f"{figure.name}-{k}": spec for k, spec in enumerate(drawn)}
    body = [
        _tiles(n_trials, trials),
        _section("best", "Best trial", _best(trials, best)),
        _section("top", "Top trials", _top(trials)),
        *sections,
        _section("parameters", "Search space", _parameters(trials)),
        _section("settings", "StudySettings", _settings(settings, n_trials)),
        _failures(trials),
    ]
    links = [
        ("best", "Best trial"),
        ("top", "Top trials"),
        *((figure.name, figure.title) for figure in figures),
    ]
    links += [("parameters", "Search space"), ("settings", "StudySettings")]
    nav = "".join(f'<a href="#{place}">{_escape(title)}</a>' for place, title in links)
    title = f"{settings.algo.upper()} on {settings.env_id}"
    data = json.dumps(specs, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{_escape(title)}: {_escape(name)}</title>
<style>{STYLE}</style>
</head>
<body>
<header><div><h1>{_escape(title)}</h1><p>Study {_escape(name)}</p><nav>{nav}</nav></div></header>
<main>
{"".join(body)}
<noscript><p class="missing">The figures need JavaScript; the PNG files show the same.</p></noscript>
<footer>All trials are in trials.csv, the hyperparameters of the best in best.yml.</footer>
</main>
<script type="application/json" id="specs">{data}</script>
<script>{get_plotlyjs()}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _escape(value: object) -> str:
    return html.escape(str(value))


def _section(place: str, title: str, content: str) -> str:
    return f'<section id="{place}"><h2>{_escape(title)}</h2>{content}</section>\n'


def _missing(sentence: str) -> str:
    return f'<p class="missing">{_escape(sentence)}</p>'


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], numeric: Sequence[bool]) -> str:
    """Return an HTML table.

    :param rows: cells in HTML
    """
    kinds = [' class="number"' if right else "" for right in numeric]
    head = "".join(f"<th{kind}>{_escape(cell)}</th>" for kind, cell in zip(kinds, header, strict=True))
    lines = ("".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True)) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


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
    boxes = (
        f'<div class="tile {kind}"><b>{_escape(big)}</b><span>{_escape(small)}</span></div>'
        for kind, big, small in tiles
    )
    return f'<div class="tiles">{"".join(boxes)}</div>\n'


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
        return _missing("No trial has finished yet.")
    trial = ranked(trials)[0]
    errors = "" if len(trial.values) == 1 else f" in {text(trial.values[1])} seconds"
    caption = f"Trial {trial.number} reached {text(trial.values[0])}{errors}. This is best.yml:"
    return f'<p class="caption">{_escape(caption)}</p><pre>{_escape(best)}</pre>'


def _top(trials: Sequence[FrozenTrial]) -> str:
    best = ranked(trials)[:TOP]
    if not best:
        return _missing("No trial has finished yet.")
    keys, values = hyperparameters(trials)
    header = ["trial", "return", "seconds"][: 1 + len(best[0].values)] + keys
    rows = [
        [str(trial.number), *map(text, trial.values)]
        + [_escape(text(values.get(trial.number, {}).get(key, NOTHING))) for key in keys]
        for trial in best
    ]
    return _table(header, rows, [True] * len(header))


def _parameters(trials: Sequence[FrozenTrial]) -> str:
    known = parameters(trials)
    if not known:
        return _missing("No parameter was sampled.")
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
                _escape(natural_name(name)),
                _escape(natural_range(name, known[name])),
                _escape(value),
                bar or NOTHING,
            ]
        )
    return _table(["parameter", "range", "best trial", "importance"], rows, [False] * 4)


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
    entries = "".join(f"<dt>{_escape(key)}</dt><dd>{_escape(value)}</dd>" for key, value in shown.items())
    summary = "<summary>Base hyperparameters (sampled values replace them)</summary>"
    return f"<dl>{entries}</dl><details>{summary}<pre>{_escape(settings.config)}</pre></details>"


def _failures(trials: Sequence[FrozenTrial]) -> str:
    failed = [trial for trial in trials if trial.state == TrialState.FAIL]
    if not failed:
        return ""
    rows = (
        [str(trial.number), _escape(trial.user_attrs.get("error", "no error was recorded"))]
        for trial in failed
    )
    return _section("failures", "Failed trials", _table(["trial", "error"], rows, [True, False]))


def _height(spec: PlotlySpec, many: bool) -> int:
    """Return the height in pixels: that of the layout, or a default for the number of columns."""
    height = spec["layout"].get("height")
    return height if isinstance(height, int) else 270 if many else 370


def _figure(figure: Figure, specs: Sequence[PlotlySpec]) -> str:
    caption = " ".join([figure.caption, *figure.notes])
    if not figure.drawable:
        return _section(figure.name, figure.title, _missing(figure.missing))
    plots = "".join(
        f'<div id="{figure.name}-{k}" style="height:{_height(spec, len(specs) > 2)}px"></div>'
        for k, spec in enumerate(specs)
    )
    many = " many" if len(specs) > 2 else ""
    return _section(
        figure.name,
        figure.title,
        f'<p class="caption">{_escape(caption)}</p><div class="panels{many}">{plots}</div>',
    )
