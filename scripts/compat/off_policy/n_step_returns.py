"""Learn from n-step returns."""

import numpy as np
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.buffers import NStepReplayBuffer

model = DQN("MlpPolicy", "CartPole-v1", n_steps=3, learning_starts=50, buffer_size=500, gamma=0.9).learn(150)
assert isinstance(model.replay_buffer, NStepReplayBuffer)
assert model.replay_buffer.n_steps == 3
sample = model.replay_buffer.sample(64)
longest = 1 + 0.9 + 0.81
assert sample.rewards.max().item() <= longest + 1e-5
assert np.isclose(sample.rewards.max().item(), longest)
assert sample.discounts.shape == (64, 1)

sac = SAC("MlpPolicy", "Pendulum-v1", n_steps=5, learning_starts=20, batch_size=8).learn(40)
assert sac.n_steps == 5
