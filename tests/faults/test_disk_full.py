"""A disk that fills up while an agent is saved: said plainly, and the file that was there is intact."""

from __future__ import annotations

import errno
import os

import pytest

from rlzoo import PPO
from rlzoo.algorithms.agent import agent
from rlzoo.core.errors import RunFailed
from rlzoo.experiment.training_run import train
from rlzoo.io import atomic


def fill_disk(monkeypatch, after):
    """Every agent but the first `after` meets a full disk."""
    original, calls = agent.write_checkpoint, []

    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write_checkpoint(*arguments):
        calls.append(1)
        if len(calls) > after:
            monkeypatch.setattr(atomic.os, "fsync", fsync)
        original(*arguments)

    monkeypatch.setattr(agent, "write_checkpoint", write_checkpoint)


def test_the_previous_checkpoint_is_intact_and_named(run, logs, monkeypatch):
    fill_disk(monkeypatch, after=2)
    with pytest.raises(RunFailed) as caught:
        train(run(save_freq=100))
    message = str(caught.value)
    assert "disk is full" in message
    assert "\n" not in message
    folder = logs / "ppo" / "Faulty-v0_1"
    assert str(folder / "rl_model_200_steps.zip") in message
    assert PPO.load(folder / "rl_model_200_steps.zip", device="cpu").num_timesteps == 200
    assert sorted(path.name for path in folder.glob("*.zip")) == [
        "rl_model_100_steps.zip",
        "rl_model_200_steps.zip",
    ]
    assert not list(folder.rglob(".rlzoo-*.tmp"))


def test_the_final_agent_cannot_be_saved(run, monkeypatch):
    fill_disk(monkeypatch, after=0)
    with pytest.raises(RunFailed, match=r"disk is full.*no checkpoint had been saved"):
        train(run())
