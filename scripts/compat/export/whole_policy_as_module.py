"""Wrap a whole policy into a module of one input, as exporters to ONNX want it."""

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.policies import BasePolicy
from torch import nn


class Exported(nn.Module):
    def __init__(self, policy: BasePolicy):
        super().__init__()
        self.policy = policy

    def forward(self, observation: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return self.policy(observation, deterministic=True)


model = PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=32, device="cpu").learn(32)
module = Exported(model.policy)
observation = torch.randn(3, 4)
with torch.no_grad():
    action, value, log_prob = module(observation)
assert action.tolist() == model.predict(observation.numpy(), deterministic=True)[0].tolist()
assert value.shape == (3, 1) and log_prob.shape == (3,)
traced = torch.jit.trace(module, observation, check_trace=False)
torch.testing.assert_close(traced(observation)[1], value)
assert model.policy.device.type == "cpu"
assert model.policy.squash_output is False
