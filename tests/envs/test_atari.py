"""The Python wrappers of Atari games, most of them on a game of our own."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rlzoo.core.errors import UserError
from rlzoo.envs.atari.atari_wrappers import (
    AtariWrapper,
    ClipRewardEnv,
    EpisodicLifeEnv,
    FireResetEnv,
    FrameStack,
    MaxAndSkipEnv,
    NoopResetEnv,
    ScaledFloatFrame,
    StickyActionEnv,
    WarpFrame,
    wrap_deepmind,
)
from rlzoo.envs.make_atari import make_atari
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.single_env.registration import ensure_registered


class Game(gym.Env[Any, Any]):
    """Two lives of ten frames each; frame n is full of 10 * n; every frame pays 2."""

    observation_space = gym.spaces.Box(0, 255, (210, 160, 3), np.uint8)
    action_space = gym.spaces.Discrete(4)

    def __init__(self) -> None:
        self.ale = self
        self.frame = 0
        self.actions: list[int] = []

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "FIRE", "RIGHT", "LEFT"]

    def lives(self) -> int:
        return max(2 - self.frame // 10, 0)

    def _picture(self) -> np.ndarray:
        return np.full((210, 160, 3), 10 * self.frame, np.uint8)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.frame = 0
        self.actions = []
        return self._picture(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.frame += 1
        self.actions.append(int(action))
        return self._picture(), 2.0, self.frame >= 20, False, {}


def test_noops_are_as_many_as_asked_for() -> None:
    env = NoopResetEnv(Game(), noop_max=5)
    counts = set()
    for seed in range(40):
        env.reset(seed=seed)
        assert set(env.unwrapped.actions) == {0}  # type: ignore[attr-defined]
        counts.add(len(env.unwrapped.actions))  # type: ignore[attr-defined]
    assert counts == {1, 2, 3, 4, 5}
    env.override_num_noops = 3
    env.reset()
    assert env.unwrapped.frame == 3  # type: ignore[attr-defined]


def test_fire_is_pressed_at_reset() -> None:
    env = FireResetEnv(Game())
    observation, _ = env.reset()
    assert env.unwrapped.actions == [1, 2]  # type: ignore[attr-defined]
    assert observation.max() == 20


def test_life_loss_ends_the_episode_but_not_the_game() -> None:
    env = EpisodicLifeEnv(Game())
    env.reset()
    steps = [env.step(3)[2] for _ in range(10)]
    assert steps == [False] * 9 + [True]
    env.reset()
    assert env.unwrapped.frame == 11  # type: ignore[attr-defined]  # one "no operation" further
    steps = [env.step(3)[2] for _ in range(9)]
    assert steps == [False] * 8 + [True]
    env.reset()
    assert env.unwrapped.frame == 0  # type: ignore[attr-defined]
    env.step(3)
    env.reset(seed=1)
    assert env.unwrapped.frame == 0  # type: ignore[attr-defined]  # a seed starts the game anew


def test_max_and_skip() -> None:
    env = MaxAndSkipEnv(Game(), skip=4)
    env.reset()
    observation, reward, terminated, _, _ = env.step(2)
    assert env.unwrapped.actions == [2] * 4  # type: ignore[attr-defined]
    assert reward == 8.0
    assert observation.max() == 40
    env.unwrapped.frame = 18  # type: ignore[attr-defined]
    observation, reward, terminated, _, _ = env.step(2)
    assert terminated
    assert reward == 4.0


def test_max_and_skip_takes_the_brighter_of_the_last_two_frames() -> None:
    class Fading(Game):
        def _picture(self) -> np.ndarray:
            return np.full((210, 160, 3), 200 - 10 * self.frame, np.uint8)

    env = MaxAndSkipEnv(Fading())
    env.reset()
    assert env.step(0)[0].max() == 170  # of 170 and 160


def test_sticky_actions() -> None:
    for probability, expected in ((0.0, [3, 2, 3]), (1.0, [0, 0, 0])):
        env = StickyActionEnv(Game(), probability)
        env.reset(seed=0)
        for action in (3, 2, 3):
            env.step(action)
        assert env.unwrapped.actions == expected  # type: ignore[attr-defined]


def test_clip_warp_scale_and_stack() -> None:
    env = FrameStack(ScaledFloatFrame(WarpFrame(ClipRewardEnv(Game()), width=60, height=50)), 4)
    assert env.observation_space.shape == (50, 60, 4)
    observation, _ = env.reset()
    observation, reward, _, _, _ = env.step(0)
    assert reward == 1.0
    assert env.observation_space.contains(observation)
    assert np.allclose(observation.max(axis=(0, 1)) * 255, [0, 0, 0, 10])


@pytest.mark.parametrize(
    ("reward", "sign"), [(-3.5, -1.0), (0.0, 0.0), (np.float32(0.2), 1.0), (np.int64(7), 1.0)]
)
def test_rewards_become_signs(reward: Any, sign: float) -> None:
    assert ClipRewardEnv(Game()).reward(reward) == sign


def test_whole_pipeline_keeps_the_raw_statistics() -> None:
    env = AtariWrapper(Monitor(Game()), noop_max=2, frame_skip=4)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (84, 84, 1)
    assert observation.dtype == np.uint8
    episodes, rewards = [], []
    for _ in range(20):
        observation, reward, terminated, truncated, info = env.step(2)
        rewards.append(reward)
        if "episode" in info:
            episodes.append(info["episode"])
        if terminated or truncated:
            env.reset()
    assert set(rewards) == {1.0}
    assert episodes
    assert {(episode["r"], episode["l"]) for episode in episodes} == {(40.0, 20)}


def test_memory_games_have_no_image_part() -> None:
    ensure_registered("Pong-ramNoFrameskip-v4")
    env = AtariWrapper(gym.make("Pong-ramNoFrameskip-v4"))
    observation, _ = env.reset(seed=0)
    assert observation.shape == (128,)
    previous = env.unwrapped.ale.getEpisodeFrameNumber()  # type: ignore[attr-defined]
    observation, *_ = env.step(0)
    assert env.unwrapped.ale.getEpisodeFrameNumber() == previous + 4  # type: ignore[attr-defined]
    assert (observation == env.unwrapped.ale.getRAM()).all()  # type: ignore[attr-defined]
    env.close()


def test_double_frame_skip_warns() -> None:
    ensure_registered("ALE/Pong-v5")
    env = gym.make("ALE/Pong-v5")
    with pytest.warns(UserWarning, match="frameskip=1"):
        AtariWrapper(env)
    env.close()


def test_make_atari_and_wrap_deepmind() -> None:
    with pytest.raises(UserError, match="frameskip=1"):
        make_atari("ALE/Breakout-v5")
    env = wrap_deepmind(make_atari("BreakoutNoFrameskip-v4"), frame_stack=True, scale=True)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (84, 84, 4)
    assert observation.dtype == np.float32
    assert 0 < observation.max() <= 1
    env.close()


def test_other_environments_are_refused() -> None:
    with pytest.raises(UserError, match="not an Atari game"):
        AtariWrapper(gym.make("CartPole-v1"))
