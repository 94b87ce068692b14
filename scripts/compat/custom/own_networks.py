"""Replace the actor's and the critic's hidden layers by overriding `_build_mlp_extractor`."""

from collections.abc import Callable

import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.policies import ActorCriticPolicy
from torch import nn


class Layers(nn.Module):
    """Separate hidden layers with residual connections."""

    def __init__(self, n_features: int, actor_size: int = 32, critic_size: int = 24):
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = actor_size, critic_size
        self.actor = nn.Sequential(nn.Linear(n_features, actor_size), nn.ReLU())
        self.critic = nn.Sequential(nn.Linear(n_features, critic_size), nn.ReLU())

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.forward_actor(features), self.forward_critic(features)

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        return self.actor(features)

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        return self.critic(features)


class OwnPolicy(ActorCriticPolicy):
    def __init__(
        self,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        lr_schedule: Callable[[float], float],
        *args,
        **kwargs,
    ):
        kwargs["ortho_init"] = False
        super().__init__(observation_space, action_space, lr_schedule, *args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = Layers(self.features_dim)


model = PPO(OwnPolicy, "CartPole-v1", n_steps=64, batch_size=64, verbose=1).learn(128)
assert isinstance(model.policy.mlp_extractor, Layers)
assert model.policy.action_net.in_features == 32 and model.policy.value_net.in_features == 24
model.save("own_policy")
assert isinstance(PPO.load("own_policy", custom_objects={"policy_class": OwnPolicy}).policy, OwnPolicy)
