"""`rlzoo benchmark table`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from rlzoo.benchmark.scores import SCORE, Score, write_score, write_scores
from rlzoo.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # pytest-xdist sets it


def make_score(algo, env_id, seed, mean):
    return Score(
        algo=algo,
        env_id=env_id,
        seed=seed,
        n_timesteps=1000,
        episodes=100,
        mean=mean,
        std=0.0,
        median=mean,
        mean_length=1.0,
        success_rate=None,
        deterministic=True,
        evaluation_seed=1_000_000,
        training_seconds=None,
        sha256="0" * 64,
        trained_with={},
        versions={},
        date="2026-01-01T00:00:00Z",
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with scores.json and list.yml, of which one row has no scores."""
    monkeypatch.chdir(tmp_path)
    scores = [make_score("ppo", "CartPole-v1", seed, 480.0 + seed) for seed in range(3)]
    write_scores(Path("scores.json"), [*scores, make_score("a2c", "Acrobot-v1", 0, -80.0)])
    Path("list.yml").write_text(
        "rows:\n"
        "  - {algo: ppo, env: CartPole-v1, required: 475, n_timesteps: 1000}\n"
        "  - {algo: dqn, env: CartPole-v1}\n"
        "  - {algo: a2c, env: Acrobot-v1, seeds: [0], required: -70, n_timesteps: 1000}\n"
    )
    return tmp_path


def keys(text):
    """The algorithms in a Markdown table, from top to bottom."""
    return [line.split(" | ")[0][2:] for line in text.splitlines() if line.startswith("| ")][1:]


def test_without_a_list_there_is_only_the_table(here, capsys):
    assert main(["benchmark", "table", "scores.json"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("| algorithm | environment |") and "required" not in out
    assert keys(out) == ["a2c", "ppo"] and all(line.startswith("|") for line in out.splitlines())


def test_with_a_list_there_is_a_page_in_its_order(here, capsys):
    assert main(["benchmark", "table", "scores.json", "--list", "list.yml"]) == 0
    told = capsys.readouterr()
    assert keys(told.out) == ["ppo", "a2c"] and told.out.startswith("# Results of list.yml\n")
    assert "| 475 | reached |" in told.out and "| -70 | **missed** |" in told.out
    assert "    rlzoo benchmark table scores.json --list list.yml\n" in told.out
    assert told.err == "rlzoo: without a score: dqn:CartPole-v1\n"


def test_scores_beside_models(here, capsys):
    for seed in range(2):
        folder = Path(f"logs/seed{seed}/ppo/CartPole-v1_1")
        folder.mkdir(parents=True)
        write_score(folder / SCORE, make_score("ppo", "CartPole-v1", seed, 100.0 * seed + 100))
    assert main(["benchmark", "table", "logs", "--format", "csv"]) == 0
    (line,) = csv.DictReader(capsys.readouterr().out.splitlines())
    assert (line["seeds"], line["means"], line["mean"]) == ("0 1", "100.0 200.0", "150.0")


def test_rows_are_chosen(here, capsys):
    assert main(["benchmark", "table", "scores.json", "--rows", "ppo:CartPole-v1"]) == 0
    assert keys(capsys.readouterr().out) == ["ppo"]
    arguments = ["benchmark", "table", "scores.json", "--list", "list.yml", "--rows", "a2c:Acrobot-v1"]
    assert main(arguments) == 0
    told = capsys.readouterr()
    assert keys(told.out) == ["a2c"] and told.err == ""


def test_unlisted_scores_are_reported_and_omitted(here, capsys):
    Path("list.yml").write_text("rows: [{algo: ppo, env: CartPole-v1, n_timesteps: 1000}]")
    assert main(["benchmark", "table", "scores.json", "--list", "list.yml"]) == 0
    told = capsys.readouterr()
    assert keys(told.out) == ["ppo"]
    assert told.err == "rlzoo: not in the list, and left out: a2c:Acrobot-v1\n"


def test_the_name_of_the_file_says_the_format(here):
    for name, beginning in {"t.tex": "%", "t.json": "[", "t.csv": "algo,", "t.md": "|", "t.txt": "|"}.items():
        assert main(["benchmark", "table", "scores.json", "-o", name]) == 0
        assert Path(name).read_text().startswith(beginning) and Path(name).read_text().endswith("\n")
    assert main(["benchmark", "table", "scores.json", "-o", "t.txt", "--format", "json"]) == 0
    assert len(json.loads(Path("t.txt").read_text())) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no nowhere"),
        (["scores.json", "--rows", "ppo:CartPol-v1"], "did you mean 'ppo:CartPole-v1'?"),
        (
            ["scores.json", "--list", "list.yml", "--rows", "ppo:CartPol-v1"],
            "did you mean 'ppo:CartPole-v1'?",
        ),
        (["scores.json", "--rows", "ppo"], "ALGORITHM:ENVIRONMENT"),
        (["scores.json", "--format", "latx"], "did you mean 'latex'?"),
        (["scores.json", "-o", "t.html"], "--format is needed"),
        (["scores.json", "--list", "list.yml", "--rows", "dqn:CartPole-v1"], "is of dqn:CartPole-v1"),
        (["scores.json", "--list", "other.yml"], "is of a row of other.yml"),
        (["scores.json", "--list", "gone.yml"], "gone.yml"),
    ],
)
def test_mistakes_are_said_on_one_line(here, capsys, arguments, message):
    Path("other.yml").write_text("rows: [{algo: dqn, env: CartPole-v1}]")
    assert main(["benchmark", "table", *arguments]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_without_arguments_it_is_the_published_table(here, capsys, monkeypatch):
    (here / "shipped" / "benchmarks").mkdir(parents=True)
    Path("scores.json").rename("shipped/benchmarks/learning_scores.json")
    Path("list.yml").rename("shipped/benchmarks/learning.yml")
    monkeypatch.setattr("rlzoo.config.hyperparams.shipped_folder", lambda name: here / "shipped" / name)
    assert main(["benchmark", "table"]) == 0
    out = capsys.readouterr().out
    assert "# Results of benchmarks/learning.yml\n" in out and str(here) not in out
    assert "    rlzoo benchmark table benchmarks/learning_scores.json --list benchmarks/learning.yml\n" in out


def test_the_committed_table_is_what_the_committed_scores_give(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["benchmark", "table", "-o", str(tmp_path / "made.md")]) == 0
    committed = (ROOT / "scripts" / "learning_results.md").read_text(encoding="utf-8")
    made = (tmp_path / "made.md").read_text(encoding="utf-8")
    assert committed == made


def test_documentation_has_the_short_table_of_committed_scores(capsys, monkeypatch):
    monkeypatch.chdir(ROOT)
    assert main(["benchmark", "table", "--format", "short"]) == 0
    shown = (ROOT / "docs" / "results" / "scores.txt").read_text(encoding="utf-8")
    assert capsys.readouterr().out == shown  # made by the same command with -o docs/results/scores.txt


def test_a_file_without_scores_is_a_mistake(here, capsys):
    Path("none.json").write_text("[]")
    assert main(["benchmark", "table", "none.json"]) == 2
    assert capsys.readouterr().err == "rlzoo: error: there are no scores in none.json\n"
