"""Preprocessing of Atari games, one Gymnasium wrapper per idea.

The pipeline is that of Mnih et al. (2015), "Human-level control through deep reinforcement learning", with
the sticky actions of Machado et al. (2018), "Revisiting the Arcade Learning Environment".
"""

from __future__ import annotations

import warnings
from collections import deque
from typing import Any, SupportsFloat, TypeAlias

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError

StepReturn: TypeAlias = "tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]"
ResetReturn: TypeAlias = "tuple[Any, dict[str, Any]]"
Env: TypeAlias = "gym.Env[Any, Any]"


def action_meanings(env: Env) -> list[str]:
    """What the buttons of an Atari game do, e.g. ["NOOP", "FIRE", "RIGHT", "LEFT"].

    :raises UserError: when `env` is not an Atari game
    """
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    if meanings is None:
        raise UserError(
            f"{type(env.unwrapped).__name__} is not an Atari game: it has no get_action_meanings()"
        )
    return list(meanings())


def needs_fire(meanings: list[str]) -> bool:
    """Whether a game may wait for its FIRE button before anything moves."""
    return len(meanings) >= 3 and meanings[1] == "FIRE"


class StickyActionEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Repeats the previous action, instead of the given one, with some probability.

    :param action_repeat_probability: that probability, drawn anew for every step
    """

    def __init__(self, env: Env, action_repeat_probability: float) -> None:
        super().__init__(env)
        self.action_repeat_probability = action_repeat_probability
        self._held = 0

    def reset(self, **kwargs: Any) -> ResetReturn:
        """Reset; the action held is "no operation" again."""
        self._held = 0
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> StepReturn:
        """Step with `action` or with the one held."""
        if self.np_random.random() >= self.action_repeat_probability:
            self._held = action
        return self.env.step(self._held)


class NoopResetEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Begins every episode with 1 to `noop_max` steps of "no operation", so that games do not all start
    alike.
    """

    def __init__(self, env: Env, noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None  # a fixed number, for comparisons
        if action_meanings(env)[0] != "NOOP":
            raise UserError("NoopResetEnv: action 0 of the game is not NOOP")

    def reset(self, **kwargs: Any) -> ResetReturn:
        """Reset, then wait; should the game end meanwhile, it is reset again."""
        observation, info = self.env.reset(**kwargs)
        n_noops = self.override_num_noops
        if n_noops is None:
            n_noops = int(self.unwrapped.np_random.integers(1, self.noop_max + 1))
        for _ in range(n_noops):
            observation, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class FireResetEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Presses FIRE, then action 2, at the start of every episode of a game that stands still until then."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        if not needs_fire(action_meanings(env)):
            raise UserError(
                "FireResetEnv: action 1 of the game is not FIRE, or it has fewer than three actions"
            )

    def reset(self, **kwargs: Any) -> ResetReturn:
        """Reset and start the game."""
        observation, info = self.env.reset(**kwargs)
        for action in (1, 2):
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class EpisodicLifeEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Ends an episode where a life is lost; the game itself is reset only when it is over.

    Losing a life then counts in value estimates, while the agent still sees late stages of the game.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def _lives_left(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]

    def step(self, action: Any) -> StepReturn:
        """Step; `terminated` also where a life was lost."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self._lives_left()
        lost = 0 < lives < self.lives  # some games show zero lives for a few frames before they are over
        self.lives = lives
        return observation, reward, terminated or lost, truncated, info

    def reset(self, **kwargs: Any) -> ResetReturn:
        """Reset the game if it is over or a seed is given; otherwise go on with one "no operation"."""
        if self.was_real_done or kwargs.get("seed") is not None:
            observation, info = self.env.reset(**kwargs)
        else:
            observation, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                observation, info = self.env.reset(**kwargs)
        self.was_real_done = False
        self.lives = self._lives_left()
        return observation, info


class MaxAndSkipEnv(gym.Wrapper[Any, Any, Any, Any]):
    """Holds every action for `skip` frames and sums their rewards.

    The observation is the pixelwise maximum of the last two frames, since the console drew some sprites only
    every second frame. Memory contents (`-ram` games) are not pixels: of them the last is returned.
    """

    def __init__(self, env: Env, skip: int = 4) -> None:
        super().__init__(env)
        if skip < 1:
            raise UserError(f"MaxAndSkipEnv: skip must be at least 1, not {skip}")
        self._skip = skip
        self._pools = is_screen(env.observation_space)

    def step(self, action: Any) -> StepReturn:
        """Step `skip` times, or until the episode ends."""
        total = 0.0
        previous: Any = None
        observation: Any = None
        for _ in range(self._skip):
            previous = observation
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        if self._pools and previous is not None:
            observation = np.maximum(previous, observation)
        return observation, total, terminated, truncated, info


class ClipRewardEnv(gym.RewardWrapper[Any, Any]):
    """Rewards become their sign: -1, 0 or 1."""

    def reward(self, reward: SupportsFloat) -> float:
        """The sign of `reward`."""
        return float(np.sign(float(reward)))


class WarpFrame(gym.ObservationWrapper[Any, Any, Any]):
    """Frames [height, width, 3] (or grey ones [height, width]) become grey and small: [height, width, 1]
    uint8.

    :param width: new width in pixels
    :param height: new height in pixels
    """

    def __init__(self, env: Env, width: int = 84, height: int = 84) -> None:
        super().__init__(env)
        self.width, self.height = width, height
        self.observation_space = spaces.Box(0, 255, (height, width, 1), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Grey, then averaged down to the new size."""
        grey = cv2.cvtColor(observation, cv2.COLOR_RGB2GRAY) if observation.ndim == 3 else observation
        return cv2.resize(grey, (self.width, self.height), interpolation=cv2.INTER_AREA)[:, :, None]


class ScaledFloatFrame(gym.ObservationWrapper[Any, Any, Any]):
    """Pixels become floats in [0, 1]; four times the memory, so only for what cannot divide by itself."""

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(0.0, 1.0, env.observation_space.shape, np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Divide by 255."""
        return observation.astype(np.float32) / 255.0


class FrameStack(gym.Wrapper[Any, Any, Any, Any]):
    """The last `n_frames` observations, joined along the last axis; a new episode repeats its first one."""

    def __init__(self, env: Env, n_frames: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box):
            raise UserError(f"FrameStack needs Box observations, not {type(space).__name__}")
        low, high = (np.repeat(bound, n_frames, axis=-1) for bound in (space.low, space.high))
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
        self._frames: deque[np.ndarray] = deque(maxlen=n_frames)

    def reset(self, **kwargs: Any) -> ResetReturn:
        """Reset; every frame is the first one."""
        observation, info = self.env.reset(**kwargs)
        self._frames.extend([observation] * (self._frames.maxlen or 0))
        return np.concatenate(self._frames, axis=-1), info

    def step(self, action: Any) -> StepReturn:
        """Step; the oldest frame drops out."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(observation)
        return np.concatenate(self._frames, axis=-1), reward, terminated, truncated, info


class AtariWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """The whole pipeline: sticky actions, no-ops at reset, frame skip, life loss, FIRE, 84x84 grey frames,
    clipped rewards.

    Meant for games that do not skip frames by themselves (`PongNoFrameskip-v4`, or `frameskip=1`). Games
    whose observations are memory contents are left without the image part.

    :param noop_max: most "no operation" steps at the start of a game; 0 for none
    :param frame_skip: frames that an action is held for
    :param screen_size: height and width of an observation
    :param terminal_on_life_loss: whether losing a life ends the episode
    :param clip_reward: whether rewards become their sign
    :param action_repeat_probability: probability, per frame, to repeat the previous action
    """

    def __init__(
        self,
        env: Env,
        noop_max: int = 30,
        frame_skip: int = 4,
        screen_size: int = 84,
        terminal_on_life_loss: bool = True,
        clip_reward: bool = True,
        action_repeat_probability: float = 0.0,
    ) -> None:
        inner_skip = getattr(env.unwrapped, "_frameskip", 1)
        if frame_skip > 1 and inner_skip != 1:
            name = env.spec.id if env.spec is not None else "the game"
            warnings.warn(
                f"{name} already skips frames ({inner_skip}) and AtariWrapper skips {frame_skip} of those:"
                " make it with frameskip=1 to hold an action for the usual four frames",
                stacklevel=2,
            )
        if action_repeat_probability > 0.0:
            env = StickyActionEnv(env, action_repeat_probability)
        if noop_max > 0:
            env = NoopResetEnv(env, noop_max)
        if frame_skip > 1:
            env = MaxAndSkipEnv(env, frame_skip)
        if terminal_on_life_loss:
            env = EpisodicLifeEnv(env)
        if needs_fire(action_meanings(env)):
            env = FireResetEnv(env)
        if is_screen(env.observation_space):
            env = WarpFrame(env, screen_size, screen_size)
        if clip_reward:
            env = ClipRewardEnv(env)
        super().__init__(env)


def is_screen(space: spaces.Space[Any]) -> bool:
    """Whether observations are pictures and not memory contents."""
    return space.shape is not None and len(space.shape) > 1


def wrap_deepmind(
    env: Env,
    episode_life: bool = True,
    clip_rewards: bool = True,
    frame_stack: bool = False,
    scale: bool = False,
) -> Env:
    """What follows `make_atari`: life loss, FIRE, 84x84 grey frames, and on request clipping, scaling, four
    stacked frames.
    """
    if episode_life:
        env = EpisodicLifeEnv(env)
    if needs_fire(action_meanings(env)):
        env = FireResetEnv(env)
    env = WarpFrame(env)
    if scale:
        env = ScaledFloatFrame(env)
    if clip_rewards:
        env = ClipRewardEnv(env)
    return FrameStack(env, 4) if frame_stack else env
