"""Show a progress bar while training."""

from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import ProgressBarCallback

model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64).learn(256, progress_bar=True)
assert model.num_timesteps == 256
DQN("MlpPolicy", "CartPole-v1", learning_starts=50).learn(100, callback=ProgressBarCallback())
