"""A model that does not learn and environments that say how long they last: enough to train beside."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.callbacks.base_callback import to_callback
from rlzoo.callbacks.callbacks import ProgressBarCallback
from rlzoo.core.schedules import Counters
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.metrics.logger import KVWriter, Logger


class Steps(gym.Env):
    """Each episode lasts `length` steps and pays `reward` each; optionally says whether it was a success."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int, reward: float = 1.0, success: bool | None = None) -> None:
        self.length, self.reward, self.success = length, reward, success

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.t = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.t += 1
        ended = self.t >= self.length
        info = {"is_success": self.success} if ended and self.success is not None else {}
        return self.observation_space.sample(), self.reward, ended, False, info


class Recorder(KVWriter):
    def __init__(self) -> None:
        self.dumps: list[tuple[int, dict[str, Any]]] = []

    def write(self, key_values: dict[str, Any], key_excluded: Any, step: int = 0) -> None:
        self.dumps.append((step, key_values))


class Model:
    """The part of an algorithm that callbacks see, and a loop that calls them as the on-policy loop does."""

    def __init__(self, env: VecEnv | None = None, n_steps: int = 4) -> None:
        self.env = env if env is not None else DummyVecEnv([lambda: Steps(3)])
        self.n_steps = n_steps
        self.num_timesteps = 0
        self.counters = Counters()
        self.recorder = Recorder()
        self.logger = Logger(None, [self.recorder])
        self.ep_info_buffer: deque[dict[str, float]] = deque(maxlen=100)
        self.vec_normalize: Any = None
        self.starts: list[np.ndarray] = []
        self.choose: Callable[[int], np.ndarray] = lambda n: np.zeros(n, dtype=int)

    def get_env(self) -> VecEnv:
        return self.env

    def get_vec_normalize_env(self) -> Any:
        return self.vec_normalize

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        self.starts.append(episode_start.copy())
        return self.choose(len(observation)), (0 if state is None else state + 1)

    def save(self, path: str, include: Any = ()) -> None:
        Path(path).write_text(str(self.num_timesteps))

    def learn(self, total_timesteps: int, callback: Any = None, progress_bar: bool = False) -> Model:
        hooks = to_callback(callback, *([ProgressBarCallback()] if progress_bar else []))
        self.counters.total_timesteps = self.num_timesteps + total_timesteps
        hooks.init_callback(self)
        self.env.reset()
        hooks.on_training_start({"self": self, "total_timesteps": total_timesteps}, globals())
        while self.num_timesteps < self.counters.total_timesteps and self._collect(hooks):
            pass
        hooks.on_training_end()
        return self

    def _collect(self, hooks: Any) -> bool:
        hooks.on_rollout_start()
        for _ in range(self.n_steps):
            actions = np.zeros(self.env.num_envs, dtype=int)
            new_obs, rewards, dones, infos = self.env.step(actions)
            self.ep_info_buffer.extend(info["episode"] for info in infos if "episode" in info)
            self.num_timesteps += self.env.num_envs
            hooks.update_locals(
                {"self": self, "infos": infos, "rewards": rewards, "dones": dones, "new_obs": new_obs}
            )
            if not hooks.on_step():
                return False
        hooks.on_rollout_end()
        return True


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def make_model() -> type[Model]:
    return Model


@pytest.fixture
def make_env() -> Callable[..., VecEnv]:
    """(lengths, rewards=..., success=..., monitor=True) -> vector of `Steps`, one per length."""

    def make(*lengths: int, rewards: Any = None, success: bool | None = None, monitor: bool = True) -> VecEnv:
        pays = [1.0] * len(lengths) if rewards is None else rewards
        venv = DummyVecEnv(
            [
                lambda length=length, pay=pay: Steps(length, pay, success)
                for length, pay in zip(lengths, pays, strict=True)
            ]
        )
        return VecMonitor(venv) if monitor else venv

    return make
