from __future__ import annotations

import signal
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.vec_env.dummy import DummyVecEnv


class Counter(gym.Env[Any, Any]):
    """Observes the steps of its episode; ends after `length` steps, by truncation where `limit` is set."""

    def __init__(self, length: int = 3, limit: bool = False, space: spaces.Space[Any] | None = None) -> None:
        self.observation_space = space or spaces.Box(0, 100, (2,), np.float32)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        self.length, self.limit = length, limit
        self.steps, self.seeds, self.options = 0, [], []  # type: ignore[var-annotated]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.steps = 0
        self.seeds.append(seed)
        self.options.append(options)
        return self.observe(), {"began": True}

    def step(self, action: Any) -> Any:
        self.steps += 1
        end = self.steps >= self.length
        return self.observe(), float(action[0]), end and not self.limit, end and self.limit, {"n": self.steps}

    def observe(self) -> Any:
        if isinstance(self.observation_space, spaces.Dict):
            return {"a": np.full(2, self.steps, dtype=np.float32), "b": self.steps}
        if isinstance(self.observation_space, spaces.Tuple):
            return np.full(2, self.steps, dtype=np.float32), self.steps
        return np.full(2, self.steps, dtype=np.float32)

    def double(self, number: int, plus: int = 0) -> int:
        return 2 * number + plus + self.length


def actions(*numbers: float) -> np.ndarray:
    return np.array(numbers, dtype=np.float32)[:, None]


def test_episodes_restart_in_the_step_that_ends_them() -> None:
    venv = DummyVecEnv([lambda: Counter(2), lambda: Counter(3, limit=True)])
    np.testing.assert_array_equal(venv.reset(), np.zeros((2, 2)))
    first = venv.step_arrays(actions(0.5, -0.5))
    assert first.final_obs is None
    assert len(first.ended) == 0
    assert first.rewards.tolist() == [0.5, -0.5]
    second = venv.step_arrays(actions(0, 0))
    assert second.ended.tolist() == [0]
    assert second.terminated.tolist() == [True, False]
    np.testing.assert_array_equal(second.obs, [[0, 0], [2, 2]])
    np.testing.assert_array_equal(second.final_obs, [[2, 2]])
    assert venv.reset_infos[0] == {"began": True}
    third = venv.step_arrays(actions(0, 0))
    assert third.ended.tolist() == [1]
    assert third.truncated.tolist() == [False, True]
    assert third.terminated.tolist() == [False, False]


def test_the_tuple_face_tells_how_an_episode_ended() -> None:
    venv = DummyVecEnv([lambda: Counter(1), lambda: Counter(1, limit=True), lambda: Counter(5)])
    venv.reset()
    obs, rewards, dones, infos = venv.step(actions(1, 2, 3))
    assert rewards.tolist() == [1, 2, 3]
    assert dones.tolist() == [True, True, False]
    assert [info["TimeLimit.truncated"] for info in infos] == [False, True, False]
    np.testing.assert_array_equal(infos[0]["terminal_observation"], [1, 1])
    assert "terminal_observation" not in infos[2]
    np.testing.assert_array_equal(obs, [[0, 0], [0, 0], [1, 1]])


def test_termination_at_time_limit_is_not_truncation() -> None:
    venv = DummyVecEnv([lambda: gym.wrappers.TimeLimit(Counter(2), 2)])
    venv.reset()
    venv.step(actions(0))
    step = venv.step_arrays(actions(0))
    assert step.terminated[0]
    assert step.truncated[0]
    venv.reset()
    venv.step(actions(0))
    assert venv.step(actions(0))[3][0]["TimeLimit.truncated"] is False


@pytest.mark.parametrize("kind", ["dict", "tuple"])
def test_observations_of_several_parts(kind: str) -> None:
    parts = {"a": spaces.Box(0, 9, (2,), np.float32), "b": spaces.Discrete(9)}
    space = spaces.Dict(parts) if kind == "dict" else spaces.Tuple(tuple(parts.values()))
    venv = DummyVecEnv([lambda: Counter(2, space=space)] * 2)
    a, b = ("a", "b") if kind == "dict" else (0, 1)
    assert type(venv.reset()) is (dict if kind == "dict" else tuple)
    obs = venv.step(actions(0, 0))[0]
    assert obs[a].shape == (2, 2)
    assert obs[b].tolist() == [1, 1]
    assert obs[b].dtype == np.int64
    step = venv.step_arrays(actions(0, 0))
    assert step.obs[b].tolist() == [0, 0]
    np.testing.assert_array_equal(step.final_obs[a], np.full((2, 2), 2))


