"""What `rlzoo plot report` makes of results: figures by name, and tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rlzoo.core.errors import one_line
from rlzoo.plots.aggregate_figures import boxes, efficiency, improvement, intervals, profiles
from rlzoo.plots.aggregates import CONFIDENCE
from rlzoo.plots.comparison import compare, comparison_table, with_interval
from rlzoo.plots.normalisation import METRICS, NormalisedScores
from rlzoo.plots.results import Results
from rlzoo.plots.style import FONT_SIZE
from rlzoo.plots.tables import TABLES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = ("curves", "aggregates", "profiles", "improvement", "efficiency", "boxes")
AGGREGATED = ("aggregates", "profiles", "improvement", "efficiency")
"""Those of normalised scores."""


def report_figures(
    results: Results,
    scores: NormalisedScores | None,
    wanted: Collection[str],
    confidence: float = CONFIDENCE,
    plain_steps: bool = False,
    figsize: Sequence[float] | None = None,
    fontsize: float = FONT_SIZE,
) -> dict[str, Figure]:
    """Draw figures of results.

    :param scores: normalised; None if no figure in AGGREGATED is wanted
    :param wanted: names in FIGURES
    """
    look: dict[str, Any] = {"figsize": figsize, "fontsize": fontsize}
    figures = {}
    if "curves" in wanted:
        figures["curves"] = compare(results, confidence=confidence, plain_steps=plain_steps, **look)
    if scores is not None:
        look_of_scores = {**look, "confidence": confidence}
        if "aggregates" in wanted:
            figures["aggregates"] = intervals(scores, **look_of_scores)
        if "profiles" in wanted:
            figures["profiles"] = profiles(scores, **look_of_scores)
        if "improvement" in wanted:
            figures["improvement"] = improvement(scores, **look_of_scores)
        if "efficiency" in wanted:
            figures["efficiency"] = efficiency(scores, plain_steps=plain_steps, **look_of_scores)
    if "boxes" in wanted:
        figures["boxes"] = boxes(results, **look)
    return figures


def report_tables(
    results: Results, scores: NormalisedScores | None, kind: str = "md", confidence: float = CONFIDENCE
) -> str:
    """Return a table of the last evaluations and, of normalised scores, one of their aggregates.

    :param kind: "md" or "tex"
    """
    parts = [comparison_table(results, kind)]
    if scores is not None:
        headings = ["algorithm", "runs", *(f"{metric} [{confidence:.0%}]" for metric in METRICS)]
        lines = []
        for name, values in scores.final.items():
            found = scores.aggregates(confidence)[name]
            cells = [with_interval(*found[metric], scale=1.0) for metric in METRICS]
            lines.append([one_line(name), f"{values.shape[0]} x {values.shape[1]}", *cells])
        parts.append(TABLES[kind](headings, lines, [column > 0 for column in range(len(headings))]))
        comment = "% " if kind == "tex" else ""
        said = [f"{comment}{one_line(env)}: {describe_scale(scores, env)}" for env in scores.environments]
        parts.append("\n".join(said if kind == "tex" else [f"- {line}" for line in said]))
    return "\n\n".join(parts)


def describe_scale(scores: NormalisedScores, environment: str) -> str:
    """Say which scores of an environment are 0 and 1."""
    scale = scores.scales[environment]
    return f"0 is {scale.low:,.5g}, 1 is {scale.high:,.5g} ({scale.source})"
