"""Help and tables fit a terminal of 80 columns."""

from __future__ import annotations

import re

import pytest

from rlzoo.cli import main as cli
from rlzoo.cli.flags.parser import Parser
from rlzoo.cli.main import main
from rlzoo.config import catalog

TABLES = (
    ["list", "algos"],
    ["list", "envs"],
    ["list", "envs", "--all"],
    ["list", "agents"],
    ["show", "--algo", "ppo", "--env", "HalfCheetah-v5"],
    ["benchmark", "table"],
)


@pytest.fixture(autouse=True)
def terminal(monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def help_of(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([*words, "--help"])
    assert ended.value.code == 0
    return capsys.readouterr().out


def too_long(text):
    return [line for line in text.splitlines() if len(line) > 80]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_fits_80_columns(capsys, name):
    text = help_of(capsys, *name.split())
    assert too_long(text) == []
    usage = text.split("\n\n")[0]
    assert usage.startswith(f"usage: rlzoo {name} ") and usage.count("\n") < 4


@pytest.mark.parametrize("words", [["--help"], ["benchmark", "--help"], ["plot", "--help"]])
def test_overviews_fit_80_columns(capsys, words):
    assert main(words) == 0
    assert too_long(capsys.readouterr().out) == []


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_tables_fit_80_columns(capsys, words):
    assert main(words) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) > 10 and too_long(out) == []


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_help_breaks_no_word(capsys, name):
    lines = help_of(capsys, *name.split()).splitlines()
    assert [line for line in lines if re.search(r"\w-$", line)] == []


def test_train_help_names_the_search_flags_in_one_line(capsys):
    text = help_of(capsys, "train")
    assert "\nsearch:\n  -optimize and --trial-id K take the search flags" in text
    assert "--n-trials" not in text and "--sampler" not in text
    assert len(text.splitlines()) < 110


def test_hidden_flags_are_parsed():
    parser = cli.build("train", cli.load_command("train"))
    args = parser.parse_args(["-optimize", "--n-trials", "7", "--sampler", "gp"])
    assert (args.optimize_hyperparameters, args.n_trials, args.sampler) == (True, 7, "gp")
    assert parser.parse_args(["--optimize"]).optimize_hyperparameters
    assert {"n_trials", "sampler", "study_name"} <= {action.dest for action in parser.actions}


def test_help_groups_have_standard_names(capsys):
    for name, titles in {
        "train": ["options", "training", "runtime", "search", "output", "Weights & Biases"],
        "optimize": ["options", "training", "search", "study", "other actions", "runtime", "output"],
        "enjoy": ["options", "agent", "evaluation"],
    }.items():
        text = help_of(capsys, name)
        found = [line.split(" (")[0].rstrip(":") for line in re.findall(r"(?m)^\S.*:$", text)]
        assert found[: len(titles)] == titles


def test_few_flags_are_all_in_the_usage_line():
    parser = Parser("rlzoo demo", "a demo")
    parser.add_argument("--size", metavar="N")
    assert parser.format_usage() == "usage: rlzoo demo [-h] [--size N]\n"


def test_many_flags_make_a_short_usage_line():
    parser = Parser("rlzoo demo", "a demo")
    for letter in "abcdef":
        parser.add_argument(f"-{letter}", metavar="N")
    parser.add_argument("-o", "--output", required=True, metavar="FILE")
    parser.add_argument("--env", nargs="+", metavar="ENV")
    parser.add_argument("places", nargs="*", metavar="DIR")
    assert parser.format_usage() == "usage: rlzoo demo -o FILE [--env ENV ...] [options] [DIR ...]\n"


def test_listed_action_spaces_are_those_of_the_classes():
    for name in catalog.names():
        spaces = getattr(catalog.load(name), "action_spaces", None)
        if spaces is not None:
            assert catalog.action_spaces(name) == tuple(space.__name__ for space in spaces), name


def test_piped_tables_keep_one_line_per_row(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    assert main(["list", "envs"]) == 0
    assert all(line.split() and not line.startswith(" ") for line in capsys.readouterr().out.splitlines())
    assert main(["benchmark", "table"]) == 0
    assert capsys.readouterr().out.startswith("# Results of ")
