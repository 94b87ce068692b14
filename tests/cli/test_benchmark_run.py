"""`rlzoo benchmark run`, with a stand-in for the jobs."""

from __future__ import annotations

import sys

import pytest

from rlzoo.benchmark import run_list as benchmark_run
from rlzoo.benchmark.finished import is_finished, mark_finished, row_name, training_seconds
from rlzoo.benchmark.run_list import Ended, Options
from rlzoo.cli.main import main
from rlzoo.config.hyperparams import lookup
from rlzoo.config.values_as_text import dump_yaml

asked: list[Options] = []  # of the jobs that were done


@pytest.fixture
def done(tmp_path, monkeypatch):
    """The jobs that were done: those of `my list.yml`, of which that with seed 2 fails."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my list.yml").write_text(
        "rows:\n- {algo: [ppo, a2c], env: CartPole-v1, seeds: [1, 2], n_timesteps: 50}"
    )
    jobs: list[str] = []
    asked.clear()

    def run_jobs(waiting, folder, n_jobs, options, workers=None):
        for job in waiting:
            jobs.append(f"{job} x{n_jobs}")
            asked.append(options)
            yield Ended(job, 1.2, "too hot" if job.seed == 2 else "")

    monkeypatch.setattr(benchmark_run, "run_jobs", run_jobs)
    return jobs


def finished(folder, n_timesteps):
    """A finished run of PPO with seed 1."""
    run = folder / "seed1" / "ppo" / "CartPole-v1_1"
    (run / "CartPole-v1").mkdir(parents=True)
    values = {**lookup("ppo", "CartPole-v1").values, "n_timesteps": n_timesteps}
    (run / "CartPole-v1" / "config.yml").write_text(dump_yaml(values))
    (run / "CartPole-v1.zip").touch()
    mark_finished(run, 1.0)
    return run


def test_what_becomes_of_each_job_is_said(done, capsys):
    assert main(["benchmark", "run", "my list.yml", "-f", "my runs", "--n-jobs", "1"]) == 1
    assert done == [f"{algo} CartPole-v1 seed {seed} x1" for seed in (1, 2) for algo in ("ppo", "a2c")]
    out, err = capsys.readouterr()
    assert "[1/4] ppo CartPole-v1 seed 1: done in 1 s\n" in out
    assert "[4/4] a2c CartPole-v1 seed 2: failed: too hot\n" in out
    assert "2 of 4 failed; run the same command again to retry" in err


def test_rows_and_seeds_filter_and_next_command_prints(done, capsys):
    chosen = ["--rows", "a2c:CartPole-v1", "--seeds", "7", "--gym-packages", "json"]
    assert main(["benchmark", "run", "my list.yml", "-f", "my runs", "--n-jobs", "1", *chosen]) == 0
    assert done == ["a2c CartPole-v1 seed 7 x1"]
    command = "rlzoo benchmark score 'my runs' --list 'my list.yml' --gym-packages json"
    assert f"next: {command}\n" in capsys.readouterr().out


def test_a_dry_run_says_what_is_left_and_makes_nothing(done, tmp_path, capsys):
    finished(tmp_path / "runs", 50)
    assert main(["benchmark", "run", "my list.yml", "-f", "runs", "--dry-run"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "1 of 4 are done already",
        "a2c CartPole-v1 seed 1",
        "ppo CartPole-v1 seed 2",
        "a2c CartPole-v1 seed 2",
    ]
    assert not done and not (tmp_path / "runs" / ".lock").exists()


def test_what_is_done_has_to_be_what_the_list_says(done, tmp_path, capsys):
    finished(tmp_path / "runs", 60)
    assert main(["benchmark", "run", "my list.yml", "-f", "runs"]) == 2
    assert "was trained with other n_timesteps than is asked for now" in capsys.readouterr().err
    assert not done


def test_shipped_list_is_found_from_any_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    row = ["--rows", "ppo:Catch-v0", "--seeds", "0"]
    assert main(["benchmark", "run", "benchmarks/learning.yml", *row, "--dry-run"]) == 0
    assert capsys.readouterr().out == "ppo Catch-v0 seed 0\n"


def test_a_folder_that_cannot_be_made_is_one_line(done, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["benchmark", "run", "my list.yml", "-f", "file/runs"]) == 2
    assert "file/runs cannot be a folder: Not a directory" in capsys.readouterr().err


@pytest.mark.parametrize("dry", [["--dry-run"], []])
@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{algo: ppo, env: CartPol-v1}", "did you mean 'CartPole-v1'"),
        ("{algo: ppo, env: CartPole-v1, conf_file: gone.yml}", "gone.yml"),
        ("{algo: bc, env: CartPole-v1}", "learns from demonstrations"),
        (
            "{algo: bc, env: CartPole-v1, conf_file: gone.yml, expert: {algo: ppo, seed: 3, episodes: 1}}",
            "gone",
        ),
        ("{name: x, algo: ppo, env: CartPole-v1, hyperparams: {gama: 0.9}}", "did you mean 'gamma'"),
        ("{name: x, algo: ppo, env: CartPole-v1, hyperparams: {env_wrapper: os.system}}", "os.system"),
        (
            "{algo: ppo, env: CartPole-v1, expert: {algo: a2c, seed: 3, episodes: 1}}",
            "--expert is for algorithms",
        ),
    ],
)
def test_a_mistake_is_told_before_anything_is_trained(done, tmp_path, capsys, row, message, dry):
    (tmp_path / "l.yml").write_text(f"seeds: [0]\nrows:\n- {{algo: a2c, env: CartPole-v1}}\n- {row}")
    assert main(["benchmark", "run", "l.yml", *dry]) == 2
    out, err = capsys.readouterr()
    assert message in err and err.count("\n") == 1 and not done and not out


def test_missing_package_skips_only_its_rows(done, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "panda_gym", None)
    text = "seeds: [0]\nrows: [{algo: tqc, env: PandaReach-v3}, {algo: ppo, env: CartPole-v1}]"
    (tmp_path / "l.yml").write_text(text)
    assert main(["benchmark", "run", "l.yml"]) == 0
    assert len(done) == 2  # the stand-in does not look; `run_jobs` says of each what it lacks


def test_nothing_left_is_no_line(done, tmp_path, capsys):
    (tmp_path / "l.yml").write_text("rows:\n- {algo: ppo, env: CartPole-v1, seeds: [1], n_timesteps: 50}")
    finished(tmp_path / "runs", 50)
    assert main(["benchmark", "run", "l.yml", "-f", "runs", "--dry-run"]) == 0
    assert capsys.readouterr().out == "1 of 1 are done already\n"


def test_curves_are_kept_unless_they_are_not_wanted(done):
    command = ["benchmark", "run", "my list.yml", "--rows", "ppo:CartPole-v1", "--seeds", "1"]
    more = (
        ["--n-evaluations", "0"],
        ["--n-evaluations", "4", "--eval-episodes", "9", "--gym-packages", "json"],
    )
    for flags in ([], *more):
        assert main([*command, *flags]) == 0
    expected = [(20, 5, ()), (0, 5, ()), (4, 9, ("json",))]
    assert [(o.n_evaluations, o.eval_episodes, o.gym_packages) for o in asked] == expected


def test_variants_are_chosen_by_their_names(done, tmp_path, capsys):
    (tmp_path / "l.yml").write_text(
        "seeds: [1]\nrows:\n- {algo: ppo, env: CartPole-v1}\n"
        "- {name: big, algo: ppo, env: CartPole-v1, hyperparams: {policy_kwargs: {net_arch: [8]}}}"
    )
    assert main(["benchmark", "run", "l.yml", "--rows", "big:CartPole-v1", "--dry-run"]) == 0
    assert capsys.readouterr().out == "big CartPole-v1 seed 1\n"
    assert main(["benchmark", "run", "l.yml", "--rows", "bog:CartPole-v1"]) == 2
    assert "unknown row 'bog:CartPole-v1'; did you mean 'big:CartPole-v1'" in capsys.readouterr().err


def test_what_another_process_did_is_said(done, monkeypatch, capsys):
    def run_jobs(waiting, folder, n_jobs, options, workers=None):
        yield from (Ended(job, 0.0, elsewhere=True) for job in waiting)

    monkeypatch.setattr(benchmark_run, "run_jobs", run_jobs)
    assert main(["benchmark", "run", "my list.yml", "--rows", "ppo:CartPole-v1", "--seeds", "1"]) == 0
    assert "[1/1] ppo CartPole-v1 seed 1: done by another process\n" in capsys.readouterr().out


def test_damaged_marks_are_written_again(done, tmp_path, capsys):
    run = finished(tmp_path / "my runs", 50)
    (run / "finished.json").write_text('{"sec')
    (run / "row.json").write_text('{"na')
    assert main(["benchmark", "run", "my list.yml", "-f", "my runs", "--seeds", "1", "--n-jobs", "1"]) == 0
    assert done == ["a2c CartPole-v1 seed 1 x1"]
    assert is_finished(run) and training_seconds(run) is None and row_name(run) is None
    assert capsys.readouterr().err.count("was damaged, and is written again") == 2