def test_seeds_are_used_once_and_differ() -> None:
    venv = DummyVecEnv([Counter] * 3)
    assert venv.seed(7) == [7, 8, 9]
    venv.set_options([{"x": 1}, {}, {}])
    venv.reset()
    venv.reset()
    assert [env.seeds for env in venv.envs] == [[7, None], [8, None], [9, None]]  # type: ignore[attr-defined]
    assert venv.envs[0].options == [{"x": 1}, None]  # type: ignore[attr-defined]
    drawn = venv.seed(None)
    assert len(set(drawn)) == 3


def test_steps_out_of_order_are_errors() -> None:
    with pytest.raises(UserError, match="reset"):
        DummyVecEnv([lambda: gym.make("CartPole-v1")]).step(actions(0))
    venv = DummyVecEnv([Counter])
    venv.step(actions(0))  # some environments can do without a reset
    venv.reset()
    with pytest.raises(UserError, match="step_async"):
        venv.step_wait()
    with pytest.raises(UserError, match="1 actions for 2"):
        DummyVecEnv([Counter, Counter]).step(actions(0))


def test_actions_left_over_are_ignored_with_a_warning() -> None:
    venv = DummyVecEnv([Counter])
    venv.reset()
    with pytest.warns(UserWarning, match="2 actions for 1 environments: those left over are ignored"):
        assert len(venv.step(actions(0, 0))[1]) == 1


def test_an_environment_that_raises_is_named() -> None:
    class Breaks(Counter):
        def step(self, action: Any) -> Any:
            if self.steps == 2:
                raise KeyError("lost")
            return super().step(action)

    venv = DummyVecEnv([lambda: Counter(9), lambda: Breaks(9)])
    venv.reset()
    venv.step(actions(0, 0))
    venv.step(actions(0, 0))
    with pytest.raises(
        EnvironmentFailed, match=r"environment 1 failed in step\(\) at step 3: KeyError"
    ) as failure:
        venv.step(actions(0, 0))
    assert (failure.value.env_index, failure.value.step) == (1, 3)


@pytest.mark.parametrize(
    "wrong", [np.zeros(3, np.float32), np.zeros((2, 1), np.float32), np.float32(1.0), None]
)
def test_an_observation_of_the_wrong_shape_is_never_broadcast(wrong: Any) -> None:
    class Misshapen(Counter):
        def observe(self) -> Any:
            return wrong if self.steps == 1 else super().observe()

    venv = DummyVecEnv([Counter, Misshapen])
    venv.reset()
    with pytest.raises(EnvironmentFailed, match="environment 1") as failure:
        venv.step(actions(0, 0))
    assert failure.value.step == 1


def test_an_observation_in_a_batch_of_one_is_taken() -> None:
    class Batched(Counter):
        def observe(self) -> Any:
            return super().observe()[None]

    alone, batched = DummyVecEnv([Counter]), DummyVecEnv([Batched])
    np.testing.assert_array_equal(alone.reset(), batched.reset())
    np.testing.assert_array_equal(alone.step(actions(0))[0], batched.step(actions(0))[0])


def test_options_are_passed_only_when_given() -> None:
    class Strict(Counter):
        def reset(self, **given: Any) -> Any:
            self.given = given
            return super().reset(**given)

    class SeedOnly(Counter):
        def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
            return super().reset(seed=seed)

    venv = DummyVecEnv([Strict, SeedOnly])
    venv.reset()
    assert venv.get_attr("given", 0) == [{"seed": None}]
    venv.set_options([{"start": 3}, {}])
    venv.reset()
    assert venv.get_attr("given", 0) == [{"seed": None, "options": {"start": 3}}]


def test_actions_that_the_environment_refuses_name_it() -> None:
    venv = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    venv.reset()
    with pytest.raises(EnvironmentFailed, match="environment 0 failed"):
        venv.step(np.array([7]))


def test_what_cannot_step_together_is_refused() -> None:
    one = Counter()
    with pytest.raises(UserError, match="same one"):
        DummyVecEnv([lambda: one, lambda: one])
    with pytest.raises(UserError, match="different spaces"):
        DummyVecEnv([Counter, lambda: gym.make("CartPole-v1")])
    with pytest.raises(UserError, match="at least one"):
        DummyVecEnv([])
    with pytest.raises(UserError, match=r"gymnasium\.Env was expected"):
        DummyVecEnv([lambda: 3])  # type: ignore[list-item, return-value]
    nested = spaces.Dict({"x": spaces.Dict({"y": spaces.Discrete(2)})})
    with pytest.raises(UserError, match="'x'"):
        DummyVecEnv([lambda: Counter(space=nested)])


def test_attributes_and_methods_of_chosen_environments() -> None:
    venv = DummyVecEnv([lambda n=n: gym.wrappers.TimeLimit(Counter(n), 50) for n in (4, 5, 6)])
    assert venv.get_attr("length") == [4, 5, 6]
    assert venv.get_attr("length", [2, 0]) == [6, 4]
    assert venv.get_attr("length", -1) == [6]
    assert venv.env_method("double", 10, plus=1, indices=1) == [26]
    venv.set_attr("length", 1, indices=[0, 1])
    assert [env.unwrapped.length for env in venv.envs] == [1, 1, 6]  # type: ignore[attr-defined]
    assert venv.env_is_wrapped(gym.wrappers.TimeLimit) == [True] * 3
    assert venv.env_is_wrapped(gym.wrappers.ClipReward, 0) == [False]
    assert venv.has_attr("length")
    assert not venv.has_attr("width")


