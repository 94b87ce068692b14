"""Raw experience below a VecNormalize, and the way from there to the agent."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rlzoo import (
    DummyVecEnv,
    VecEnvWrapper,
    VecExtractDictObs,
    VecFrameStack,
    VecMonitor,
    VecNormalize,
    VecTransposeImage,
)
from rlzoo.algorithms.stored_experience import stored_experience
from rlzoo.envs.vec_wrappers.experience_normalizer import ExperienceNormalizer, unknown_wrapper
from rlzoo.envs.vec_wrappers.vec_frame_stack import n_stacked_frames


class Noise(gym.Env[Any, Any]):
    """Random observations; episodes of five steps."""

    action_space = spaces.Discrete(2)

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.observation_space = space

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        return self.observation_space.sample(), float(self.steps), False, self.steps == 5, {}


VECTOR = spaces.Box(-50.0, 100.0, (3,), np.float64)
IMAGE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
DICT = spaces.Dict({"vector": VECTOR, "image": IMAGE})


def made_of(space: spaces.Space[Any], *wrappers: Any) -> Any:
    space.seed(0)
    venv: Any = DummyVecEnv([lambda: Noise(space)] * 2)
    for wrapper in wrappers:
        venv = wrapper(venv)
    return venv


def vectors_only(venv: Any) -> VecNormalize:
    return VecNormalize(venv, norm_obs_keys=["vector"])


def stack(venv: Any) -> VecFrameStack:
    return VecFrameStack(venv, 3)


@pytest.mark.parametrize(
    ("space", "wrappers"),
    [
        (VECTOR, [VecNormalize, VecMonitor]),
        (VECTOR, [VecNormalize, stack, VecMonitor]),
        (VECTOR, [VecNormalize, stack, stack]),
        (IMAGE, [VecNormalize, stack]),
        (spaces.Box(0, 255, (5,), np.uint8), [VecNormalize, stack]),
        (DICT, [vectors_only, VecTransposeImage, stack]),
        (DICT, [vectors_only, stack, VecTransposeImage]),
        (DICT, [vectors_only, lambda venv: VecExtractDictObs(venv, "vector"), stack]),
        (DICT, [vectors_only, stack, lambda venv: VecExtractDictObs(venv, "vector")]),
        (VECTOR, [lambda venv: VecNormalize(venv, norm_obs=False), stack]),
        (
            VECTOR,
            [lambda venv: VecNormalize(venv, norm_obs=False), lambda v: VecNormalize(v, norm_reward=False)],
        ),
    ],
)
def test_raw_experience_becomes_what_the_agent_sees(space: Any, wrappers: Any) -> None:
    venv = made_of(space, *wrappers)
    venv.reset()
    normalizer = ExperienceNormalizer.of(venv)
    assert normalizer is not None
    normalizer.raw_obs(None)
    wrapper = venv
    while isinstance(wrapper, VecEnvWrapper):
        if isinstance(wrapper, VecNormalize):
            wrapper.training = False  # so that present statistics are those of each step
            if wrapper.obs_rms is not None:
                for rms in (
                    wrapper.obs_rms.values() if isinstance(wrapper.obs_rms, dict) else [wrapper.obs_rms]
                ):
                    rms.mean, rms.var = rms.mean + 20.0, rms.var + 90.0
            wrapper.ret_rms.var = np.float64(7.0)
        wrapper = wrapper.venv
    venv.reset()
    for _ in range(12):
        result = venv.step_arrays(np.zeros(2, int))
        raw = normalizer.raw_step(result)
        pairs = [(raw.obs, result.obs), (normalizer.raw_obs(result.obs), result.obs)]
        if result.final_obs is not None:
            pairs.append((raw.final_obs, result.final_obs))
        for before, seen in pairs:
            found, again = (
                normalizer.normalize_obs(before),
                normalizer.normalize_obs(normalizer.unnormalize_obs(seen)),
            )
            for key in seen if isinstance(seen, dict) else [None]:
                a, b, c = (part if key is None else part[key] for part in (found, seen, again))
                np.testing.assert_array_equal(a, b)
                if normalizer.obs_normalizer is not None and "stack" not in str(wrappers):
                    np.testing.assert_allclose(c, b, atol=1e-3)
        np.testing.assert_array_equal(normalizer.normalize_reward(raw.rewards), result.rewards)


def test_raw_stacks_may_be_asked_for_during_an_episode() -> None:
    venv, early = made_of(VECTOR, VecNormalize, stack), 3
    venv.reset()
    for step in range(9):
        venv.step_arrays(np.zeros(2, int))
        venv.venv.training = step < 1
        if step >= early:
            shown = venv.stacks[None].stacks()
            np.testing.assert_allclose(
                ExperienceNormalizer.of(venv).normalize_obs(venv.raw_obs), shown, atol=1e-5
            )


class Named(VecEnvWrapper):
    """Changes nothing."""

    def hello(self) -> str:
        return "hello"


class Shifted(VecEnvWrapper):
    """Changes observations."""

    def reset(self) -> Any:
        return self.venv.reset() + 1

    def wait_arrays(self) -> Any:
        step = self.venv.wait_arrays()
        step.obs = step.obs + 1
        return step


def test_wrappers_that_define_no_step_are_transparent() -> None:
    assert unknown_wrapper(made_of(VECTOR, VecNormalize, Named)) is None
    venv = made_of(VECTOR, VecNormalize, Shifted, Named)
    assert isinstance(unknown_wrapper(venv), Shifted) and ExperienceNormalizer.of(venv) is None
    assert unknown_wrapper(made_of(VECTOR, Shifted, VecNormalize)) is None
    assert unknown_wrapper(made_of(VECTOR, Shifted)) is None


class Renamed(VecNormalize):
    """Changes nothing."""


class Bonus(VecNormalize):
    """Pays 7 on top."""

    def wait_arrays(self) -> Any:
        step = super().wait_arrays()
        step.rewards = step.rewards + 7
        return step


def test_a_vec_normalize_with_steps_of_its_own_is_not_undone() -> None:
    assert unknown_wrapper(made_of(VECTOR, Renamed)) is None
    assert ExperienceNormalizer.of(made_of(VECTOR, Renamed)) is not None
    venv = made_of(VECTOR, Bonus, Named)
    assert isinstance(unknown_wrapper(venv), Bonus) and ExperienceNormalizer.of(venv) is None
    with pytest.warns(UserWarning, match="Bonus, a subclass of VecNormalize that overrides its steps"):
        stored = stored_experience(venv)
    assert (stored.observations, stored.rewards) == ("scaled", "scaled")


def test_stacks_below_an_unknown_wrapper_are_not_taken_apart() -> None:
    def rewards_only(venv: Any) -> VecNormalize:
        return VecNormalize(venv, norm_obs=False)

    grey = spaces.Box(0, 255, (36, 36, 1), np.uint8)
    assert n_stacked_frames(made_of(grey, stack, rewards_only, VecTransposeImage, Named)) == 3
    assert n_stacked_frames(made_of(grey, stack, rewards_only, VecTransposeImage, Shifted)) == 1
    other = type("VecMonitor", (Shifted,), {})
    assert n_stacked_frames(made_of(grey, stack, VecTransposeImage, other)) == 1


@pytest.mark.parametrize("n_rows", [36, 84])
def test_rows_of_an_image_are_no_stack(n_rows: int) -> None:
    image = spaces.Box(0, 255, (n_rows, 36, 9), np.uint8)  # four of them have as many channels as 36 rows
    last, first = (lambda venv, order=order: VecFrameStack(venv, 4, order) for order in ("last", "first"))
    assert n_stacked_frames(made_of(image, last)) == 1
    assert n_stacked_frames(made_of(image, first)) == 4


def test_frames_transposed_after_stacking_are_recognised() -> None:
    venv = made_of(IMAGE, stack)
    assert n_stacked_frames(venv) == 1
    assert n_stacked_frames(VecTransposeImage(venv)) == 3
    assert n_stacked_frames(VecTransposeImage(venv, skip=True)) == 1


def test_one_key_is_normalised_inside_transposed_images() -> None:
    venv = made_of(DICT, vectors_only, VecTransposeImage, lambda venv: VecExtractDictObs(venv, "vector"))
    shown = venv.reset()
    normalizer = ExperienceNormalizer.of(venv)
    assert normalizer is not None
    np.testing.assert_allclose(normalizer.normalize_obs(normalizer.raw_obs(shown)), shown, atol=1e-6)


def test_stacked_integers_are_not_cut_after_normalisation() -> None:
    venv = made_of(spaces.Box(0, 9, (2,), np.int64), VecNormalize, stack)
    venv.reset()
    shown = [venv.step_arrays(np.zeros(2, int)).obs[:, -2:].copy() for _ in range(4)]
    assert (np.abs(np.concatenate(shown)) % 1 > 0).any()
