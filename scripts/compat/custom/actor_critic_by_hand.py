"""Call the parts of an actor-critic policy by hand, as in one's own losses."""

import torch
from gymnasium.spaces import Box
from stable_baselines3 import PPO

model = PPO("MlpPolicy", "Pendulum-v1", n_steps=32, batch_size=32, seed=0).learn(32)
policy = model.policy
obs, vectorised = policy.obs_to_tensor(model.observation_space.sample())
assert vectorised is False and obs.shape == (1, 3)
actions, values, log_prob = policy(obs)
assert actions.shape == (1, 1) and values.shape == (1, 1) and log_prob.shape == (1,)
values, log_prob, entropy = policy.evaluate_actions(obs, actions)
assert entropy.shape == (1,)
distribution = policy.get_distribution(obs)
torch.testing.assert_close(distribution.log_prob(actions), log_prob)
torch.testing.assert_close(policy.predict_values(obs), values)

features = policy.extract_features(obs)
latent_pi, latent_vf = policy.mlp_extractor(features)
torch.testing.assert_close(policy.value_net(latent_vf), values)
torch.testing.assert_close(policy.action_net(latent_pi), distribution.mode())

for data in model.rollout_buffer.get(batch_size=16):
    new_values, new_log_prob, _ = policy.evaluate_actions(data.observations, data.actions)
    assert data.advantages.shape == data.returns.shape == data.old_log_prob.shape == (16,)
    loss = -(data.advantages * torch.exp(new_log_prob - data.old_log_prob)).mean()
    policy.optimizer.zero_grad()
    loss.backward()
    policy.optimizer.step()
assert isinstance(policy.action_space, Box)
assert (policy.unscale_action(policy.scale_action(model.action_space.high)) == model.action_space.high).all()
