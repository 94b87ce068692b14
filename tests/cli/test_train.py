from __future__ import annotations

import subprocess
import sys
import types

import pytest

from rlzoo.cli.main import build, load_command, main
from rlzoo.config.run import RunConfig
from rlzoo.experiment.training_run import TrainResult

# The flags that scripts for RL Baselines3 Zoo use, each with a value.
OLD_FLAGS = """
--algo a2c --env Pendulum-v1 -tb tb --tensorboard-log tb -i agent.zip --trained-agent agent.zip
--truncate-last-trajectory False -n 100 --n-timesteps 100 --num-threads 2 --log-interval 10 --eval-freq 5
--eval-episodes 3 --n-eval-envs 2 --save-freq 7 --save-replay-buffer -f logs --log-folder logs --seed 1
--vec-env subproc --device cpu --verbose 0 --gym-packages json --env-kwargs g:3 --eval-env-kwargs g:4
-params n_steps:5 --hyperparams n_steps:5 -conf my.yml --conf-file my.yml -uuid --uuid --track
--wandb-project-name p --wandb-entity e --wandb-group g -P --progress -tags a b --wandb-tags a b
"""


@pytest.fixture
def runs(monkeypatch, tmp_path):
    """The configurations that reach `train`, which does nothing here."""
    seen = []

    def train(config, command=""):
        seen.append(config)
        return TrainResult(tmp_path, tmp_path, 0, interrupted=config.env_id == "Interrupted-v0")

    monkeypatch.setattr("rlzoo.experiment.training_run.train", train)
    monkeypatch.setattr("rlzoo.experiment.training_run.check", lambda config: None)
    return seen


def test_the_flags_of_the_leading_zoo_work_unchanged():
    parsed = build("train", load_command("train")).parse_args(OLD_FLAGS.split())
    assert parsed.tensorboard_log == "tb"
    assert parsed.trained_agent == "agent.zip"
    assert parsed.truncate_last_trajectory is False
    assert parsed.hyperparams == ["n_steps:5"]
    assert parsed.conf_file == "my.yml"
    assert parsed.uuid
    assert parsed.progress
    assert parsed.wandb_tags == ["a", "b"]


def test_values_are_parsed_and_handed_on(runs):
    arguments = ["-params", "learning_rate:1e-3", "policy_kwargs:dict(net_arch=[8])", "--env-kwargs", "g:3.5"]
    assert main(["train", *arguments, "-n", "1000", "--gym-packages", "json"]) == 0
    (config,) = runs
    assert config == RunConfig(
        algo="ppo",
        env_id="CartPole-v1",
        n_timesteps=1000,
        hyperparams={"learning_rate": 1e-3, "policy_kwargs": {"net_arch": [8]}},
        env_kwargs={"g": 3.5},
        gym_packages=("json",),
    )


def test_several_environments_train_one_after_the_other(runs):
    assert main(["train", "--env", "CartPole-v1", "Pendulum-v1", "--seed", "3"]) == 0
    assert [(config.env_id, config.seed) for config in runs] == [("CartPole-v1", 3), ("Pendulum-v1", 3)]


def test_an_interrupt_ends_the_whole_series(runs):
    main(["train", "--env", "Interrupted-v0", "Pendulum-v1"])
    assert [config.env_id for config in runs] == ["Interrupted-v0"]


def test_resume_hands_on_what_may_change(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        "rlzoo.experiment.resumed_run.resume", lambda folder, **changes: seen.update(changes, folder=folder)
    )
    assert main(["train", "--resume", "logs/ppo/X_1", "-n", "500", "-P", "--gym-packages", "json"]) == 0
    assert seen == {"folder": "logs/ppo/X_1", "n_timesteps": 500, "progress": True, "gym_packages": ("json",)}


def test_help_shows_examples_and_imports_nothing_heavy():
    code = (
        "import sys; from rlzoo.cli.main import main\n"
        "try: main(['train', '--help'])\nexcept SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'gymnasium', 'numpy', 'pandas')))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0
    assert "rlzoo train --resume" in result.stdout


def test_training_imports_only_what_it_needs(tmp_path):
    code = (
        "import sys; from rlzoo.cli.main import main\n"
        f"code = main(['train', '-n', '100', '-f', {str(tmp_path)!r}, '--device', 'cpu', '--verbose', '0'])\n"
        "heavy = {'pandas', 'matplotlib', 'tensorboard', 'rich', 'cv2', 'optuna', 'mujoco', 'scipy'}\n"
        "print(code, sorted(heavy & sys.modules.keys()))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "0 []", result.stderr


def test_command_and_function_are_the_same_thing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = ["-params", "n_envs:1", "n_steps:32", "batch_size:32", "policy_kwargs:dict(net_arch=[4])"]
    arguments = ["train", "-n", "64", "--device", "cpu", "--eval-freq", "-1", *values]
    monkeypatch.setattr("sys.argv", ["rlzoo", *arguments])
    assert main(arguments) == 0
    output = capsys.readouterr().out
    assert "total_timesteps" in output
    assert "the agent is saved in logs/ppo/CartPole-v1_1/CartPole-v1.zip" in output
    command = (tmp_path / "logs/ppo/CartPole-v1_1/command.txt").read_text()
    assert command.startswith("rlzoo train -n 64 --device cpu")
    assert "'policy_kwargs:dict(net_arch=[4])'" in command


def test_a_module_of_the_user_is_found_beside_her(runs, tmp_path, monkeypatch):
    (tmp_path / "environments_of_a_user.py").write_text("registered = True\n")
    monkeypatch.chdir(tmp_path)
    from rlzoo.envs.single_env.registration import import_packages

    import_packages(["environments_of_a_user"])
    assert isinstance(sys.modules["environments_of_a_user"], types.ModuleType)


@pytest.mark.parametrize(
    "flags",
    ["-n 0", "-n -5", "-n 1.5", "-n 1e400", "--eval-episodes 0", "--n-eval-envs 0", "--num-threads 0",
     "--log-interval 0", f"--seed {2**32}", "--seed -2"],
)  # fmt: skip
def test_numbers_that_mean_nothing_are_refused(runs, capsys, flags):
    assert main(["train", *flags.split()]) == 2
    assert "expected an integer" in capsys.readouterr().err
    assert not runs


def test_numbers_with_an_exponent_and_those_of_the_defaults(runs):
    assert main(["train", "-n", "1e6", "--seed", "-1", "--num-threads", "-1", "--log-interval", "-2"]) == 0
    assert runs[0].n_timesteps == 1_000_000
    assert isinstance(runs[0].n_timesteps, int)


def test_progress_bar_replaces_the_log_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    flags = [
        "train",
        "--env",
        "CartPole-v1",
        "-n",
        "64",
        "-params",
        "n_envs:1",
        "n_steps:32",
        "batch_size:32",
    ]
    flags += ["--eval-freq", "-1", "--seed", "0"]
    for more, is_shown in (([], True), (["-P"], False), (["-P", "--verbose", "2"], True)):
        assert main([*flags, *more]) == 0
        assert ("total_timesteps" in capsys.readouterr().out) is is_shown, more
