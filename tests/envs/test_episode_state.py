"""The episodes in progress of a vector of environments, saved and taken up by another vector."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import VecFrameStack, VecMonitor, VecNormalize, make_vec_env
from rlzoo.envs.vec_env.episode_state import episode_state
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.evaluation.episodes import savable_episodes
from rlzoo.io.encoding import pack, unpack


class Counter(gym.Env[Any, Any]):
    """Counts steps; can be restored."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += 1
        obs = np.array([self.count, self.np_random.normal()], np.float32)
        return obs, float(obs[1]), self.count == 7, False, {}

    def get_state(self) -> int:
        return self.count

    def set_state(self, state: int) -> None:
        self.count = state


class Opaque(Counter):
    get_state = None  # type: ignore[assignment]


class MuJoCoLike(Counter):
    def set_state(self, qpos: Any, qvel: Any) -> None:  # type: ignore[override]
        raise AssertionError


class OpaqueWrapper(VecEnvWrapper):
    pass


def vector(seed: int, env: Any = Counter, backend: str = "dummy", **kwargs: Any) -> Any:
    return make_vec_env(env, n_envs=3, seed=seed, backend=backend, **kwargs)


def played(venv: Any, n_steps: int) -> list[Any]:
    steps = [venv.step(np.arange(3) % 2) for _ in range(n_steps)]
    return [
        (obs, rewards, dones, [info.get("episode", {}).get("r") for info in infos])
        for obs, rewards, dones, infos in steps
    ]


VECTORS = {
    "get_state": lambda seed: vector(seed),
    "workers": lambda seed: vector(seed, backend="subproc", vec_env_kwargs={"n_workers": 2}),
    "native": lambda seed: vector(seed, "CartPole-v1", backend="auto"),
    "classic_control": lambda seed: vector(seed, "CartPole-v1"),
    "wrapped": lambda seed: VecFrameStack(VecNormalize(VecMonitor(vector(seed))), 2),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_restored_episodes_continue_as_the_saved_ones(kind: str) -> None:
    first, second = VECTORS[kind](1), VECTORS[kind](2)
    first.reset()
    played(first, 10)
    tree, tensors = pack(first.episode_state())
    expected = played(first, 30)
    second.reset()
    played(second, 3)
    assert second.load_episode_state(unpack(tree, tensors))
    for mine, other in zip(played(second, 30), expected, strict=True):
        for part, same in zip(mine, other, strict=True):
            np.testing.assert_array_equal(part, same)
    first.close(), second.close()


@pytest.mark.parametrize("env", [Opaque, MuJoCoLike])
def test_environment_without_a_state_cannot_be_restored(env: Any) -> None:
    venv = vector(1, env)
    venv.reset()
    assert venv.episode_state() is None


def test_unknown_wrapper_cannot_be_restored() -> None:
    env = gym.wrappers.TransformReward(Counter(), float)
    env.reset()
    assert episode_state(env) is None
    venv = OpaqueWrapper(vector(1))
    venv.reset()
    assert venv.episode_state() is None


def test_get_state_that_fails_is_a_warning() -> None:
    venv = vector(1)
    with pytest.warns(UserWarning, match="not saved: AttributeError: .*'count'"):  # never reset
        assert savable_episodes(venv) is None


def test_state_of_other_values_than_arrays_is_not_saved() -> None:
    venv = vector(1)
    venv.reset()
    venv.envs[0].unwrapped.count = object()
    assert savable_episodes(venv) is None


def test_episodes_of_other_environments_are_not_taken() -> None:
    one, two = vector(1), make_vec_env(Counter, n_envs=2, backend="dummy")
    one.reset(), two.reset()
    assert not two.load_episode_state(one.episode_state())
    native = vector(1, "CartPole-v1", backend="auto")
    native.reset()
    assert not native.load_episode_state(one.episode_state())
