"""Native vectorised CartPole: the fastest backend for this environment.

The dynamics are those of Barto, Sutton and Anderson (1983), "Neuronlike adaptive elements that can solve
difficult learning control problems", with the constants, Euler steps, rewards, time limits and initial states
of Gymnasium's CartPole.
"""

from __future__ import annotations

import copy
import logging
import math
from array import array
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from gymnasium.envs.classic_control.utils import maybe_parse_reset_bounds
from gymnasium.utils import seeding
from gymnasium.wrappers import TimeLimit

from rlzoo.core.errors import EnvironmentFailed, UserError
from rlzoo.core.observations import Info
from rlzoo.envs.examples.velocity_mask import NO_VELOCITY, VELOCITIES, WITHOUT_VELOCITY
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.single_env.registration import ensure_registered
from rlzoo.envs.vec_env.dummy import DummyVecEnv
from rlzoo.envs.vec_env.episode_state import set_np_random_seed
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, State, VecEnv, VecStep, is_wrapped, unwrap_wrapper

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = 1.1
HALF_LENGTH = 0.5
FORCE = 10.0
TAU = 0.02  # seconds per step
ANGLE_LIMIT = 12 * 2 * math.pi / 360
POSITION_LIMIT = 2.4
START_LIMIT = 0.05  # of each component of an initial state

NATIVE_ENVS = {"CartPole-v0": 200, "CartPole-v1": 500, "CartPoleNoVel-v1": 500}  # id -> time limit in steps
ENTRY_POINT = "gymnasium.envs.classic_control.cartpole:CartPoleEnv"

logger = logging.getLogger(__name__)

PoleState = tuple[float, float, float, float]  # position, velocity, angle, angular velocity


