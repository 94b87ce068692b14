"""`rlzoo jobs`: the scripts are valid, quoted, and pass signals on; a mistake is one line."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlzoo.cli.jobs.study_file import search_arguments
from rlzoo.cli.main import build, load_command, main
from rlzoo.core.errors import UserError
from rlzoo.jobs.job_options import JobOptions, clock, parse_time
from rlzoo.jobs.slurm import slurm_script
from rlzoo.jobs.write_jobs import write_jobs

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None, reason="needs bash")

LIST = """\
seeds: [0, 7]
rows:
- {algo: ppo, env: CartPole-v1, n_timesteps: 64}
- {name: small, algo: a2c, env: CartPole-v1}
"""
STUDY = "workers: 3\noptimize: {algo: ppo, env: CartPole-v1, n_timesteps: 500, n_trials: 9, seed: 0}"
SCRIPTS = {"slurm": "job.slurm", "pbs": "job.pbs", "shell": "run.sh"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a space and a quote in its name, a list and a study."""
    folder = tmp_path / "my pro'ject"
    folder.mkdir()
    (folder / "my list.yml").write_text(LIST)
    (folder / "study.yml").write_text(STUDY)
    monkeypatch.chdir(folder)
    return folder


def written(folder: Path, scheduler: str, **options: object) -> Path:
    """Write scripts of two tasks; return the folder."""
    given = {"name": "demo", "working_folder": folder, "command": "rlzoo jobs"} | options
    write_jobs(folder / "jobs", scheduler, [["--version"]] * 2, JobOptions(**given))  # type: ignore[arg-type]
    return folder / "jobs"


def fake_task(jobs: Path, text: str) -> None:
    """Replace what the tasks do by a few lines of shell."""
    (jobs / "tasks.sh").write_text(f"#!/bin/bash\n{text}\n")


def fake_command(folder: Path, name: str, code: int = 0) -> dict[str, str]:
    """Return an environment in which a command records its arguments in `<name>.calls`."""
    (folder / "bin").mkdir()
    path = folder / "bin" / name
    path.write_text(f'#!/bin/sh\necho "$@" >>"{folder}/{name}.calls"\nexit {code}\n')
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} does not appear"
        time.sleep(0.02)


@pytest.mark.parametrize("source", ["my list.yml", "study.yml"])
@pytest.mark.parametrize("scheduler", SCRIPTS)
def test_scripts_are_valid_bash(project: Path, capsys, scheduler: str, source: str) -> None:
    assert main(["jobs", source, "--scheduler", scheduler, "-o", "jo bs"]) == 0
    for name in ("tasks.sh", SCRIPTS[scheduler]):
        subprocess.run(["bash", "-n", project / "jo bs" / name], check=True)
    out = capsys.readouterr().out
    assert ("4 tasks are in" if source == "my list.yml" else "3 tasks are in") in out and "Next: " in out
    assert (project / "jo bs" / "output").is_dir()


def test_a_task_is_one_row_and_seed(project: Path) -> None:
    assert main(["jobs", "my list.yml", "--scheduler", "shell", "-o", "jobs", "-f", "my runs"]) == 0
    text = (project / "jobs" / "tasks.sh").read_text()
    quoted = """'"'"'""".join(str(project / "my list.yml").split("'"))
    assert f"  0) rlzoo benchmark run '{quoted}' --rows ppo:CartPole-v1 --seeds 0 -f 'my runs' " in text
    assert "  3) rlzoo benchmark run " in text and "--rows small:CartPole-v1 --seeds 7" in text
    assert text.count("--n-jobs 1 --resume") == 4


def test_a_study_is_equal_workers(project: Path) -> None:
    assert main(["jobs", "study.yml", "--scheduler", "slurm", "-o", "jobs"]) == 0
    text = (project / "jobs" / "tasks.sh").read_text()
    command = "rlzoo optimize --algo ppo --env CartPole-v1 --n-timesteps 500 --n-trials 9 --seed 0 ;;"
    assert all(f"  {task}) {command}\n" in text for task in range(3))


def test_resources_become_directives(tmp_path: Path) -> None:
    options = JobOptions(
        name="demo", working_folder=tmp_path, command="", time=216000, grace=90, cpus=4, gpus=1, memory="8G",
        partition="gpu", account="my group", parallel=5, directives=("--qos=long",),
    )  # fmt: skip
    text = slurm_script(Path("/my 100% jobs"), 7, options)
    for line in (
        "--array=0-6%5", "--time=60:00:00", "--signal=B:USR1@90", "--requeue", "--cpus-per-task=4",
        "--gpus-per-task=1", "--mem=8G", "--partition=gpu", '--account="my group"', "--qos=long",
        '--output="/my 100%% jobs/output/task_%a.out"',
    ):  # fmt: skip
        assert f"#SBATCH {line}\n" in text
    pbs = (written(tmp_path, "pbs", time=7200, cpus=2, gpus=1, memory="8G") / "job.pbs").read_text()
    assert "#PBS -l select=1:ncpus=2:ngpus=1:mem=8gb\n#PBS -l walltime=02:00:00\n" in pbs
    assert "limit=7080 " in pbs and f"qsub -J 0-1 {tmp_path}" in pbs


