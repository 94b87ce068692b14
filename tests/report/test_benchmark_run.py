"""Jobs of a benchmark: their order, and that a process which dies takes nobody along.

Where processes are played here, a script takes the place of the worker; what it does is in the seed.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from rlzoo.benchmark import run_list as benchmark_run
from rlzoo.benchmark import run_worker as benchmark_worker
from rlzoo.benchmark.finished import (
    is_finished,
    learned_from,
    mark_begun,
    mark_finished,
    row_name,
    training_seconds,
)
from rlzoo.benchmark.run_list import (
    DEFAULTS,
    WITHOUT_EVALUATIONS,
    Ended,
    Options,
    Recording,
    Training,
    jobs_of,
    recording_of,
    run_jobs,
    training_command,
)
from rlzoo.benchmark.scores import digest
from rlzoo.config.benchmark import Expert, Row
from rlzoo.config.values_as_text import read_yaml
from rlzoo.core.errors import RunFailed, UserError
from rlzoo.experiment.training_run import TrainResult
from rlzoo.processes import job_lock
from rlzoo.processes.job_lock import claim
from rlzoo.training.checkpoint import read_checkpoint

EXPERT = Expert(algo="ppo", seed=100, episodes=5)
CARTPOLE = Row(algo="ppo", env="CartPole-v1", seeds=(0, 1))
CLONE = Row(algo="bc", env="CartPole-v1", seeds=(0,), expert=EXPERT)

CRASHES, FAILS, SLEEPS = 7, 8, 9
STAND_IN = f"""
import json, os, signal, stat, sys, time
from pathlib import Path
task = json.loads(sys.argv[1])
if "record" in task:
    Path(task["output"]).parent.mkdir(exist_ok=True)
    Path(task["output"]).write_text("episodes")
    Path(task["output"]).with_suffix(".sha256").write_text(task["agent"])
    sys.exit(0)
run = task["train"]
folder = Path(run["log_folder"]) / run["algo"] / (run["env_id"] + "_1")
folder.mkdir(parents=True)
told = {{
    "stdin": "pipe" if stat.S_ISFIFO(os.fstat(0).st_mode) else "",
    "session": os.getsid(0),
    "threads": os.environ.get("OMP_NUM_THREADS"),
}}
(folder / "told.json").write_text(json.dumps(told))
if run["seed"] == {CRASHES}:
    os.kill(os.getpid(), signal.SIGKILL)
if run["seed"] == {SLEEPS}:
    time.sleep(60)
if run["seed"] == {FAILS}:
    print("rlzoo: error: it is too hot")
    sys.exit(1)
