"""An environment that goes wrong when it is told to, and callbacks to go with it."""

from __future__ import annotations

import os
import signal
import sys

import gymnasium as gym
import numpy as np

from rlzoo import BaseCallback

ENV_ID = "Faulty-v0"


class Odd(BaseException):
    """What some libraries raise to get past `except Exception`."""


class FaultyEnv(gym.Env):
    """Episodes of 20 steps; the action that equals the observation's sign is worth 1.

    :param fault: what happens at step `at`: raise, exit, base, nan, inf, nan_reward, inf_reward,
        shape, info, die, or signal
    :param index: only in the environment that was first seeded with this number
    """

    metadata = {"render_modes": []}
    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, fault: str = "none", at: int = 0, index: int = 0) -> None:
        self.fault, self.at, self.index = fault, at, index
        self.seed: int | None = None
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.seed = seed if self.seed is None else self.seed
        self.obs = self.observation_space.sample()
        return self.obs, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.steps += 1
        reward = float(action == (self.obs[0] > 0))
        self.obs = self.np_random.uniform(-1, 1, 3).astype(np.float32)
        obs = self.obs
        if self.steps == self.at and (self.seed == self.index or self.index < 0):
            if self.fault == "raise":
                raise ZeroDivisionError("the bridge is out")
            if self.fault == "die":
                os._exit(1)
            if self.fault == "signal":
                os.kill(os.getpid(), signal.SIGTERM)
            if self.fault == "nan":
                obs = np.full(3, np.nan, np.float32)
            if self.fault == "inf":
                obs = np.full(3, np.inf, np.float32)
            if self.fault.endswith("_reward"):
                reward = float(self.fault.removesuffix("_reward"))
            if self.fault == "exit":
                sys.exit()
            if self.fault == "base":
                raise Odd("no Exception")
            if self.fault == "info":
                return obs, reward, False, False, None
            if self.fault == "shape":
                obs = np.zeros(5, np.float32)
        return obs, reward, False, self.steps % 20 == 0, {}


class Announce(BaseCallback):
    """Prints the number of steps at each step."""

    def _on_step(self) -> bool:
        sys.stdout.write(f"step {self.num_timesteps}\n")
        sys.stdout.flush()
        return True


class Leave(BaseCallback):
    """Ends the process, or so it thinks."""

    def _on_step(self) -> bool:
        sys.exit("enough")


if ENV_ID not in gym.registry:
    gym.register(ENV_ID, FaultyEnv)
