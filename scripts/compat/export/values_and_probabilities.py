"""Read value estimates, Q-values and action probabilities of trained agents."""

import numpy as np
import torch
from stable_baselines3 import A2C, DQN, SAC
from stable_baselines3.common.utils import obs_as_tensor

a2c = A2C("MlpPolicy", "CartPole-v1", seed=0).learn(100)
obs = a2c.get_env().reset()
with torch.no_grad():
    tensor, _ = a2c.policy.obs_to_tensor(obs)
    value = a2c.policy.predict_values(tensor)
    probs = a2c.policy.get_distribution(tensor).distribution.probs.numpy()
assert value.shape == (1, 1) and probs.shape == (1, 2) and np.isclose(probs.sum(), 1)
assert probs.argmax() == a2c.predict(obs, deterministic=True)[0][0]

dqn = DQN("MlpPolicy", "CartPole-v1", seed=0)
with torch.no_grad():
    q_values = dqn.q_net(obs_as_tensor(obs, dqn.device))
assert q_values.shape == (1, 2)
assert q_values.argmax(dim=1).item() == dqn.predict(obs, deterministic=True)[0][0]
assert dqn.q_net.predict(obs)[0].shape == (1,)

sac = SAC("MlpPolicy", "Pendulum-v1")
obs = torch.as_tensor(sac.get_env().reset())
with torch.no_grad():
    actions, log_prob = sac.actor.action_log_prob(obs)
    first, second = sac.critic(obs, actions)
    assert sac.critic.q1_forward(obs, actions).shape == first.shape == second.shape == (1, 1)
assert log_prob.shape == (1,) and actions.abs().max() <= 1
assert sac.actor.predict(obs.numpy(), deterministic=True)[0].shape == (1, 1)
