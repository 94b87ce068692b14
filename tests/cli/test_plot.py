"""`rlzoo plot train`, `rlzoo plot compare` and `rlzoo plot report`."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from rlzoo.cli.main import main
from rlzoo.envs.single_env.monitor import ResultsWriter


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with logs of two algorithms on two environments, two seeds each."""
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    for name in (
        "aggregate_figures.RESAMPLES",
        "aggregate_figures.FIGURE_RESAMPLES",
        "normalisation.RESAMPLES",
    ):
        monkeypatch.setattr(f"rlzoo.plots.{name}", 50)
    for algo, env, seed in ((a, e, s) for a in ("ppo", "a2c") for e in ("A-v0", "B-v0") for s in range(2)):
        folder = Path("logs") / algo / f"{env}_{seed + 1}"
        (folder / env).mkdir(parents=True)
        (folder / env / "args.yml").write_text(f"algo: {algo}\nenv_id: {env}\nseed: {seed}\n")
        returns = np.arange(6.0).reshape(3, 2) + seed + len(algo)
        arrays = {"timesteps": np.array([10, 20, 30]), "results": returns, "ep_lengths": returns}
        np.savez(folder / "evaluations.npz", **arrays)
        writer = ResultsWriter(folder, {"t_start": 0.0})
        for place in range(5):
            writer.write_row({"r": float(place), "l": 10, "t": 1.0 * place})
        writer.close()
    return tmp_path


def written(folder="."):
    """Files and folders beside the logs."""
    return sorted(path.name for path in Path(folder).iterdir() if path.name != "logs")


def test_train_writes_a_picture_into_the_logs(here, capsys):
    assert main(["plot", "train", "-a", "ppo", "-e", "A-v0"]) == 0
    assert capsys.readouterr().out == "wrote logs/plots/train_reward.png\n"
    assert Path("logs/plots/train_reward.png").read_bytes().startswith(b"\x89PNG")


def test_train_takes_the_flags_of_plot_train(here):
    arguments = (
        "-a ppo -e A-v0 B-v0 --exp-folder logs --figsize 6 4 --fontsize 14 -max 1000 -x time -y length -w 3"
    )
    assert main(["plot", "train", *arguments.split(), "-o", "out/it.svg"]) == 0
    assert written("out") == ["it.svg"]


def test_compare_writes_results_picture_and_table(here, capsys):
    assert main(["plot", "compare", "-o", "some.v1.json", "--iqm", "--format", "pdf"]) == 0
    assert written() == ["some.v1.json", "some.v1.md", "some.v1.pdf"]
    out = capsys.readouterr().out
    assert out.startswith("| environment | algorithm | seeds |") and "| B-v0 | ppo | 2 | 30 |" in out
    assert Path("some.v1.md").read_text() in out
    assert json.loads(Path("some.v1.json").read_text())["format"] == "rlzoo results"


def test_results_may_have_the_suffix_of_the_zoo(here):
    assert main(["plot", "compare", "-o", "results.pkl"]) == 0
    assert written() == ["results.json", "results.md", "results.png"]
    assert main(["plot", "report", "-i", "results.pkl"]) == 0


def test_compare_takes_the_flags_of_all_plots(here):
    arguments = (
        "-a ppo a2c -e A-v0 -f logs -l mine -k results -max 20 -min 10 -o results -median"
        " --no-million --no-display -print"
    )
    assert main(["plot", "compare", *arguments.split()]) == 0
    assert written() == ["results.json", "results.md", "results.png"]
    names = [curve["name"] for curve in json.loads(Path("results.json").read_text())["curves"]]
    assert names == ["a2c, mine", "ppo, mine"]


def test_compare_writes_beside_the_runs(here):
    assert main(["plot", "compare", "--latex"]) == 0
    assert written("logs/plots") == ["results.json", "results.png", "results.tex"]
    assert main(["plot", "compare"]) == 0  # the folder of figures is no run


def test_slash_at_the_end_names_a_new_folder(here):
    assert main(["plot", "compare", "-o", "figures/"]) == 0
    assert written("figures") == ["results.json", "results.md", "results.png"]


@pytest.fixture
def results(here):
    assert main(["plot", "compare", "-min", "0", "-o", "results.json"]) == 0
    for name in ("results.png", "results.md"):
        Path(name).unlink()
    return here