@pytest.mark.parametrize(
    ("sent", "requeued"), [(signal.SIGUSR1, ["requeue 7_1\n"]), (signal.SIGTERM, []), (None, [])]
)
def test_slurm_task_saves_and_is_requeued(tmp_path: Path, sent: int | None, requeued: list[str]) -> None:
    jobs = written(tmp_path, "slurm")
    wait = "sleep 30 & wait $!" if sent else ""
    fake_task(jobs, f'trap \'echo saved >"{tmp_path}/saved"; exit 5\' TERM; touch "{tmp_path}/began"; {wait}')
    environment = {**fake_command(tmp_path, "scontrol", 1), "SLURM_ARRAY_TASK_ID": "1"}
    environment["SLURM_ARRAY_JOB_ID"] = "7"
    job = subprocess.Popen(["bash", jobs / "job.slurm"], env=environment, stdout=subprocess.PIPE)
    wait_for(tmp_path / "began")
    if sent:
        job.send_signal(sent)
    assert job.wait(20) == (5 if sent else 0)
    assert (tmp_path / "saved").exists() == bool(sent)
    calls = tmp_path / "scontrol.calls"
    assert (calls.read_text().splitlines(True) if calls.exists() else []) == requeued
    assert job.stdout is not None
    job.stdout.close()


def test_requeues_have_a_limit(tmp_path: Path) -> None:
    jobs = written(tmp_path, "slurm")
    fake_task(jobs, "kill -USR1 $PPID; sleep 30 & wait $!")
    environment = {
        **fake_command(tmp_path, "scontrol"),
        "SLURM_ARRAY_TASK_ID": "0",
        "SLURM_ARRAY_JOB_ID": "7",
    }
    environment["SLURM_RESTART_COUNT"] = "100"
    subprocess.run(["bash", jobs / "job.slurm"], env=environment, timeout=20, check=False)
    assert not (tmp_path / "scontrol.calls").exists()


def test_pbs_task_is_continued_by_a_new_job(tmp_path: Path) -> None:
    jobs = written(tmp_path, "pbs", time=122)
    fake_task(jobs, "trap 'echo saved; exit 130' TERM; sleep 30 & wait $!")
    environment = {**fake_command(tmp_path, "qsub"), "PBS_ARRAY_INDEX": "1"}
    subprocess.run(["bash", jobs / "job.pbs"], env=environment, timeout=20, check=True)
    assert (tmp_path / "qsub.calls").read_text() == f"-v TASK=1,RESTARTS=1 {jobs}/job.pbs\n"
    output = (jobs / "output" / "task_1.out").read_text()
    assert output == "saved\ntask 1: time limit; a new job continues it\n"


