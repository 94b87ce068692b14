"""An environment that raises, lies or dies: the message says which and when, and the agent is saved."""

from __future__ import annotations

import multiprocessing
import re

import numpy as np
import pytest

from rlzoo import PPO
from rlzoo.core.errors import RunFailed
from rlzoo.experiment.training_run import train

FAULTS = ["raise", "exit", "base", "nan", "inf", "nan_reward", "inf_reward", "shape", "info", "die"]


@pytest.mark.parametrize("vec_env", ["dummy", "subproc"])
@pytest.mark.parametrize("fault", FAULTS)
def test_env_failure_names_step_and_saves_the_agent(run, logs, fault, vec_env):
    if fault == "die" and vec_env == "dummy":
        pytest.skip("it would take this process with it")
    with pytest.raises(RunFailed) as caught:
        train(run(vec_env=vec_env, env_kwargs={"fault": fault, "at": 90, "index": 1}))
    message = str(caught.value)
    assert "\n" not in message
    assert re.search(r"environment 1\b", message), message
    assert re.search(r"\b(89|90)\b", message), message
    if fault == "raise":
        assert "the bridge is out" in message
    path = logs / "ppo" / "Faulty-v0_1" / "Faulty-v0.zip"
    assert str(path) in message
    agent = PPO.load(path, device="cpu")
    assert agent.num_timesteps >= 120
    assert not multiprocessing.active_children()
    for values in agent.normalize_state.values():
        assert np.isfinite(np.asarray(values, dtype=float)).all()


def test_an_environment_that_cannot_be_made_leaves_no_folder(run, logs):
    with pytest.raises(ValueError, match="fualt"):
        train(run(env_kwargs={"fualt": "raise"}))
    assert not logs.exists()


def test_a_callback_that_exits_keeps_the_agent(run, logs):
    said = r"training ended by SystemExit: enough \(faulty_envs\.py, line \d+\); the agent is saved in"
    with pytest.raises(RunFailed, match=said):
        train(run(hyperparams={"callback": "faulty_envs.Leave"}))
    assert (logs / "ppo" / "Faulty-v0_1" / "Faulty-v0.zip").is_file()


def test_divergence_keeps_the_last_good_checkpoint(run, logs):
    with pytest.raises(RunFailed) as caught:
        train(run(hyperparams={"learning_rate": 1e30, "max_grad_norm": 1e30}, save_freq=20))
    message = str(caught.value)
    assert "learning_rate" in message
    folder = logs / "ppo" / "Faulty-v0_1"
    kept = re.search(r"newest checkpoint is (\S+)", message)
    path = kept[1] if kept else folder / "Faulty-v0.zip"
    for parameter in PPO.load(path, device="cpu").policy.parameters():
        assert parameter.isfinite().all()
