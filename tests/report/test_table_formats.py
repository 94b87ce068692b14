"""A table as text."""

from __future__ import annotations

import csv
import json

import pytest

from rlzoo.benchmark.results_text import page
from rlzoo.benchmark.score_table import table
from rlzoo.benchmark.table_formats import FORMATS, SUFFIXES, latex, markdown, short, to_csv, to_json
from rlzoo.config.benchmark import Expert, Row


@pytest.fixture
def rows(score):
    """Three rows of a list: several seeds, a single one that fell short, and a share of successes."""
    scores = [score(seed=seed, mean=mean) for seed, mean in enumerate([500.0, 488.04, 500.0, 400.0])]
    scores.append(score("trpo", "Hopper-v5", mean=-3380.84, std=394.0, training_seconds=1242.4))
    scores.append(score("her", "A_b-v0", mean=-1.0, success_rate=0.9, training_seconds=None))
    wanted = [
        Row(algo="ppo", env="CartPole-v1", seeds=(0, 1, 2, 3), required=475),
        Row(algo="trpo", env="Hopper-v5", seeds=(0,), required=2500, n_timesteps=100_000),
        Row(algo="her", env="A_b-v0", measure="success", below=0.2),
    ]
    return table(scores, wanted)


HEADER = (
    "| algorithm | environment | steps | training | episodes | each seed | mean [95%] | std | IQM [95%] "
    "| median | required |  | reference |"
)


def test_markdown(rows):
    # of four values one is cut off at each end; the smallest fills the middle of 5.1% of all resamples
    assert markdown(rows).splitlines() == [
        HEADER,
        "|---|---|---:|---:|---:|---|---:|---:|---:|---:|---:|---|---|",
        "| ppo | CartPole-v1 | 100,096 | 12 s | 100 | 500.0, 488.0, 500.0, 400.0 | 472.0 [425.0, 500.0] "
        "| 48.3 | 494.0 [400.0, 500.0] | 494.0 | 475 | reached | 500.0 ± 0.0 (SB3 zoo, 100,000 steps) |",
        "| trpo | Hopper-v5 | 100,096 | 1,242 s | 100 | -3380.8 ± 394.0 | -3380.8 | - | - | -3380.8 "
        "| 2500 | **missed** | 3618.4 ± 356.8 (SB3 zoo, Hopper-v3, 1,000,000 steps) |",
        "| her | A_b-v0, success | 100,096 | - | 100 | 0.90 ± 0.30 | 0.90 | - | - | 0.90 "
        "| below 0.2 | 1 of 3 seeds | - |",
    ]


def test_columns_that_say_nothing_are_left_out(score):
    header, _, line = markdown(table([score("her", "A-v0", 0, 12.345, training_seconds=None)])).splitlines()
    assert header == "| algorithm | environment | steps | episodes | each seed |"
    assert line == "| her | A-v0 | 100,096 | 100 | 12.3 ± 1.5 |"


def test_seeds_that_are_not_counted_from_0_are_named(score):
    scores = [score("her", "A-v0", seed, 10.0 + seed) for seed in (4, 0, 1, 3)]
    assert "| 10.0, 11.0, 13.0 (3), 14.0 (4) |" in markdown(table(scores))


def test_no_minus_before_nought(score):
    assert "| 0.00 ± 0.00 |" in markdown(table([score("her", "A-v0", mean=-0.001, std=0.0)]))


def test_signs_of_markdown_and_latex_are_escaped(score):
    rows = table([score("her", "A|b_c&d%e#f$g{h}~i^j\\k-v0", mean=-5.0)])
    assert r"| A\|b_c&d" in markdown(rows)
    assert (
        r"A|b\_c\&d\%e\#f\$g\{h\}\textasciitilde{}i\textasciicircum{}j\textbackslash{}k-v0 & 100,096"
        r" & 12 s & 100 & $-$5.00 $\pm$ 1.50 \\"
    ) in latex(rows)


def test_latex(rows):
    lines = latex(rows).splitlines()
    assert lines[:3] == [r"% \usepackage{booktabs}", r"\begin{tabular}{llrrrlrrrrrll}", r"\toprule"]
    assert lines[4] == r"\midrule" and lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    body = [lines[3], *lines[5:-2]]
    assert [line.count(" & ") for line in body] == [12] * 4  # of thirteen columns, as the tabular has
    assert all(line.endswith(r" \\") for line in body)
    assert r"mean [95\%]" in body[0] and r" & \textbf{missed} & " in body[2] and r" & -- & " in body[2]


