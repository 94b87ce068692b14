"""Fill a replay buffer by hand, for offline learning."""

import gymnasium as gym
import numpy as np
from stable_baselines3 import DQN
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.logger import configure

env = gym.make("CartPole-v1")
buffer = ReplayBuffer(1_000, env.observation_space, env.action_space, device="cpu", n_envs=1)
obs, _ = env.reset(seed=0)
for _ in range(300):
    action = env.action_space.sample()
    new_obs, reward, terminated, truncated, info = env.step(action)
    buffer.add(obs, new_obs, np.array([action]), np.array([reward]), np.array([terminated]), [info])
    obs = env.reset()[0] if terminated or truncated else new_obs
assert buffer.size() == 300 and not buffer.full
assert buffer.actions[:300].shape == (300, 1, 1)

model = DQN("MlpPolicy", env, batch_size=32)
model.replay_buffer = buffer
model.set_logger(configure(None, []))
before = model.policy.parameters_to_vector()
model.train(gradient_steps=20, batch_size=32)
assert not np.array_equal(before, model.policy.parameters_to_vector())
buffer.reset()
assert buffer.size() == 0
