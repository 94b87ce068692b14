"""A study from its definition to its report: what is refused, what is gone on with, what comes back."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState

from rlzoo.cli.main import main
from rlzoo.config.hyperparams import lookup
from rlzoo.config.run import RunConfig, all_runs
from rlzoo.config.tune import TuneConfig
from rlzoo.config.values_as_text import interpret, load_yaml
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.tuning.space.search_space import Space
from rlzoo.tuning.storage.trial_queue import claim_trial, release_trial
from rlzoo.tuning.study import study as studies
from rlzoo.tuning.study import supervisor
from rlzoo.tuning.study import trial_worker as worker
from rlzoo.tuning.study.retrain import retrain_best

SMALL = {"n_steps": 20, "batch_size": 20, "n_epochs": 1, "n_envs": 1, "policy_kwargs": {"ortho_init": False}}


@pytest.fixture
def config(tmp_path: Path) -> TuneConfig:
    """A search of three tiny trainings of PPO."""
    run = RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        n_timesteps=60,
        seed=5,
        hyperparams=SMALL,
        eval_episodes=1,
        verbose=0,
        log_folder=str(tmp_path / "logs"),
    )
    return TuneConfig(run=run, n_trials=3, n_evaluations=1, pruner="none", figures=False)


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor's workers are calls in this process, which spares the start of an interpreter."""

    class Called:
        returncode = 0

        def __init__(self, command: list[str], log: Any, n_threads: int, environment: dict[str, str]) -> None:
            worker.main([*command[3:], "--storage", environment["RLZOO_STORAGE"]])

        def poll(self) -> int:
            return 0

    monkeypatch.setattr(supervisor, "start_command", Called)
    monkeypatch.setattr(supervisor, "POLL", 0.01)
    monkeypatch.setattr(worker.Stop, "listen", lambda self: None)


@pytest.mark.usefixtures("in_process")
def test_search_writes_a_trainable_best_config_and_no_run(config: TuneConfig) -> None:
    opened = studies.optimize(config)
    assert [trial.state for trial in opened.study.trials] == [TrialState.COMPLETE] * 3
    assert all_runs(config.run.log_folder, "ppo") == [] == all_runs(config.run.log_folder, "optimize")
    best = lookup("ppo", "CartPole-v1", config.folder / "best.yml").values
    assert best["n_steps"] == 20 and best["policy_kwargs"]["ortho_init"] is False  # given, so not searched
    assert {"n_steps", "batch_size", "policy_kwargs.ortho_init"}.isdisjoint(opened.study.trials[0].params)
    assert "policy_kwargs.net_arch" in opened.study.trials[0].params
    result = studies.train_trial(replace(config, run=replace(config.run, hyperparams={})), 0)
    assert result.num_timesteps == 60
    written = lookup("ppo", "CartPole-v1", result.folder / "CartPole-v1" / "config.yml").values
    sampled = load_yaml(opened.study.trials[0].user_attrs["hyperparams"], "trial 0")
    assert (
        written["gamma"] == sampled["gamma"] != best.get("gamma", 0.99) or opened.study.best_trial.number == 0
    )


@pytest.mark.usefixtures("in_process")
def test_repeated_command_resumes_and_adds_trials(config: TuneConfig) -> None:
    first = studies.optimize(replace(config, n_trials=2))
    values = [trial.values for trial in first.study.trials]
    more = studies.optimize(replace(config, n_trials=4))
    assert [trial.values for trial in more.study.trials[:2]] == values
    assert len(more.study.trials) == 4
    with pytest.warns(UserWarning, match="the study has 4 trials, and all of them are run"):
        assert studies.optimize(replace(config, n_trials=1)).n_trials == 4
    other = replace(config, run=replace(config.run, algo="a2c"), study_name=config.study)
    with pytest.raises(
        UserError, match="study ppo_CartPole-v1 is of ppo on CartPole-v1, not of a2c on CartP"
    ):
        studies.run_of_trial(other, 0)


