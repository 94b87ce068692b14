"""One run for each seed, in worker processes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load

from rlzoo.benchmark.parallel.seed_runs import TARGET, SeedResult, finished_run, run_of, summary, text_of
from rlzoo.cli.flags.training_flags import seed_range
from rlzoo.cli.main import main
from rlzoo.cluster.local_pool import LocalPool
from rlzoo.cluster.tasks import Ended, Task
from rlzoo.config.run import RunConfig
from rlzoo.config.values_as_text import interpret
from rlzoo.core.errors import RunFailed
from rlzoo.experiment.training_run import train
from rlzoo.runs.run_folder import model_path

SMALL = ["n_steps:32", "batch_size:32", "n_epochs:1", "n_envs:1"]
TRAIN = ["train", "--algo", "ppo", "--env", "CartPole-v1", "-n", "64", "-params", *SMALL, "--eval-freq", "0"]


def small(folder: Path, **changes: object) -> RunConfig:
    hyperparams = {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "n_envs": 1}
    values = {"n_timesteps": 64, "seed": 1, "hyperparams": hyperparams, "eval_freq": 0, "verbose": 0}
    return RunConfig(
        **{"algo": "ppo", "env_id": "CartPole-v1", "log_folder": str(folder), **values, **changes}  # type: ignore[arg-type]
    )


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    with zipfile.ZipFile(model_path(folder, "CartPole-v1")) as archive:
        files = [archive.read(name) for name in archive.namelist() if name.endswith(".safetensors")]
    return {name: tensor for file in files for name, tensor in load(file).items()}


def test_runs_are_those_of_single_trainings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(small(tmp_path / "one"))
    flags = ["--seeds", "0-1", "--n-jobs", "1", "-f", str(tmp_path / "all")]
    assert main([*TRAIN, *flags]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[1/2] ppo CartPole-v1 seed 0: 64 steps in")
    assert lines[-1].split()[:2] == ["CartPole-v1", "mean"]
    one, two = tmp_path / "one" / "ppo" / "CartPole-v1_1", tmp_path / "all" / "ppo" / "CartPole-v1_2"
    # products of stacked seeds are rounded as the processor's library of matrix products rounds them
    assert tensors_of(one)
    torch.testing.assert_close(tensors_of(two), tensors_of(one), rtol=1e-5, atol=1e-8)
    assert not (tmp_path / "all" / "ppo" / "workers.log").exists()
    assert main([*TRAIN, *flags]) == 0
    assert capsys.readouterr().out == "2 of 2 are done already\n"


def test_only_the_same_arguments_count_as_done(tmp_path: Path) -> None:
    run = small(tmp_path)
    assert finished_run(run) is None
    folder = train(run).folder
    assert finished_run(run) == folder
    assert finished_run(small(tmp_path, seed=2)) is None
    assert finished_run(small(tmp_path, n_timesteps=128)) is None
    model_path(folder, "CartPole-v1").write_bytes(b"")
    assert finished_run(run) is None


def test_configuration_survives_its_text() -> None:
    hyperparams = interpret({"policy_kwargs": "dict(activation_fn=nn.ReLU, net_arch=[8])", "gamma": 0.9})
    run = small(Path("logs"), hyperparams=hyperparams, gym_packages=("a", "b"), env_kwargs={"x": [1, 2]})
    assert run_of(text_of(run)) == run


def test_killed_worker_is_a_lost_task(tmp_path: Path) -> None:
    with LocalPool(1, 1, tmp_path / "log") as pool:
        task = Task(TARGET, {"run": text_of(small(tmp_path, n_timesteps=10**7)), "command": "", "latest": 0})
        pool.submit(task)
        (worker,) = pool.processes
        worker.kill()
        events = pool.wait(30.0)
        (end,) = events
        assert isinstance(end, Ended) and end.lost and end.error == "killed by signal 9"
        pool.submit(Task("rlzoo.cluster.tasks:nothing", {}))
        while not (events := pool.wait(30.0)):
            pass
        (end,) = events
        assert isinstance(end, Ended) and "AttributeError" in end.error and "Traceback" in end.log


def test_workers_that_cannot_start_end_the_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rlzoo.cluster.local_pool.sys.executable", "/bin/false")
    with (
        LocalPool(1, 1, tmp_path / "log") as pool,
        pytest.raises(RunFailed, match="the workers fail: exit code 1"),
    ):
        for _ in range(3):
            pool.submit(Task(TARGET, {}))
            pool.wait(10.0)


@pytest.mark.parametrize("text", ["a", "3-1", "-1", "1-", "0-10000", "4294967296"])
def test_wrong_seeds_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--seeds", text]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_ranges_of_seeds_are_read() -> None:
    assert [list(seed_range(text)) for text in ("7", "0-2")] == [[7], [0, 1, 2]]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seed", "1"], "--seed and --seeds cannot be given together"),
        (["--n-procs", "2"], "leave it out with --seeds"),
        (["-optimize"], "--seeds is for one agent"),
        (["--resume", "logs"], "--seeds cannot be changed by --resume"),
    ],
)
def test_flags_that_contradict_seeds(
    flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--seeds", "0-1", *flags]) == 2
    assert message in capsys.readouterr().err


def test_summary_has_the_mean_over_seeds() -> None:
    runs = [small(Path("logs"), seed=seed) for seed in (0, 1)]
    results = [SeedResult(run, Path("logs/x"), 64, 1.0, mean_return=float(run.seed)) for run in runs]
    assert "0.50 ± 0.71" in summary(results)
    assert "-" in summary(results).splitlines()[-1]