(folder / (run["env_id"] + ".zip")).write_text("agent")
(folder / "finished.json").write_text('{{"seconds": 1.0}}')
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worker that makes folders and trains nothing; returns the folder of the benchmark."""
    script = tmp_path / "worker.py"
    script.write_text(STAND_IN)
    monkeypatch.setattr(benchmark_run, "WORKER", (sys.executable, "-I", str(script)))
    monkeypatch.setattr(benchmark_run, "POLL", 0.01)
    return tmp_path / "benchmark"


def done(folder: Path, *rows: Row, n_jobs: int = 2) -> list[Ended]:
    return list(run_jobs(jobs_of(rows), folder, n_jobs))


def with_seeds(*seeds: int) -> Row:
    return Row(algo="ppo", env="CartPole-v1", seeds=seeds)


def test_experts_come_first_and_each_only_once() -> None:
    other = Row(algo="gail", env="CartPole-v1", seeds=(0, 1), expert=EXPERT)
    expert = Training(Row(algo="ppo", env="CartPole-v1"), 100)
    jobs = jobs_of([CARTPOLE, CLONE, other])
    assert jobs[:2] == [expert, Recording(expert, 5)] and len(jobs) == 7
    trainings = [(job.row.algo, job.seed) for job in jobs if isinstance(job, Training)]
    assert trainings == [("ppo", 100), ("ppo", 0), ("bc", 0), ("gail", 0), ("ppo", 1), ("gail", 1)]


def test_expert_that_is_a_row_is_trained_once() -> None:
    row = Row(algo="ppo", env="CartPole-v1", seeds=(100,), n_timesteps=50, required=400)
    jobs = jobs_of([CLONE, row])
    assert [str(job) for job in jobs] == [
        "ppo CartPole-v1 seed 100",
        "5 episodes of ppo CartPole-v1 seed 100",
        "bc CartPole-v1 seed 0",
    ]
    assert jobs[0].row == row


def test_expert_uses_its_rows_settings_when_unselected() -> None:
    row = Row(algo="ppo", env="CartPole-v1", seeds=(100,), n_timesteps=50)
    (expert, *_), (asked, *_) = jobs_of([CLONE], [row, CLONE]), jobs_of([CLONE])
    assert expert.row == row and asked.row.n_timesteps is None


def test_the_episodes_of_two_experts_are_two_files() -> None:
    other = Row(algo="gail", env="CartPole-v1", seeds=(0,), expert=Expert(algo="ppo", seed=101, episodes=5))
    files = [job.file(Path()) for job in jobs_of([CLONE, other]) if isinstance(job, Recording)]
    assert len(set(files)) == 2


def test_what_is_finished_is_not_done_again(stand_in: Path) -> None:
    assert {str(ended.job) for ended in done(stand_in, CARTPOLE)} == {
        "ppo CartPole-v1 seed 0",
        "ppo CartPole-v1 seed 1",
    }
    assert done(stand_in, CARTPOLE) == []
    (ended,) = done(stand_in, with_seeds(0, 1, 2))
    assert ended.job.seed == 2 and not ended.problem


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_crash_loses_one_run(stand_in: Path, n_jobs: int) -> None:
    ended = done(stand_in, with_seeds(CRASHES, FAILS, 0, 1), n_jobs=n_jobs)
    problems = {end.job.seed: end.problem for end in ended}
    assert problems[0] == problems[1] == ""
    assert problems[CRASHES].startswith("killed by signal 9 (")
    assert problems[FAILS].startswith("it is too hot (")
    logs = sorted(path.name for path in (stand_in / "workers").iterdir())
    assert logs == ["ppo_CartPole-v1_seed_7.log", "ppo_CartPole-v1_seed_8.log"]


def test_two_go_on_at_a_time_and_no_more(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going_on: list[int] = []
    start, end = benchmark_run.JobProcess.__init__, benchmark_run.JobProcess.ended

    def counted(self, *arguments) -> None:
        start(self, *arguments)
        going_on.append(sum(going_on[-1:]) + 1)

    def counted_down(self) -> Ended:
        going_on.append(going_on[-1] - 1)
        return end(self)

    monkeypatch.setattr(benchmark_run.JobProcess, "__init__", counted)
    monkeypatch.setattr(benchmark_run.JobProcess, "ended", counted_down)
    done(stand_in, with_seeds(0, 1, 2, 3, 4))
    assert len(going_on) == 10 and max(going_on) == 2 and going_on[-1] == 0


def test_demonstrations_are_recorded_before_imitation(stand_in: Path) -> None:
    ended = done(stand_in, CLONE)
    assert [str(end.job) for end in ended] == [
        "ppo CartPole-v1 seed 100",
        "5 episodes of ppo CartPole-v1 seed 100",
        "bc CartPole-v1 seed 0",
    ]


def test_what_needs_a_failed_job_fails_too_and_is_not_tried(stand_in: Path) -> None:
    row = Row(algo="bc", env="CartPole-v1", seeds=(0,), expert=Expert(algo="ppo", seed=FAILS, episodes=5))
    ended = done(stand_in, row, with_seeds(1))
    problems = {str(end.job): end.problem for end in ended}
    assert problems["bc CartPole-v1 seed 0"] == "it needs 5 episodes of ppo CartPole-v1 seed 8, which failed"
    assert problems["ppo CartPole-v1 seed 1"] == ""
    assert not (stand_in / "seed0" / "bc").exists()


def test_what_needs_something_that_has_gone_does_not_wait_for_it(stand_in: Path) -> None:
    done(stand_in, CLONE)
    (learns,) = [job for job in jobs_of([CLONE]) if str(job) == "bc CartPole-v1 seed 0"]
    shutil.rmtree(stand_in / "seed0")
    recording_of(CLONE).file(stand_in).unlink()
    (ended,) = run_jobs([learns], stand_in, 1)
    assert ended.problem == "it needs 5 episodes of ppo CartPole-v1 seed 100, which has gone"


def test_variants_have_folders_of_their_own(tmp_path: Path) -> None:
    big = Row(algo="ppo", env="CartPole-v1", name="big", seeds=(0, 1))
    assert [str(job) for job in jobs_of([CARTPOLE, big])] == [
        "ppo CartPole-v1 seed 0",
        "big CartPole-v1 seed 0",
        "ppo CartPole-v1 seed 1",
        "big CartPole-v1 seed 1",
    ]
    assert Training(big, 1).log_folder(tmp_path) == tmp_path / "seed1" / "big"
    assert Training(CARTPOLE, 1).log_folder(tmp_path) == tmp_path / "seed1"
    assert Training(CARTPOLE, 1) != Training(big, 1)


# -- several processes in one folder


def test_two_processes_share_the_jobs_of_a_list(stand_in: Path) -> None:
    rows = [with_seeds(0, 1, 2, 3), CLONE]
    two = [run_jobs(jobs_of(rows), stand_in, 1) for _ in range(2)]
    ended: list[list[Ended]] = [[], []]
    while any(two):
        for number, running in enumerate(two):
            if running is not None:
                try:
                    ended[number].append(next(running))
                except StopIteration:
                    two[number] = None
    assert not any(end.problem for mine in ended for end in mine)
    first, second = ({end.job for end in mine if not end.elsewhere} for mine in ended)
    assert first and second and first.isdisjoint(second) and len(first | second) == 7
    assert os.listdir(stand_in / "workers") == []
    assert len(list(stand_in.rglob("CartPole-v1.zip"))) == 6


def test_a_job_that_failed_in_another_process_is_tried_again(stand_in: Path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_run, "CLAIM", 0.0)
    (job,) = jobs_of([with_seeds(0)])
    lock = claim(benchmark_run.worker_file(stand_in, job, "lock"))
    queue = benchmark_run._Queue([job], stand_in, benchmark_run.Processes(1), DEFAULTS)
    assert list(queue.begin()) == [] and queue.waiting == [job] and not queue.running
    lock.release()
    (ended,) = run_jobs([job], stand_in, 1)
    assert not ended.problem and not ended.elsewhere


def test_a_claim_is_one_processs_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "workers" / "job.lock"
    lock = claim(path)
    assert lock is not None and claim(path) is None
    lock.release()
    assert not path.exists()
    again = claim(path)
    assert again is not None
    again.release()


def test_a_claim_is_not_on_a_file_that_was_removed(tmp_path: Path, monkeypatch) -> None:
    path, lock_file, removed = tmp_path / "job.lock", job_lock._lock, []

    def remove_once(file):  # as another process does that ends its claim, between opening and locking
        if not removed:
            removed.append(path.unlink())
        return lock_file(file)

    monkeypatch.setattr(job_lock, "_lock", remove_once)
    lock = claim(path)
    assert lock is not None and removed and claim(path) is None
    lock.release()


def test_a_worker_holds_its_claim_when_its_parent_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "job.lock"
    lock = claim(path)
    worker = subprocess.Popen(["sleep", "60"], pass_fds=lock.inherited)
    lock.file.close()  # as the death of this process does
    try:
        assert claim(path) is None
    finally:
        worker.kill()
        worker.wait()
    after = claim(path)
    assert after is not None
    after.release()


def test_where_files_cannot_be_locked_a_line_says_so_once(tmp_path: Path, monkeypatch, capsys) -> None:
    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(job_lock.fcntl, "flock", no_locks)
    for name in ("a", "b"):
        assert claim(tmp_path / name) is not None
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "cannot be locked (No locks available)" in err


def test_a_mark_that_cannot_be_read_is_none(stand_in: Path) -> None:
    done(stand_in, CLONE)
    recording = recording_of(CLONE)
    assert recording.is_done(stand_in)
    recording.file(stand_in).with_suffix(".sha256").write_bytes(b"\xff")
    assert not recording.is_done(stand_in)


def test_a_mistake_in_a_row_is_told_before_anything_is_trained(stand_in: Path) -> None:
    ended = done(stand_in, with_seeds(0), Row(algo="ppo", env="CartPol-v1", seeds=(0,)))
    assert "did you mean 'CartPole-v1'" in ended[0].problem
    assert [end.problem for end in ended[1:]] == [""]


def test_processes_end_when_the_caller_goes_no_further(stand_in: Path, monkeypatch) -> None:
    workers: list[benchmark_run.JobProcess] = []
    stop = benchmark_run.Processes.stop
    monkeypatch.setattr(
        benchmark_run.Processes, "stop", lambda self, running: (workers.extend(running), stop(self, running))
    )
    running = run_jobs(jobs_of([with_seeds(0, SLEEPS)]), stand_in, 2)
    assert next(running).job.seed == 0
    running.close()  # as the exception of Ctrl-C does
    assert [worker.process.returncode for worker in workers] == [-signal.SIGTERM]


EVALUATION = ("eval_freq", "eval_episodes", "n_eval_envs")


@pytest.mark.parametrize(
    "options", [DEFAULTS, Options(n_evaluations=7, eval_episodes=3), WITHOUT_EVALUATIONS]
)
def test_the_command_says_what_the_run_does(tmp_path: Path, options: Options) -> None:
    overrides = {"policy_kwargs": {"net_arch": [8]}, "optimizer_kwargs": "dict(eps=1e-5)", "batch_size": 32}
    row = Row(
        algo="bc",
        env="CartPole-v1",
        n_timesteps=500,
        conf_file="my.yml",
        expert=EXPERT,
        hyperparams=overrides,
    )
    command = training_command(row, 3, tmp_path, options)
    from rlzoo.cli import main
    from rlzoo.cli.train import run_config

    parsed = run_config(main.build("train", main.load_command("train")).parse_args(command[1:]), row.env)
    run = Training(row, 3).run_config(tmp_path, options)
    for name in ("algo", "env_id", "seed", "n_timesteps", "conf_file", "expert", "hyperparams", *EVALUATION):
        assert getattr(parsed, name) == getattr(run, name), name


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"n_timesteps": 65}, r"CartPole-v1_1 was trained with other n_timesteps than is asked for now"),
        ({"conf_file": "other.yml"}, "was trained with other batch_size"),
    ],
)
def test_what_is_finished_has_to_be_what_the_list_says(
    tmp_path: Path, monkeypatch, changed: dict, message: str
) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert benchmark_worker.main([task(tmp_path)]) == 0
    Path("other.yml").write_text(CONFIG.replace("batch_size: 16", "batch_size: 8"))
    Path("same.yml").write_text(CONFIG + "\nAcrobot-v1: {policy: MlpPolicy}")
    row = Row(algo="ppo", env="CartPole-v1", n_timesteps=64, conf_file=str(tmp_path / "ppo.yml"))
    Training(row, 0).check(tmp_path)
    Training(replace(row, conf_file="same.yml"), 0).check(tmp_path)  # where it stands does not matter
    Training(replace(row, **changed), 1).check(tmp_path)  # another seed, which is not there
    with pytest.raises(UserError, match=message):
        Training(replace(row, **changed), 0).check(tmp_path)


def test_what_is_finished_has_to_have_its_agent(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    assert benchmark_worker.main([task(tmp_path)]) == 0
    training = Training(Row(algo="ppo", env="CartPole-v1"), 0)
    assert training.is_done(tmp_path)
    next(tmp_path.rglob("CartPole-v1.zip")).unlink()
    assert not training.is_done(tmp_path)


def test_another_expert_is_recorded_anew(stand_in: Path) -> None:
    """What the worker writes is checked in `test_the_real_thing`."""
    done(stand_in, CLONE)
    expert = stand_in / "seed100" / "ppo" / "CartPole-v1_1"
    recording = Recording(Training(Row(algo="ppo", env="CartPole-v1"), 100), 5)
    assert recording.is_done(stand_in)
    (expert / "CartPole-v1.zip").write_text("another agent")
    assert not recording.is_done(stand_in)
    shutil.rmtree(expert)
    assert not recording.is_done(stand_in)


# -- the worker itself


CONFIG = "CartPole-v1: {n_envs: 2, n_steps: 8, batch_size: 16, policy: MlpPolicy}"


def task(folder: Path, seed: int = 0) -> str:
    row = Row(algo="ppo", env="CartPole-v1", n_timesteps=64, conf_file=str(folder / "ppo.yml"))
    (folder / "ppo.yml").write_text(CONFIG)
    return json.dumps(Training(row, seed).task(folder, DEFAULTS))


def test_a_worker_trains_and_marks_what_it_finished(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    unfinished = tmp_path / "seed0" / "ppo" / "CartPole-v1_1"
    unfinished.mkdir(parents=True)
    (unfinished / "half.txt").write_text("of an earlier benchmark, which was killed")
    mark_begun(unfinished)
    assert benchmark_worker.main([task(tmp_path)]) == 0
    assert is_finished(unfinished) and not (unfinished / "half.txt").exists()
    assert (unfinished / "CartPole-v1.zip").is_file()
    assert training_seconds(unfinished) > 0
    assert (
        "--seed 0 --eval-freq 3 --eval-episodes 5 --n-eval-envs 5 -n 64"
        in (unfinished / "command.txt").read_text()
    )


@pytest.mark.parametrize(
    ("algo", "env", "config"),
    [
        (
            "ppo",
            "CartPole-v1",
            "{n_envs: 2, n_steps: 16, policy: MlpPolicy, normalize: true}",
        ),
        ("sac", "Pendulum-v1", "{policy: MlpPolicy, learning_starts: 20, buffer_size: 200}"),
    ],
)
def test_evaluations_leave_a_curve_and_change_nothing(tmp_path: Path, monkeypatch, algo, env, config) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    (tmp_path / "c.yml").write_text(f"{env}: {config}")
    row = Row(algo=algo, env=env, n_timesteps=96, conf_file=str(tmp_path / "c.yml"))
    runs = []
    for options in (Options(n_evaluations=3, eval_episodes=2), WITHOUT_EVALUATIONS):
        folder, training = tmp_path / str(options.n_evaluations), Training(row, 0)
        assert benchmark_worker.main([json.dumps(training.task(folder, options))]) == 0
        training.check(folder)  # it is what the row asks for, whether with evaluations or without
        runs.append(training.run_folder(folder))
    curve = np.load(runs[0] / "evaluations.npz")
    assert curve["timesteps"].tolist() == [32, 64, 96] and curve["results"].shape == (3, 2)
    assert not (runs[1] / "evaluations.npz").exists()
    with_them, without = ({**read_checkpoint(run / f"{env}.zip").weights} for run in runs)
    assert with_them.keys() == without.keys() and with_them
    assert all(torch.equal(with_them[name], without[name]) for name in without)
    finished = [json.loads((run / "finished.json").read_text()) for run in runs]
    assert finished[0]["evaluation_seconds"] > 0 and "evaluation_seconds" not in finished[1]


def test_a_worker_trains_a_variant_and_names_its_row(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    (tmp_path / "ppo.yml").write_text(CONFIG)
    overrides = {"policy_kwargs": "dict(net_arch=[4], activation_fn=nn.ReLU)", "gamma": 0.9}
    row = Row(
        algo="ppo", env="CartPole-v1", name="small", n_timesteps=32, conf_file=str(tmp_path / "ppo.yml"),
        hyperparams=overrides,
    )  # fmt: skip
    training = Training(row, 0)
    assert benchmark_worker.main([json.dumps(training.task(tmp_path, WITHOUT_EVALUATIONS))]) == 0
    run = tmp_path / "seed0" / "small" / "ppo" / "CartPole-v1_1"
    assert training.is_done(tmp_path) and training.run_folder(tmp_path) == run
    assert json.loads((run / "row.json").read_text()) == {"name": "small"} and row_name(run) == "small"
    values = read_yaml(run / "CartPole-v1" / "config.yml")
    assert values["gamma"] == 0.9 and values["policy_kwargs"] == {"net_arch": [4], "activation_fn": "nn.ReLU"}
    training.check(tmp_path)
    with pytest.raises(UserError, match="was trained with other gamma than is asked for now"):
        Training(replace(row, hyperparams={**overrides, "gamma": 0.5}), 0).check(tmp_path)
    assert not Training(replace(row, name=None), 0).is_done(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", '{"name": "../x"}', '{"name": 3}'])
def test_a_damaged_row_file_is_one_line(tmp_path: Path, content: str) -> None:
    assert row_name(tmp_path) is None
    (tmp_path / "row.json").write_text('{"other": 1}')
    assert row_name(tmp_path) is None
    (tmp_path / "row.json").write_text(content)
    with pytest.raises(UserError, match=r"row\.json is damaged") as caught:
        row_name(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_worker_leaves_alone_what_is_finished(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    earlier = tmp_path / "seed0" / "ppo" / "CartPole-v1_1"
    earlier.mkdir(parents=True)
    mark_finished(earlier, 1.0)
    assert benchmark_worker.main([task(tmp_path)]) == 0
    assert training_seconds(earlier) == 1.0
    assert is_finished(earlier.with_name("CartPole-v1_2"))


def test_a_run_that_a_person_began_is_left_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    own = tmp_path / "seed0" / "ppo" / "CartPole-v1_1"
    own.mkdir(parents=True)
    (own / "CartPole-v1.zip").write_text("trained for days")
    assert benchmark_worker.main([task(tmp_path)]) == 0
    assert (own / "CartPole-v1.zip").read_text() == "trained for days" and not is_finished(own)
    assert is_finished(own.with_name("CartPole-v1_2"))


def test_a_worker_says_on_one_line_what_is_wrong(tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    text = task(tmp_path).replace("CartPole-v1", "CartPol-v1")
    assert benchmark_worker.main([text]) == 1
    assert capfd.readouterr().err.startswith("rlzoo: error: ")
    assert not (tmp_path / "seed0").exists()


@pytest.mark.parametrize("ending", ["interrupted", "failed", "defect", "not numbers"])
def test_a_training_that_does_not_end_well_leaves_no_agent(
    tmp_path: Path, monkeypatch, capfd, ending: str
) -> None:
    """`train` has saved what there was by then, which a score would take for a trained agent."""

    def cut_short(session, stop):
        session.resources.close()
        if ending != "not numbers":
            (session.folder / "CartPole-v1.zip").touch()
        if ending == "failed":
            raise RunFailed("it diverged; the agent is saved in some file") from RunFailed("it diverged")
        if ending == "defect":
            raise ZeroDivisionError
        return TrainResult(session.folder, session.model_path, 0, ending == "interrupted", session.model)

    monkeypatch.setattr(benchmark_worker, "end_with_parent", lambda: None)
    monkeypatch.setattr(benchmark_worker, "learn", cut_short)
    with pytest.raises(ZeroDivisionError) if ending == "defect" else nullcontext():
        assert benchmark_worker.main([task(tmp_path)]) == 1
    assert list((tmp_path / "seed0" / "ppo").iterdir()) == []
    if ending == "failed":
        assert capfd.readouterr().err == "rlzoo: error: it diverged\n"


@pytest.mark.slow
def test_a_worker_ends_with_its_parent_and_leaves_no_agent(tmp_path: Path) -> None:
    text = task(tmp_path).replace('"n_timesteps": 64', '"n_timesteps": 100000000')
    worker = subprocess.Popen([*benchmark_run.WORKER, text], stdin=subprocess.PIPE)
    run = tmp_path / "seed0" / "ppo" / "CartPole-v1_1"
    deadline = time.monotonic() + 60
    while not (run / "0.monitor.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert worker.stdin is not None
    worker.stdin.close()  # as the death of this process would
    assert worker.wait(60) == 1
    assert not run.exists()


def test_how_a_worker_is_started(stand_in: Path) -> None:
    list(run_jobs(jobs_of([with_seeds(0)]), stand_in, 1, Options(num_threads=3)))
    told = json.loads((stand_in / "seed0" / "ppo" / "CartPole-v1_1" / "told.json").read_text())
    assert told["stdin"] == "pipe"  # its end tells of the end of this process
    assert told["session"] not in (os.getsid(0), None)  # Ctrl-C is for this process to decide on
    assert told["threads"] == "3"
    assert os.listdir(stand_in / "workers") == []


def test_a_worker_that_cannot_be_started_ends_no_other(stand_in: Path) -> None:
    stand_in.mkdir()
    (stand_in / "workers").write_text("a file")
    (ended,) = done(stand_in, with_seeds(0))
    assert "its process cannot be started: " in ended.problem and "workers" in ended.problem


def test_the_real_thing(tmp_path: Path, monkeypatch) -> None:
    """Processes of their own train an expert, record it and clone it."""
    monkeypatch.chdir(tmp_path)
    expert = Row(algo="ppo", env="CartPole-v1", seeds=(100,), n_timesteps=64, conf_file="c.yml")
    Path("c.yml").write_text(CONFIG)
    Path("b.yml").write_text("CartPole-v1: {n_timesteps: 1000, policy: MlpPolicy}")
    rows = [expert, replace(CLONE, conf_file="b.yml")]
    ended = list(run_jobs(jobs_of(rows), Path("runs"), 2))
    assert [end.problem for end in ended] == ["", "", ""]
    for job in jobs_of(rows):
        assert job.is_done(Path("runs"))
        job.check(Path("runs"))
    clone = Training(rows[1], 0)
    recording = recording_of(CLONE).file(Path("runs"))
    assert learned_from(clone.run_folder(Path("runs"))) == digest(recording)
    recording.write_bytes(b"other episodes")
    with pytest.raises(UserError, match="was trained with other episodes of its expert"):
        clone.check(Path("runs"))
