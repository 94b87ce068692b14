"""Replace the logger of a model: folder and formats."""

import json
import os
import pathlib

import pandas as pd
from stable_baselines3 import A2C
from stable_baselines3.common.logger import configure

logger = configure("out", ["stdout", "csv", "json", "log", "tensorboard"])
assert logger.dir == logger.get_dir() == "out"
model = A2C("MlpPolicy", "CartPole-v1", verbose=1)
model.set_logger(logger)
model.learn(1_000)
assert model.logger is logger

assert {"progress.csv", "progress.json", "log.txt"} <= set(os.listdir("out"))
table = pd.read_csv("out/progress.csv")
assert table["time/total_timesteps"].iloc[-1] == 1000
assert {"rollout/ep_rew_mean", "time/iterations", "train/entropy_loss", "train/explained_variance"} <= set(
    table.columns
)
with open("out/progress.json") as file:
    assert len([json.loads(line) for line in file]) == len(table)
assert "ep_rew_mean" in pathlib.Path("out/log.txt").read_text()
