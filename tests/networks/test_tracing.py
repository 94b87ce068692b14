"""`torch.jit.trace` of our networks, with its own check: it records twice and compares the graphs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import rlzoo
from rlzoo.accel.fast_mlp import fast_forward

SMALL = {"net_arch": [8]}


class Deterministic(nn.Module):
    """What `predict(deterministic=True)` computes."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, obs: Tensor) -> Tensor:
        return self.policy._predict(obs, deterministic=True)


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
@pytest.mark.parametrize(
    ("name", "env", "actor"),
    [
        ("PPO", "CartPole-v1", ""),
        ("PPO", "Pendulum-v1", ""),
        ("A2C", "CartPole-v1", ""),
        ("TRPO", "CartPole-v1", ""),
        ("SAC", "Pendulum-v1", ""),
        ("TQC", "Pendulum-v1", ""),
        ("CrossQ", "Pendulum-v1", ""),
        ("TD3", "Pendulum-v1", "actor"),
        ("DDPG", "Pendulum-v1", "actor"),
        ("DQN", "CartPole-v1", "q_net"),
        ("QRDQN", "CartPole-v1", "quantile_net"),
    ],
)
def test_a_traced_actor_passes_the_check_of_torch(name, env, actor):
    model = getattr(rlzoo, name)("MlpPolicy", env, policy_kwargs=SMALL, seed=0)
    model.policy.set_training_mode(False)
    module = Deterministic(model.policy) if not actor else getattr(model.policy, actor)
    width = model.observation_space.shape[0]
    traced = torch.jit.trace(module, torch.randn(2, width))
    obs = torch.randn(5, width)  # another batch size: it is not part of the graph
    with torch.no_grad():
        torch.testing.assert_close(traced(obs), module(obs))


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
def test_a_traced_policy_of_images_takes_any_batch():
    model = rlzoo.PPO("CnnPolicy", rlzoo.FakeImageEnv(screen_height=36, screen_width=36), seed=0)
    module = Deterministic(model.policy.eval())
    shape = model.observation_space.shape
    traced = torch.jit.trace(module, torch.zeros(1, *shape, dtype=torch.uint8))
    images = torch.randint(0, 255, (3, *shape), dtype=torch.uint8)
    assert torch.equal(traced(images), module(images))


def test_fast_forward_still_skips_the_modules(monkeypatch):
    network = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    monkeypatch.setattr(nn.Linear, "forward", lambda self, x: pytest.fail("called as a module"))
    with torch.no_grad():
        assert fast_forward(network, torch.zeros(1, 3)).shape == (1, 2)
