"""Read monitor.csv and plot the learning curve."""

import os

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common import results_plotter
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.results_plotter import load_results, plot_results, ts2xy

os.makedirs("log")
env = Monitor(gym.make("CartPole-v1"), "log/")
PPO("MlpPolicy", env, n_steps=256).learn(512)
env.close()

table = load_results("log")
x, y = ts2xy(table, results_plotter.X_TIMESTEPS)
assert len(x) == len(y) == len(table) and x[-1] <= 512
assert ts2xy(table, "episodes")[0].tolist() == list(range(len(table)))
assert (np.diff(ts2xy(table, results_plotter.X_WALLTIME)[0]) >= 0).all()
smooth_x, smooth_y = results_plotter.window_func(x, y, 5, np.mean)
assert len(smooth_x) == len(x) - 4 and np.isclose(smooth_y[0], y[:5].mean())

plot_results(["log"], 512, results_plotter.X_TIMESTEPS, "CartPole", figsize=(6, 3))
assert plt.get_fignums()
plt.savefig("curve.png")
assert os.path.getsize("curve.png") > 1000
with open("log/monitor.csv") as file:
    assert file.readline().startswith("#{") and file.readline().strip() == "r,l,t"
