"""Small environments for tests and first experiments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat, TypeAlias

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info

Observation: TypeAlias = np.ndarray | np.integer | int | dict[str, np.ndarray]
Action: TypeAlias = np.ndarray | np.integer | int
Reset: TypeAlias = tuple[Any, Info]
Step: TypeAlias = tuple[Any, SupportsFloat, bool, bool, Info]


class IdentityEnv(gym.Env):
    """Reward 1 for an action equal to the observation, else 0; observations are random.

    :param dim: number of actions of a Discrete space; default 1
    :param space: the space of observations and actions, instead of `dim`
    :param ep_length: number of steps after which an episode is truncated
    """

    def __init__(
        self, dim: int | None = None, space: spaces.Space | None = None, ep_length: int = 100
    ) -> None:
        if dim is not None and space is not None:
            raise UserError("IdentityEnv: give dim or space, not both")
        self.action_space = self.observation_space = space if space is not None else spaces.Discrete(dim or 1)
        self.ep_length = ep_length
        self.current_step = 0
        self.num_resets = 0
        self.state: Any = None  # the current observation

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Start an episode; `seed` determines all following observations."""
        super().reset(seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.current_step = 0
        self.num_resets += 1
        self.state = self.observation_space.sample()
        return self.state, {}

    def step(self, action: Action) -> Step:
        """Compare the action with the observation; return the next one."""
        reward = float(self.is_right(action))
        self.state = self.observation_space.sample()
        self.current_step += 1
        return self.state, reward, False, self.current_step >= self.ep_length, {}

    def is_right(self, action: Action) -> bool:
        """Return whether the action is right."""
        return bool(np.all(np.asarray(action) == self.state))


class IdentityEnvBox(IdentityEnv):
    """IdentityEnv with a Box of one number: actions within `eps` of the observation are right."""

    def __init__(self, low: float = -1.0, high: float = 1.0, eps: float = 0.05, ep_length: int = 100) -> None:
        super().__init__(space=spaces.Box(low, high, (1,), np.float32), ep_length=ep_length)
        self.eps = eps

    def is_right(self, action: Action) -> bool:
        """Return whether the action is close enough to the observation."""
        return bool(np.all(np.abs(np.asarray(action) - self.state) <= self.eps))


class IdentityEnvMultiDiscrete(IdentityEnv):
    """IdentityEnv with a MultiDiscrete of two dimensions, `dim` choices each."""

    def __init__(self, dim: int = 1, ep_length: int = 100) -> None:
        super().__init__(space=spaces.MultiDiscrete([dim, dim]), ep_length=ep_length)


class IdentityEnvMultiBinary(IdentityEnv):
    """IdentityEnv with a MultiBinary of `dim` bits."""

    def __init__(self, dim: int = 1, ep_length: int = 100) -> None:
        super().__init__(space=spaces.MultiBinary(dim), ep_length=ep_length)


class FakeImageEnv(gym.Env):
    """Random images and reward 0, for tests of shapes and speed.

    :param action_dim: number of actions, or length of the action vector
    :param discrete: whether actions are Discrete or a Box
    :param channel_first: whether images are [channels, height, width]
    """

    def __init__(
        self,
        action_dim: int = 6,
        screen_height: int = 84,
        screen_width: int = 84,
        n_channels: int = 1,
        discrete: bool = True,
        channel_first: bool = False,
    ) -> None:
        size = (screen_height, screen_width)
        self.observation_shape = (n_channels, *size) if channel_first else (*size, n_channels)
        self.observation_space = spaces.Box(0, 255, self.observation_shape, np.uint8)
        self.action_space: spaces.Space = (
            spaces.Discrete(action_dim) if discrete else spaces.Box(-1.0, 1.0, (action_dim,), np.float32)
        )
        self.ep_length = 10
        self.current_step = 0

    def _image(self) -> np.ndarray:
        return self.np_random.integers(0, 256, self.observation_space.shape, dtype=np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Start an episode of ten steps."""
        super().reset(seed=seed)
        self.current_step = 0
        return self._image(), {}

    def step(self, action: Action) -> Step:
        """Return the next image."""
        self.current_step += 1
        return self._image(), 0.0, False, self.current_step >= self.ep_length, {}


class SimpleMultiObsEnv(gym.Env):
    """Walk to the last cell of a grid; Dict observations with a vector ("vec") and an image ("img").

    Each step has reward -0.1, the last one 1, with `info["got_to_end"]`. Episodes are truncated after 100
    steps. `state` is the number of the current cell.

    :param num_col: columns of the grid
    :param num_row: rows of the grid
    :param random_start: start in any cell but the last; otherwise in the first
    :param discrete_actions: Discrete actions (left, down, right, up); otherwise a Box of two numbers (right,
        down), of which the larger absolute value decides
    :param channel_last: images are [64, 64, 1], otherwise [1, 64, 64]
    """

    MOVES = ((0, -1), (1, 0), (0, 1), (-1, 0))  # (row, column)
    SIZE = 64

    def __init__(
        self,
        num_col: int = 4,
        num_row: int = 4,
        random_start: bool = True,
        discrete_actions: bool = True,
        channel_last: bool = True,
    ) -> None:
        self.num_row, self.num_col = num_row, num_col
        self.random_start = random_start
        self.discrete_actions = discrete_actions
        self.channel_last = channel_last
        shape = (self.SIZE, self.SIZE, 1) if channel_last else (1, self.SIZE, self.SIZE)
        self.vector_size, self.img_size = num_row + num_col, list(shape)
        self.observation_space = spaces.Dict(
            {
                "vec": spaces.Box(0.0, 1.0, (num_row + num_col,), np.float32),
                "img": spaces.Box(0, 255, shape, np.uint8),
            }
        )
        self.action_space: spaces.Space = (
            spaces.Discrete(4) if discrete_actions else spaces.Box(-1.0, 1.0, (2,), np.float32)
        )
        self.max_count = 100
        self.count = 0
        self.state = 0  # number of the cell, row by row
        self.max_state = num_row * num_col - 1
        self.action2str = ["left", "down", "right", "up"]

    def _observation(self) -> dict[str, np.ndarray]:
        row, col = divmod(self.state, self.num_col)
        vector = np.zeros(self.num_row + self.num_col, dtype=np.float32)
        vector[[row, self.num_row + col]] = 1.0
        image = np.zeros((self.SIZE, self.SIZE), dtype=np.uint8)
        height, width = self.SIZE // self.num_row, self.SIZE // self.num_col
        image[row * height : (row + 1) * height, col * width : (col + 1) * width] = 255
        return {"vec": vector, "img": image[:, :, None] if self.channel_last else image[None]}

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Start an episode."""
        super().reset(seed=seed)
        self.count = 0
        self.state = int(self.np_random.integers(self.max_state)) if self.random_start else 0
        return self._observation(), {}

    def step(self, action: Action) -> Step:
        """Move by one cell, unless there is a wall."""
        self.count += 1
        down, right = self._direction(action)
        row, col = divmod(self.state, self.num_col)
        row = min(max(row + down, 0), self.num_row - 1)
        col = min(max(col + right, 0), self.num_col - 1)
        self.state = row * self.num_col + col
        arrived = self.state == self.max_state
        truncated = not arrived and self.count >= self.max_count
        return self._observation(), 1.0 if arrived else -0.1, arrived, truncated, {"got_to_end": arrived}

    def _direction(self, action: Action) -> tuple[int, int]:
        if self.discrete_actions:
            return self.MOVES[int(action)]
        right, down = np.asarray(action, np.float64).tolist()
        return (0, 1 if right > 0 else -1) if abs(right) >= abs(down) else (1 if down > 0 else -1, 0)


class BitFlippingEnv(gym.Env):
    """Flip one bit after the other until all are 1: Andrychowicz et al. (2017), "Hindsight experience
    replay".

    A goal environment: observations are a Dict of "observation", "achieved_goal" and "desired_goal"; the
    reward is 0 where the goal is reached, which ends the episode, and -1 elsewhere.

    :param continuous: actions are a Box of `n_bits` numbers, of which the positive ones flip; otherwise one
        bit's index
    :param max_steps: steps until the episode is truncated; `n_bits` when not given
    :param discrete_obs_space: bits are told as one number of a Discrete space
    :param image_obs_space: bits are told as the first pixels of an image, 0 or 255
    :param channel_first: whether that image is [1, 36, 36]
    :param render_mode: "human", "rgb_array" or None; `render` returns the bits as an image in the second
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}

    IMAGE_SIZE = 36

    def __init__(
        self,
        n_bits: int = 10,
        continuous: bool = False,
        max_steps: int | None = None,
        discrete_obs_space: bool = False,
        image_obs_space: bool = False,
        channel_first: bool = True,
        render_mode: str | None = "human",
    ) -> None:
        if discrete_obs_space and image_obs_space:
            raise UserError("BitFlippingEnv: give discrete_obs_space or image_obs_space, not both")
        if image_obs_space and n_bits > self.IMAGE_SIZE**2:
            raise UserError(f"BitFlippingEnv: an image holds at most {self.IMAGE_SIZE**2} bits, not {n_bits}")
        self.n_bits = n_bits
        self.render_mode = render_mode
        self.continuous = continuous
        self.discrete_obs_space = discrete_obs_space
        self.image_obs_space = image_obs_space
        side = self.IMAGE_SIZE
        part: spaces.Space = spaces.MultiBinary(n_bits)
        if discrete_obs_space:
            part = spaces.Discrete(2**n_bits)
        elif image_obs_space:
            part = spaces.Box(0, 255, (1, side, side) if channel_first else (side, side, 1), np.uint8)
        self.part_shape = part.shape or ()
        self.observation_space = spaces.Dict(
            {"observation": part, "achieved_goal": part, "desired_goal": part}
        )
        self.action_space: spaces.Space = (
            spaces.Box(-1.0, 1.0, (n_bits,), np.float32) if continuous else spaces.Discrete(n_bits)
        )
        self.max_steps = n_bits if max_steps is None else max_steps
        self.current_step = 0
        self.state = np.zeros(n_bits, dtype=np.int8)
        self.desired_goal = np.ones(n_bits, dtype=np.int8)

    def _encoded(self, bits: np.ndarray) -> np.ndarray | int:
        """Encode bits as a sample of the observation space."""
        if self.discrete_obs_space:
            return int(bits.astype(np.int64) @ (1 << np.arange(self.n_bits)))
        if self.image_obs_space:
            image = np.zeros(self.IMAGE_SIZE**2, dtype=np.uint8)
            image[: self.n_bits] = np.where(bits, 255, 0)
            return image.reshape(self.part_shape)
        return bits.copy()

    def _observation(self) -> dict[str, np.ndarray | int]:
        bits, goal = self._encoded(self.state), self._encoded(self.desired_goal)
        return {"observation": bits, "achieved_goal": bits, "desired_goal": goal}

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Draw random bits."""
        super().reset(seed=seed)
        self.current_step = 0
        self.state = self.np_random.integers(0, 2, self.n_bits, dtype=np.int8)
        return self._observation(), {}

    def step(self, action: Action) -> Step:
        """Flip bits; `info["is_success"]` is whether the goal is reached."""
        if self.continuous:
            self.state[np.asarray(action) > 0] ^= 1
        else:
            self.state[int(action)] ^= 1
        self.current_step += 1
        reached = bool((self.state == self.desired_goal).all())
        truncated = not reached and self.current_step >= self.max_steps
        return self._observation(), 0.0 if reached else -1.0, reached, truncated, {"is_success": reached}

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return the bits as black and white squares, uint8 [8, 8 * n_bits, 3], or print them."""
        if self.render_mode == "rgb_array":
            squares = np.where(self.state, 255, 0).astype(np.uint8).repeat(8)
            return np.broadcast_to(squares[None, :, None], (8, len(squares), 3)).copy()
        print(self.state)
        return None

    def compute_reward(
        self, achieved_goal: npt.ArrayLike, desired_goal: npt.ArrayLike, info: Info | Sequence[Info]
    ) -> float | np.ndarray:
        """Return the reward of a pair of goals, or float32 [n] for a batch of pairs [n, ...]."""
        same = np.asarray(achieved_goal) == np.asarray(desired_goal)
        if same.ndim == len(self.part_shape):
            return 0.0 if same.all() else -1.0
        return same.reshape(len(same), -1).all(axis=1).astype(np.float32) - 1.0


class NanAndInfEnv(gym.Env):
    """Return NaN or infinity as observation (or reward) at one step of each episode, for tests.

    :param value: the value
    :param at_step: number of the step
    :param in_reward: replace the reward instead of the observation
    """

    def __init__(self, value: float = float("nan"), at_step: int = 3, in_reward: bool = False) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.value, self.at_step, self.in_reward = value, at_step, in_reward
        self.current_step = 0

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Start an episode of ten steps."""
        super().reset(seed=seed)
        self.current_step = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Action) -> Step:
        """Take a step; the value is not finite at `at_step`."""
        self.current_step += 1
        bad = self.value if self.current_step == self.at_step else 0.0
        observation, reward = (0.0, bad) if self.in_reward else (bad, 0.0)
        return np.full(1, observation, np.float32), reward, False, self.current_step >= 10, {}


class Catch(gym.Env):
    """Catch a falling ball with a paddle; image observations uint8 [84, 84, 1].

    The board has 12 x 12 cells of 7 pixels. The ball falls by one cell per step, from a random column; the
    paddle is three cells wide, starts at a random column, and moves left, stays or moves right. An episode is
    one ball (11 steps); its last reward is 1 for a catch and -1 for a miss. A random policy catches one ball
    in four.

    :param render_mode: "rgb_array" or None
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    N_CELLS = 12
    CELL = 7  # pixels
    SHAPE = (84, 84, 1)
    REACH = 1  # cells of the paddle on either side of its middle

    def __init__(self, render_mode: str | None = None) -> None:
        self.observation_space = spaces.Box(0, 255, self.SHAPE, np.uint8)
        self.action_space = spaces.Discrete(3)
        self.render_mode = render_mode
        self.ball = (0, 0)  # row, column
        self.paddle = 0  # column of its middle

    def _image(self) -> np.ndarray:
        image = np.zeros(self.SHAPE, dtype=np.uint8)
        row, col, cell = *self.ball, self.CELL
        left, right = (self.paddle - self.REACH) * cell, (self.paddle + self.REACH + 1) * cell
        image[-cell:, left:right] = 128
        image[row * cell : (row + 1) * cell, col * cell : (col + 1) * cell] = 255
        return image

    def reset(self, *, seed: int | None = None, options: dict[str, object] | None = None) -> Reset:
        """Start a ball."""
        super().reset(seed=seed)
        self.ball = (0, int(self.np_random.integers(self.N_CELLS)))
        self.paddle = int(self.np_random.integers(self.REACH, self.N_CELLS - self.REACH))
        return self._image(), {}

    def step(self, action: Action) -> Step:
        """Move the paddle (0 left, 1 stay, 2 right), then the ball."""
        moved = self.paddle + int(action) - 1
        self.paddle = min(max(moved, self.REACH), self.N_CELLS - 1 - self.REACH)
        row, col = self.ball
        self.ball = (row + 1, col)
        landed = self.ball[0] == self.N_CELLS - 1
        caught = landed and abs(col - self.paddle) <= self.REACH
        reward = (1.0 if caught else -1.0) if landed else 0.0
        return self._image(), reward, landed, False, {"is_success": caught} if landed else {}

    def render(self) -> np.ndarray:  # type: ignore[override]
        """Return the image with three channels, uint8 [84, 84, 3]."""
        return np.repeat(self._image(), 3, axis=2)
