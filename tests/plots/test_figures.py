"""What is drawn: numbers in the figures, their labels and their files."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import rlzoo
from rlzoo.core.errors import UserError
from rlzoo.plots import (
    boxes,
    compare,
    comparison_table,
    efficiency,
    gather,
    improvement,
    intervals,
    normalise,
    profiles,
    train,
)
from rlzoo.plots.aggregates import iqm, probability_of_improvement, stratified_bootstrap
from rlzoo.plots.comparison import band
from rlzoo.plots.normalisation import aggregates_of
from rlzoo.plots.report_parts import report_tables
from rlzoo.plots.style import PALETTE, looks, rendered, shown

GIVEN = {"CartPole-v1": (0.0, 500.0), "Mine-v0": (0.0, 10.0)}


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def bars_of(axes):
    """Estimates, lower and upper bounds of horizontal intervals."""
    marks = [line.get_xdata()[0] for line in axes.lines if len(set(line.get_xdata())) == 1]
    return marks, [(p.get_x(), p.get_x() + p.get_width()) for p in axes.patches]


# -- training -----------------------------------------------------------------------------------


def test_training_line_is_the_rolling_mean(make_run, tmp_path):
    make_run(episodes=[0.0, 1.0, 2.0, 3.0, 4.0], returns=None)
    (axes,) = train(tmp_path / "logs", window=3).axes
    assert axes.lines[0].get_xydata().tolist() == [[30, 1], [40, 2], [50, 3]]
    assert axes.get_xlabel() == "environment steps" and axes.get_ylabel() == "episode return, mean of 3"
    assert axes.get_title() == "CartPole-v1"


def test_run_shorter_than_the_window_has_a_line(make_run, tmp_path):
    make_run(episodes=[0.0, 1.0, 5.0], returns=None)
    (axes,) = train(tmp_path / "logs").axes
    assert axes.lines[0].get_xydata().tolist() == [[10, 0], [20, 0.5], [30, 2]]


def test_single_episode_is_a_dot(make_run, tmp_path):
    make_run(episodes=[4.0], returns=None)
    (line,) = train(tmp_path / "logs").axes[0].lines
    assert line.get_xydata().tolist() == [[10, 4]] and line.get_marker() == "."


@pytest.mark.parametrize(
    ("x", "label", "expected"),
    [
        ("steps", "environment steps", [10, 20, 30]),
        ("episodes", "episodes", [1, 2, 3]),
        ("time", "time since the start (minutes)", [0, 1, 2]),
    ],
)
def test_training_has_three_x_axes(make_run, tmp_path, x, label, expected):
    make_run(episodes=[0.0, 1.0, 5.0], returns=None)
    (axes,) = train(tmp_path / "logs", x=x).axes
    assert axes.lines[0].get_xdata().tolist() == expected and axes.get_xlabel() == label


@pytest.mark.parametrize(
    ("y", "label", "last"),
    [("success", "success rate", 1 / 3), ("length", "episode length (steps)", 10.0)],
)
def test_training_has_other_y_axes(make_run, tmp_path, y, label, last):
    make_run(episodes=[0.0, 1.0, 5.0], returns=None)
    (axes,) = train(tmp_path / "logs", y=y).axes
    assert axes.lines[0].get_ydata()[-1] == pytest.approx(last) and axes.get_ylabel().startswith(label)


def test_each_environment_has_a_panel(make_run, tmp_path):
    make_run("ppo", "A-v0", episodes=[1.0, 2.0])
    make_run("a2c", "A-v0", episodes=[1.0, 2.0])
    make_run("ppo", "B-v0", 0, episodes=[1.0, 2.0])
    make_run("ppo", "B-v0", 1, episodes=[1.0, 2.0])
    figure = train(tmp_path / "logs")
    assert [axes.get_title() for axes in figure.axes] == ["A-v0", "B-v0"]
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]
    assert legend_of(figure) == ["a2c", "ppo (1-2 runs)"]


def test_runs_of_one_algorithm_are_told_apart(make_run, tmp_path):
    for seed in range(3):
        make_run(seed=seed, episodes=[1.0, 2.0])
    figure = train(tmp_path / "logs")
    assert legend_of(figure) == ["CartPole-v1_1", "CartPole-v1_2", "CartPole-v1_3"]
    assert len({line.get_color() for line in figure.axes[0].lines}) == 3


def test_training_without_monitor_files_is_a_mistake(make_run, tmp_path):
    make_run()
    with pytest.raises(UserError, match=r"no run in .* has monitor files"):
        train(tmp_path / "logs")
    make_run(seed=1, episodes=[])
    with pytest.raises(UserError, match="no finished episode"):
        train(tmp_path / "logs")
    with pytest.raises(UserError, match="no episode with is_success"):
        train(tmp_path / "logs", y="success")
    with pytest.raises(UserError, match="did you mean 'steps'"):
        train(tmp_path / "logs", x="step")


def test_success_that_is_no_number_is_a_mistake(make_run, tmp_path):
    folder = make_run(episodes=[1.0])
    (file,) = folder.glob("*monitor.csv")
    file.write_text('#{"t_start": 0}\nr,l,t,is_success\n1,10,3,maybe\n')
    with pytest.raises(UserError, match=r"CartPole-v1_1 has damaged monitor files: is_success.*maybe"):
        train(tmp_path / "logs", y="success")


# -- comparison ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("use_iqm", "expected"), [(False, 450.0), (True, 450.0)])
def test_curve_is_over_the_seeds(logs, use_iqm, expected):
    figure = compare(gather(logs), iqm=use_iqm)
    axes = figure.axes[0]
    assert axes.get_title() == "CartPole-v1" and axes.get_ylabel() == f"{'IQM' if use_iqm else 'mean'} return"
    assert axes.lines[1].get_xydata()[-1].tolist() == [3000, expected]
    assert legend_of(figure) == ["a2c (3 seeds)", "ppo (3 seeds)"]
    band_of_ppo = axes.collections[1].get_datalim(axes.transData)
    assert (band_of_ppo.y0, band_of_ppo.y1) == (20.0, 500.0)


def test_band_is_the_bootstrap_interval_of_each_evaluation():
    scores = np.random.RandomState(0).rand(8, 4)
    middle, low, high = band(scores, use_iqm=True)
    assert middle.tolist() == [iqm(column) for column in scores.T]
    for place in range(4):
        expected = stratified_bootstrap(scores[:, place], iqm, 2000, seed=1)
        assert (low[place], high[place]) == pytest.approx(expected, abs=0.1)


def test_many_steps_are_counted_in_thousands_or_millions(make_run, tmp_path):
    make_run(env="A-v0", returns=(1.0, 2.0), steps=(10_000, 20_000))
    make_run(env="B-v0", returns=(1.0, 2.0), steps=(500_000, 2_000_000))
    figure = compare(tmp_path / "logs")
    assert [axes.get_xlabel() for axes in figure.axes] == [
        "environment steps (thousands)",
        "environment steps (millions)",
    ]
    assert figure.axes[1].xaxis.get_major_formatter()(2_000_000, 0) == "2"
    plain = compare(tmp_path / "logs", plain_steps=True).axes[1]
    assert plain.get_xlabel() == "environment steps"
    assert plain.xaxis.get_major_formatter()(2_000_000, 0) == "2,000,000"


def test_table_has_a_line_for_each_curve(logs):
    lines = comparison_table(gather(logs)).splitlines()
    assert lines[0] == "| environment | algorithm | seeds | steps | mean [95%] | IQM [95%] | median |"
    assert lines[3].startswith("| CartPole-v1 | ppo | 3 | 3,000 | 450.0 [400.0, 500.0] |")
    assert "mean" not in comparison_table(gather(logs), median_only=True)
    assert r"450.0 [400.0, 500.0] & 450.0 [400.0, 500.0] & 450.0 \\" in comparison_table(gather(logs), "tex")


# -- aggregates ---------------------------------------------------------------------------------


def test_aggregates_are_drawn_with_their_intervals(logs):
    scores = normalise(gather(logs), GIVEN)
    figure = intervals(scores)
    assert [axes.get_title()[:-2] for axes in figure.axes] == ["IQM", "median", "mean", "optimality gap"]
    expected = aggregates_of(scores.final["ppo"])
    for axes, (value, interval) in zip(figure.axes, expected.values(), strict=True):
        marks, spans = bars_of(axes)
        assert marks[1] == pytest.approx(value) and spans[1] == pytest.approx(interval)
    assert figure.get_suptitle() == "0 and 1 = given references"
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == ["a2c", "ppo"]


def test_profile_is_the_share_of_runs_above(logs):
    figure = profiles(logs, normalize=GIVEN)
    taus, share = figure.axes[0].lines[1].get_data()
    assert share[taus < 0.5].min() == 1.0 and share[-1] == 0.0
    assert share[np.isclose(taus, 0.75)].tolist() == pytest.approx([0.5])  # 0.8, 0.9, 1.0 of 0.5 to 1.0


def test_improvement_compares_each_pair(logs, make_run):
    for seed in range(3):
        make_run("dqn", "CartPole-v1", seed, (1.0, 1.0, 1.0))
        make_run("dqn", "Mine-v0", seed, (1.0, 1.0, 1.0))
    scores = normalise(gather(logs), GIVEN)
    (axes,) = improvement(scores).axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == ["a2c > dqn", "a2c > ppo", "dqn > ppo"]
    marks, spans = bars_of(axes)
    assert marks[1] == probability_of_improvement(scores.final["a2c"], scores.final["ppo"]) == 0.5
    assert marks[:3] == [1.0, 0.5, 0.0] and spans[0] == (1.0, 1.0)


def test_improvement_of_one_algorithm_is_a_mistake(make_run, tmp_path):
    make_run()
    with pytest.raises(UserError, match="only ppo"):
        improvement(tmp_path / "logs")


def test_efficiency_is_the_iqm_over_the_training(logs):
    (axes,) = efficiency(logs, normalize=GIVEN).axes
    points = axes.lines[1].get_xydata()
    assert points[:, 0].tolist() == [1000, 2000, 3000]
    assert points[-1, 1] == pytest.approx(iqm([0.8, 0.9, 1.0, 0.5, 0.6, 0.7]))
    assert axes.get_ylabel() == "IQM, normalised score"


def test_boxes_show_each_run(logs):
    figure = boxes(logs)
    assert [axes.get_title() for axes in figure.axes] == ["CartPole-v1", "Mine-v0"]
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "."]
    assert dots[1].get_ydata().tolist() == [400.0, 450.0, 500.0]


def test_names_of_several_lines_are_one_cell(make_run, tmp_path):
    make_run(name="a\nb|c")
    (line,) = comparison_table(gather(tmp_path / "logs")).splitlines()[2:]
    assert r"| a b\|c |" in line


def test_report_says_what_normalised_scores_are(logs):
    results = gather(logs)
    text = report_tables(results, normalise(results))
    assert "- CartPole-v1: 0 is 2" in text and "random actions; best published score" in text
    assert "- Mine-v0: 0 is 0, 1 is 10 (lowest and highest evaluation" in text
    assert "| ppo | 3 x 2 |" in text
    latex = report_tables(results, normalise(results), "tex")
    assert latex.count(r"\begin{tabular}") == 2 and "\n% Mine-v0: " in latex


# -- looks --------------------------------------------------------------------------------------


def test_names_look_different():
    found = looks(str(i) for i in range(20)).values()
    assert len({(look["color"], look["linestyle"]) for look in found}) == 20
    assert len(set(PALETTE)) == len(PALETTE)


def test_names_are_no_formulas(make_run, tmp_path):
    make_run(name=r"$\frac{ a\x1b[31m" + "b" * 80)
    assert shown("$x$") == r"\$x\$" and shown("a" * 40 + "b" * 40) == "a" * 19 + "…" + "b" * 10
    for draw in (compare, boxes, profiles):
        assert rendered(draw(tmp_path / "logs"), "svg")


@pytest.mark.parametrize(("kind", "beginning"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")])
def test_files_are_the_same_each_time(make_run, tmp_path, kind, beginning):
    make_run()
    first, second = (rendered(compare(tmp_path / "logs"), kind) for _ in range(2))
    assert first.startswith(beginning) and first == second
    with pytest.raises(UserError, match="not 'jpg'"):
        rendered(compare(tmp_path / "logs"), "jpg")


@pytest.mark.parametrize("size", [(0, 3), (1000, 3), (float("nan"), 3)])
def test_impossible_size_is_a_mistake(make_run, tmp_path, size):
    make_run()
    with pytest.raises(UserError, match="inches wide and high"):
        compare(tmp_path / "logs", figsize=size)


def test_panel_is_as_wide_as_a_column(make_run, tmp_path):
    make_run()
    assert compare(tmp_path / "logs").get_figwidth() == 3.4
    assert compare(tmp_path / "logs", figsize=(5, 4)).get_size_inches().tolist() == [5, 4]


def test_legend_of_many_names_makes_the_figure_higher(make_run, tmp_path):
    one = compare(gather(tmp_path / "logs")).get_figheight() if make_run() else 0
    for place in range(9):
        make_run(seed=place + 1, name=f"a variant with a long name {place}")
    figure = compare(tmp_path / "logs")
    assert figure.get_figheight() > one + 1
    figure.draw_without_rendering()
    assert figure.axes[0].get_position().height * figure.get_figheight() > 1.4  # inches
    legend = figure.legends[0].get_window_extent()
    assert legend.x0 >= 0 and legend.x1 <= figure.bbox.width


def test_nothing_global_is_touched(make_run, tmp_path):
    make_run()
    code = (
        "import sys, rlzoo, matplotlib\n"
        "before = dict(matplotlib.rcParams)\n"
        f"rlzoo.plots.compare({str(tmp_path / 'logs')!r})\n"
        "assert dict(matplotlib.rcParams) == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_public_names_are_those_of_the_modules():
    assert rlzoo.plots.train is train and rlzoo.iqm is iqm
    assert rlzoo.load_runs is rlzoo.plots.load_runs