@pytest.mark.usefixtures("in_process")
def test_a_random_seed_is_that_of_the_study_from_then_on(config: TuneConfig) -> None:
    config = replace(config, run=replace(config.run, seed=-1), n_trials=1)
    first = studies.optimize(config)
    assert first.settings.seed >= 0
    assert studies.optimize(replace(config, n_trials=2)).settings.seed == first.settings.seed


@pytest.mark.usefixtures("in_process")
def test_equal_seeds_search_alike(config: TuneConfig, tmp_path: Path) -> None:
    elsewhere = replace(config, run=replace(config.run, log_folder=str(tmp_path / "more")))
    trials = [studies.optimize(which).study.trials for which in (config, elsewhere)]
    assert [trial.params for trial in trials[0]] == [trial.params for trial in trials[1]]
    assert [trial.values for trial in trials[0]] == [trial.values for trial in trials[1]]


@pytest.mark.usefixtures("in_process")
def test_the_best_are_trained_again_with_fresh_seeds(config: TuneConfig) -> None:
    searched = studies.optimize(config)
    reported = {name: (config.folder / name).read_text() for name in ("best.yml", "trials.csv")}
    ranking = retrain_best(replace(config, n_seeds=2), 2)
    assert reported == {name: (config.folder / name).read_text() for name in reported}  # of the search
    assert [row.n for row in ranking] == [2, 2]
    assert (config.folder / "retrained.csv").is_file()
    first = next(trial for trial in searched.study.trials if trial.number == ranking[0].trial)
    written = lookup("ppo", "CartPole-v1", config.folder / "retrained.yml").values
    assert written == interpret(load_yaml(first.user_attrs["hyperparams"], "trial"))
    assert "2 trainings with new seeds" in (config.folder / "retrained.yml").read_text().splitlines()[0]
    again = optuna.load_study(study_name="ppo_CartPole-v1_retrained", storage=searched.study._storage)
    seeds = [seed for trial in again.trials for seed in trial.user_attrs["seeds"]]
    assert len(set(seeds)) == 4
    assert set(seeds).isdisjoint(
        seed for trial in searched.study.trials for seed in trial.user_attrs["seeds"]
    )
    assert {row.trial for row in ranking} == {trial.user_attrs["of"] for trial in again.trials}
    retrain_best(replace(config, n_seeds=2), 2)
    assert len(again.trials) == 4  # done already


