"""Rely on the names of the other files that the commands of the zoo write."""

import glob
import os
import sys

from rl_zoo3.train import train
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

run = ["train", "--algo", "a2c", "--env", "CartPole-v1", "-n", "200", "-f", "logs", "--verbose", "0"]
sys.argv = [*run, "--eval-freq", "-1", "-params", "n_envs:1", "normalize:True"]
train()
folder = "logs/a2c/CartPole-v1_1/CartPole-v1"
VecNormalize.load(f"{folder}/vecnormalize.pkl", make_vec_env("CartPole-v1"))

sys.argv = [*run, "-optimize", "--n-trials", "2", "--n-startup-trials", "1", "--n-evaluations", "1"]
sys.argv += ["--no-optim-plots", "--sampler", "random", "--pruner", "none"]
train()
assert os.path.isfile(f"{folder}/command.txt")
assert glob.glob("logs/a2c/report_CartPole-v1_2-trials-200-*.csv")
