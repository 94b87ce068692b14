"""Trials and trainings on a real Ray of this machine; skipped without the extra `ray`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray")

from optuna.trial import TrialState

from rlzoo.benchmark.parallel.pool_jobs import PoolWorkers
from rlzoo.benchmark.run_list import Options, jobs_of, run_jobs
from rlzoo.cli.main import main
from rlzoo.cluster.ray_pool import RayPool
from rlzoo.config.benchmark import Row
from rlzoo.config.run import RunConfig
from rlzoo.config.tune import RayConfig, TuneConfig
from rlzoo.core.errors import UserError
from rlzoo.runs.run_folder import read_run
from rlzoo.tuning.pbt.search import optimize_population
from rlzoo.tuning.study.study import optimize

SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "n_envs": 1}
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def ray_here() -> Iterator[None]:
    """Start Ray once for all tests of this file, each of which joins it."""
    import ray

    os.environ.setdefault("RAY_worker_niceness", "0")
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, os.environ.get("PYTHONPATH", "")])
    ray.init(
        address="local",
        num_cpus=2,
        object_store_memory=100_000_000,
        include_dashboard=False,
        log_to_driver=False,
    )
    yield
    ray.shutdown()


def config(folder: Path, **changes: object) -> TuneConfig:
    run = RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        n_timesteps=64,
        seed=1,
        hyperparams=dict(SMALL),
        eval_episodes=1,
        verbose=0,
        log_folder=str(folder),
    )
    values = {"n_trials": 2, "sampler": "random", "pruner": "none", "figures": False, **changes}
    return TuneConfig(run=run, **values)  # type: ignore[arg-type]


def test_study_is_that_of_one_machine(ray_here: None, tmp_path: Path) -> None:
    here = optimize(config(tmp_path / "here"))
    there = optimize(config(tmp_path / "there", ray=RayConfig(), log_path=str(tmp_path / "agents")))
    for ours, theirs in zip(here.study.get_trials(), there.study.get_trials(), strict=True):
        assert theirs.state == TrialState.COMPLETE
        assert (ours.values, ours.params) == (theirs.values, theirs.params)
        assert ours.intermediate_values == theirs.intermediate_values
    assert (tmp_path / "agents" / "trial_1" / "best_model.zip").is_file()


def test_trial_of_a_killed_process_runs_again(ray_here: None, tmp_path: Path) -> None:
    def kill_one() -> None:
        for _ in range(600):
            for process in psutil.Process().children(recursive=True):
                if process.cmdline()[:1] == ["ray::run_in_ray"]:
                    return process.kill()
            time.sleep(0.1)

    killer = threading.Thread(target=kill_one)
    killer.start()
    opened = optimize(config(tmp_path, ray=RayConfig(max_parallel=1)))
    killer.join()
    trials = opened.study.get_trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 2
    assert sorted(trial.user_attrs["attempts"] for trial in trials) == [1, 2]


def test_seeds_are_trained_on_the_cluster(
    ray_here: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = [f"{key}:{value}" for key, value in SMALL.items()]
    flags = ["--seeds", "0-1", "--backend", "ray", "-n", "64", "--eval-freq", "0", "-f", str(tmp_path)]
    assert main(["train", "--algo", "ppo", "--env", "CartPole-v1", "-params", *small, *flags]) == 0
    assert "[2/2] ppo CartPole-v1 seed" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.glob("*/*/CartPole-v1.zip")) == ["CartPole-v1.zip"] * 2


def test_files_come_back_without_a_shared_folder(
    ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayPool, "share", lambda self, folder: None)
    row = Row(algo="ppo", env="CartPole-v1", n_timesteps=64, seeds=(0,), hyperparams=SMALL)
    with RayPool(RayConfig(), 1) as pool:
        (end,) = run_jobs(jobs_of([row]), tmp_path, 1, Options(n_evaluations=0), PoolWorkers(pool))
    assert not end.problem and end.job.is_done(tmp_path)
    run = end.job.run_folder(tmp_path)
    assert run is not None and read_run(run).log_folder == str(tmp_path / "seed0")
    assert "rlzoo-task-" not in "".join(path.read_text() for path in run.rglob("*.yml"))


@pytest.mark.parametrize("scheduler", ["pbt", "pb2"])
def test_population_is_that_of_one_machine(
    scheduler: str, ray_here: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RayPool, "share", lambda self, folder: None)  # files go through Ray
    populations = [
        optimize_population(config(tmp_path / name, ray=ray), 2, 32, scheduler)
        for name, ray in (("here", None), ("there", RayConfig()))
    ]
    here, there = ([[(m.params, m.value) for m in row] for row in each.history] for each in populations)
    assert here == there and len(here) == 2
    assert (populations[1].output(0, 1) / "agent.zip").is_file()


def test_more_cpus_than_a_node_has_is_refused(ray_here: None) -> None:
    with pytest.raises(UserError, match="--cpus-per-trial 64: the largest of 1 node has 2 CPUs"):
        RayPool(RayConfig(cpus_per_trial=64), 1).__enter__()
