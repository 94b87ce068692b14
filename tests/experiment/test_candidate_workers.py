"""A random search plays its candidates in as many processes as `n_envs` says, with the same results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from rlzoo import ARS
from rlzoo.experiment.train import resume, train

VALUES = """\
Pendulum-v1:
  policy: LinearPolicy
  n_envs: %d
  n_timesteps: %d
  normalize: {norm_obs: true, norm_reward: false}
  n_delta: 2
"""


def test_results_do_not_depend_on_the_number_of_workers(run: Any, conf: Path) -> None:
    agents = []
    for n_envs in (1, 2):
        conf.write_text(VALUES % (n_envs, 800))
        result = train(run(algo="ars", env_id="Pendulum-v1", save_freq=500))
        assert result.num_timesteps == 800
        monitors = sorted(path.name for path in result.folder.glob("*.monitor.csv"))
        assert monitors == [f"{index}.monitor.csv" for index in range(n_envs)]
        rows = [line for name in monitors for line in (result.folder / name).read_text().splitlines()[2:]]
        assert len(rows) == 4
        assert (result.folder / "rl_model_500_steps.zip").is_file()
        agents.append(ARS.load(result.model_path, device="cpu"))
    one, two = agents
    assert torch.equal(one.policy.action_net.weight, two.policy.action_net.weight)
    assert one.policy.action_net.weight.any()
    for name, value in one.normalize_state.items():
        assert (value == two.normalize_state[name]).all()
    assert resume(result.folder, n_timesteps=1600).num_timesteps == 1600
