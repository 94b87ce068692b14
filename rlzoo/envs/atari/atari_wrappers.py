"""Preprocessing of Atari games, one Gymnasium wrapper per step.

The pipeline follows Mnih et al. (2015), "Human-level control through deep reinforcement learning", with
sticky actions of Machado et al. (2018), "Revisiting the Arcade Learning Environment".
"""

from __future__ import annotations

import warnings
from collections import deque
from typing import Any, SupportsFloat

import cv2
import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.core import ActType, ObsType

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info


def action_meanings(env: gym.Env) -> list[str]:
    """Return the meanings of an Atari game's actions, e.g. ["NOOP", "FIRE", "RIGHT", "LEFT"].

    :raises UserError: `env` is not an Atari game
    """
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    if meanings is None:
        raise UserError(
            f"{type(env.unwrapped).__name__} is not an Atari game: it has no get_action_meanings()"
        )
    return list(meanings())


def needs_fire(meanings: list[str]) -> bool:
    """Return whether a game may stand still until FIRE is pressed."""
    return len(meanings) >= 3 and meanings[1] == "FIRE"


class StickyActionEnv(gym.Wrapper[ObsType, int, ObsType, int]):
    """Repeat the previous action instead of the given one, with some probability ("sticky actions").

    :param action_repeat_probability: probability at each step
    """

    def __init__(self, env: gym.Env[ObsType, int], action_repeat_probability: float) -> None:
        super().__init__(env)
        self.action_repeat_probability = action_repeat_probability
        self._sticky_action = 0

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the game; the previous action is NOOP."""
        self._sticky_action = 0
        return self.env.reset(**kwargs)

    def step(self, action: int) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step with `action` or the previous one."""
        if self.np_random.random() >= self.action_repeat_probability:
            self._sticky_action = action
        return self.env.step(self._sticky_action)


class NoopResetEnv(gym.Wrapper[ObsType, int, ObsType, int]):
    """Start each episode with 1 to `noop_max` NOOP steps, to randomise the initial state."""

    def __init__(self, env: gym.Env[ObsType, int], noop_max: int = 30) -> None:
        super().__init__(env)
        self.noop_max = noop_max
        self.override_num_noops: int | None = None  # a fixed number of them, for tests
        if action_meanings(env)[0] != "NOOP":
            raise UserError("NoopResetEnv: action 0 of the game is not NOOP")

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the game, then take NOOP steps; reset it again if it ends during these."""
        observation, info = self.env.reset(**kwargs)
        n_noops = self.override_num_noops
        if n_noops is None:
            n_noops = int(self.unwrapped.np_random.integers(1, self.noop_max + 1))
        for _ in range(n_noops):
            observation, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class FireResetEnv(gym.Wrapper[ObsType, int, ObsType, int]):
    """Press FIRE, then action 2, at the start of an episode: some games stand still until then."""

    def __init__(self, env: gym.Env[ObsType, int]) -> None:
        super().__init__(env)
        if not needs_fire(action_meanings(env)):
            raise UserError(
                "FireResetEnv: action 1 of the game is not FIRE, or it has fewer than three actions"
            )

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the game and press FIRE."""
        observation, info = self.env.reset(**kwargs)
        for action in (1, 2):
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset()
        return observation, info


class EpisodicLifeEnv(gym.Wrapper[ObsType, int, ObsType, int]):
    """End the episode when a life is lost, but reset the game only when it is over.

    This gives life loss a cost in value estimates, while the agent still reaches late stages of the game.
    """

    def __init__(self, env: gym.Env[ObsType, int]) -> None:
        super().__init__(env)
        self.lives = 0
        self.was_real_done = True

    def _lives_left(self) -> int:
        return int(self.unwrapped.ale.lives())  # type: ignore[attr-defined]

    def step(self, action: int) -> tuple[ObsType, SupportsFloat, bool, bool, Info]:
        """Step the game; `terminated` is also True when a life was lost."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.was_real_done = terminated or truncated
        lives = self._lives_left()
        lost = 0 < lives < self.lives  # some games show zero lives for a few frames before they are over
        self.lives = lives
        return observation, reward, terminated or lost, truncated, info

    def reset(self, **kwargs: Any) -> tuple[ObsType, Info]:
        """Reset the game if it is over or a seed is given; otherwise continue it with a NOOP step."""
        if self.was_real_done or kwargs.get("seed") is not None:
            observation, info = self.env.reset(**kwargs)
        else:
            observation, _, terminated, truncated, info = self.env.step(0)
            if terminated or truncated:
                observation, info = self.env.reset(**kwargs)
        self.was_real_done = False
        self.lives = self._lives_left()
        return observation, info


class MaxAndSkipEnv(gym.Wrapper[np.ndarray, ActType, np.ndarray, ActType]):
    """Repeat each action for `skip` frames, and sum the rewards.

    The observation is the pixelwise maximum of the last two frames, because the console draws some sprites
    only in every second frame. For RAM observations (`-ram` games) it is the last one.
    """

    def __init__(self, env: gym.Env[np.ndarray, ActType], skip: int = 4) -> None:
        super().__init__(env)
        if skip < 1:
            raise UserError(f"MaxAndSkipEnv: skip must be at least 1, not {skip}")
        self._skip = skip
        self._pools = is_screen(env.observation_space)

    def step(self, action: ActType) -> tuple[np.ndarray, SupportsFloat, bool, bool, Info]:
        """Step `skip` times, or until the episode ends."""
        total = 0.0
        previous: np.ndarray | None = None
        observation: np.ndarray | None = None
        for _ in range(self._skip):
            previous = observation
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        assert observation is not None
        if self._pools and previous is not None:
            observation = np.maximum(previous, observation)
        return observation, total, terminated, truncated, info


class ClipRewardEnv(gym.RewardWrapper[ObsType, ActType]):
    """Replace rewards by their sign: -1, 0 or 1."""

    def reward(self, reward: SupportsFloat) -> float:
        """Return the sign of `reward`."""
        return float(np.sign(float(reward)))


class WarpFrame(gym.ObservationWrapper[np.ndarray, ActType, np.ndarray]):
    """Convert frames [height, width, 3] (or grey ones [height, width]) to small grey ones [height, width, 1].

    :param width: new width in pixels
    :param height: new height in pixels
    """

    def __init__(self, env: gym.Env[np.ndarray, ActType], width: int = 84, height: int = 84) -> None:
        super().__init__(env)
        self.width, self.height = width, height
        self.observation_space = spaces.Box(0, 255, (height, width, 1), np.uint8)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the grey frame, resized by area averaging, uint8."""
        grey = cv2.cvtColor(observation, cv2.COLOR_RGB2GRAY) if observation.ndim == 3 else observation
        return cv2.resize(grey, (self.width, self.height), interpolation=cv2.INTER_AREA)[:, :, None]


