"""Environments for the workers of a random search; importing this file does not import PyTorch."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo import DummyVecEnv, VecMonitor, VecNormalize


class Walk(gym.Env[Any, Any]):
    """Episodes of random length, random observations far from zero; the best action is one."""

    observation_space: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    action_space = spaces.Box(-2, 2, (1,), np.float32)

    def __init__(self, kill: Callable[[int], None] | None = None, fault: str = "") -> None:
        self.kill, self.fault, self.episodes = kill, fault, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.episodes += 1
        if self.kill is not None:
            self.kill(self.episodes)
        self.steps, self.length = 0, int(self.np_random.integers(2, 9))
        return self.observe(), {}

    def observe(self) -> np.ndarray:
        return self.np_random.normal(5.0, 3.0, size=3).astype(np.float32)

    def step(self, action: Any) -> Any:
        self.steps += 1
        if self.steps == 2 and self.fault == "raise":
            raise ZeroDivisionError("broken leg")
        reward = float("nan") if self.steps == 2 and self.fault == "nan" else -abs(float(action[0]) - 1.0)
        return self.observe(), reward, self.steps == self.length, False, {}


def env_of(n_envs: int = 1, normalized: bool = False, **kwargs: Any) -> Any:
    env = VecMonitor(DummyVecEnv([partial(Walk, **kwargs)] * n_envs))
    return VecNormalize(env, norm_reward=False) if normalized else env


class Deadly:
    """Kills its process at the third episode, so many times in all; one process makes the file of each."""

    def __init__(self, folder: Path, deaths: int) -> None:
        self.folder, self.deaths = folder, deaths

    def __call__(self, episodes: int) -> None:
        if episodes < 3:
            return
        for death in range(self.deaths):
            with suppress(FileExistsError):
                (self.folder / f"death_{death}").open("x").close()
                os.kill(os.getpid(), signal.SIGKILL)
