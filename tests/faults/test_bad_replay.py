"""Mistakes with experience replay: one line, exit code 2, and no run folder."""

from __future__ import annotations

import pickle
import shutil

import numpy as np
import pytest

from rlzoo import DQN, ReplayBuffer
from rlzoo.algorithms.off_policy import off_policy_algorithm as off_policy
from rlzoo.cli.main import main
from rlzoo.experiment.resumed_run import resume
from rlzoo.experiment.training_run import train

CARTPOLE = ["--env", "CartPole-v1"]
PENDULUM = ["--env", "Pendulum-v1"]
HER = "replay_buffer_class:HerReplayBuffer"


def refused(arguments, logs, capsys):
    """The line that the command says."""
    before = {path for path in logs.rglob("*") if path.is_dir()}
    code = main(["train", *arguments, "-f", str(logs), "--device", "cpu", "--verbose", "0"])
    error = capsys.readouterr().err
    assert code == 2, error
    assert error.startswith("rlzoo: error: ")
    assert error.count("\n") == 1, error
    assert {path for path in logs.rglob("*") if path.is_dir()} == before
    return error


@pytest.mark.parametrize(
    ("algo", "arguments", "named"),
    [
        ("dqn", PENDULUM, "DQN does not support Box actions; it supports Discrete"),
        ("sac", CARTPOLE, "SAC does not support Discrete actions; it supports Box"),
        ("dqn", [*CARTPOLE, "-params", HER], "goal environment"),
        ("sac", [*PENDULUM, "-params", HER], "goal environment"),
        ("her", [*CARTPOLE, "-params", "model_class:dqn"], "goal environment"),
        ("her", [*CARTPOLE, "-params", "model_class:ppo"], "PPO"),
        ("dqn", [*CARTPOLE, "-params", "noise_type:normal", "noise_std:0.1"], "DQN has no action noise"),
        ("ppo", [*CARTPOLE, "-params", "noise_type:normal", "noise_std:0.1"], "PPO has no action noise"),
        ("sac", [*PENDULUM, "-params", "noise_type:norml", "noise_std:0.1"], "did you mean 'normal'"),
        ("sac", [*PENDULUM, "-params", "noise_type:normal"], "needs noise_std"),
        ("sac", [*PENDULUM, "-params", "noise_std:0.1"], "noise_type"),
        ("sac", [*PENDULUM, "-params", "noise_type:normal", "noise_std:-1"], "noise_std must be at least 0"),
        ("sac", [*PENDULUM, "-params", "noise_type:adaptive-param", "noise_std:0.1"], "DDPG"),
        ("sac", [*PENDULUM, "-params", "buffer_size:0"], "buffer_size"),
        ("sac", [*PENDULUM, "-params", "n_steps:1000"], "n_steps (1000) is more than"),
        ("sac", [*PENDULUM, "-params", "train_freq:[1,epsiode]"], "train_freq"),
        ("sac", [*PENDULUM, "-params", "replay_buffer_class:HerReplayBufer"], "HerReplayBuffer"),
        ("sac", [*PENDULUM, "-params", "replay_buffer_class:collections.OrderedDict"], "ReplayBuffer"),
        ("sac", [*PENDULUM, "-params", "replay_buffer_kwargs:dict(alhpa=1)"], "alhpa"),
        ("sac", [*PENDULUM, "-params", "action_noise:0.1"], "action_noise"),
    ],
)
def test_a_mistake_on_the_command_line(replay_conf, logs, capsys, algo, arguments, named):
    common = ["--algo", algo, "-n", "100", "-conf", str(replay_conf)]
    if algo == "ppo":
        common = common[:-2]
    assert named in refused([*common, *arguments], logs, capsys)


def test_a_dict_of_observations_needs_its_policy(replay_conf, logs, capsys):
    arguments = ["--algo", "dqn", "-conf", str(replay_conf), "-n", "100", "--env", "Goals-v0"]
    assert "MultiInputPolicy" in refused([*arguments, "--gym-packages", "goal_envs"], logs, capsys)


