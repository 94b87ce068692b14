from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.gym_vector import EnvInfos, GymVectorEnv


class Walk(gym.Env[Any, Any]):
    """Random observations; ends after `length` steps; the info says how many."""

    def __init__(self, length: int = 3, fail_at: int = -1, two_parts: bool = False) -> None:
        box = spaces.Box(-9, 9, (2,), np.float32)
        self.observation_space = spaces.Dict({"a": box, "n": spaces.Discrete(9)}) if two_parts else box
        self.action_space = spaces.Discrete(3)
        self.length, self.fail_at = length, fail_at

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        return self.observe(), {"options": str(options)}

    def observe(self) -> Any:
        array = self.np_random.normal(size=2).astype(np.float32)
        return {"a": array, "n": self.steps} if isinstance(self.observation_space, spaces.Dict) else array

    def step(self, action: Any) -> Any:
        if self.steps == self.fail_at:
            raise ValueError("stuck")
        self.steps += 1
        end = self.steps == self.length
        info = {"n": self.steps, "part": {"odd": bool(self.steps % 2)}} if self.steps > 1 else {}
        return self.observe(), float(action), end and self.length % 2 == 0, end and self.length % 2 == 1, info


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("two_parts", [False, True])
def test_every_way_of_resetting_gives_the_same_steps(mode: AutoresetMode, two_parts: bool) -> None:
    env_fns = [lambda n=n: Walk(n, two_parts=two_parts) for n in (2, 3, 5)]
    venv = GymVectorEnv(SyncVectorEnv(env_fns, autoreset_mode=mode))
    loop = DummyVecEnv(env_fns)
    for each in (venv, loop):
        each.seed(1)
    np.testing.assert_equal(venv.reset(), loop.reset())
    n_ended = 0
    for step_index in range(20):
        action = np.arange(3) if step_index % 2 else np.zeros(3, dtype=np.int64)
        mine, theirs = venv.step_arrays(action), loop.step_arrays(action)
        np.testing.assert_equal(mine.obs, theirs.obs)
        np.testing.assert_equal(mine.final_obs, theirs.final_obs)
        for field in ("rewards", "terminated", "truncated", "ended"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field))
        assert mine.rewards.dtype == np.float32
        assert [info.get("n") for info in mine.infos] == [info.get("n") for info in theirs.infos]
        assert [info.get("part") for info in mine.infos] == [info.get("part") for info in theirs.infos]
        n_ended += len(mine.ended)
    assert n_ended > 15
    assert mine.truncated.dtype == bool


def test_an_environment_that_resets_all_or_none_is_refused() -> None:
    venv = GymVectorEnv(gym.make_vec("CartPole-v1", 4, vectorization_mode="vector_entry_point"))
    venv.seed(0)
    venv.reset()
    with pytest.raises(UserError, match="SAME_STEP"):
        for _ in range(200):
            venv.step_arrays(np.random.default_rng(0).integers(0, 2, 4))


def test_worker_processes_of_gymnasium_work_too() -> None:
    env_fns = [lambda n=n: Walk(n) for n in (2, 3)]
    venv, loop = GymVectorEnv(gym.vector.AsyncVectorEnv(env_fns)), DummyVecEnv(env_fns)
    for each in (venv, loop):
        each.seed(1)
    np.testing.assert_equal(venv.reset(), loop.reset())
    for _ in range(8):
        mine, theirs = venv.step_arrays(np.ones(2, dtype=int)), loop.step_arrays(np.ones(2, dtype=int))
        np.testing.assert_equal(mine.obs, theirs.obs)
        np.testing.assert_equal(mine.final_obs, theirs.final_obs)
    venv.close()
    venv.close()


def test_failures_name_the_step() -> None:
    venv = GymVectorEnv(SyncVectorEnv([lambda: Walk(9, fail_at=1)]))
    with pytest.raises(UserError, match="reset"):
        venv.step(np.zeros(1, dtype=int))
    venv.reset()
    venv.step(np.zeros(1, dtype=int))
    with pytest.raises(UserError, match="2 actions for 1"):
        venv.step(np.zeros(2, dtype=int))
    with pytest.raises(EnvironmentFailed, match=r"step\(\) at step 2: ValueError: stuck"):
        venv.step(np.zeros(1, dtype=int))


def test_attributes_methods_and_options() -> None:
    venv = GymVectorEnv(SyncVectorEnv([lambda n=n: Walk(n) for n in (4, 5)]))
    assert venv.get_attr("length") == [4, 5]
    venv.set_attr("length", 7, indices=1)
    assert venv.get_attr("length", 1) == [7]
    venv.set_options({"x": 1})
    venv.reset()
    assert venv.reset_infos[1] == {"options": "{'x': 1}"}
    assert venv.env_method("observe")[0].shape == (2,)
    with pytest.raises(UserError, match="all environments or none"):
        venv.env_method("observe", indices=0)
    venv.set_options([{"x": 1}, {"x": 2}])
    with pytest.raises(UserError, match="same reset options"):
        venv.reset()


def test_infos_are_read_one_environment_at_a_time() -> None:
    mask = np.array([True, False])
    infos = EnvInfos({"x": np.array([1, 0]), "_x": mask, "y": {"z": np.array([3, 4])}}, 2)
    assert infos[0] == {"x": 1, "y": {"z": 3}}
    assert infos[-1] == {"y": {"z": 4}}
    assert len(infos) == 2
    assert infos[0:2] == list(infos)
    with pytest.raises(IndexError):
        infos[2]


def test_a_wrapper_that_resets_all_or_none_is_refused_at_once() -> None:
    inner = SyncVectorEnv([Walk, Walk])
    wrapped = gym.wrappers.vector.ClipReward(gym.wrappers.vector.NormalizeObservation(inner), -1, 1)
    with pytest.raises(UserError, match=r"NormalizeObservation cannot .*; use rlzoo\.VecNormalize"):
        GymVectorEnv(wrapped)


def test_an_env_that_exits_has_failed() -> None:
    class Leaves(Walk):
        def step(self, action: Any) -> Any:
            raise SystemExit("gone")

        def close(self) -> None:
            raise OSError("no window")

    venv = GymVectorEnv(SyncVectorEnv([Leaves]))
    venv.reset()
    with pytest.raises(EnvironmentFailed, match=r"failed in step\(\) at step 1: SystemExit: gone"):
        venv.step(np.zeros(1, np.int64))
    with pytest.warns(UserWarning, match=r"failed in close\(\) .*: OSError: no window"):
        venv.close()