def test_json_has_all_digits(rows):
    first, second, third = json.loads(to_json(rows))
    assert first["means"] == [500.0, 488.04, 500.0, 400.0] and first["seeds"] == [0, 1, 2, 3]
    assert first["mean"] == pytest.approx(472.01, abs=1e-12) and first["iqm"] == pytest.approx(494.02)
    assert first["mean_low"] < first["mean"] < first["mean_high"] and first["reached"] is True
    assert (first["reference_mean"], first["reference_source"]) == (500.0, "SB3 zoo")
    assert (second["std"], second["iqm_low"], second["reached"]) == (None, None, False)
    assert second["reference_env_id"] == "Hopper-v3" and second["reference_n_timesteps"] == 1_000_000
    assert (third["measure"], third["below"], third["required"], third["reached"]) == (
        "success",
        0.2,
        None,
        None,
    )
    assert (first["median_of_listed_seeds"], third["median_of_listed_seeds"]) == (494.02, 0.9)
    assert third["reference_mean"] is third["training_seconds"] is None


def test_csv_says_the_same_as_json(rows):
    lines = list(csv.DictReader(to_csv(rows).splitlines()))
    for line, values in zip(lines, json.loads(to_json(rows)), strict=True):
        assert list(line) == list(values)
        for key, value in values.items():
            text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
            assert line[key] == ("" if value is None else text)


def test_every_suffix_has_a_format(rows):
    assert set(SUFFIXES.values()) == set(FORMATS) - {"short", "text"}
    for write in FORMATS.values():
        assert write(rows).strip() == write(rows)


def test_a_page_says_how_it_was_made(score):
    wanted = [
        Row(algo="ppo", env="CartPole-v1", n_timesteps=500),
        Row(algo="bc", env="CartPole-v1", expert=Expert(algo="ppo", seed=100, episodes=25)),
    ]
    rows = table([score(), score("bc")], wanted)
    text = page(rows, [*wanted, Row(algo="sac", env="Pendulum-v1")], "list.yml", ["scores.json"])
    assert text.startswith(
        "# Results of list.yml\n\nFinal models, evaluated with deterministic actions on held-out"
    )
    assert "environment seeds, from 1,000,000 on" in text and markdown(rows) in text and "\n## " not in text
    assert "\n    rlzoo benchmark score logs/benchmark --list list.yml -o scores.json\n" in text
    assert "\n    rlzoo benchmark table scores.json --list list.yml\n" in text
    assert "\n    rlzoo train --algo ppo --env CartPole-v1 --seed SEED --eval-freq -1 -n 500\n" in text
    expert = "--algo ppo --env CartPole-v1 --seed 100 --eval-freq -1 -f logs/benchmark/seed100"
    assert (
        f"\n    rlzoo train {expert}\n"
        "    rlzoo record-expert --algo ppo --env CartPole-v1 -f logs/benchmark/seed100 -n 25 "
    ) in text
    assert "\n\nIn the list, without a score yet: sac Pendulum-v1.\n\n" in text


def test_a_page_has_the_commands_of_seeds_that_were_added(score):
    scores = [score(algo, seed=seed) for algo in ("ppo", "a2c") for seed in (0, 1, 2, 3, 7)]
    scores += [score("dqn", seed=seed) for seed in (0, 5)]
    rows = [Row(algo=algo, env="CartPole-v1") for algo in ("ppo", "a2c", "dqn")]
    text = page(table(scores, rows), rows, "l.yml", ["logs"])
    assert (
        "\n    rlzoo benchmark run l.yml -f logs"
        "\n    rlzoo benchmark run l.yml --rows ppo:CartPole-v1 a2c:CartPole-v1 --seeds 3 7 -f logs"
        "\n    rlzoo benchmark run l.yml --rows dqn:CartPole-v1 --seeds 5 -f logs\n"
    ) in text


