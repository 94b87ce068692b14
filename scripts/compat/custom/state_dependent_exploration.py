"""Explore with state-dependent noise (gSDE)."""

import torch
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.distributions import StateDependentNoiseDistribution

kwargs = {"log_std_init": -2.0, "net_arch": [16]}
model = PPO(
    "MlpPolicy",
    "Pendulum-v1",
    use_sde=True,
    sde_sample_freq=4,
    policy_kwargs=kwargs,
    n_steps=32,
    batch_size=32,
)
model.learn(32)
assert isinstance(model.policy.action_dist, StateDependentNoiseDistribution)
assert model.policy.log_std.shape == (16, 1)
model.policy.reset_noise(n_envs=1)
assert torch.isfinite(model.policy.action_dist.exploration_mat).all()

A2C("MlpPolicy", "Pendulum-v1", use_sde=True, normalize_advantage=True).learn(20)
sac = SAC(
    "MlpPolicy", "Pendulum-v1", use_sde=True, use_sde_at_warmup=True, learning_starts=10, batch_size=8
).learn(20)
assert sac.actor.use_sde and sac.use_sde_at_warmup
assert sac.actor.get_std().shape[-1] == 1
