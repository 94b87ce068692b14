"""Train SAC on continuous actions and look at its entropy coefficient."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import SAC

model = SAC("MlpPolicy", gym.make("Pendulum-v1"), learning_starts=64, batch_size=32, seed=0)
model.learn(total_timesteps=300, log_interval=1)

assert isinstance(model.target_entropy, (float, np.floating)) and model.target_entropy == -1.0
assert model.log_ent_coef.exp().item() < 1.0
assert model.replay_buffer.size() == 300

obs = model.get_env().reset()
action, _ = model.predict(obs, deterministic=True)
assert action.shape == (1, 1)
assert (np.abs(action) <= 2.0).all()
assert model.action_space.high[0] == 2.0
