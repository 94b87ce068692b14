"""Figures of a study are labelled in the units of the hyperparameters."""

from __future__ import annotations

from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from studies import make_study

from rlzoo.tuning.report.figures import make_figures
from rlzoo.tuning.report.natural_units import (
    natural_name,
    natural_range,
    natural_text,
    natural_ticks,
    whole_ticks,
)
from rlzoo.tuning.report.plotly_figures import plotly_specs
from rlzoo.tuning.report.study_results import trials_of

STEPS, DISTANCE = IntDistribution(5, 11), FloatDistribution(1e-4, 0.1, log=True)


def test_sampled_parameters_are_shown_in_natural_units() -> None:
    assert [natural_name(name) for name in ("log2(n_steps)", "1 - gamma", "ent_coef")] == [
        "n_steps",
        "gamma",
        "ent_coef",
    ]
    assert natural_text("log2(n_steps)", 11) == "2048"
    assert natural_text("1 - gamma", 0.005) == "0.995"
    assert natural_text("clip_range_vf is", "another") == "sampled"
    assert natural_range("log2(n_steps)", STEPS) == "32 to 2,048, powers of 2"
    assert natural_range("1 - gamma", DISTANCE) == "0.9 to 0.9999, logarithmic in 1 - gamma"
    assert natural_range("net_arch", CategoricalDistribution(["small", "medium"])) == "small, medium"


def test_ticks_are_powers_of_two_and_distances_from_one() -> None:
    assert [label for _, label in natural_ticks("log2(n_steps)", STEPS)][:3] == ["32", "64", "128"]
    assert [label for _, label in natural_ticks("1 - gamma", DISTANCE)] == ["0.9999", "0.999", "0.99", "0.9"]
    assert natural_ticks("ent_coef", DISTANCE) == ()


def test_counts_have_integer_ticks() -> None:
    assert [place for place, _ in whole_ticks(1, 3)] == [1, 2, 3]
    assert len(whole_ticks(0, 500)) <= 9


def test_figures_name_no_transformed_parameter() -> None:
    figures = {
        figure.name: figure
        for figure in make_figures(trials_of(make_study(n_complete=12, n_pruned=2)), ["return"])
    }
    titles = {panel.x.title for panel in figures["slices"].panels}
    assert {"n_steps", "gamma"} <= titles
    assert not any("log2" in label for label in figures["importances"].panels[0].y.names)
    gamma = next(panel for panel in figures["slices"].panels if panel.x.title == "gamma")
    axis = plotly_specs(figures["slices"])[0]["layout"]["xaxis"]
    assert gamma.x.reversed and gamma.x.ticks and axis is not None
    places = [place for place, _ in figures["intermediate_values"].panels[0].x.ticks]
    assert places == [round(place) for place in places]