def test_what_is_judged_is_shown_where_seeds_were_added(score):
    means = [492.61, 400.0, 493.0, 500.0, 500.0, 500.0]
    scores = [score(seed=seed, mean=mean) for seed, mean in enumerate(means)]
    rows = table(scores, [Row(algo="ppo", env="CartPole-v1", required=500)])
    assert "| 496.5 | 500 | **missed** with 492.6 on seeds 0, 1, 2 |" in markdown(rows)
    assert r"500 & \textbf{missed} with 492.6 on seeds 0, 1, 2 & " in latex(rows)
    assert "ppo 496.5 (100k, **missed** 500 with 492.6 on seeds 0, 1, 2)" in short(rows)
    rows = table(scores, [Row(algo="ppo", env="CartPole-v1", required=490)])
    assert "| reached with 492.6 on seeds 0, 1, 2 |" in markdown(rows)


def test_a_page_has_the_notes_of_its_rows(score):
    rows = [Row(algo="ppo", env="CartPole-v1", note="as another " + "library " * 12 + "has it.")]
    text = page(table([score()], rows), rows, "l.yml", ["logs"])
    (note,) = [part for part in text.split("\n\n") if part.startswith("- ppo ")]
    lines = note.splitlines()
    assert lines[0].startswith("- ppo on CartPole-v1: as another library") and len(lines) == 2
    assert lines[1].startswith("  library") and lines[1].endswith("has it.")
    assert "\n- ppo " not in page(table([score()]), [], "l.yml", ["logs"])


def test_a_page_of_some_rows_says_which(score):
    text = page(table([score()]), [], "l.yml", ["logs", "s.json"], [("ppo", "CartPole-v1")])
    assert "\n    rlzoo benchmark run l.yml --rows ppo:CartPole-v1 -f logs\n" in text
    assert "\n    rlzoo benchmark score logs --list l.yml -o s.json\n" in text
    assert "\n    rlzoo benchmark table logs s.json --list l.yml --rows ppo:CartPole-v1\n" in text
    assert "without a score" not in text


def test_commands_with_spaces_can_be_copied(score):
    text = page(table([score()]), [], "my list.yml", ["my runs", "b"])
    assert "\n    rlzoo benchmark run 'my list.yml' -f 'my runs'\n" in text
    assert "\n    rlzoo benchmark score 'my runs' b --list 'my list.yml'\n" in text
    assert "\n    rlzoo benchmark table 'my runs' b --list 'my list.yml'\n" in text


def test_a_page_says_where_actions_are_drawn(score):
    rows = table([score("a2c"), score("a2c", "PongNoFrameskip-v4", deterministic=False)])
    assert "deterministic actions (actions are sampled in PongNoFrameskip-v4) on" in page(
        rows, [], "l.yml", ["logs"]
    )
    assert "record-expert" not in page(rows, [], "l.yml", ["logs"])
    assert "    rlzoo benchmark score logs --list l.yml\n" in page(rows, [], "l.yml", ["logs"])


def test_short_table_sorts_best_first_per_environment(score):
    scores = [score("a2c", seed=seed, mean=mean) for seed, mean in enumerate([1.0, 300.0, 400.0])]
    scores += [score("ppo", mean=450.0), score("dqn", "A-v0", mean=-1.0, n_timesteps=1_500_000)]
    rows = [
        Row(algo="ppo", env="CartPole-v1", seeds=(0,), required=450),
        Row(algo="a2c", env="CartPole-v1", required=301, n_timesteps=100_000),
        Row(algo="dqn", env="A-v0", seeds=(0,)),
    ]
    assert short(table(scores, rows)).splitlines() == [
        "| environment | algorithm, one seed unless said (steps of the training) |",
        "|---|---|",
        "| CartPole-v1 | ppo 450.0 (100k), a2c 300.0 (100k, 3 seeds, **missed** 301) |",
        "| A-v0 | dqn -1.00 (1.5M) |",
    ]


def test_short_table_marks_medians_of_few_seeds(score):
    scores = [score(algo, seed=seed) for algo in ("a2c", "dqn") for seed in (0, 1, 2)] + [score("ppo")]
    head, _, line = short(table(scores)).splitlines()
    assert "median of 3 seeds unless said" in head
    assert line.count("(100k)") == 2 and line.count("(100k, 1 seed)") == 1


@pytest.mark.parametrize(
    ("steps", "text"), [(1_500, "1.5k"), (999_424, "999k"), (1_001_472, "1M"), (2_000_000, "2M")]
)
def test_steps_in_short(score, steps, text):
    assert f"({text})" in short(table([score(n_timesteps=steps)]))
