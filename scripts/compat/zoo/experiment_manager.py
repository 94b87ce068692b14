"""Set an experiment up and run it from Python."""

import argparse
import os

from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3 import PPO

args = argparse.Namespace(algo="ppo", env="CartPole-v1", seed=3)
manager = ExperimentManager(
    args,
    "ppo",
    "CartPole-v1",
    "logs",
    n_timesteps=256,
    log_interval=-1,
    eval_freq=128,
    n_eval_episodes=1,
    hyperparams={"n_envs": 2, "n_steps": 32, "batch_size": 32},
    seed=3,
    verbose=0,
)
model, saved = manager.setup_experiment()
assert isinstance(model, PPO) and model.n_steps == 32 and model.n_envs == 2
assert saved["n_steps"] == 32
manager.learn(model)
manager.save_trained_model(model)
files = os.listdir("logs/ppo/CartPole-v1_1")
assert {"CartPole-v1.zip", "best_model.zip", "evaluations.npz"} <= set(files)
assert {"args.yml", "config.yml"} <= set(os.listdir("logs/ppo/CartPole-v1_1/CartPole-v1"))
