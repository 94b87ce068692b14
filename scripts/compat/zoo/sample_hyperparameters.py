"""Search with the zoo's search spaces from the command line function."""

import glob
import sys

import optuna
from rl_zoo3.hyperparams_opt import HYPERPARAMS_SAMPLER, sample_ppo_params
from rl_zoo3.train import train

assert HYPERPARAMS_SAMPLER["ppo"] is sample_ppo_params
trial = optuna.create_study().ask()
sampled = sample_ppo_params(trial, 2, 1, {})
assert sampled and trial.params

sys.argv = ["train", "--algo", "a2c", "--env", "CartPole-v1", "-n", "200", "-f", "logs", "--verbose", "0"]
sys.argv += [
    "-optimize",
    "--n-trials",
    "2",
    "--n-startup-trials",
    "1",
    "--n-evaluations",
    "1",
    "--n-jobs",
    "1",
]
sys.argv += ["--no-optim-plots", "--sampler", "random", "--pruner", "none"]
train()
assert glob.glob("logs/**/*.csv", recursive=True)
