from __future__ import annotations

from datetime import timedelta

import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.trial import create_trial
from studies import BEGAN, make_study

from rlzoo.tuning.report.figures import Figure, make_figures, usual_range
from rlzoo.tuning.report.plotly_figures import numbers, plotly_specs
from rlzoo.tuning.report.study_results import trials_of


def figures_of(*args: int, two: bool = False) -> dict[str, Figure]:
    objectives = ("return", "seconds") if two else ("return",)
    figures = make_figures(trials_of(make_study(*args, two=two)), objectives)
    return {figure.name: figure for figure in figures}


def test_history_has_the_best_so_far() -> None:
    (panel,) = figures_of(8, 2)["history"].panels
    pruned, complete, best = panel.series
    assert len(pruned.x) == 2
    assert list(best.y) == [max(complete.y[: k + 1]) for k in range(8)]
    _, seconds = figures_of(8, two=True)["history"].panels
    complete, best = seconds.series
    assert list(best.y) == [min(complete.y[: k + 1]) for k in range(8)]


def test_every_figure_draws_or_says_why() -> None:
    for n_complete in (0, 1, 2, 4, 12):
        for figure in figures_of(n_complete).values():
            assert figure.drawable != bool(figure.missing), figure.name
            assert bool(plotly_specs(figure)) == figure.drawable


def test_slices_leave_out_trials_without_the_parameter() -> None:
    figure = figures_of(20)["slices"]
    points = {panel.x.title: len(panel.series[0].x) for panel in figure.panels}
    assert points["learning_rate"] == 20
    assert 0 < points["clip_range"] < 20
    axes = {panel.x.title: panel.x for panel in figure.panels}
    assert axes["learning_rate"].log
    assert not axes["clip_range"].log
    assert axes["noise_type"].names == ("normal", "ornstein-uhlenbeck", "none")


def test_parallel_coordinates_handle_missing_parameters() -> None:
    parallel = figures_of(20)["parallel_coordinates"].parallel
    assert parallel is not None
    assert parallel.values == sorted(parallel.values)  # the best is drawn last
    by_title = {dimension.title: dimension for dimension in parallel.dimensions}
    lacking = by_title["clip_range"]
    assert lacking.names[0] == "-"
    assert min(lacking.positions) == lacking.ticks[0] < lacking.ticks[1]
    assert all(-5 <= position <= -2 for position in by_title["learning_rate"].positions)
    assert all(tick == round(tick) for tick in by_title["n_steps"].ticks)


def test_timeline_stacks_what_ran_at_the_same_time() -> None:
    study = make_study()
    trials = []
    for number, (start, end) in enumerate([(0, 10), (1, 4), (5, 8), (2, 3), (10, 12)]):
        trial = create_trial(value=0.0)
        trial.number = number
        trial.datetime_start = BEGAN + timedelta(seconds=start)
        trial.datetime_complete = BEGAN + timedelta(seconds=end)
        trials.append(trial)
    study.add_trials(trials)
    (panel,) = {figure.name: figure for figure in make_figures(trials, ("return",))}["timeline"].panels
    (series,) = panel.series
    spans = dict(zip(zip(series.x, series.ends, strict=True), series.y, strict=True))
    assert spans == {(0, 10): 0, (1, 4): 1, (2, 3): 2, (5, 8): 1, (10, 12): 0}


def test_a_diverged_trial_does_not_press_the_others_together() -> None:
    values = [-1e6, *range(20)]
    shown = usual_range(values)
    assert shown is not None
    assert -100 < shown[0] < 1
    assert 19 < shown[1] < 25
    assert usual_range([-value for value in values], high_is_good=False) == (-shown[1], -shown[0])
    assert usual_range(list(range(20))) is None
    assert usual_range([1.0] * 20) is None
    assert usual_range([]) is None


@pytest.mark.parametrize("distribution", [IntDistribution(1, 1), FloatDistribution(2.0, 2.0)])
def test_a_parameter_with_one_value(distribution: IntDistribution | FloatDistribution) -> None:
    value = distribution.low
    trials = [
        create_trial(value=float(k), params={"n": value}, distributions={"n": distribution}) for k in range(6)
    ]
    figures = {figure.name: figure for figure in make_figures(trials, ("return",))}
    assert figures["importances"].missing
    assert figures["parallel_coordinates"].drawable
    for figure in figures.values():
        plotly_specs(figure)


def test_json_has_no_word_for_nan() -> None:
    assert numbers([1, float("nan"), float("inf")]) == [1.0, None, None]
