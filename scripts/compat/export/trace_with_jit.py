"""Trace a trained policy with torch.jit for use without this package."""

import torch
from stable_baselines3 import PPO, SAC


class Deterministic(torch.nn.Module):
    def __init__(self, policy):
        super().__init__()
        self.extractor = policy.features_extractor
        self.hidden = policy.mlp_extractor
        self.action_net = policy.action_net
        self.value_net = policy.value_net

    def forward(self, observation: torch.Tensor):
        features = self.extractor(observation)
        action_hidden, value_hidden = self.hidden(features)
        return self.action_net(action_hidden), self.value_net(value_hidden)


model = PPO("MlpPolicy", "Pendulum-v1", n_steps=32, batch_size=32, device="cpu").learn(32)
dummy = torch.randn(1, *model.observation_space.shape)
traced = torch.jit.trace(Deterministic(model.policy).eval(), dummy)
traced.save("policy.pt")
action, value = torch.jit.load("policy.pt")(dummy)
expected = model.predict(dummy.numpy(), deterministic=True)[0]
torch.testing.assert_close(action.clip(-2, 2), torch.as_tensor(expected))

sac = SAC("MlpPolicy", "Pendulum-v1", device="cpu")
actor = torch.nn.Sequential(sac.actor.latent_pi, sac.actor.mu, torch.nn.Tanh())
squashed = torch.jit.trace(actor, dummy)(dummy).detach().numpy()
expected = sac.predict(dummy.numpy(), deterministic=True)[0]
assert abs(sac.policy.unscale_action(squashed) - expected).max() < 1e-5
