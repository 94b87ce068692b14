"""Ctrl-C and SIGTERM at every moment of a run: saved, said, nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest

from rlzoo import PPO, EvalCallback
from rlzoo.algorithms.agent import agent
from rlzoo.algorithms.on_policy import ppo
from rlzoo.cli.main import main
from rlzoo.experiment.resumed_run import resume
from rlzoo.experiment.training_run import train


def stop_once(monkeypatch, owner, name, call=1, number=signal.SIGTERM):
    """Send a signal in the given call of a function, before it does its work."""
    original, calls = getattr(owner, name), []

    def signalling(*args, **kwargs):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    monkeypatch.setattr(owner, name, signalling)
    return calls


def check_stopped(result, before=400):
    assert result.interrupted
    assert 0 <= result.num_timesteps < before
    assert PPO.load(result.model_path, device="cpu").num_timesteps == result.num_timesteps
    assert not list(result.folder.rglob(".rlzoo-*.tmp"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_in_a_rollout(run, faulty_envs, monkeypatch, number, capfd):
    stop_once(monkeypatch, faulty_envs.FaultyEnv, "step", call=150, number=number)
    result = train(run(verbose=1))
    check_stopped(result)
    output = capfd.readouterr()
    assert str(result.model_path) in output.out
    assert f"--resume {result.folder}" in output.out
    assert number.name in output.err


def test_in_an_update(run, monkeypatch):
    stop_once(monkeypatch, ppo, "ppo_loss", call=7)
    check_stopped(train(run()))


def test_in_an_evaluation(run):
    result = train(run(eval_freq=100, eval_env_kwargs={"fault": "signal", "at": 30, "index": -1}))
    check_stopped(result)
    assert result.num_timesteps == 100


def test_while_a_checkpoint_is_written(run, monkeypatch):
    stop_once(monkeypatch, agent, "write_checkpoint", call=2)
    check_stopped(train(run(save_freq=50)))


def test_while_the_final_agent_is_written(run, monkeypatch):
    stop_once(monkeypatch, agent, "write_checkpoint")
    result = train(run())
    assert result.interrupted
    assert PPO.load(result.model_path, device="cpu").num_timesteps == 400


def test_before_the_first_step_nothing_is_left(run, logs, monkeypatch):
    stop_once(monkeypatch, EvalCallback, "__init__")
    with pytest.raises(KeyboardInterrupt):
        train(run(eval_freq=100))
    assert not logs.exists()


def test_in_the_first_step_nothing_is_left(run, logs, faulty_envs, monkeypatch):
    stop_once(monkeypatch, faulty_envs.FaultyEnv, "step")
    with pytest.raises(KeyboardInterrupt, match="before the first step; no agent is kept"):
        train(run(save_freq=1))
    assert not logs.exists()


def test_in_the_first_step_the_command_says_so_in_one_line(conf, logs, faulty_envs, monkeypatch, capfd):
    stop_once(monkeypatch, faulty_envs.FaultyEnv, "step")
    arguments = ["train", "--algo", "ppo", "--env", "Faulty-v0", "--gym-packages", "faulty_envs"]
    assert main([*arguments, "-conf", str(conf), "-f", str(logs), "--verbose", "0"]) == 130
    said = capfd.readouterr().err.strip().splitlines()
    assert said[-1] == "rlzoo: interrupted before the first step; no agent is kept"
    assert not logs.exists()


def test_interrupt_in_first_rollout_says_agent_has_no_update(run, faulty_envs, monkeypatch, capfd):
    stop_once(monkeypatch, faulty_envs.FaultyEnv, "step", call=10)
    result = train(run(verbose=1))
    check_stopped(result, before=20)
    assert "; the agent has had no update yet; the agent is saved in" in capfd.readouterr().out


def test_in_the_first_step_a_resumed_run_keeps_its_agent(run, faulty_envs, monkeypatch):
    folder = train(run()).folder
    stop_once(monkeypatch, faulty_envs.FaultyEnv, "step")
    check_stopped(resume(folder, n_timesteps=600), before=401 + 40)


def test_a_stopped_run_goes_on_to_its_end(run, faulty_envs, monkeypatch):
    with monkeypatch.context() as patch:
        stop_once(patch, faulty_envs.FaultyEnv, "step", call=150)
        stopped = train(run())
    result = resume(stopped.folder)
    assert not result.interrupted
    assert 400 <= result.num_timesteps < 440  # rollouts are whole
    assert result.folder == stopped.folder


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_with_workers_leaves_no_process_behind(command, logs, number):
    arguments = [
        *command,
        "-n",
        "10000000",
        "--vec-env",
        "subproc",
        "-params",
        "callback:faulty_envs.Announce",
    ]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    ) as process:
        for _ in range(60):
            process.stdout.readline()
        if number == signal.SIGINT:  # a terminal sends it to the whole group
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors.decode()
    assert b"Traceback" not in errors
    assert (logs / "ppo" / "Faulty-v0_1" / "Faulty-v0.zip").is_file()
    for _ in range(50):  # the group ends with its last process
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail("a process of the run is still there")


def test_a_run_whose_reader_leaves_goes_on_to_its_end(command, logs):
    arguments = [*command, "--verbose", "1"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        errors = process.stderr.read().decode()
    assert process.returncode == 0
    assert errors.count("standard output is closed (Broken pipe); continuing without it") == 1
    path = logs / "ppo" / "Faulty-v0_1" / "Faulty-v0.zip"
    assert PPO.load(path, device="cpu").num_timesteps == 400
