"""Train with hyperparameters from a Python file, then run the agent with the enjoy command."""

import sys

from rl_zoo3.enjoy import enjoy
from rl_zoo3.train import train

CONFIG = """
from torch import nn

hyperparams = {
    "CartPole-v1": dict(
        policy="MlpPolicy",
        n_timesteps=256,
        n_steps=64,
        batch_size=64,
        learning_rate="lin_1e-3",
        policy_kwargs=dict(net_arch=[16], activation_fn=nn.ReLU),
    )
}
"""
with open("config.py", "w") as file:
    file.write(CONFIG)

shared = ["--algo", "ppo", "--env", "CartPole-v1", "-f", "logs"]
sys.argv = [
    "train",
    *shared,
    "--conf-file",
    "config.py",
    "--eval-freq",
    "128",
    "--eval-episodes",
    "1",
    "--verbose",
    "0",
]
train()
sys.argv = ["enjoy", *shared, "--n-timesteps", "100", "--no-render", "--load-best", "--verbose", "0"]
enjoy()
