"""Give DQN, SAC and TD3 networks of one's own, by the methods of their policies that make them."""

import torch
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.policies import ContinuousCritic
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from stable_baselines3.sac.policies import Actor as SACActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import Actor as TD3Actor
from stable_baselines3.td3.policies import TD3Policy
from torch import nn


class DuelingNetwork(QNetwork):
    """Values and advantages behind the same features."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.advantages = nn.Sequential(nn.Linear(self.features_dim, 16), nn.ReLU(), nn.Linear(16, 2))
        self.value = nn.Sequential(nn.Linear(self.features_dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, obs):
        features = self.extract_features(obs, self.features_extractor)
        advantages = self.advantages(features)
        return self.value(features) + advantages - advantages.mean(dim=1, keepdim=True)


class DuelingPolicy(DQNPolicy):
    def make_q_net(self):
        arguments = self._update_features_extractor(self.net_args, features_extractor=None)
        return DuelingNetwork(**arguments).to(self.device)


class NormalizedCritic(ContinuousCritic):
    """Layer normalisation in front of every critic."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        width = self.q_networks[0][0].in_features
        self.norm = nn.LayerNorm(width)

    def forward(self, obs, actions):
        features = self.extract_features(obs, self.features_extractor)
        inputs = self.norm(torch.cat([features, actions], dim=1))
        return tuple(network(inputs) for network in self.q_networks)


class CarefulActor(SACActor):
    """Halves its standard deviation."""

    def get_action_dist_params(self, obs):
        mean, log_std, others = super().get_action_dist_params(obs)
        return mean, log_std - 0.69, others


class OwnSACPolicy(SACPolicy):
    def make_actor(self, features_extractor=None):
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return CarefulActor(**arguments).to(self.device)

    def make_critic(self, features_extractor=None):
        arguments = self._update_features_extractor(self.critic_kwargs, features_extractor)
        return NormalizedCritic(**arguments).to(self.device)


class WideActor(TD3Actor):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.mu = nn.Sequential(nn.Linear(self.features_dim, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())


class OwnTD3Policy(TD3Policy):
    def make_actor(self, features_extractor=None):
        arguments = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return WideActor(**arguments).to(self.device)


dqn = DQN(DuelingPolicy, "CartPole-v1", learning_starts=20).learn(60)
assert isinstance(dqn.q_net_target, DuelingNetwork)
sac = SAC(OwnSACPolicy, "Pendulum-v1", learning_starts=20, batch_size=16).learn(60)
before = sac.critic.norm.weight.detach().clone()
sac.learn(40, reset_num_timesteps=False)
assert not torch.equal(sac.critic.norm.weight, before)
assert not torch.equal(sac.critic_target.norm.weight, sac.critic.norm.weight)
td3 = TD3(OwnTD3Policy, "Pendulum-v1", learning_starts=20, batch_size=16).learn(60)
action, _ = td3.predict(td3.observation_space.sample())
assert action.shape == (1,)
