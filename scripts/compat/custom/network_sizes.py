"""Choose sizes, activation and sharing of the networks of an actor-critic policy."""

import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.envs import FakeImageEnv
from torch import nn

settings = {"n_steps": 32, "batch_size": 32}
model = PPO(
    "MlpPolicy",
    "CartPole-v1",
    policy_kwargs={"activation_fn": nn.ReLU, "net_arch": {"pi": [32, 16], "vf": [8]}},
    **settings,
)
hidden = model.policy.mlp_extractor.policy_net
assert [layer.out_features for layer in hidden if isinstance(layer, nn.Linear)] == [32, 16]
assert any(isinstance(layer, nn.ReLU) for layer in hidden)
assert model.policy.value_net.in_features == 8
print(model.policy)

shallow = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": []}, **settings).learn(32)
assert shallow.policy.action_net.in_features == 4
same = PPO("MlpPolicy", "CartPole-v1", policy_kwargs={"net_arch": [20]}, **settings)
assert same.policy.mlp_extractor.latent_dim_pi == same.policy.mlp_extractor.latent_dim_vf == 20

env = FakeImageEnv(screen_height=40, screen_width=40)
apart = A2C("CnnPolicy", env, policy_kwargs={"share_features_extractor": False})
assert apart.policy.pi_features_extractor is not apart.policy.vf_features_extractor
optimiser = {"optimizer_class": torch.optim.AdamW, "optimizer_kwargs": {"weight_decay": 0.1}}
decayed = A2C("MlpPolicy", "CartPole-v1", policy_kwargs=optimiser, use_rms_prop=False).learn(10)
assert isinstance(decayed.policy.optimizer, torch.optim.AdamW)
assert decayed.policy.optimizer.param_groups[0]["weight_decay"] == 0.1