class ScaledFloatFrame(gym.ObservationWrapper[np.ndarray, ActType, np.ndarray]):
    """Scale pixels to float32 in [0, 1]; the policies of rlzoo do so themselves and store uint8."""

    def __init__(self, env: gym.Env[np.ndarray, ActType]) -> None:
        super().__init__(env)
        self.observation_space = spaces.Box(0.0, 1.0, env.observation_space.shape, np.float32)

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Divide by 255."""
        return observation.astype(np.float32) / 255.0


class FrameStack(gym.Wrapper[np.ndarray, ActType, np.ndarray, ActType]):
    """Stack the last `n_frames` observations along the last axis; the first of an episode is repeated."""

    def __init__(self, env: gym.Env[np.ndarray, ActType], n_frames: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box):
            raise UserError(f"FrameStack needs Box observations, not {type(space).__name__}")
        low, high = (np.repeat(bound, n_frames, axis=-1) for bound in (space.low, space.high))
        self.observation_space = spaces.Box(low, high, dtype=space.dtype.type)
        self._frames: deque[np.ndarray] = deque(maxlen=n_frames)

    def reset(self, **kwargs: Any) -> tuple[np.ndarray, Info]:
        """Reset the environment; all frames are the first observation."""
        observation, info = self.env.reset(**kwargs)
        self._frames.extend([observation] * (self._frames.maxlen or 0))
        return np.concatenate(self._frames, axis=-1), info

    def step(self, action: ActType) -> tuple[np.ndarray, SupportsFloat, bool, bool, Info]:
        """Step the environment; drop the oldest frame."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames.append(observation)
        return np.concatenate(self._frames, axis=-1), reward, terminated, truncated, info


class AtariWrapper(gym.Wrapper[np.ndarray, int, np.ndarray, int]):
    """Apply the full preprocessing: sticky actions, no-ops at reset, frame skip, episodes that end at life
    loss, FIRE, 84x84 grey frames, and clipped rewards.

    >>> import ale_py
    >>> gym.register_envs(ale_py)
    >>> env = AtariWrapper(gym.make("PongNoFrameskip-v4"))
    >>> env.observation_space.shape
    (84, 84, 1)

    Use it for games without their own frame skip (`PongNoFrameskip-v4`, or `frameskip=1`). RAM observations
    are not changed.

    :param noop_max: largest number of NOOP steps at the start of a game; 0: none
    :param frame_skip: number of frames for which an action is repeated
    :param screen_size: height and width of observations, in pixels
    :param terminal_on_life_loss: whether losing a life ends the episode
    :param clip_reward: whether rewards are replaced by their sign
    :param action_repeat_probability: probability of repeating the previous action, per frame
    """

    def __init__(
        self,
        env: gym.Env[np.ndarray, int],
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


def is_screen(space: spaces.Space) -> bool:
    """Return whether observations are images, not RAM contents."""
    return space.shape is not None and len(space.shape) > 1


def wrap_deepmind(
    env: gym.Env,
    episode_life: bool = True,
    clip_rewards: bool = True,
    frame_stack: bool = False,
    scale: bool = False,
) -> gym.Env:
    """Add the preprocessing after `make_atari`, with 84x84 grey frames.

    :param episode_life: end episodes at life loss
    :param clip_rewards: replace rewards by their sign
    :param frame_stack: stack four frames
    :param scale: scale pixels to [0, 1]
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