def test_report_draws_everything(results, capsys):
    assert main(["plot", "report", "results.json", "--format", "svg"]) == 0
    figures = ["aggregates", "boxes", "curves", "efficiency", "improvement", "profiles"]
    assert written() == ["results.json", *(f"results_{name}.svg" for name in figures), "results_tables.md"]
    assert "- A-v0: 0 is 3.5, 1 is 8.5 (lowest and highest evaluation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("--rliable --skip-timesteps", ["aggregates", "profiles"]),
        ("-vs --skip-timesteps", ["improvement"]),
        ("-iqm --skip-timesteps", ["efficiency"]),
        ("--boxplot", ["boxes", "curves"]),
        ("--keep-keys ppo --skip-timesteps", ["aggregates", "boxes", "efficiency", "profiles"]),
    ],
)
def test_report_draws_what_is_asked_for(results, flags, expected):
    assert main(["plot", "report", "results", *flags.split(), "-o", "out/fig.png"]) == 0
    assert written("out") == [*(f"fig_{name}.png" for name in expected), "fig_tables.md"]


def test_report_takes_the_flags_of_plot_from_file(results):
    arguments = (
        "-i results.pkl -skip B-v0 --keep-keys ppo a2c --no-million --format pdf --figsize 6 4 --fontsize 10"
        " -loc best -l one two -b -r -vs -iqm -ci 0.9 -latex --merge results.json"
    )
    assert main(["plot", "report", *arguments.split()]) == 0
    assert "results_tables.tex" in written() and "two" in Path("results_tables.tex").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("train -f nowhere", "there is no folder 'nowhere'"),
        ("train -a pppo", "did you mean 'ppo'?"),
        ("train -e C-v0", "no run of environment 'C-v0' in logs, only of A-v0, B-v0"),
        ("train -y success", "no episode with is_success"),
        ("train -x hours", "unknown x axis 'hours'"),
        ("train -w 0", "at least 1"),
        ("train -o a.jpg", "unknown format of pictures 'jpg'"),
        ("train -o a.png --format pdf", "contradict each other"),
        ("train --figsize 5", "expected 2 arguments"),
        ("train --figsize 5 500", "inches wide and high"),
        ("train --fontsize 0", "from 1 to 100 points"),
        ("train --show", "--show needs a display"),
        ("train -o logs/ppo/A-v0_1/evaluations.npz/x", "cannot write in"),
        ("compare -k result", "did you mean 'results'?"),
        ("compare -l a b", "1 folders need as many labels, not 2"),
        ("compare -max 1", "no run is left"),
        ("compare -min 1000", "no run is left"),
        ("compare --ci-size 95", "between 0 and 1"),
        ("compare -f empty", "there is no folder 'empty'"),
        ("report", "name one results file"),
        ("report gone.json", "cannot read gone.json"),
        ("report logs", "cannot read logs"),
        ("report logs/ppo/A-v0_1/evaluations.npz", "no results file"),
        ("report results.json --keep-envs C", "unknown environment 'C'"),
        ("report results.json --skip-keys pp", "did you mean 'ppo'?"),
        ("report results.json --normalize published", "no scores of random and trained agents for A-v0"),
        ("report results.json --versus --keep-keys ppo", "there is only ppo"),
        ("report results.json --merge gone.json", "cannot read gone.json"),
        ("draw", "unknown kind of plot 'draw'"),
    ],
)
def test_mistakes_are_said_on_one_line(results, capsys, arguments, message):
    before = sorted(map(str, Path(".").rglob("*")))
    capsys.readouterr()
    assert main(["plot", *arguments.split()]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert sorted(map(str, Path(".").rglob("*"))) == before


def test_broken_evaluations_leave_nothing_behind(here, capsys):
    Path("logs/ppo/A-v0_1/evaluations.npz").write_bytes(b"PK\x03\x04 not whole")
    assert main(["plot", "compare", "-o", "out/it"]) == 2
    assert "A-v0_1/evaluations.npz" in capsys.readouterr().err and written() == []


def test_run_without_evaluations_is_passed_over(here):
    Path("logs/ppo/A-v0_1/evaluations.npz").unlink()
    assert main(["plot", "compare", "-a", "ppo", "-o", "it"]) == 0
    curves = json.loads(Path("it.json").read_text())["curves"]
    assert [curve["seeds"] for curve in curves] == [[1], [0, 1]]
