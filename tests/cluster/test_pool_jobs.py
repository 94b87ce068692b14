"""Trainings of a benchmark as tasks of a pool."""

from __future__ import annotations

import zipfile
from pathlib import Path

from pools import ThreadPool

from rlzoo.benchmark.parallel.pool_jobs import PoolWorkers, train
from rlzoo.benchmark.run_list import Options, Training, jobs_of, run_jobs
from rlzoo.cluster.tasks import TaskContext
from rlzoo.config.benchmark import Expert, Row
from rlzoo.runs.run_folder import model_path, read_run

EXPERT = Expert(algo="ppo", seed=0, episodes=1)
OPTIONS = Options(n_evaluations=0)
SMALL = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "n_envs": 1}
ROW = Row(algo="ppo", env="CartPole-v1", n_timesteps=64, seeds=(0, 1), hyperparams=SMALL)


def test_trainings_are_those_of_processes(tmp_path: Path) -> None:
    (job, *_) = jobs = jobs_of([ROW])
    (here,) = run_jobs([job], tmp_path / "here", 1, OPTIONS)
    ends = list(run_jobs(jobs, tmp_path / "there", 1, OPTIONS, PoolWorkers(ThreadPool())))
    assert [end.problem for end in (here, *ends)] == ["", "", ""]
    agents = [agent_of(job, tmp_path / name) for name in ("here", "there")]
    assert agents[0] and agents[0] == agents[1]
    assert list(run_jobs(jobs, tmp_path / "there", 1, OPTIONS, PoolWorkers(ThreadPool()))) == []


def test_lost_trainings_begin_again_until_too_often(tmp_path: Path) -> None:
    pool = ThreadPool(lost={1, 3, 4, 5, 6, 7})
    good, bad = run_jobs(jobs_of([ROW]), tmp_path, 1, OPTIONS, PoolWorkers(pool))
    assert not good.problem and "the node is gone" in bad.problem
    assert len(pool.tasks) == 2 + 5


def test_numbers_of_runs_elsewhere_follow_those_here(tmp_path: Path) -> None:
    training = Training(ROW, 0)
    given = {**training.task(tmp_path, OPTIONS), "latest_run": 3}
    output = tmp_path / "elsewhere"
    context = TaskContext(given, str(output), {}, lambda message, wait: {}, is_apart=True)
    assert train(context) == {"interrupted": False}
    assert read_run(output / "ppo" / "CartPole-v1_4").seed == 0


def test_recordings_stay_on_this_machine(tmp_path: Path) -> None:
    row = Row(algo="bc", env="CartPole-v1", n_timesteps=64, seeds=(0,), expert=EXPERT)
    pool = ThreadPool()
    ends = run_jobs(jobs_of([row], [ROW]), tmp_path, 1, OPTIONS, PoolWorkers(pool))
    assert [end.problem for end in ends] == ["", "", ""]
    expert, learner = pool.tasks
    assert expert.inputs == () and len(learner.inputs) == 1


def agent_of(job: object, folder: Path) -> dict[str, bytes]:
    assert isinstance(job, Training)
    run = job.run_folder(folder)
    assert run is not None
    with zipfile.ZipFile(model_path(run, "CartPole-v1")) as archive:
        tensors = [name for name in archive.namelist() if name.endswith(".safetensors")]
        return {name: archive.read(name) for name in tensors}
