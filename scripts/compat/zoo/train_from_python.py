"""Run the training command from Python with custom arguments, then look at what it saved."""

import os
import sys

import gymnasium as gym
from rl_zoo3.train import train
from rl_zoo3.utils import create_test_env, get_latest_run_id, get_saved_hyperparams
from stable_baselines3 import A2C

gym.register("Own-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=50)
with open("own.yml", "w") as file:
    file.write("Own-v0:\n  n_envs: 2\n  n_timesteps: !!float 400\n  policy: MlpPolicy\n  normalize: true\n")
sys.argv = [
    "train",
    "--algo",
    "a2c",
    "--env",
    "Own-v0",
    "-conf",
    "own.yml",
    "-f",
    "logs",
    "--eval-freq",
    "-1",
]
sys.argv += ["--seed", "1", "--verbose", "0", "-params", "gamma:0.95"]
train()

assert get_latest_run_id("logs/a2c", "Own-v0") == 1
folder = os.path.join("logs", "a2c", "Own-v0_1")
hyperparams, stats = get_saved_hyperparams(os.path.join(folder, "Own-v0"), test_mode=True)
assert hyperparams["gamma"] == 0.95 and hyperparams["n_envs"] == 2
assert hyperparams["normalize"] and os.path.isdir(stats)
venv = create_test_env(
    "Own-v0", n_envs=1, stats_path=stats, seed=0, should_render=False, hyperparams=hyperparams
)
model = A2C.load(os.path.join(folder, "Own-v0.zip"), env=venv)
obs = venv.reset()
assert not venv.training and not venv.norm_reward
for _ in range(20):
    obs, *_ = venv.step(model.predict(obs, deterministic=True)[0])
