"""What somebody else hands over names code, and none of it runs until the user trusts it."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

from rlzoo.cli.main import main
from rlzoo.config.run import RunConfig
from rlzoo.envs.single_env.registration import Family, ensure_registered, import_packages_of
from rlzoo.experiment.training_run import train
from rlzoo.io.trust import is_trusted
from rlzoo.runs import run_folder
from rlzoo.tuning.study.samplers import make_sampler

VALUES = {"policy": "MlpPolicy", "n_timesteps": 32, "n_envs": 1, "n_steps": 16, "batch_size": 16}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small finished run."""
    logs = tmp_path_factory.mktemp("honest")
    run = RunConfig(algo="ppo", env_id="CartPole-v1", hyperparams=VALUES, log_folder=str(logs), verbose=0)
    return train(run).folder


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that exists once foreign code has run; the module that makes it is in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "ran"
    code = f"open({str(path)!r}, 'w').close()\n"
    wrapper = "import gymnasium\nclass Wrapper(gymnasium.Wrapper): pass\n"
    (tmp_path / "foreign_module.py").write_text(code + wrapper + "hyperparams = {}\n")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    sys.modules.pop("foreign_module", None)
    return path


@pytest.fixture
def folder(honest: Path, tmp_path: Path) -> Path:
    """A copy of the run, in the place where commands look for runs."""
    return Path(shutil.copytree(honest, tmp_path / "logs" / "ppo" / honest.name))


def change(folder: Path, file: str, **changes: Any) -> None:
    path = run_folder.config_path(folder, "CartPole-v1").with_name(file)
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **changes}))


def refused(capsys: pytest.CaptureFixture[str], canary: Path, *words: str) -> str:
    """The one line with which a command refuses; nothing has run."""
    assert main(list(words)) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("rlzoo: error:")
    assert not canary.exists()
    return error


SYSTEM = "import os; os.system('touch ran')"
IN_CONFIG = [
    {"env_wrapper": ["builtins.type", {"timeit.timeit": {"setup": SYSTEM, "number": 0}}]},
    {"env_wrapper": "foreign_module.Wrapper"},
    {"vec_env_wrapper": {"subprocess.Popen": {"args": ["touch", "ran"]}}},
    {"callback": {"subprocess.Popen": {"args": ["touch", "ran"]}}},
    {"policy": "foreign_module.Wrapper"},
    {"policy_kwargs": "dict(activation_fn=foreign_module.Wrapper)"},
    {"policy_kwargs": {"features_extractor_class": "foreign_module.Wrapper"}},
    {"replay_buffer_class": "foreign_module.Wrapper"},
    {"env_wrapper": "rlzoo.__main__.main"},
]


@pytest.mark.parametrize("changes", IN_CONFIG, ids=str)
def test_a_run_folder_runs_nothing(changes, folder, canary, capsys, tmp_path):
    change(folder, "config.yml", **changes)
    agent = ("--algo", "ppo", "--env", "CartPole-v1", "-f", "logs")
    refused(capsys, canary, "enjoy", *agent, "--no-render", "-n", "10")
    refused(capsys, canary, "record-expert", *agent, "--n-episodes", "1", "-o", "out")
    refused(capsys, canary, "train", "--resume", str(folder), "-n", "64")
    main(["validate", "--algo", "ppo", str(run_folder.config_path(folder, "CartPole-v1"))])
    assert not canary.exists()


def test_scoring_and_shipping_a_run_folder_run_nothing(folder, canary):
    change(folder, "config.yml", env_wrapper="foreign_module.Wrapper")
    assert main(["benchmark", "score", str(folder)]) != 0
    assert main(["benchmark", "ship", str(folder), "--seed", "0", "-o", "collection"]) != 0
    assert not canary.exists()


@pytest.mark.parametrize(
    "changes",
    [{"gym_packages": ["foreign_module"]}, {"env_id": "foreign_module:CartPole-v1"}],
    ids=["gym_packages", "env_id"],
)
def test_run_folder_packages_need_trust(changes, folder, canary, capsys):
    change(folder, "args.yml", **changes)
    error = refused(capsys, canary, "train", "--resume", str(folder), "-n", "64")
    assert error.endswith("whose code runs only if you trust it: add --trust foreign_module")


def test_the_python_file_that_a_run_folder_names_is_not_run(folder, canary, capsys):
    change(folder, "args.yml", conf_file="foreign_module.py", functions=["learning_rate"])
    error = refused(capsys, canary, "train", "--resume", str(folder), "-n", "64")
    assert "name its file: -conf foreign_module.py" in error


def test_what_is_trusted_runs(folder, canary):
    change(folder, "config.yml", env_wrapper="foreign_module.Wrapper")
    words = ["enjoy", "--algo", "ppo", "--env", "CartPole-v1", "-f", "logs", "--no-render", "-n", "10"]
    assert main([*words, "--trust", "foreign_module"]) == 0
    assert canary.exists()


