"""CartPole written out for a whole vector: the fastest backend for the environment that everyone starts with.

The dynamics are those of Barto, Sutton and Anderson, Neuronlike adaptive elements that can solve difficult
learning control problems (1983), with the constants, Euler steps, rewards, time limits and first states of
Gymnasium's CartPole.
"""

from __future__ import annotations

import math
from array import array
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.envs.obs_arrays import Obs
from rlzoo.envs.registration import ensure_registered
from rlzoo.envs.vec_env import NO_ENDS, Indices, StepArrays, VecEnv
from rlzoo.envs.velocity_mask import NO_VELOCITY, VELOCITIES

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
TAU = 0.02  # seconds per step
ANGLE_LIMIT = 12 * 2 * math.pi / 360
POSITION_LIMIT = 2.4

NATIVE_ENVS = {"CartPole-v0": 200, "CartPole-v1": 500, "CartPoleNoVel-v1": 500}  # id -> time limit in steps

State = tuple[float, float, float, float]  # position, velocity, angle, angular velocity


def cartpole_step(state: State, force: float) -> State:
    """One Euler step of the cart and its pole under a force.

    Scalars on purpose: twenty NumPy calls cost as much as sixteen of these.
    """
    position, velocity, angle, spin = state
    cos, sin = math.cos(angle), math.sin(angle)
    push = (force + POLE_MASS * HALF_LENGTH * (spin * spin) * sin) / TOTAL_MASS
    spin_rate = (GRAVITY * sin - cos * push) / (
        HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * (cos * cos) / TOTAL_MASS)
    )
    acceleration = push - POLE_MASS * HALF_LENGTH * spin_rate * cos / TOTAL_MASS
    return (
        position + TAU * velocity,
        velocity + TAU * acceleration,
        angle + TAU * spin,
        spin + TAU * spin_rate,
    )


class NativeCartPole(VecEnv):
    """`CartPole-v0` or `CartPole-v1`, `num_envs` at a time; `CartPoleNoVel-v1` shows no velocities.

    :param env_id: one of `NATIVE_ENVS`
    :param num_envs: number of environments
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(self, env_id: str, num_envs: int = 1) -> None:
        high = np.array([2 * POSITION_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], dtype=np.float32)
        super().__init__(num_envs, spaces.Box(-high, high, dtype=np.float32), spaces.Discrete(2), "rgb_array")
        ensure_registered(env_id)
        self.spec = gym.spec(env_id)
        self.max_episode_steps = NATIVE_ENVS[env_id]
        self._hidden = list(VELOCITIES["CartPole"]) if NO_VELOCITY in env_id else None
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._states: list[State] = []  # empty until the first reset
        self._deadlines = [0] * num_envs  # the clock's reading at which each episode is truncated
        self._clock = 0
        self._actions: list[int] | None = None
        self._rewards = np.ones(num_envs, dtype=np.float32)
        self._terminated = np.zeros(num_envs, dtype=bool)
        self._truncated = np.zeros(num_envs, dtype=bool)
        self._infos: list[dict[str, Any]] = [{}] * num_envs
        self._picture: Any = None  # a Gymnasium CartPole that draws

    def reset(self) -> Obs:
        self._actions = None
        self._states = [(0.0, 0.0, 0.0, 0.0)] * self.num_envs
        for index, (seed, options) in enumerate(self._take_seeds_and_options()):
            if seed is not None or self._generators[index] is None:
                self._generators[index] = seeding.np_random(seed)[0]
            self._begin_episode(index, **(options or {}))
        return self._observations()

    def _begin_episode(self, index: int, low: float = -0.05, high: float = 0.05) -> None:
        generator = self._generators[index]
        assert generator is not None
        self._states[index] = tuple(generator.uniform(low, high, size=4).tolist())
        self._deadlines[index] = self._clock + self.max_episode_steps

    def _observations(self) -> np.ndarray:
        flat = array("f")
        for state in self._states:
            flat.extend(state)
        observations = np.frombuffer(flat, dtype=np.float32).reshape(self.num_envs, 4)
        if self._hidden is not None:
            observations[:, self._hidden] = 0.0
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        if not self._states:
            raise UserError("call reset() before the first step()")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,):
            raise UserError(f"actions of shape {actions.shape} where ({self.num_envs},) was expected")
        self._actions = actions.tolist()

    def wait_arrays(self) -> StepArrays:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        self._clock += 1
        states, deadlines, clock = self._states, self._deadlines, self._clock
        ended: list[int] = []
        self._rewards.fill(1.0)
        self._terminated.fill(False)
        self._truncated.fill(False)
        for index, action in enumerate(actions):
            if action == 1:
                state = cartpole_step(states[index], FORCE)
            elif action == 0:
                state = cartpole_step(states[index], -FORCE)
            else:
                raise EnvironmentFailed(
                    f"environment {index} failed at step {clock}: {action!r} is not in {self.action_space}",
                    env_index=index,
                    step=clock,
                )
            states[index] = state
            inside = -POSITION_LIMIT <= state[0] <= POSITION_LIMIT and -ANGLE_LIMIT <= state[2] <= ANGLE_LIMIT
            if not inside or clock >= deadlines[index]:
                ended.append(index)
                self._terminated[index] = not inside
                self._truncated[index] = clock >= deadlines[index]
        if not ended:
            return StepArrays(
                self._observations(),
                self._rewards,
                self._terminated,
                self._truncated,
                NO_ENDS,
                None,
                self._infos,
            )
        ended_array = np.array(ended)
        final_obs = self._observations()[ended_array]
        for index in ended:
            self._begin_episode(index)
        return StepArrays(
            self._observations(),
            self._rewards,
            self._terminated,
            self._truncated,
            ended_array,
            final_obs,
            self._infos,
        )

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """`state`, or what all environments share (`spec`, `render_mode`, spaces, `max_episode_steps`)."""
        chosen = self._get_indices(indices)
        if attr_name == "state":
            return [np.array(self._states[index]) for index in chosen]
        return [getattr(self, attr_name) for _ in chosen]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Only `state` (four numbers) can be set."""
        if attr_name != "state":
            raise UserError(
                f"native CartPole cannot set {attr_name!r}; make the environment with backend='dummy'"
            )
        position, velocity, angle, spin = (float(number) for number in value)
        for index in self._get_indices(indices):
            self._states[index] = (position, velocity, angle, spin)

    def get_images(self) -> list[np.ndarray | None]:
        if self._picture is None:
            self._picture = gym.make(self.spec.id, render_mode="rgb_array").unwrapped
        images = []
        for state in self._states:
            self._picture.state = np.array(state)
            images.append(self._picture.render())
        return images

    def close(self) -> None:
        if self._picture is not None:
            self._picture.close()
            self._picture = None
