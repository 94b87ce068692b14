"""How the processes of a study are started."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest

from rlzoo.config.run import RunConfig
from rlzoo.tuning.study import supervisor
from rlzoo.tuning.study import trial_worker as worker
from rlzoo.tuning.study.supervisor import Supervisor


@pytest.mark.parametrize(
    ("cores", "n_jobs", "asked", "threads"),
    [(8, 2, -1, "4"), (8, 3, -1, "2"), (2, 4, -1, "1"), (8, 2, 3, "3")],
)
def test_cores_are_shared_out_between_workers(
    cores: int, n_jobs: int, asked: int, threads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "available_cores", lambda: cores)
    run = RunConfig(algo="ppo", env_id="CartPole-v1", num_threads=asked, verbose=0)
    made = Supervisor(optuna.create_study(), 1, tmp_path, None, n_jobs, run)
    assert made.command[-1] == f"--threads={threads}"
    assert made.threads == int(threads)


def test_a_password_in_a_url_stands_in_no_command_line(tmp_path: Path) -> None:
    url = "postgresql://me:secret@host/db"
    made = Supervisor(
        optuna.create_study(), 1, tmp_path, url, 1, RunConfig(algo="ppo", env_id="CartPole-v1", verbose=0)
    )
    assert "secret" not in " ".join(made.command)
    assert made.environment["RLZOO_STORAGE"] == url


def test_folder_and_study_may_begin_with_a_dash() -> None:
    study = optuna.create_study(study_name="-n")
    run = RunConfig(algo="ppo", env_id="CartPole-v1", verbose=0)
    made = Supervisor(study, 1, Path("-x/optimize"), None, 1, run)
    arguments = worker.build_parser().parse_args(made.command[3:])
    assert (arguments.study, arguments.folder) == ("-n", Path("-x/optimize"))