def test_validate_and_a_dry_run_import_nothing(canary, capsys, tmp_path):
    conf, listed = tmp_path / "ppo.yml", tmp_path / "list.yml"
    conf.write_text(yaml.safe_dump({"CartPole-v1": {**VALUES, "env_wrapper": "foreign_module.Wrapper"}}))
    assert main(["validate", str(conf)]) == 0
    assert "foreign_module.Wrapper is not checked: code from outside rlzoo" in capsys.readouterr().err
    row = {"algo": "ppo", "env": "CartPole-v1", "seeds": [0]}
    for changes in (
        {"conf_file": "foreign_module.py"},
        {"conf_file": "foreign_module"},
        {"conf_file": str(conf)},
        {"env": "foreign_module:CartPole-v1"},
        {"name": "x", "hyperparams": {"env_wrapper": "foreign_module.Wrapper"}},
    ):
        listed.write_text(yaml.safe_dump({"rows": [{**row, **changes}]}))
        refused(capsys, canary, "benchmark", "run", str(listed), "-f", "runs", "--dry-run")
        refused(capsys, canary, "benchmark", "run", str(listed), "-f", "runs")


@pytest.mark.parametrize("name", [".lock", "progress.csv", "CartPole-v1.zip", "CartPole-v1/config.yml"])
def test_no_link_is_followed_in_a_run_folder(name, folder, tmp_path, capsys, canary):
    target = tmp_path / "precious"
    target.write_text("precious")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(target)
    error = refused(capsys, canary, "train", "--resume", str(folder), "-n", "64")
    assert f"{name} is a symbolic link" in error
    refused(capsys, canary, "enjoy", "--env", "CartPole-v1", "-f", "logs", "--no-render")
    assert target.read_text() == "precious"


@pytest.mark.parametrize(
    "changes",
    [
        {"callback": {"rlzoo.CheckpointCallback": {"save_freq": 1, "save_path": "elsewhere"}}},
        {"env_wrapper": {"gymnasium.wrappers.RecordVideo": {"video_folder": "elsewhere"}}},
        {"monitor_kwargs": {"filename": "elsewhere"}},
    ],
    ids=["callback", "wrapper", "monitor"],
)
def test_a_run_folder_does_not_say_where_anything_is_written(changes, folder, tmp_path, capsys, canary):
    change(folder, "config.yml", **changes)
    error = refused(capsys, canary, "train", "--resume", str(folder), "-n", "64")
    assert "says where to write, which a file may not decide" in error
    assert not (tmp_path / "elsewhere").exists()