@pytest.fixture
def kept(replay_run, logs):
    """The folder of a run that kept its replay buffer."""
    folder = train(replay_run(env_id="CartPole-v1")).folder
    shutil.move(folder, folder.parents[2] / "kept")
    shutil.rmtree(logs)
    return folder.parents[2] / "kept"


def truncate(path, other):
    path.write_bytes(path.read_bytes()[:-100])


def flip(path, other):
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(content)


def empty(path, other):
    path.write_bytes(b"")


def pickled(path, other):
    path.with_suffix(".pkl").write_bytes(pickle.dumps(np.zeros(3)))
    path.unlink()


def of_another_environment(path, other):
    other(env_id="Faulty-v0")


def of_another_number(path, other):
    other(env_id="CartPole-v1", hyperparams={"n_envs": 3})


def of_another_class(path, other):
    other(env_id="CartPole-v1", hyperparams={"prioritized_replay": True})


FAULTS = {
    truncate: "truncated",
    flip: "damaged",
    empty: "empty",
    pickled: "pickle",
    of_another_environment: "observation space",
    of_another_number: "n_envs",
    of_another_class: "PrioritizedReplayBuffer",
}


@pytest.fixture
def spoil(kept, replay_run, tmp_path):
    """Put something wrong in the place of the replay buffer."""

    def other(**fields):
        folder = train(replay_run(log_folder=str(tmp_path / "other"), **fields)).folder
        shutil.copy(folder / "replay_buffer.safetensors", kept / "replay_buffer.safetensors")

    def do(fault):
        fault(kept / "replay_buffer.safetensors", other)

    return do


@pytest.mark.parametrize("fault", FAULTS)
def test_a_replay_buffer_that_cannot_be_read_is_named(replay_conf, kept, spoil, logs, capsys, fault):
    spoil(fault)
    arguments = ["--algo", "dqn", *CARTPOLE, "-conf", str(replay_conf), "-i", str(kept / "CartPole-v1.zip")]
    error = refused(arguments, logs, capsys)
    assert str(kept / "replay_buffer.") in error
    assert FAULTS[fault] in error
    assert "move it away" in error


@pytest.mark.parametrize("fault", [truncate, of_another_environment, pickled])
def test_a_run_goes_on_without_it_and_says_so(kept, spoil, capsys, fault):
    spoil(fault)
    result = resume(kept, n_timesteps=600)
    error = capsys.readouterr().err
    assert FAULTS[fault] in error
    assert "continues with an empty" in error
    assert error.count("\n") == 1
    assert DQN.load(result.model_path, device="cpu").num_timesteps == 600


def test_a_replay_buffer_with_infos_is_kept(replay_conf, logs):
    arguments = ["train", "--algo", "dqn", "-conf", str(replay_conf), "-n", "100", "--env", "Goals-v0"]
    arguments += ["-f", str(logs), "--gym-packages", "goal_envs", "--save-replay-buffer", "-params", HER]
    arguments += ["policy:MultiInputPolicy", "replay_buffer_kwargs:dict(copy_info_dict=True)"]
    assert main(arguments) == 0
    assert list(logs.rglob("replay_buffer.*"))


def test_oversized_buffer_warns_before_allocation(replay_conf, logs, capsys, monkeypatch):
    monkeypatch.setattr(off_policy, "available_memory", lambda: 10_000)
    arguments = ["train", "--algo", "dqn", *CARTPOLE, "-conf", str(replay_conf), "-n", "100"]
    arguments += ["-f", str(logs), "--device", "cpu", "--verbose", "0", "--eval-freq", "-1"]
    made = []
    original = ReplayBuffer.__init__

    def init(self, *args, **kwargs):
        made.append(capsys.readouterr().err)
        original(self, *args, **kwargs)

    monkeypatch.setattr(ReplayBuffer, "__init__", init)
    assert main([*arguments, "-params", "buffer_size:1_000_000"]) == 0
    assert made[0].count("\n") == 1
    assert made[0].startswith("rlzoo: a replay buffer of 1,000,000 transitions needs 0.0")
    assert "GB" in made[0]