def cartpole_step(state: PoleState, force: float) -> PoleState:
    """Return the state after one Euler step of TAU seconds.

    Computed with Python floats: the 20 calls of a NumPy version take as long as 16 calls of this function.

    :param state: m, m/s, rad, rad/s
    :param force: on the cart, in N
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


def is_native(env_id: str) -> bool:
    """Return whether an id has a native version and its registration is unchanged.

    A user may have registered another environment under the id.
    """
    if env_id not in NATIVE_ENVS:
        return False
    spec = gym.spec(env_id)
    return (
        spec.entry_point == ENTRY_POINT
        and not spec.kwargs
        and spec.max_episode_steps == NATIVE_ENVS[env_id]
        and spec.additional_wrappers == ((WITHOUT_VELOCITY,) if NO_VELOCITY in env_id else ())
    )


class NativeCartPole(DummyVecEnv):
    """Vectorised `CartPole-v0`, `CartPole-v1` or `CartPoleNoVel-v1` (velocities are hidden).

    There are no single environments until they are accessed (`envs`, `env_method`, ...). Then the object
    turns into a plain `DummyVecEnv` of Gymnasium environments, which continue from the same states, time
    limits, random generators and episode statistics.

    :param env_id: one of `NATIVE_ENVS`
    :param num_envs: number of environments
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}

    def __init__(self, env_id: str, num_envs: int = 1) -> None:
        high = np.array([2 * POSITION_LIMIT, np.inf, 2 * ANGLE_LIMIT, np.inf], dtype=np.float32)
        space = spaces.Box(-high, high, dtype=np.float32)
        VecEnv.__init__(self, num_envs, space, spaces.Discrete(2), "rgb_array")
        ensure_registered(env_id)
        self.spec = copy.deepcopy(gym.spec(env_id))  # the registration may change later
        self.max_episode_steps = NATIVE_ENVS[env_id]
        self._hidden = list(VELOCITIES["CartPole"]) if NO_VELOCITY in env_id else None
        self._generators: list[tuple[np.random.Generator, int] | None] = [None] * num_envs  # and seeds
        self._states: list[PoleState] = []  # empty until the first reset
        self._deadlines = [0] * num_envs  # value of `_steps_taken` at which each episode is truncated
        self.first_index = 0
        self._steps_taken = -1  # of each environment since the first reset; -1: never reset
        self._actions: Sequence[int] | None = None
        self._rewards = np.ones(num_envs, dtype=np.float32)
        self._terminated = np.zeros(num_envs, dtype=bool)
        self._truncated = np.zeros(num_envs, dtype=bool)
        self._infos: list[Info] = [{}] * num_envs

    @cached_property
    def _sample(self) -> gym.Env:
        """One Gymnasium CartPole, to render states and to look up attributes and wrappers."""
        return gym.make(self.spec, render_mode="rgb_array", disable_env_checker=True)

    def env_name(self) -> str:
        return self.spec.id

    def _single_envs(self) -> list[gym.Env]:
        return self._real().envs

    def _real(self) -> DummyVecEnv:
        """Return this object, turned into a DummyVecEnv of Gymnasium environments."""
        logger.debug("single environments were accessed: CartPole is no longer stepped natively")
        kept = dict(self.__dict__)
        if "_sample" in kept:
            kept.pop("_sample").close()
        DummyVecEnv.__init__(self, [self._single_env(index) for index in range(self.num_envs)])
        made = self.__dict__["_envs"]
        self.__dict__.update(kept, _envs=made)
        self.__class__ = DummyVecEnv  # type: ignore[assignment]
        return self

    def _single_env(self, index: int) -> Callable[[], gym.Env]:
        """Return a function that makes a Gymnasium environment in the state of the native one."""

        def make() -> gym.Env:
            env = gym.make(self.spec, render_mode=self.render_mode, disable_env_checker=True)
            generator = self._generators[index]
            if generator is not None:
                env.reset()
                inner = cast(CartPoleEnv, env.unwrapped)
                inner.state = np.array(self._states[index])
                inner.np_random, seed = generator
                set_np_random_seed(inner, seed)
                limit = unwrap_wrapper(env, TimeLimit)
                assert limit is not None
                elapsed = self.max_episode_steps - (self._deadlines[index] - self._steps_taken)
                limit._elapsed_steps = elapsed  # type: ignore[assignment]
            return env

        return make

    def reset(self) -> np.ndarray:
        self._actions = None
        if self._statistics is not None:
            self._statistics.start_episodes()
        self._steps_taken = max(self._steps_taken, 0)
        self._states = [(0.0, 0.0, 0.0, 0.0)] * self.num_envs
        for index, (seed, options) in enumerate(self._take_seeds_and_options()):
            if seed is not None or self._generators[index] is None:
                self._generators[index] = seeding.np_random(seed)
            try:
                self._begin_episode(index, *maybe_parse_reset_bounds(options, -START_LIMIT, START_LIMIT))
            except ValueError as error:
                raise self._failed(index, "reset", error) from error
        return self._observations()

    def _begin_episode(self, index: int, low: float = -START_LIMIT, high: float = START_LIMIT) -> None:
        seeded = self._generators[index]
        assert seeded is not None
        self._states[index] = cast(PoleState, tuple(seeded[0].uniform(low, high, size=4).tolist()))
        self._deadlines[index] = self._steps_taken + self.max_episode_steps

    def _observations(self) -> np.ndarray:
        flat = array("f")
        for state in self._states:
            flat.extend(state)
        observations = np.frombuffer(flat, dtype=np.float32).reshape(self.num_envs, 4)
        if self._hidden is not None:
            observations[:, self._hidden] = 0.0
        return observations

    def step_async(self, actions: np.ndarray) -> None:
        if self._steps_taken < 0:
            raise UserError("call reset() before the first step()")
        actions = np.asarray(actions)
        if actions.shape != (self.num_envs,):
            raise UserError(f"actions of shape {actions.shape} where ({self.num_envs},) was expected")
        self._actions = actions.tolist()

    def wait_arrays(self) -> VecStep:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        self._steps_taken += 1
        states, deadlines, clock = self._states, self._deadlines, self._steps_taken
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
        ended_array, final_obs = NO_ENDS, None
        if ended:
            ended_array = np.array(ended)
            final_obs = self._observations()[ended_array]
            for index in ended:
                self._begin_episode(index)
        step = VecStep(
            self._observations(),
            self._rewards,
            self._terminated,
            self._truncated,
            ended_array,
            final_obs,
            self._infos,
        )
        if self._statistics is not None:
            self._statistics.record(step)
        return step

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        chosen = self._get_indices(indices)
        if attr_name == "state" and self._states:
            return [np.array(self._states[index]) for index in chosen]
        if attr_name in ("spec", "render_mode"):
            return [getattr(self, attr_name) for _ in chosen]
        if not self._is_of_monitor(attr_name):
            self._sample.get_wrapper_attr(attr_name)  # raises AttributeError if there is none
        return self._real().get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        if attr_name != "state" or not self._states:
            return self._real().set_attr(attr_name, value, indices)
        position, velocity, angle, spin = np.asarray(value, np.float64).tolist()
        for index in self._get_indices(indices):
            self._states[index] = (position, velocity, angle, spin)

    def has_attr(self, attr_name: str) -> bool:
        return self._is_of_monitor(attr_name) or self._sample.has_wrapper_attr(attr_name)

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        return self._real().env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        counted = self._statistics is not None and issubclass(Monitor, wrapper_class)
        return [counted or is_wrapped(self._sample, wrapper_class) for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[np.ndarray | None]:
        if not self._states:  # Gymnasium reports that a reset is needed
            return self._real().get_images()
        renderer = cast(CartPoleEnv, self._sample.unwrapped)
        images: list[np.ndarray | None] = []
        for state in self._states:
            renderer.state = np.array(state)
            images.append(renderer.render())
        return images

    def episode_state(self) -> State | None:
        if any(generator is None for generator in self._generators):
            return None  # never reset
        state: State = {
            "kind": self.spec.id,
            "states": np.array(self._states),
            "steps_left": [deadline - self._steps_taken for deadline in self._deadlines],
            "generators": [
                [seeded[0].bit_generator.state, seeded[1]] for seeded in self._generators if seeded
            ],
            "steps_taken": self._steps_taken,
        }
        return state if self._statistics is None else {**state, "statistics": self._statistics.state()}

    def load_episode_state(self, state: State) -> bool:
        if state["kind"] != self.spec.id or len(state["states"]) != self.num_envs:
            return False
        if ("statistics" in state) != (self._statistics is not None):
            return False
        self._steps_taken = int(state["steps_taken"])
        for index, (seeded, left) in enumerate(zip(state["generators"], state["steps_left"], strict=True)):
            generator, seed = seeding.np_random(0)[0], seeded[1]
            generator.bit_generator.state = seeded[0]
            self._generators[index] = (generator, seed)
            position, velocity, angle, spin = state["states"][index].tolist()
            self._states[index] = (position, velocity, angle, spin)
            self._deadlines[index] = self._steps_taken + int(left)
        if self._statistics is not None:
            self._statistics.load_state(state["statistics"])
        return True

    def close(self) -> None:
        if self._statistics is not None:
            self._statistics.close()
        if "_sample" in self.__dict__:
            self._sample.close()