def test_shell_runs_all_and_names_failures(tmp_path: Path) -> None:
    jobs = written(tmp_path, "shell", parallel=2)
    fake_task(jobs, "echo task $1; exit $1")
    done = subprocess.run(["bash", jobs / "run.sh"], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert sorted(done.stdout.splitlines()) == [
        "task 0: done",
        f"task 1: exit code 1, see {jobs}/output/task_1.out",
    ]
    assert (jobs / "output" / "task_1.out").read_text() == "task 1\n"


def test_stopped_shell_lets_its_tasks_save(tmp_path: Path) -> None:
    jobs = written(tmp_path, "shell")
    fake_task(
        jobs, f"trap 'sleep 0.3; touch \"{tmp_path}/saved\"; exit 130' TERM; touch began; sleep 30 & wait"
    )
    runner = subprocess.Popen(["bash", jobs / "run.sh"], cwd=tmp_path, stdout=subprocess.DEVNULL)
    wait_for(tmp_path / "began")
    runner.terminate()
    assert runner.wait(20) == 130
    assert (tmp_path / "saved").exists() and not (jobs / "output" / "task_1.out").exists()


def test_tasks_run_this_rlzoo(tmp_path: Path) -> None:
    jobs = written(tmp_path, "shell", setup=("export RLZOO_DEMO=1",))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(["bash", jobs / "run.sh", "2"], env=environment, check=True, timeout=60)
    assert (jobs / "output" / "task_1.out").read_text().startswith("rlzoo ")


@pytest.mark.slow
def test_shell_trains_a_list(project: Path) -> None:
    assert main(["jobs", "my list.yml", "--scheduler", "shell", "-o", "jobs", "-f", "my runs",
                 "--rows", "ppo:CartPole-v1", "--seeds", "3", "--n-evaluations", "0"]) == 0  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run(["bash", "jobs/run.sh"], env=environment, check=True, timeout=120)
    assert (project / "my runs" / "seed3" / "ppo" / "CartPole-v1_1" / "finished.json").is_file()
    assert "[1/1] ppo CartPole-v1 seed 3: done" in (project / "jobs" / "output" / "task_0.out").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheduler", "slurn"], "unknown scheduler 'slurn'; did you mean 'slurm'?"),
        (["--time", "4h"], "expected a time such as 04:00:00 or 2-12:00:00 (days-hours), not '4h'"),
        (["--time", "00:01:00"], "--grace of 120 seconds leaves nothing of --time 00:01:00"),
        (["--time", "00:00:00"], "leaves no time to train"),
        (["--memory", "4X"], "expected an amount of memory such as 500M or 4G, not '4X'"),
        (["--account", "a\nb"], "expected one line of printable text"),
        (["--directive", "qos=long"], "expected an option such as --directive=--qos=long, not 'qos=long'"),
        (["--rows", "ppo:CartPol-v1"], "unknown row 'ppo:CartPol-v1'; did you mean 'ppo:CartPole-v1'?"),
        (["-o", "old"], "old exists; remove it, or give another folder with -o"),
    ],
)
def test_mistakes_are_one_line(project: Path, capsys, arguments: list[str], message: str) -> None:
    (project / "old").mkdir()
    assert main(["jobs", "my list.yml", "--scheduler", "slurm", "-o", "jobs", *arguments]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert not (project / "jobs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows: []", "`rows` is empty"),
        ("seeds: [1]", "is neither a benchmark list (`rows`) nor a study (`optimize`)"),
        ("rows: [{algo: ppo, env: CartPol-v1}]", "did you mean 'CartPole-v1'"),
        ("optimize: {n_trails: 3}", "unknown flag of optimize in x.yml 'n_trails'; did you mean 'n_trials'?"),
        ("optimize: {algo: pppo}", "unknown algorithm 'pppo'; did you mean 'ppo'?"),
        ("optimize: {serve: '0.0.0.0:1'}", "unknown flag of optimize in x.yml 'serve'"),
        ("optimize: {no_optim_plots: 3}", "no_optim_plots must be true or false, not 3"),
        ("optimize: {storage: 'postgresql://a:b@h/d'}", "can read the password in `storage`"),
        ("optimize: {algo: ppo}\nworkers: 0", "workers must be an integer, at least 1, not 0"),
        ("optimize: {algo: ppo, scheduler: pbt}\nworkers: 2", "one command trains a population"),
        ("optimize: 3", "`optimize` holds the flags of a search"),
        ("optimize: {algo: ppo}\nworker: 2", "unknown key in x.yml 'worker'; did you mean 'workers'?"),
    ],
)
def test_wrong_lists_are_one_line(project: Path, capsys, text: str, message: str) -> None:
    (project / "x.yml").write_text(text)
    assert main(["jobs", "x.yml", "--scheduler", "pbs", "-o", "jobs"]) == 2
    err = capsys.readouterr().err
    assert message in err and err.count("\n") == 1
    assert not (project / "jobs").exists()


def test_search_arguments_parse_back() -> None:
    parser = build("optimize", load_command("optimize"))
    values = {
        "hyperparams": {"gamma": 0.9, "policy_kwargs": {"net_arch": [8]}},
        "fixed": ["n_steps", "vf_coef"],
    }
    arguments = search_arguments(parser, {**values, "n-trials": 5, "no_optim_plots": True}, "x.yml")
    args = parser.parse_args(arguments)
    assert (args.n_trials, args.fixed, args.no_optim_plots) == (5, ["n_steps", "vf_coef"], True)
    assert args.hyperparams == ["gamma:0.9", 'policy_kwargs:{"net_arch": [8]}']


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:10:00", 600), ("100:00:00", 360000), ("1-00:00:01", 86401)]
)
def test_times_are_read_and_written(text: str, seconds: int) -> None:
    assert parse_time(text) == parse_time(clock(seconds)) == seconds
    with pytest.raises(UserError):
        parse_time(f"{text}0")


def test_shell_ignores_what_only_schedulers_have(project: Path, capsys) -> None:
    asks = ["--memory", "4G", "--time", "00:01:00"]
    assert main(["jobs", "study.yml", "--scheduler", "shell", "-o", "jobs", *asks, "--seeds", "3"]) == 0
    err = capsys.readouterr().err
    assert "--time, --memory have no effect with --scheduler shell" in err
    assert "--seeds has no effect with a study" in err
