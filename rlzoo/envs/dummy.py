"""Environments that step one after the other in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, RunFailed, UserError
from rlzoo.envs import episode_state
from rlzoo.envs.failures import describe, is_failure
from rlzoo.envs.obs_arrays import Obs, ObsBuffer, stack_obs
from rlzoo.envs.vec_env import NO_ENDS, Indices, StepArrays, VecEnv


class DummyVecEnv(VecEnv):
    """Steps `len(env_fns)` environments in a loop; the fastest for environments that are cheap to step.

    :param env_fns: functions of no argument, each returning an environment of its own
    :param first_index: what messages call the first environment
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], first_index: int = 0) -> None:
        self.envs = [made_env(env_fn, first_index + index) for index, env_fn in enumerate(env_fns)]
        check_envs(self.envs)
        first = self.envs[0]
        super().__init__(len(self.envs), first.observation_space, first.action_space, first.render_mode)
        self.metadata = first.metadata
        self._obs = ObsBuffer(self.observation_space, self.num_envs)
        self._rewards = np.zeros(self.num_envs, dtype=np.float32)
        self._terminated = np.zeros(self.num_envs, dtype=bool)
        self._truncated = np.zeros(self.num_envs, dtype=bool)
        self._infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._actions: Any = None
        self.first_index = first_index
        self._at = np.zeros(
            self.num_envs, dtype=np.int64
        )  # [0]: the environment that is stepping, for a post-mortem
        self._steps_taken = -1  # of each environment since the first reset; -1: never reset

    def reset(self) -> Obs:
        self._actions = None
        for index, (seed, options) in enumerate(self._take_seeds_and_options()):
            try:
                obs, info = self.envs[index].reset(seed=seed, options=options)
                self.reset_infos[index] = self._checked_info(index, "reset", info)
                self._obs.write(index, obs)
            except BaseException as error:
                if isinstance(error, RunFailed) or not is_failure(error):
                    raise
                raise self._failed(index, "reset", error) from error
        self._steps_taken = max(self._steps_taken, 0)
        return self._obs.batch

    def step_async(self, actions: np.ndarray) -> None:
        if self._steps_taken < 0:
            raise UserError("call reset() before the first step()")
        if len(actions) != self.num_envs:
            raise UserError(f"{len(actions)} actions for {self.num_envs} environments")
        self._actions = actions

    def wait_arrays(self) -> StepArrays:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        self._steps_taken += 1
        rewards, terminated, truncated, infos = self._rewards, self._terminated, self._truncated, self._infos
        write, at, first_index = self._obs.write, self._at, self.first_index
        ended: list[int] = []
        final_obs: list[Any] = []
        index = 0
        try:
            for index, env in enumerate(self.envs):
                at[0] = first_index + index
                obs, rewards[index], terminal, limit, info = env.step(actions[index])
                infos[index] = info if type(info) is dict else self._checked_info(index, "step", info)
                terminated[index] = terminal
                truncated[index] = limit
                if terminal or limit:
                    ended.append(index)
                    final_obs.append(self._checked(index, obs))
                    obs, info = env.reset()
                    self.reset_infos[index] = self._checked_info(index, "reset", info)
                write(index, obs)
        except BaseException as error:
            if isinstance(error, RunFailed) or not is_failure(error):
                raise
            raise self._failed(index, "step", error) from error
        return StepArrays(
            self._obs.batch,
            rewards,
            terminated,
            truncated,
            np.array(ended) if ended else NO_ENDS,
            stack_obs(final_obs) if ended else None,
            infos,
        )

    def _checked(self, index: int, obs: Any) -> Obs:
        """The observation as the space says it looks, in arrays of its own."""
        self._obs.write(index, obs)
        return self._obs.row(index)

    def _checked_info(self, index: int, call: str, info: Any) -> dict[str, Any]:
        """The info as it is.

        :raises TypeError: it is no dict
        """
        if not isinstance(info, Mapping):
            raise TypeError(f"the info must be a dict, not {type(info).__name__} ({info!r:.50})")
        return info  # type: ignore[return-value]

    def _failed(self, index: int, call: str, error: BaseException) -> EnvironmentFailed:
        index += self.first_index
        step = max(self._steps_taken, 0)
        text = f"environment {index} failed in {call}() at step {step}: {describe(error)}"
        return EnvironmentFailed(text, env_index=index, step=step)

    def close(self) -> None:
        for index, env in enumerate(self.envs):
            try:
                env.close()
            except BaseException as error:  # the others are closed too, and what was learned is not lost
                if not is_failure(error):
                    raise
                warnings.warn(f"{self._failed(index, 'close', error)}", stacklevel=2)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return [self.envs[index].get_wrapper_attr(attr_name) for index in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        for index in self._get_indices(indices):
            self.envs[index].set_wrapper_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        answers = []
        for index in self._get_indices(indices):
            method = self.envs[index].get_wrapper_attr(method_name)
            try:
                answers.append(method(*method_args, **method_kwargs))
            except BaseException as error:
                if isinstance(error, Exception) or not is_failure(error):
                    raise
                raise self._failed(index, method_name, error) from error
        return answers

    def env_states(self, indices: Indices = None) -> list[Any]:
        """The episode in progress of each environment; None for those that cannot be restored."""
        return [episode_state.episode_state(self.envs[index]) for index in self._get_indices(indices)]

    def load_env_state(self, state: list[Any], indices: Indices = None) -> list[None]:
        """Continue the episode that `env_states` returned."""
        for index in self._get_indices(indices):
            episode_state.load_episode_state(self.envs[index], state)
        return [None]

    def episode_state(self) -> dict[str, Any] | None:
        envs = self.env_states()
        return None if None in envs else {"kind": "envs", "steps_taken": self._steps_taken, "envs": envs}

    def load_episode_state(self, state: dict[str, Any]) -> bool:
        if state["kind"] != "envs" or len(state["envs"]) != self.num_envs:
            return False
        for index, one in enumerate(state["envs"]):
            self.load_env_state(one, index)
        self._steps_taken = int(state["steps_taken"])
        return True

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        return [is_wrapped(self.envs[index], wrapper_class) for index in self._get_indices(indices)]


def made_env(env_fn: Callable[[], gym.Env], index: int) -> gym.Env:
    """What `env_fn` returns.

    :raises EnvironmentFailed: it ends by `sys.exit()` or the like
    """
    try:
        return env_fn()
    except Exception:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        text = f"environment {index} could not be made: {describe(error)}"
        raise EnvironmentFailed(text, index, 0) from error


def check_envs(envs: Sequence[Any]) -> None:
    """Refuse what cannot be stepped together.

    :raises UserError: no environment, one object twice, no Gymnasium environment, or spaces that differ
    """
    if not envs:
        raise UserError("a vector environment needs at least one environment")
    if len({id(env) for env in envs}) < len(envs):
        raise UserError(
            "each function in env_fns must make an environment of its own; two returned the same one"
        )
    for env in envs:
        if not isinstance(env, gym.Env):
            raise UserError(f"a gymnasium.Env was expected, not {type(env).__module__}.{type(env).__name__}")
        check_spaces(env.observation_space, env.action_space, envs[0].observation_space, envs[0].action_space)


def check_spaces(
    obs: spaces.Space, action: spaces.Space, first_obs: spaces.Space, first_action: spaces.Space
) -> None:
    """:raises UserError: the spaces of an environment are not those of the first"""
    if obs != first_obs or action != first_action:
        raise UserError(
            f"environments with different spaces cannot step together: {first_obs} and {obs},"
            f" {first_action} and {action}"
        )


def is_wrapped(env: gym.Env, wrapper_class: type) -> bool:
    """Whether a wrapper of that class is around (or is) `env`."""
    return unwrap_wrapper(env, wrapper_class) is not None


def unwrap_wrapper(env: gym.Env, wrapper_class: type) -> gym.Env | None:
    """The outermost wrapper of that class around (or being) `env`, or None."""
    layer: Any = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, wrapper_class):
            return layer
        layer = layer.env
    return None