def test_tensorboard_files_go_on_only_where_the_user_says(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    change(folder, "args.yml", tensorboard_log="elsewhere", track=True)
    assert main(["train", "--resume", str(folder), "-n", "64"]) == 0
    error = capsys.readouterr().err
    assert "add -tb elsewhere" in error and "add --track" in error
    assert not (tmp_path / "elsewhere").exists()


class Runs:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_cmaes_unpickles_nothing_of_a_study(canary):
    study = optuna.create_study(sampler=make_sampler("cmaes", 0, 1, 1), direction="maximize")
    distribution = optuna.distributions.FloatDistribution(0, 1)
    for value in (0.1, 0.7):
        forged = optuna.trial.create_trial(
            value=value,
            params={"x": value},
            distributions={"x": distribution},
            system_attrs={
                "cma:generation": 0,
                "cma:optimizer:0": pickle.dumps(Runs(canary)).hex(),
            },
        )
        study.add_trial(forged)
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    assert not canary.exists()


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The logs of a study with one trial."""
    logs = tmp_path_factory.mktemp("searched")
    small = ["n_steps:16", "batch_size:16", "n_envs:1", "n_epochs:1"]
    how = ["-n", "64", "--n-trials", "1", "--n-evaluations", "1", "--sampler", "random", "--verbose", "0"]
    assert main(["optimize", *STUDY, *how, "-f", str(logs), "-params", *small]) == 0
    return logs


STUDY = ["--algo", "ppo", "--env", "CartPole-v1", "--study-name", "theirs"]
COMMANDS = {
    "train": ["train", *STUDY, "--trial-id", "0", "-n", "32", "-f", "logs"],
    "retrain": ["optimize", *STUDY, "--retrain-best", "1", "--n-seeds", "1", "-f", "logs"],
}


@pytest.mark.parametrize(
    ("attribute", "command"),
    [("hyperparams", "train"), ("gym_packages", "train"), ("hyperparams", "retrain"), ("config", "retrain")],
)
def test_a_study_runs_nothing(attribute, command, searched, canary, tmp_path, capsys):
    shutil.copytree(searched, tmp_path / "logs")
    (journal,) = (tmp_path / "logs").rglob("journal.log")
    evil = "env_wrapper: foreign_module.Wrapper\n"
    entries = [json.loads(line) for line in journal.read_text().splitlines()]
    for entry in entries:
        attrs = entry.get("user_attr", {})
        if attribute in attrs:
            attrs[attribute] += evil
        elif attribute in attrs.get("rlzoo", {}):
            settings = attrs["rlzoo"]
            settings[attribute] = (
                [*settings[attribute], "foreign_module"]
                if attribute == "gym_packages"
                else (settings[attribute] + evil)
            )
    journal.write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))
    main(COMMANDS[command])
    shown = capsys.readouterr()
    assert "add --trust foreign_module" in shown.out + shown.err
    assert not canary.exists()


@pytest.mark.parametrize("name", ["best.yml", "config.yml", "retrained.csv", "trial_0.yml", "workers.log"])
def test_no_link_is_followed_in_a_study_folder(name, searched, canary, tmp_path, capsys):
    shutil.copytree(searched, tmp_path / "logs")
    (journal,) = (tmp_path / "logs").rglob("journal.log")
    precious = tmp_path / "precious"
    precious.write_text("precious")
    journal.with_name(name).unlink(missing_ok=True)
    journal.with_name(name).symlink_to(precious)
    report = ["optimize", *STUDY, "--report", "theirs", "-f", "logs"]
    for command in (*COMMANDS.values(), report, ["optimize", *STUDY, "-n", "64", "-f", "logs"]):
        assert f"{name} is a symbolic link" in refused(capsys, canary, *command)
    assert precious.read_text() == "precious"


def test_shipping_follows_no_link_and_writes_nowhere_else(folder, canary, tmp_path, capsys):
    seed = str(run_folder.read_run(folder).seed)
    ship = ["benchmark", "ship", str(folder), "--seed", seed, "-o", "below/collection"]
    change(folder, "args.yml", algo="../../outside")
    assert "unknown algorithm '../../outside'" in refused(capsys, canary, *ship)
    assert not (tmp_path / "outside").exists()
    change(folder, "args.yml", algo="ppo")
    config = run_folder.config_path(folder, "CartPole-v1")
    config.rename(tmp_path / "secret.yml")
    config.symlink_to(tmp_path / "secret.yml")
    assert "config.yml is a symbolic link" in refused(capsys, canary, *ship)


@pytest.mark.parametrize("place", ["env_wrapper", "gym_packages"])
def test_a_file_called_like_an_environment_package_does_not_run(
    place, folder, canary, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.path", [path for path in sys.path if path != str(tmp_path)])
    monkeypatch.setattr(
        "rlzoo.envs.single_env.registration.FAMILIES", (Family("foreign_module", "rlzoo[some]", "No"),)
    )
    if place == "env_wrapper":
        change(folder, "config.yml", env_wrapper="foreign_module.Wrapper")
    else:
        change(folder, "args.yml", gym_packages=["foreign_module"])
    error = refused(capsys, canary, "train", "--resume", str(folder), "-n", "64")
    assert "add --trust foreign_module" in error


def test_a_package_that_a_file_names_is_not_trusted_for_that():
    ensure_registered("Catch-v0")  # rlzoo is a package of environments now
    import_packages_of("a file", ["rlzoo"], "Catch-v0")
    assert not is_trusted("rlzoo")


def test_a_name_with_an_empty_part_is_one_line(canary, capsys, tmp_path):
    conf = tmp_path / "ppo.yml"
    for name in (".x.Y", "some..Y", "x."):
        conf.write_text(yaml.safe_dump({"CartPole-v1": {**VALUES, "env_wrapper": name}}))
        assert main(["validate", str(conf)]) != 0
        shown = capsys.readouterr()
        assert f"env_wrapper {name!r} is not the dotted name of a class" in shown.out + shown.err


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no safe path")
def test_workers_do_not_import_from_the_working_directory(tmp_path):
    for module in ("json", "optuna", "multiprocessing"):
        (tmp_path / f"{module}.py").write_text("open('ran', 'w').close()")
    code = (
        "import sys, subprocess; from rlzoo.processes.safe_path import *; import gymnasium, os\n"
        "from rlzoo.envs.vec_env.subproc import SubprocVecEnv; from rlzoo.benchmark.run_list import WORKER\n"
        "if __name__ == '__main__':\n"
        "    SubprocVecEnv([lambda: gymnasium.make('CartPole-v1')], start_method='spawn').close()\n"
        "    subprocess.run([*WORKER, '{}'], env={**os.environ, **child_environment()})\n"
        "    assert 'PYTHONSAFEPATH' not in os.environ\n"
    )
    script = tmp_path / "below" / "command.py"  # its own folder is searched, not the one where it is started
    script.parent.mkdir()
    script.write_text(code)
    root = str(Path(run_folder.__file__).parents[2])
    subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env={**os.environ, "PYTHONPATH": root}, check=True
    )
    assert not (tmp_path / "ran").exists()


def test_trust_reaches_worker_processes(monkeypatch):
    from rlzoo.io.trust import trust

    trust(["their_package"])
    code = "from rlzoo.io.trust import is_trusted; print(is_trusted('their_package.Slow'))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "True"


def test_control_characters_reach_no_terminal(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder.rename(folder.with_name("CartPole-v1\x1b[31m_9"))
    main(["list", "agents", "-f", "logs"])
    main(["enjoy", "--env", "CartPole\x1b[31m-v1", "-f", "logs"])
    main(["train", "--resume", "logs/no\x1b[31msuch"])
    shown = capsys.readouterr()
    assert "\x1b" not in shown.out + shown.err
    assert "\\x1b[31m" in shown.out and "\\x1b[31m" in shown.err
