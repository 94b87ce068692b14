"""Evaluate now and then, keep the best model, and stop when it is good enough."""

import os

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback, StopTrainingOnRewardThreshold
from stable_baselines3.common.monitor import Monitor

stop = StopTrainingOnRewardThreshold(reward_threshold=40, verbose=1)
watch = EvalCallback(
    Monitor(gym.make("CartPole-v1")),
    callback_on_new_best=stop,
    eval_freq=500,
    n_eval_episodes=5,
    best_model_save_path="best",
    log_path="results",
    deterministic=True,
    render=False,
    verbose=1,
)
model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, batch_size=64, learning_rate=1e-3, seed=0)
model.learn(int(2e4), callback=watch)
assert model.num_timesteps < 20_000
assert watch.best_mean_reward >= 40 and stop.parent is watch
assert os.path.isfile("best/best_model.zip")

with np.load("results/evaluations.npz") as file:
    assert {"timesteps", "results", "ep_lengths"} <= set(file.files)
    assert file["results"].shape == (len(file["timesteps"]), 5)
    assert file["timesteps"][0] == 500
