"""An array job in a real Slurm on this machine, whose time limit ends one of its trainings.

It needs slurmctld, slurmd, munged and the commands of Slurm (Debian: slurmctld slurmd slurm-client munge),
and root, since slurmd starts jobs as their users.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlzoo.cli.main import main

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not all(map(shutil.which, PROGRAMS)), reason="needs Slurm and munge"),
    pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="slurmd needs root"),
]

CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmctldPort={controller}
SlurmdPort={daemon}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.sock
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/completed.txt
NodeName={host} NodeAddr=127.0.0.1 CPUs=2
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
LIST = """\
seeds: [0]
rows:
- {algo: ppo, env: CartPole-v1, n_timesteps: 500}
- {algo: sac, env: Pendulum-v1, n_timesteps: STEPS}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def wait_until(what: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(1.0)


def output_of(*command: str) -> str:
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The daemons of Slurm on free ports, with their files in a folder."""
    folder = tmp_path / "slurm"
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    values = {
        "host": socket.gethostname(),
        "controller": free_port(),
        "daemon": free_port(),
        "folder": folder,
    }
    (folder / "slurm.conf").write_text(CONF.format(**values))
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    files = {
        "key-file": "munge.key",
        "socket": "munge.sock",
        "pid-file": "munge.pid",
        "seed-file": "munge.seed",
    }
    munge = ["munged", "--foreground", "--force", f"--log-file={folder}/munge.log"]
    munge += [f"--{flag}={folder / name}" for flag, name in files.items()]
    daemons: list[subprocess.Popen[bytes]] = []
    with (folder / "daemons.log").open("wb") as log:
        try:
            for command in (munge, ["slurmctld", "-D"], ["slurmd", "-D"]):
                daemons.append(subprocess.Popen(command, stdout=log, stderr=log))
                time.sleep(2.0)
            wait_until(lambda: "idle" in output_of("sinfo", "-h", "-o", "%T"), 60)
            yield folder
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
                daemon.wait(30)


def submit(project: Path, steps: int, *flags: str) -> str:
    """Submit the list; return the number of the job."""
    (project / "my list.yml").write_text(LIST.replace("STEPS", str(steps)))
    asks = ["--grace", "20", "--n-evaluations", "0", *flags]
    assert main(["jobs", "my list.yml", "--scheduler", "slurm", "-o", "jo bs", "-f", "runs", *asks]) == 0
    return output_of("sbatch", "--parsable", str(project / "jo bs" / "job.slurm")).strip()


def test_time_limit_saves_and_requeues(slurm: Path, tmp_path: Path, monkeypatch) -> None:
    project = tmp_path / "my project"
    project.mkdir()
    monkeypatch.chdir(project)
    job = submit(project, 200_000, "--time", "00:02:00")
    long = project / "runs" / "seed0" / "sac" / "Pendulum-v1_1"
    output = project / "jo bs" / "output" / "task_1.out"
    wait_until(lambda: output.is_file() and "it is queued again" in output.read_text(), 300)
    assert (long / "Pendulum-v1.zip").is_file() and not (long / "finished.json").exists()
    assert (project / "runs" / "seed0" / "ppo" / "CartPole-v1_1" / "finished.json").is_file()
    wait_until(lambda: "PENDING" in output_of("squeue", "-h", "-o", "%T"), 60)
    saved = (long / "begun_by_benchmark").read_text()
    wait_until(lambda: (long / "begun_by_benchmark").read_text() != saved, 400)  # stopped a second time
    output_of("scancel", job)
    wait_until(lambda: not output_of("squeue", "-h"), 60)


def test_cancelled_task_is_not_requeued(slurm: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    job = submit(tmp_path, 200_000, "--time", "01:00:00", "--rows", "sac:Pendulum-v1")
    monitor = tmp_path / "runs" / "seed0" / "sac" / "Pendulum-v1_1" / "0.monitor.csv"
    wait_until(lambda: monitor.is_file() and len(monitor.read_text().splitlines()) > 3, 120)
    output_of("scancel", job)
    wait_until(lambda: not output_of("squeue", "-h"), 90)
    assert "JobState=CANCELLED" in output_of("scontrol", "show", "job", job)
