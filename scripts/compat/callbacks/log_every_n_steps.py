"""Write the log of an off-policy algorithm every n steps instead of every few episodes."""

import pandas as pd
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import LogEveryNTimesteps
from stable_baselines3.common.logger import configure

model = DQN("MlpPolicy", "CartPole-v1", learning_starts=20, target_update_interval=50)
model.set_logger(configure("out", ["csv"]))
model.learn(300, callback=LogEveryNTimesteps(n_steps=100), log_interval=None)
table = pd.read_csv("out/progress.csv")
assert len(table) == 3
assert table["time/total_timesteps"].tolist() == [100, 200, 300]
assert {"rollout/exploration_rate", "train/loss", "train/n_updates"} <= set(table.columns)
