"""Vectorised environment that steps its environments in a loop, in this process."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, RunFailed, UserError
from rlzoo.core.observations import Info, Obs, ObsBuffer, copy_obs, stack_obs
from rlzoo.envs.single_env.env_failures import describe, hint_at_older_api, is_failure
from rlzoo.envs.single_env.monitor import MONITOR_NAMES, Monitor
from rlzoo.envs.single_env.old_gym import patch_env
from rlzoo.envs.vec_env import episode_state
from rlzoo.envs.vec_env.vec_env import NO_ENDS, CountingVecEnv, Indices, State, VecStep, is_wrapped

logger = logging.getLogger(__name__)


class DummyVecEnv(CountingVecEnv):
    """Step `len(env_fns)` environments one after the other: the fastest for environments that step quickly.

    >>> venv = DummyVecEnv([lambda: gym.make("Pendulum-v1") for _ in range(2)])
    >>> venv.reset().shape
    (2, 3)
    >>> obs, rewards, dones, infos = venv.step(np.zeros((2, 1), np.float32))

    After `record_episode_statistics`, episodes are counted for all environments at once. Reading `envs`, or
    calling a method or reading an attribute of a Monitor, puts a Monitor around each environment, which
    continues these statistics.

    :param env_fns: functions without arguments; each must return a new environment
    :param first_index: number of the first environment in error messages
    :raises UserError: no environment, the same one twice, no Gymnasium environment, or different spaces
    :raises EnvironmentFailed: an environment cannot be made
    """

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env]], first_index: int = 0) -> None:
        self._envs = [made_env(env_fn, first_index + index) for index, env_fn in enumerate(env_fns)]
        check_envs(self._envs)
        first = self._envs[0]
        super().__init__(len(self._envs), first.observation_space, first.action_space, first.render_mode)
        self.metadata = first.metadata
        self._obs = ObsBuffer(self.observation_space, self.num_envs)
        self._rewards = np.zeros(self.num_envs, dtype=np.float32)
        self._terminated = np.zeros(self.num_envs, dtype=bool)
        self._truncated = np.zeros(self.num_envs, dtype=bool)
        self._infos: list[Info] = [{} for _ in range(self.num_envs)]
        self._actions: Sequence[object] | np.ndarray | None = None
        self.first_index = first_index
        self._at = np.zeros(self.num_envs, dtype=np.int64)  # [0]: the environment that is stepping
        self._steps_taken = -1  # of each environment since the first reset; -1: never reset

    def env_name(self) -> str:
        envs = vars(self).get("_envs") or [None]
        return str(getattr(getattr(envs[0], "spec", None), "id", type(envs[0]).__name__))

    @property
    def envs(self) -> list[gym.Env]:
        """The single environments; each is in a Monitor if episode statistics are recorded."""
        return self._single_envs()

    @envs.setter
    def envs(self, envs: list[gym.Env]) -> None:
        self._envs, self._statistics = envs, None

    def without_monitors(self) -> list[gym.Env]:
        """Return the single environments as they are, without a Monitor for each; [] where there are none."""
        return list(vars(self).get("_envs", []))

    def _single_envs(self) -> list[gym.Env]:
        if self._statistics is not None:
            logger.debug("single environments were accessed: each gets a Monitor")
            self._envs, self._statistics = self._statistics.wrap_in_monitors(self._envs), None
        return self._envs

    def reset(self) -> Obs:
        self._actions = None
        if self._statistics is not None:
            self._statistics.start_episodes()
        for index, (seed, options) in enumerate(self._take_seeds_and_options()):
            given = {} if options is None else {"options": options}  # some reset() methods do not accept it
            try:
                obs, info = self._envs[index].reset(seed=seed, **given)  # type: ignore[arg-type]
                self.reset_infos[index] = self._checked_info(index, "reset", info)
                self._obs.write(index, obs)
            except BaseException as error:
                if isinstance(error, RunFailed) or not is_failure(error):
                    raise
                raise self._failed(index, "reset", error) from error
        self._steps_taken = max(self._steps_taken, 0)
        return copy_obs(self._obs.batch)

    def step_async(self, actions: np.ndarray) -> None:
        if len(actions) < self.num_envs:
            raise UserError(f"{len(actions)} actions for {self.num_envs} environments")
        if len(actions) > self.num_envs:  # stable-baselines3 says nothing
            warnings.warn(
                f"{len(actions)} actions for {self.num_envs} environments: those left over are ignored",
                stacklevel=3,
            )
        self._actions = actions

    def wait_arrays(self) -> VecStep:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        self._steps_taken += 1
        rewards, terminated, truncated, infos = self._rewards, self._terminated, self._truncated, self._infos
        write, at, first_index = self._obs.write, self._at, self.first_index
        ended: list[int] = []
        final_obs: list[Obs] = []
        index = 0
        try:
            for index, env in enumerate(self._envs):
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
            if self._steps_taken == 0:  # some environments step without a reset
                raise UserError(f"call reset() before the first step() ({describe(error)})") from error
            raise self._failed(index, "step", error) from error
        step = VecStep(
            self._obs.batch,
            rewards,
            terminated,
            truncated,
            np.array(ended) if ended else NO_ENDS,
            stack_obs(final_obs) if ended else None,
            infos,
        )
        if self._statistics is not None:
            self._statistics.record(step)
        return step

    def _checked(self, index: int, obs: object) -> Obs:
        """Return a copy of the observation in the shape and dtype of the space."""
        self._obs.write(index, obs)
        return self._obs.row(index)

    def _checked_info(self, index: int, call: str, info: object) -> Info:
        """Return the info.

        :raises TypeError: it is not a dict
        """
        if not isinstance(info, Mapping):
            raise TypeError(f"the info must be a dict, not {type(info).__name__} ({info!r:.50})")
        return info  # type: ignore[return-value]

    def _failed(self, index: int, call: str, error: BaseException) -> EnvironmentFailed:
        index += self.first_index
        step = max(self._steps_taken, 0)
        reason = describe(error) + hint_at_older_api(call, error)
        text = f"environment {index} failed in {call}() at step {step}: {reason}"
        return EnvironmentFailed(text, env_index=index, step=step)

    def close(self) -> None:
        if self._statistics is not None:
            self._statistics.close()
        for index, env in enumerate(self._envs):
            try:
                env.close()
            except BaseException as error:  # close the others too; training results must not be lost
                if not is_failure(error):
                    raise
                warnings.warn(f"{self._failed(index, 'close', error)}", stacklevel=2)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        envs = self.envs if self._is_of_monitor(attr_name) else self._envs
        return [envs[index].get_wrapper_attr(attr_name) for index in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        return self._is_of_monitor(attr_name) or all(env.has_wrapper_attr(attr_name) for env in self._envs)

    def _is_of_monitor(self, attr_name: str) -> bool:
        """Return whether the attribute is one of the Monitors that access would create."""
        return self._statistics is not None and attr_name in MONITOR_NAMES

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        for index in self._get_indices(indices):
            self.envs[index].set_wrapper_attr(attr_name, value)

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        results = []
        for index in self._get_indices(indices):
            method = self.envs[index].get_wrapper_attr(method_name)
            try:
                results.append(method(*method_args, **method_kwargs))
            except BaseException as error:
                if isinstance(error, Exception) or not is_failure(error):
                    raise
                raise self._failed(index, method_name, error) from error
        return results

    def env_states(self, indices: Indices = None) -> list[episode_state.EnvState | None]:
        """Return the state of each environment's episode; None for those that cannot be restored."""
        return [episode_state.episode_state(self._envs[index]) for index in self._get_indices(indices)]

    def load_env_state(self, state: episode_state.EnvState, indices: Indices = None) -> list[None]:
        """Restore the episode of the selected environments from an entry of `env_states`."""
        for index in self._get_indices(indices):
            episode_state.load_episode_state(self._envs[index], state)
        return [None]

    def episode_state(self) -> State | None:
        envs = self.env_states()
        if any(env is None for env in envs):
            return None
        state: State = {"kind": "envs", "steps_taken": self._steps_taken, "envs": envs}
        return state if self._statistics is None else {**state, "statistics": self._statistics.state()}

    def load_episode_state(self, state: State) -> bool:
        if state["kind"] != "envs" or len(state["envs"]) != self.num_envs:
            return False
        if ("statistics" in state) != (self._statistics is not None):  # one of the two uses Monitors instead
            return False
        for index, one in enumerate(state["envs"]):
            self.load_env_state(one, index)
        self._steps_taken = int(state["steps_taken"])
        if self._statistics is not None:
            self._statistics.load_state(state["statistics"])
        return True

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        counted = self._statistics is not None and issubclass(Monitor, wrapper_class)
        return [
            counted or is_wrapped(self._envs[index], wrapper_class) for index in self._get_indices(indices)
        ]


