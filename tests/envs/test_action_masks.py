"""Masks are found behind wrappers and in every kind of vector, and wrong ones are named."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.envs.action_masks import ActionMasker, get_action_masks, is_masking_supported, mask_reader
from rlzoo.envs.examples.toy import IdentityEnv
from rlzoo.envs.examples.toy_invalid_actions import InvalidActionEnvDiscrete
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.gym_vector import GymVectorEnv
from rlzoo.envs.vec_env.subproc import SubprocVecEnv
from rlzoo.envs.vec_env.vec_env import VecEnvWrapper
from rlzoo.envs.vec_wrappers.vec_monitor import VecMonitor
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize


class Countdown(gym.Env[Any, Any]):
    """After t steps only choice t, counted round and round, is allowed; episodes of four steps."""

    observation_space = spaces.Box(0, 9, (1,), np.float32)
    action_space: spaces.Space[Any] = spaces.Discrete(3)

    def __init__(self, first: int = 0) -> None:
        self.first = first
        self.unsendable = lambda: None  # such an environment does not travel between processes

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.t = self.first
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        assert action == self.t % 3
        self.t += 1
        return np.zeros(1, np.float32), 0.0, False, self.t == self.first + 4, {}

    def action_masks(self) -> list[bool]:
        return [self.t % 3 == choice for choice in range(3)]


def make_dummy() -> Any:
    return DummyVecEnv([lambda: Countdown(0), lambda: Countdown(1)])


VECTORS = {
    "dummy": make_dummy,
    "wrapped": lambda: VecNormalize(VecMonitor(make_dummy())),
    "inner_wrapper": lambda: DummyVecEnv(
        [lambda: gym.wrappers.TimeLimit(Countdown(0), 4), lambda: gym.wrappers.TimeLimit(Countdown(1), 4)]
    ),
    "subproc": lambda: VecMonitor(SubprocVecEnv([lambda: Countdown(0), lambda: Countdown(1)])),
    "gym_sync": lambda: GymVectorEnv(gym.vector.SyncVectorEnv([lambda: Countdown(0), lambda: Countdown(1)])),
}


@pytest.mark.parametrize("kind", VECTORS)
def test_masks_are_those_of_the_present_step(kind: str) -> None:
    venv = VECTORS[kind]()
    try:
        assert is_masking_supported(venv)
        venv.reset()
        ask = mask_reader(venv)
        for t in (0, 1, 2, 3, 0, 1):  # the fifth is the first of the next episode
            expected = np.eye(3, dtype=bool)[[t % 3, (t + 1) % 3]]
            for masks in (ask(), get_action_masks(venv)):
                assert masks.dtype == bool
                np.testing.assert_array_equal(masks, expected)
            venv.step(np.array([t % 3, (t + 1) % 3]))
    finally:
        venv.close()


def test_masks_of_one_environment() -> None:
    env = gym.wrappers.TimeLimit(Countdown(2), 4)
    env.reset()
    assert is_masking_supported(env)
    assert get_action_masks(env).tolist() == [False, False, True]


class Vectorised(gym.vector.VectorEnv):
    """Knows the masks of all its environments at once."""

    num_envs = 2
    single_observation_space = spaces.Box(0, 9, (1,), np.float32)
    single_action_space = spaces.Discrete(3)

    def action_masks(self) -> np.ndarray:
        return np.array([[1, 0, 1], [0, 1, 0]], np.int8)


class Masking(VecEnvWrapper):
    def action_masks(self) -> np.ndarray:
        return np.array([[True, True, False]] * self.num_envs)


def test_a_vector_may_answer_for_all_at_once() -> None:
    venv = VecMonitor(GymVectorEnv(Vectorised()))
    assert is_masking_supported(venv)
    assert get_action_masks(venv).tolist() == [[True, False, True], [False, True, False]]
    venv = VecMonitor(Masking(DummyVecEnv([lambda: IdentityEnv(3)])))
    assert is_masking_supported(venv)
    assert get_action_masks(venv).tolist() == [[True, True, False]]


@pytest.mark.parametrize(
    "env",
    [
        IdentityEnv(3),
        DummyVecEnv([lambda: IdentityEnv(3)]),
        VecMonitor(GymVectorEnv(gym.vector.SyncVectorEnv([lambda: IdentityEnv(3)]))),
    ],
)
def test_env_without_masks_error_names_the_fix(env: Any) -> None:
    assert not is_masking_supported(env)
    with pytest.raises(UserError, match=r"no action_masks\(\) method.*ActionMasker"):
        get_action_masks(env)


class Saying(IdentityEnv):
    """Says what it is told as its mask."""

    def __init__(self, masks: Any, space: spaces.Space[Any]) -> None:
        super().__init__(space=space)
        self.masks = masks

    def action_masks(self) -> Any:
        return self.masks


@pytest.mark.parametrize(
    ("space", "masks", "text"),
    [
        (spaces.Discrete(2), [0, 0], "mask of environment 1 forbids every choice; at least one"),
        (spaces.MultiDiscrete([2, 3]), [1, 0, 0, 0, 0], "environment 1 forbids every choice of dimension 1"),
        (spaces.MultiBinary(2), [0, 0, 1, 0], "environment 1 forbids every choice of dimension 0"),
        (spaces.Discrete(2), [1, 0, 1], r"shape \(2, 2\), one entry for each choice of Discrete\(2\)"),
        (spaces.MultiBinary(2), [1, 0], r"shape \(2, 4\)"),
        (spaces.Box(-1, 1, (2,)), [1, 0], r"Box actions have no choices"),
    ],
)
def test_masks_that_cannot_be_are_named_in_one_line(space: Any, masks: Any, text: str) -> None:
    n_choices = (
        2
        if isinstance(space, spaces.Box)
        else {"Discrete": 2, "MultiDiscrete": 5}.get(type(space).__name__, 4)
    )
    venv = DummyVecEnv([lambda: Saying([1] * n_choices, space), lambda: Saying(masks, space)])
    with pytest.raises(UserError, match=text) as error:
        get_action_masks(venv)
    assert "\n" not in str(error.value)


class OtherName(IdentityEnv):
    def valid(self) -> np.ndarray:
        return np.array([1, 0, 1])


def test_action_masker_takes_a_function_or_a_name() -> None:
    for how in ("valid", lambda env: env.unwrapped.valid()):
        env = ActionMasker(gym.wrappers.TimeLimit(OtherName(3), 9), how)
        assert is_masking_supported(env)
        assert env.action_masks().tolist() == get_action_masks(env).tolist() == [True, False, True]
    venv = DummyVecEnv([lambda: ActionMasker(OtherName(3), "valid")])
    assert get_action_masks(venv).tolist() == [[True, False, True]]
    seen = []
    inner = InvalidActionEnvDiscrete(3)
    ActionMasker(inner, lambda env: seen.append(env) or [1, 1, 1]).action_masks()
    assert seen == [inner]


def test_action_masker_names_what_is_wrong() -> None:
    with pytest.raises(UserError, match="unknown method for ActionMasker 'valld'; did you mean 'valid'"):
        ActionMasker(OtherName(3), "valld")
    with pytest.raises(UserError, match="'ep_length' of the environment is not a method"):
        ActionMasker(OtherName(3), "ep_length")
    with pytest.raises(UserError, match="a function or the name of a method, not 3"):
        ActionMasker(OtherName(3), 3)  # type: ignore[arg-type]
