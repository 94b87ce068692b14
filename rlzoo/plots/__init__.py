"""Figures of runs and of what was evaluated during training. Each function returns a matplotlib Figure.

>>> import rlzoo
>>> rlzoo.plots.train("logs", ["ppo"], ["CartPole-v1"]).savefig("train.png")
>>> results = rlzoo.plots.gather("logs")
>>> rlzoo.plots.compare(results, iqm=True).savefig("curves.pdf")
>>> rlzoo.plots.profiles(results).savefig("profiles.svg")
"""

from __future__ import annotations

from rlzoo.plots.aggregate_figures import boxes, efficiency, improvement, intervals, profiles
from rlzoo.plots.comparison import compare, comparison_table
from rlzoo.plots.normalisation import normalise
from rlzoo.plots.results import Results, gather, read_results
from rlzoo.plots.runs import load_runs
from rlzoo.plots.training_figure import train

__all__ = [
    "Results",
    "boxes",
    "compare",
    "comparison_table",
    "efficiency",
    "gather",
    "improvement",
    "intervals",
    "load_runs",
    "normalise",
    "profiles",
    "read_results",
    "train",
]
