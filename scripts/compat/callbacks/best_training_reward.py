"""Save the model whenever the mean training reward in monitor.csv is the best so far."""

import os

import gymnasium as gym
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.results_plotter import load_results, ts2xy


class KeepBest(BaseCallback):
    def __init__(self, every: int, folder: str, verbose: int = 1):
        super().__init__(verbose)
        self.every, self.folder = every, folder
        self.path = os.path.join(folder, "best")
        self.best = -np.inf

    def _on_step(self) -> bool:
        if self.n_calls % self.every == 0:
            steps, rewards = ts2xy(load_results(self.folder), "timesteps")
            if len(steps) and (mean := np.mean(rewards[-20:])) > self.best:
                self.best = mean
                self.model.save(self.path)
        return True


os.makedirs("log", exist_ok=True)
callback = KeepBest(every=200, folder="log")
model = PPO("MlpPolicy", Monitor(gym.make("CartPole-v1"), "log"), n_steps=128, batch_size=64)
model.learn(1024, callback=callback)
assert callback.best > 8
assert os.path.isfile("log/monitor.csv") and os.path.isfile("log/best.zip")
PPO.load("log/best")
