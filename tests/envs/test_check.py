"""check_env finds what breaks the rules and warns of what hurts learning."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import InvalidEnvironment, UserError
from rlzoo.envs.examples.toy import BitFlippingEnv, FakeImageEnv, IdentityEnv
from rlzoo.envs.single_env.check_env import check_env


class Sampler(gym.Env[Any, Any]):
    """Observations drawn from a given space."""

    def __init__(
        self, observation: spaces.Space[Any] | None = None, action: spaces.Space[Any] | None = None
    ) -> None:
        self.observation_space = observation or spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = action or spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        return self.observation_space.sample(), 0.0, False, False, {}


def advice(env: gym.Env[Any, Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env)
    return "\n".join(str(entry.message) for entry in caught)


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Box(0, 1, (84, 84, 3), np.float32), "dtype float32"),
        (spaces.Box(0, 1, (84, 84, 3), np.uint8), r"another range than \[0, 255\]"),
        (spaces.Box(0, 255, (84, 3, 84), np.uint8), "smallest axis in the middle"),
        (spaces.Box(0, 255, (20, 20, 3), np.uint8), "smaller than the 36x36"),
        (spaces.Box(-1, 1, (4, 4), np.float32), "flattened"),
        (spaces.Box(0, 255, (128,), np.uint8), "not scaled"),
        (spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), "Tuple .* are not supported"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), "Nested .* are not supported"),
        (spaces.Dict({"a": spaces.Text(3)}), "Text .* are not supported inside a Dict"),
        (spaces.Graph(spaces.Box(0, 1, (2,)), None), "Graph .* are not supported"),
        (spaces.Sequence(spaces.Discrete(2)), "Sequence .* are not supported"),
        (spaces.OneOf([spaces.Discrete(2), spaces.Discrete(3)]), "OneOf .* are not supported"),
        (spaces.MultiDiscrete([[2, 2], [2, 2]]), "is flattened"),
        (spaces.Dict({"a": spaces.Box(0, 1, (84, 84, 3), np.float32)}), r"\['a'\].*float32"),
        (spaces.Discrete(3, start=1), "counts from 1"),
    ],
)
def test_observations_that_hurt(space: spaces.Space[Any], told: str) -> None:
    with pytest.warns(UserWarning, match=told):
        check_env(Sampler(observation=space))


@pytest.mark.parametrize(
    ("space", "told"),
    [
        (spaces.Box(-2, 2, (1,), np.float32), r"not \[-1, 1\]"),
        (spaces.Box(0, 1, (1,), np.float32), "not symmetric"),
        (spaces.Box(-1, 1, (1,), np.float64), "float64"),
        (spaces.Tuple((spaces.Discrete(2),)), "Tuple action spaces are not supported"),
        (spaces.Discrete(3, start=1), "counts from 1"),
    ],
)
def test_actions_that_hurt(space: spaces.Space[Any], told: str) -> None:
    with pytest.warns(UserWarning, match=told):
        check_env(Sampler(action=space))


def test_good_and_wrapped_environments_get_no_advice() -> None:
    assert advice(Sampler(action=spaces.Box(-1, 1, (2,), np.float32))) == ""
    assert advice(gym.wrappers.TimeLimit(FakeImageEnv(), 5)) == ""


def test_advice_can_be_turned_off() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(Sampler(action=spaces.Box(0, 1, (1,), np.float32)), warn=False)


def test_what_is_no_environment() -> None:
    for error in (UserError, AssertionError):
        with pytest.raises(error, match=r"not a gymnasium\.Env"):
            check_env(object())  # type: ignore[arg-type]


def test_unbounded_actions_are_advice_and_an_error() -> None:
    env = Sampler(action=spaces.Box(-np.inf, 1, (1,), np.float32))
    with pytest.warns(UserWarning, match="no bounds"), pytest.raises(AssertionError, match="finite"):
        check_env(env)


def test_a_reset_that_ignores_its_seed_is_advice() -> None:
    class Unseeded(IdentityEnv):
        def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
            self.state = self.observation_space.sample()
            return self.state, {}

    assert "same seed" in advice(Unseeded(1000))


def test_a_reset_without_seed_is_a_type_error() -> None:
    class Seedless(Sampler):
        def reset(self) -> Any:  # type: ignore[override]
            return super().reset()

    for error in (UserError, TypeError):
        with pytest.raises(error, match="must take a seed"):
            check_env(Seedless())


def test_missing_spaces_are_named() -> None:
    env = Sampler()
    del env.action_space
    with pytest.raises(InvalidEnvironment, match="action_space must be"):
        check_env(env)


class Returns(Sampler):
    """Returns what it was told to."""

    def __init__(self, of_reset: Any = None, of_step: Any = None, **given: Any) -> None:
        super().__init__(**given)
        self.of_reset, self.of_step = of_reset, of_step

    def reset(self, **given: Any) -> Any:
        return super().reset(**given) if self.of_reset is None else self.of_reset

    def step(self, action: Any) -> Any:
        return super().step(action) if self.of_step is None else self.of_step


OK = np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("env", "told"),
    [
        (Returns(of_reset=OK), r"reset\(\) must return a tuple of two"),
        (Returns(of_reset=(OK, None)), r"reset\(\) must return a dict as info"),
        (Returns(of_reset=([0.0, 0.0], {})), r"reset\(\) must return a numpy array .* not list"),
        (Returns(of_step=(OK, 0.0, False, {})), r"tuple of five, .* not tuple of 4"),
        (Returns(of_step=(OK, np.zeros(1), False, False, {})), "one finite number"),
        (Returns(of_step=(OK, 0.0, 1, False, {})), "boolean as terminated"),
        (Returns(of_step=(OK, 0.0, False, 0.0, {})), "boolean as truncated"),
        (Returns(of_step=(OK, 0.0, False, False, [])), "dict as info"),
        (
            Returns(of_step=(OK.astype(float), 0.0, False, False, {})),
            "Expected: float32, actual dtype: float64",
        ),
        (Returns(of_step=(OK[None], 0.0, False, False, {})), r"Expected: \(2,\), actual shape: \(1, 2\)"),
        (
            Returns(of_step=(np.array([0, 3], np.float32), 0.0, False, False, {})),
            r"1 invalid indices: Expected: -1\.0 <= obs\[1\] <= 1\.0, actual value: 3\.0$",
        ),
        (
            Returns(of_step=(1.0, 0.0, False, False, {}), observation=spaces.Discrete(2)),
            "must return an int as observation",
        ),
        (
            Returns(
                of_step=({"b": OK}, 0.0, False, False, {}),
                observation=spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(2)}),
            ),
            r"(?s)2 problems.*keys \['b'\]; the space has \['a', 'b'\].*key=b: .* an int",
        ),
    ],
)
def test_values_that_break_the_rules(env: gym.Env[Any, Any], told: str) -> None:
    with pytest.raises(AssertionError, match=told) as caught:
        check_env(env)
    assert isinstance(caught.value, InvalidEnvironment)


def test_all_problems_are_told_at_once() -> None:
    env = Returns(of_reset=(OK + 3, {}), of_step=(OK, None, False, 2, {}))
    with pytest.raises(InvalidEnvironment) as caught:
        check_env(env)
    first, *listed = str(caught.value).splitlines()
    assert first.startswith("3 problems") and len(listed) == 3
    for problem, told in zip(listed, ("reset() returned", "as reward", "as truncated"), strict=True):
        assert told in problem


def test_few_of_many_invalid_indices_are_named() -> None:
    space = spaces.Box(0, 255, (36, 36, 3), np.uint8)
    space.high[:] = 4
    wrong = np.full(space.shape, 5, np.uint8)
    with pytest.raises(InvalidEnvironment, match=r"3888 invalid indices.*; and 3868 more"):
        check_env(Returns(of_reset=(wrong, {}), observation=space), warn=False)


def test_rewards_and_flags_of_numpy_are_fine() -> None:
    env = Returns(of_step=(OK, np.float32(1), np.bool_(False), np.bool_(True), {}))
    assert advice(env) == ""


def test_render_is_checked_when_asked_for() -> None:
    class Text(Sampler):
        metadata = {"render_modes": ["rgb_array"]}
        render_mode = "rgb_array"

        def render(self) -> Any:
            return "a picture"

    check_env(Text())
    with pytest.warns(UserWarning, match=r"render\(\) .* must return an array"):
        check_env(Text(), skip_render_check=False)


class Late(Sampler):
    """Goes wrong in its fifth step after a reset."""

    wrong: tuple[Any, float] = (None, 0.0)

    def reset(self, **kwargs: Any) -> Any:
        self.count = 0
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.count += 1
        if self.count == 5:
            return *self.wrong, False, False, {}
        return super().step(action)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ((np.array([np.nan, 0], np.float32), 0.0), "NaN"),
        ((np.zeros(3, np.float32), 0.0), "outside"),
        ((OK, float("nan")), "finite"),
        ((OK, np.zeros(1)), "one finite number"),
    ],
)
def test_values_that_go_wrong_later(wrong: tuple[Any, Any], told: str) -> None:
    env = Late()
    env.wrong = wrong
    with pytest.raises(UserError, match=f"step.. number 5.*{told}"):
        check_env(env)


def test_late_values_out_of_bounds_are_advice() -> None:
    env = Late()
    env.wrong = (np.array([5, 0], np.float32), 0.0)
    assert "step() number 5 returned an observation outside" in advice(env)


def test_goal_rewards_must_follow_from_the_goals() -> None:
    class Cheat(BitFlippingEnv):
        def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
            return 7.0

    with pytest.raises(UserError, match=r"compute_reward\(\) says 7"):
        check_env(Cheat())
