"""Plot the runs of a folder."""

import sys

import matplotlib.pyplot as plt
from rl_zoo3.plots import all_plots, plot_train
from rl_zoo3.train import train

plt.show = lambda *args, **kwargs: None  # no window
for seed in ("1", "2"):
    sys.argv = ["train", "--algo", "a2c", "--env", "CartPole-v1", "-n", "600", "-f", "logs", "--verbose", "0"]
    sys.argv += ["--eval-freq", "200", "--eval-episodes", "2"]
    sys.argv += ["--seed", seed, "-params", "n_envs:1"]
    train()

sys.argv = ["plot_train", "-a", "a2c", "-e", "CartPole-v1", "-f", "logs", "-x", "steps", "-w", "2"]
plot_train()
sys.argv = ["all_plots", "-a", "a2c", "-e", "CartPole-v1", "-f", "logs", "-o", "results", "--no-million"]
all_plots()