def made_env(env_fn: Callable[[], gym.Env], index: int) -> gym.Env:
    """Return the environment that `env_fn` makes; one of the old gym package gets an adapter.

    :raises EnvironmentFailed: the function called `sys.exit()` or the like
    """
    try:
        return patch_env(env_fn())
    except Exception:
        raise
    except BaseException as error:
        if not is_failure(error):
            raise
        text = f"environment {index} could not be made: {describe(error)}"
        raise EnvironmentFailed(text, index, 0) from error


def check_envs(envs: Sequence[object]) -> None:
    """Raise if environments cannot form one vectorised environment.

    :raises UserError: no environment, the same object twice, no Gymnasium environment, or different spaces
    """
    if not envs:
        raise UserError("a vector environment needs at least one environment")
    if len({id(env) for env in envs}) < len(envs):
        raise UserError(
            "each function in env_fns must make a new environment; two of them returned the same one"
        )
    first: gym.Env | None = None
    for env in envs:
        if not isinstance(env, gym.Env):
            raise UserError(f"a gymnasium.Env was expected, not {type(env).__module__}.{type(env).__name__}")
        first = first or env
        check_spaces(env.observation_space, env.action_space, first.observation_space, first.action_space)


def check_spaces(
    obs: spaces.Space, action: spaces.Space, first_obs: spaces.Space, first_action: spaces.Space
) -> None:
    """Raise if the spaces of an environment differ from those of the first.

    :raises UserError: names both
    """
    if obs != first_obs or action != first_action:
        raise UserError(
            f"environments with different spaces cannot step together: {first_obs} and {obs},"
            f" {first_action} and {action}"
        )
