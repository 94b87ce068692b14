"""List what a folder of trained agents holds, and find the files of one."""

import os
import sys

from rl_zoo3 import get_trained_models
from rl_zoo3.train import train
from rl_zoo3.utils import get_model_path

for algo in ("ppo", "a2c"):
    sys.argv = ["train", "--algo", algo, "--env", "CartPole-v1", "-n", "64", "-f", "agents", "--verbose", "0"]
    sys.argv += ["--eval-freq", "64", "--eval-episodes", "1", "-params", "n_envs:1", "n_steps:32"]
    sys.argv += ["batch_size:32"] if algo == "ppo" else []
    train()

found = get_trained_models("agents")
assert set(found.values()) >= {("ppo", "CartPole-v1"), ("a2c", "CartPole-v1")}

try:
    from huggingface_sb3 import EnvironmentName
except ImportError:
    EnvironmentName = str
name, path, folder = get_model_path(0, "agents", "ppo", EnvironmentName("CartPole-v1"))
assert os.path.isfile(path) and path.endswith("CartPole-v1.zip") and os.path.isdir(folder)
_, best, _ = get_model_path(1, "agents", "ppo", EnvironmentName("CartPole-v1"), load_best=True)
assert os.path.basename(best) == "best_model.zip"