def test_closing_twice_is_fine() -> None:
    venv = DummyVecEnv([lambda: gym.make("CartPole-v1")])
    venv.close()
    venv.close()


class Strange(BaseException):
    """No Exception."""


class Leaves(Counter):
    """Ends the process, or so it thinks, in one of its methods."""

    def __init__(self, where: str, error: type[BaseException] = SystemExit) -> None:
        super().__init__()
        self.where, self.error = where, error
        self.leave("made")

    def leave(self, where: str) -> None:
        if where == self.where:
            raise self.error

    def reset(self, **kwargs: Any) -> Any:
        self.leave("reset")
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        self.leave("step")
        return super().step(action)

    def work(self) -> None:
        self.leave("work")


@pytest.mark.parametrize("error", [SystemExit, Strange])
@pytest.mark.parametrize("where", ["made", "reset", "step", "work"])
def test_an_env_that_exits_has_failed(where: str, error: type[BaseException]) -> None:
    said = rf"environment 1 .*{where}.*{error.__name__} \(test_dummy.py, line \d+\)$"
    with pytest.raises(EnvironmentFailed, match=said) as caught:
        venv = DummyVecEnv(
            [Counter, lambda: Leaves(where, error)] if where != "work" else [lambda: Leaves(where, error)] * 2
        )
        venv.reset()
        venv.step(np.zeros((2, 1)))
        venv.env_method("work", indices=1)
    assert caught.value.env_index == 1


class OldStep(Counter):
    """Returns four values, as environments of Gym did."""

    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        return obs, reward, False, {}


class OldReset(Counter):
    """Returns the observation alone."""

    def reset(self, **kwargs: Any) -> Any:
        return np.zeros(4, np.float32)


class OldSeed(Counter):
    """Takes no seed."""

    def reset(self) -> Any:
        return np.zeros(2, np.float32)


@pytest.mark.parametrize(
    ("env", "hint"),
    [
        (OldStep, "step(action) returns (observation, reward, terminated, truncated, info)"),
        (OldReset, "reset(seed=None, options=None) returns (observation, info)"),
        (OldSeed, "reset(seed=None, options=None) returns (observation, info)"),
    ],
)
def test_the_api_of_gym_is_recognised(env: type[gym.Env[Any, Any]], hint: str) -> None:
    with pytest.raises(EnvironmentFailed) as caught:
        venv = DummyVecEnv([env])
        venv.reset()
        venv.step(np.zeros((1, 1)))
    assert str(caught.value).endswith(f"; in Gymnasium, {hint}")


def test_an_own_unpacking_error_is_no_sign_of_gym() -> None:
    class Miscounts(Counter):
        def step(self, action: Any) -> Any:
            _, _ = (1, 2, 3)

    venv = DummyVecEnv([Miscounts])
    venv.reset()
    with pytest.raises(EnvironmentFailed) as caught:
        venv.step(np.zeros((1, 1)))
    assert "test_dummy.py" in str(caught.value) and "Gymnasium" not in str(caught.value)


def test_what_a_signal_handler_raises_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Counter):
        def step(self, action: Any) -> Any:
            signal.raise_signal(signal.SIGTERM)

    def leave(number: int, frame: Any) -> None:
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        venv = DummyVecEnv([Asked])
        venv.reset()
        with pytest.raises(SystemExit):
            venv.step(np.zeros((1, 1)))
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize("call", ["reset", "step"])
def test_an_info_that_is_no_dict_is_named(call: str) -> None:
    class NoInfo(Counter):
        def reset(self, **kwargs: Any) -> Any:
            return super().reset(**kwargs)[0], "old" if call == "reset" else {}

        def step(self, action: Any) -> Any:
            return (*super().step(action)[:-1], None)

    venv = DummyVecEnv([NoInfo])
    with pytest.raises(
        EnvironmentFailed, match=rf"0 failed in {call}\(\) .* the info must be a dict, not (str|NoneType)"
    ):
        venv.reset()
        venv.step(np.zeros((1, 1)))


def test_a_close_that_raises_is_a_warning_and_closes_the_rest() -> None:
    closed = []

    class Stuck(Counter):
        def close(self) -> None:
            closed.append(self)
            raise OSError("the window is gone")

    venv = DummyVecEnv([Stuck, Stuck])
    with pytest.warns(
        UserWarning, match=r"environment 1 failed in close\(\) .*: OSError: the window is gone"
    ):
        venv.close()
    assert len(closed) == 2
