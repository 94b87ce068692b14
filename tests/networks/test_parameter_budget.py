"""Networks beyond a limit are refused before they take memory or time."""

from __future__ import annotations

import threading
import time

import pytest
from torch import nn

from rlzoo.accel.memory import TooManyParameters, parameter_budget
from rlzoo.algorithms.on_policy.ppo import PPO
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.core.errors import UserError
from rlzoo.networks.torch_layers import create_mlp


def test_budget_counts_bytes_and_tensors_until_it_is_left():
    began = time.process_time()
    with pytest.raises(TooManyParameters, match="MB or more"), parameter_budget(10**6):
        nn.Linear(20_000, 20_000)
    with (
        pytest.raises(TooManyParameters, match="more than 50 parameter tensors"),
        parameter_budget(10**6, 50),
    ):
        create_mlp(1, 1, [1] * 100_000)
    with pytest.raises(TooManyParameters, match="more memory than there is"), parameter_budget(2**63):
        nn.Linear(2**40, 2**20)
    with parameter_budget(4 * 12, 2):
        nn.Linear(3, 3)
    nn.Linear(300, 300)
    assert time.process_time() - began < 2


def test_budget_is_of_one_thread():
    made = []
    with parameter_budget(0):
        other = threading.Thread(target=lambda: made.append(nn.Linear(3, 3)))
        other.start()
        other.join()
    assert made


@pytest.mark.parametrize("net_arch", [[10**6, 10**6], [10**30]])
def test_agent_larger_than_the_memory_is_one_error(net_arch):
    with pytest.raises(UserError, match=r"the networks need .* memory than there is|MB or more"):
        PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": net_arch}, device="cpu")


def test_rollout_larger_than_the_memory_is_one_error():
    env = PPO("MlpPolicy", "CartPole-v1", device="cpu").get_env()
    with pytest.raises(UserError, match=r"n_steps=100,000,000,000 with 2 environments needs .* GB"):
        RolloutBuffer(10**11, env.observation_space, env.action_space, n_envs=2)