@pytest.mark.usefixtures("in_process")
def test_every_point_of_a_small_space_is_tried_once(config: TuneConfig, tmp_path: Path) -> None:
    space = tmp_path / "space.yml"
    space.write_text("gamma: [0.9, 0.99]\nn_epochs: {low: 1, high: 2}\n")
    opened = studies.optimize(
        replace(
            config,
            sampler="grid",
            space=str(space),
            n_trials=50,
            run=replace(config.run, hyperparams={**SMALL, "n_epochs": 1}),
        )
    )
    assert sorted(trial.params["gamma"] for trial in opened.study.trials) == [0.9, 0.99]  # n_epochs is given


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_timesteps": 80}, "was begun with n_timesteps 60, not 80"),
        ({"seed": 6}, "was begun with seed 5, not 6"),
        ({"hyperparams": {**SMALL, "gamma": 0.9}}, "was begun with"),
        ({"eval_episodes": 2}, "was begun with eval_episodes 1, not 2"),
    ],
)
def test_a_study_is_not_gone_on_with_under_other_conditions(
    config: TuneConfig, changes: dict[str, Any], message: str
) -> None:
    studies.create_or_load_study(config)
    with pytest.raises(UserError, match=message):
        studies.create_or_load_study(replace(config, run=replace(config.run, **changes)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "nsga2", "pruner": "median"}, "cannot prune"),
        ({"sampler": "grid"}, "learning_rate"),
        ({"pruner": "wilcoxon", "n_seeds": 4}, "n-seeds 5"),
        ({"fixed": ("gama",)}, "gamma"),
        ({"storage": "nowhere.txt"}, "sqlite:///nowhere.txt"),
        ({"run": RunConfig(algo="ppo", env_id="CartPole-v1", device="gpu")}, "gpu"),
    ],
)
def test_impossible_search_fails_before_writing(
    config: TuneConfig, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        studies.create_or_load_study(replace(config, **changes))
    assert not Path(config.run.log_folder).exists()


def test_study_killed_before_settings_restarts(config: TuneConfig) -> None:
    storage = studies.open_storage(None, config.folder)
    optuna.create_study(storage=storage, study_name=config.study, direction="maximize")
    assert studies.create_or_load_study(config).settings.algo == "ppo"


def test_concurrent_commands_share_the_study_seed(
    config: TuneConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, run=replace(config.run, seed=-1))
    settings, _ = studies.validate(config)
    storage = studies.open_storage(None, config.folder)
    optuna.create_study(storage=storage, study_name=config.study, direction="maximize")

    def other_writes(_: float) -> None:
        study = optuna.load_study(storage=storage, study_name=config.study)
        study.set_user_attr(studies.SETTINGS, replace(settings, seed=77).to_json())

    monkeypatch.setattr(studies.time, "sleep", other_writes)
    assert studies.create_or_load_study(config).settings.seed == 77


def test_a_study_of_another_program_is_left_alone(config: TuneConfig) -> None:
    storage = studies.open_storage(None, config.folder)
    theirs = optuna.create_study(storage=storage, study_name=config.study, direction="maximize")
    theirs.add_trial(optuna.trial.create_trial(value=1.0))
    with pytest.raises(UserError, match="is not one of rlzoo"):
        studies.create_or_load_study(config)


def test_a_trial_of_another_zoo_gives_its_hyperparameters(config: TuneConfig) -> None:
    theirs = optuna.create_study(
        storage=studies.open_storage(None, config.folder), study_name=config.study, direction="maximize"
    )
    trial = theirs.ask()
    trial.suggest_float("one_minus_gamma", 0.25, 0.25)
    trial.suggest_int("n_steps_pow", 5, 5)
    trial.suggest_categorical("net_arch", ["small"])
    theirs.tell(trial, 1.0)
    theirs.tell(theirs.ask(), 1.0)
    given = replace(config, run=replace(config.run, hyperparams={"n_steps": 64}))
    assert studies.run_of_trial(given, 0).hyperparams == {
        "gamma": 0.75, "n_steps": 64, "policy_kwargs": {"net_arch": [64, 64]},
    }  # fmt: skip
    with pytest.raises(UserError, match=r"trial 1 .* has no hyperparameters; it is complete"):
        studies.run_of_trial(given, 1)


def test_an_unknown_study_names_the_nearest(config: TuneConfig) -> None:
    studies.create_or_load_study(config)
    with pytest.raises(UserError, match="did you mean 'ppo_CartPole-v1'"):
        studies.load_study(replace(config, study_name="ppo_CartPole-v0"))


def fake_worker(code: str) -> Callable[[supervisor.Supervisor], None]:
    """Makes a supervisor start other processes than workers."""

    def replace_command(made: supervisor.Supervisor) -> None:
        made.command = [sys.executable, "-c", code]

    return replace_command


def test_worker_start_failure_ends_the_search_with_its_error(config: TuneConfig) -> None:
    opened = studies.create_or_load_study(config)
    made = supervisor.Supervisor(opened.study, 3, opened.folder, None, 1, config.run)
    fake_worker("raise SystemExit('no such library')")(made)
    with pytest.raises(RunFailed, match="no such library"):
        made.run()


def test_workers_that_are_killed_as_they_start_end_the_search(
    config: TuneConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "KILLED", 4)
    monkeypatch.setattr(supervisor, "POLL", 0.01)
    opened = studies.create_or_load_study(config)
    made = supervisor.Supervisor(opened.study, 3, opened.folder, None, 2, config.run)
    fake_worker("import os; os.kill(os.getpid(), 4)")(made)
    with pytest.raises(RunFailed, match="killed before they begin, by signal 4"):
        made.run(timeout=60)


def test_workers_that_take_trials_may_end_badly_now_and_then(config: TuneConfig) -> None:
    opened = studies.create_or_load_study(config)
    made = supervisor.Supervisor(opened.study, 3, opened.folder, None, 1, config.run)
    for _ in range(2 * supervisor.FRUITLESS):
        trial = claim_trial(opened.study, 3, "")
        assert trial is not None
        release_trial(opened.study, trial)
        made._stop_on_fruitless([1], opened.study.trials)


def test_five_equal_failures_in_a_row_end_the_search(config: TuneConfig) -> None:
    opened = studies.create_or_load_study(replace(config, n_trials=9))
    made = supervisor.Supervisor(opened.study, 9, opened.folder, None, 1, config.run)
    for number in range(5):
        trial = opened.study.ask()
        trial.set_user_attr("error", f"ValueError: nan at step {number}")
        opened.study.tell(trial, state=TrialState.FAIL)
    failed = opened.study.get_trials(deepcopy=False)[:5]
    with pytest.raises(RunFailed, match="5 trials in a row failed with the same error: ValueError: nan"):
        supervisor.stop_on_same_failures(failed)
    supervisor.stop_on_same_failures(failed[:4])
    made.monitor.release_stale(opened.study, 9)  # and nothing of it counts as stale


def test_a_timeout_ends_the_workers_and_keeps_the_list(config: TuneConfig) -> None:
    opened = studies.create_or_load_study(config)
    made = supervisor.Supervisor(opened.study, 3, opened.folder, None, 2, config.run)
    fake_worker("import sys; sys.stdin.read()")(made)
    made.run(timeout=0.1)
    assert made.workers == []
    assert all(trial.state == TrialState.WAITING for trial in opened.study.trials)


def test_more_jobs_than_cores_is_a_warning(
    config: TuneConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(studies, "optimize", lambda config: (_ for _ in ()).throw(UserError("not run")))
    assert main(["optimize", "--n-jobs", "5000", "-f", config.run.log_folder]) == 2
    assert "5000 jobs share" in capsys.readouterr().err


def test_train_optimize_is_optimize(config: TuneConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[TuneConfig] = []

    def search(config: TuneConfig) -> SimpleNamespace:
        seen.append(config)
        return SimpleNamespace(interrupted=config.run.env_id == "Acrobot-v1")

    monkeypatch.setattr("rlzoo.cli.optimize.search", search)
    flags = "--algo a2c --env CartPole-v1 -n 5000 --n-trials 7 --n-jobs 2 --sampler random --pruner halving"
    assert main(["train", "-optimize", *flags.split(), "--n-evaluations", "2", "--study-name", "s"]) == 0
    assert main(["optimize", *flags.split(), "--n-evaluations", "2", "--study-name", "s"]) == 0
    assert seen[0] == seen[1]
    assert (seen[0].n_trials, seen[0].sampler, seen[0].run.n_timesteps) == (7, "random", 5000)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Environments that are searched for; the search for Acrobot-v1 is interrupted."""
    seen: list[str] = []

    def search(config: TuneConfig) -> SimpleNamespace:
        seen.append(config.run.env_id)
        return SimpleNamespace(interrupted=config.run.env_id == "Acrobot-v1")

    monkeypatch.setattr("rlzoo.cli.optimize.search", search)
    return seen


def test_all_environments_are_checked_before_searching(searches: list[str]) -> None:
    assert main(["optimize", "--algo", "a2c", "--env", "CartPole-v1", "CartPol-v1", "-n", "100"]) == 2
    assert searches == []


def test_an_interrupt_ends_the_searches_for_all_environments(searches: list[str]) -> None:
    flags = ["--algo", "a2c", "--env", "CartPole-v1", "Acrobot-v1", "MountainCar-v0", "-n", "100"]
    assert main(["optimize", *flags]) == 0
    assert searches == ["CartPole-v1", "Acrobot-v1"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "train -optimize -tb tb --eval-freq 5 -P",
            "--progress, --eval-freq, --tensorboard-log have no effect in a search",
        ),
        ("train --trial-id 0 --n-trials 5", "--n-trials has no effect without -optimize"),
        (
            "train --study-name s --env Nowhere-v0",
            "--study-name has no effect without -optimize or --trial-id",
        ),
        ("optimize --report s --env Acrobot-v1", "--env has no effect with --report"),
        ("optimize --trial-id 0 --retrain-best 2", "--retrain-best has no effect with --trial-id"),
        ("optimize --retrain-best 2 -n 500", "--n-timesteps has no effect with --retrain-best"),
        ("optimize --serve nowhere --n-jobs 2", "--n-jobs has no effect with --serve"),
    ],
)
@pytest.mark.usefixtures("searches")
def test_flags_that_do_nothing_are_named(
    words: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    main(words.split())
    assert message in capsys.readouterr().err.splitlines()[0]
    assert not (tmp_path / "logs").exists()


@pytest.mark.usefixtures("in_process")
def test_a_report_tells_how_to_train_what_was_searched(
    config: TuneConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["--algo", "a2c", "--env", "Acrobot-v1", "-n", "60", "--n-trials", "1", "--eval-episodes", "1"]
    folder = config.run.log_folder
    assert main(["optimize", *flags, "-f", folder, "--gym-packages", "json", "--no-optim-plots"]) == 0
    capsys.readouterr()
    assert main(["optimize", "--report", "a2c_Acrobot-v1", "-f", folder, "--no-optim-plots"]) == 0
    shown = capsys.readouterr().out
    assert "rlzoo train --algo a2c --env Acrobot-v1 --conf-file" in shown
    assert shown.rstrip().endswith("--gym-packages json")


@pytest.mark.usefixtures("in_process")
def test_a_search_without_one_complete_trial_has_failed(
    config: TuneConfig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> list[float]:
        raise ValueError("nan in the loss")

    monkeypatch.setattr(worker, "run_trial", fail)
    flags = ["--algo", "a2c", "-n", "60", "--n-trials", "2", "--no-optim-plots"]
    assert main(["optimize", *flags, "-f", config.run.log_folder]) == 1
    shown = capsys.readouterr()
    assert "none of 2 trials is complete; the last error: ValueError: nan in the loss" in shown.err
    assert "best.yml" not in shown.out


def test_the_whole_command_with_processes(tmp_path: Path) -> None:
    flags = "--algo a2c --env CartPole-v1 -n 100 --n-trials 2 --n-evaluations 1 --eval-episodes 1 --seed 0"
    command = [sys.executable, "-m", "rlzoo", "optimize", *flags.split(), "--no-optim-plots"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "best.yml" in done.stdout and done.stderr == ""
    folder = tmp_path / "logs" / "optimize" / "a2c_CartPole-v1"
    assert {"best.yml", "trials.csv", "config.yml", "journal.log"} <= {path.name for path in folder.iterdir()}


def test_a_space_travels_in_the_study(config: TuneConfig) -> None:
    opened = studies.create_or_load_study(replace(config, fixed=("learning_rate",)))
    space = Space.from_json(opened.settings.space)
    assert "learning_rate" not in space.rows and "gamma" in space.rows


def test_what_is_given_under_an_old_name_is_not_searched(config: TuneConfig) -> None:
    given = {"cliprange": 0.1, "policy_kwargs": {"net_arch": [8]}}
    opened = studies.create_or_load_study(replace(config, run=replace(config.run, hyperparams=given)))
    rows = Space.from_json(opened.settings.space).rows
    assert {"clip_range", "policy_kwargs.net_arch"}.isdisjoint(rows) and "policy_kwargs.activation_fn" in rows


@pytest.mark.usefixtures("in_process")
def test_retraining_that_always_fails_is_no_success(
    config: TuneConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    studies.optimize(replace(config, n_trials=1))

    def fail(*_: Any) -> None:
        raise RunFailed("no luck")

    monkeypatch.setattr(worker, "run_trial", fail)
    with pytest.raises(RunFailed, match=r"none of 1 trainings is complete; the last error: .*no luck"):
        retrain_best(replace(config, n_trials=1, n_seeds=1), 1)


@pytest.mark.parametrize("below", ["", "trials"])
def test_log_path_that_is_a_file_is_found_at_the_start(
    config: TuneConfig, tmp_path: Path, below: str
) -> None:
    (tmp_path / "file").touch()
    wanted = replace(config, log_path=str(tmp_path / "file" / below))
    with pytest.raises(UserError, match=r"--optimization-log-path wants a folder, and .*file is a file"):
        studies.optimize(wanted)
    assert not Path(config.run.log_folder).exists()
