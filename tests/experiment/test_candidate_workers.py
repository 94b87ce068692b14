"""A random search plays its candidates in as many processes as `n_envs` says, with the same results."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from rlzoo import ARS, AsyncEval
from rlzoo.experiment.resumed_run import resume
from rlzoo.experiment.training_run import train

VALUES = """\
Pendulum-v1:
  policy: LinearPolicy
  n_envs: %d
  n_timesteps: %d
  normalize: {norm_obs: true, norm_reward: false}
  n_delta: 2
"""


def n_recorded_episodes(folder: Path, n_envs: int) -> int:
    monitors = sorted(folder.glob("*.monitor.csv"))
    assert [path.name for path in monitors] == [f"{index}.monitor.csv" for index in range(n_envs)]
    return sum(len(path.read_text().splitlines()[2:]) for path in monitors)


def test_results_do_not_depend_on_the_number_of_workers(run: Any, conf: Path) -> None:
    agents = []
    for n_envs in (1, 2):
        conf.write_text(VALUES % (n_envs, 800))
        result = train(run(algo="ars", env_id="Pendulum-v1", save_freq=500))
        assert result.num_timesteps == 800
        assert n_recorded_episodes(result.folder, n_envs) == 4
        assert (result.folder / "rl_model_500_steps.zip").is_file()
        agents.append(ARS.load(result.model_path, device="cpu"))
    one, two = agents
    assert torch.equal(one.policy.action_net.weight, two.policy.action_net.weight)
    assert one.policy.action_net.weight.any()
    for name, value in one.normalize_state.items():
        assert (value == two.normalize_state[name]).all()
    assert resume(result.folder, n_timesteps=1600).num_timesteps == 1600


def test_the_episodes_of_a_killed_worker_stay_on_record(
    run: Any, conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two rounds of four episodes, one worker dies between them."""
    play = AsyncEval.play

    def kill_and_play(workers: AsyncEval, *args: Any) -> Any:
        if workers._round == 1:
            os.kill(workers._workers[0].process.pid, signal.SIGKILL)
        return play(workers, *args)

    monkeypatch.setattr(AsyncEval, "play", kill_and_play)
    conf.write_text(VALUES % (2, 1600))
    result = train(run(algo="ars", env_id="Pendulum-v1"))
    assert result.num_timesteps == 1600
    assert n_recorded_episodes(result.folder, 2) == 8
