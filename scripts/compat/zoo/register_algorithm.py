"""Register a custom class with the zoo and train it by its name."""

import os
import sys

import rl_zoo3
import rl_zoo3.enjoy
import rl_zoo3.train
from rl_zoo3.train import train
from stable_baselines3 import DQN


class MyDQN(DQN):
    """DQN with another default."""

    def __init__(self, *args, **kwargs):
        kwargs.setdefault("learning_starts", 20)
        super().__init__(*args, **kwargs)


rl_zoo3.ALGOS["mydqn"] = MyDQN
rl_zoo3.train.ALGOS = rl_zoo3.ALGOS
rl_zoo3.enjoy.ALGOS = rl_zoo3.ALGOS
rl_zoo3.exp_manager.ALGOS = rl_zoo3.ALGOS

if __name__ == "__main__":
    with open("mydqn.yml", "w") as file:
        file.write("CartPole-v1:\n  n_timesteps: 150\n  policy: MlpPolicy\n  buffer_size: 500\n")
    sys.argv = ["train", "--algo", "mydqn", "--env", "CartPole-v1", "-conf", "mydqn.yml", "-f", "logs"]
    sys.argv += ["--eval-freq", "-1", "--verbose", "0"]
    train()
    assert os.path.isfile("logs/mydqn/CartPole-v1_1/CartPole-v1.zip")
    assert MyDQN.load("logs/mydqn/CartPole-v1_1/CartPole-v1.zip").num_timesteps >= 150
