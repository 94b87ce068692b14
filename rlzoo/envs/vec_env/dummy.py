"""Environments that step one after the other in this process."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import EnvironmentFailed, RunFailed, UserError
from rlzoo.core.observations import Obs, ObsBuffer, copy_obs, stack_obs
from rlzoo.envs.single_env.env_failures import describe, is_failure
from rlzoo.envs.single_env.monitor import MONITOR_NAMES, Monitor
from rlzoo.envs.single_env.old_gym import patch_env
from rlzoo.envs.vec_env import episode_state
from rlzoo.envs.vec_env.episode_statistics import EpisodeStatistics
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, StepArrays, VecEnv

logger = logging.getLogger(__name__)


class DummyVecEnv(VecEnv):
    """Steps `len(env_fns)` environments in a loop; the fastest for environments that are cheap to step.

    After `keep_statistics` the episodes are counted for all environments at once. Whoever asks for `envs`, a
    method or an attribute of a Monitor finds one around each environment: from there on these do the work.

    :param env_fns: functions of no argument, each returning an environment of its own
    :param first_index: what messages call the first environment
    """

    _statistics: EpisodeStatistics | None = None

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
        self._infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self._actions: Any = None
        self.first_index = first_index
        self._at = np.zeros(
            self.num_envs, dtype=np.int64
        )  # [0]: the environment that is stepping, for a post-mortem
        self._steps_taken = -1  # of each environment since the first reset; -1: never reset

    def env_name(self) -> str:
        envs = vars(self).get("_envs") or [None]
        return str(getattr(getattr(envs[0], "spec", None), "id", type(envs[0]).__name__))

    @property
    def envs(self) -> list[gym.Env]:
        """The single environments, each in a Monitor where statistics are kept."""
        return self._single_envs()

    @envs.setter
    def envs(self, envs: list[gym.Env]) -> None:
        self._envs, self._statistics = envs, None

    def _single_envs(self) -> list[gym.Env]:
        if self._statistics is not None:
            logger.debug("single environments are asked for: a Monitor is put around each")
            self._envs, self._statistics = self._statistics.monitored(self._envs), None
        return self._envs

    def keep_statistics(
        self,
        filename: str | os.PathLike[str] | None = None,
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
        start_index: int = 0,
    ) -> None:
        """Put `info["episode"]` where an episode ends, as a Monitor around each environment would.

        :param filename: a folder for `<start_index + i>.monitor.csv`; None writes no files

        The other parameters are those of `Monitor`.
        """
        env_id = None if filename is None else getattr(self.get_attr("spec", 0)[0], "id", None)
        self._statistics = EpisodeStatistics(
            self.num_envs, filename, info_keywords, override_existing, start_index, env_id
        )

    def reset(self) -> Obs:
        self._actions = None
        if self._statistics is not None:
            self._statistics.begin()
        for index, (seed, options) in enumerate(self._take_seeds_and_options()):
            given = {} if options is None else {"options": options}  # not every reset() takes them
            try:
                obs, info = self._envs[index].reset(seed=seed, **given)
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
            if self._steps_taken == 0:  # some can do without
                raise UserError(f"call reset() before the first step() ({describe(error)})") from error
            raise self._failed(index, "step", error) from error
        step = StepArrays(
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
        if self._statistics is not None:
            self._statistics.close()
        for index, env in enumerate(self._envs):
            try:
                env.close()
            except BaseException as error:  # the others are closed too, and what was learned is not lost
                if not is_failure(error):
                    raise
                warnings.warn(f"{self._failed(index, 'close', error)}", stacklevel=2)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        envs = self.envs if self._is_of_monitor(attr_name) else self._envs
        return [envs[index].get_wrapper_attr(attr_name) for index in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        return self._is_of_monitor(attr_name) or all(env.has_wrapper_attr(attr_name) for env in self._envs)

    def _is_of_monitor(self, attr_name: str) -> bool:
        """Whether a Monitor that is not there yet has the attribute."""
        return self._statistics is not None and attr_name in MONITOR_NAMES

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
        return [episode_state.episode_state(self._envs[index]) for index in self._get_indices(indices)]

    def load_env_state(self, state: list[Any], indices: Indices = None) -> list[None]:
        """Continue the episode that `env_states` returned."""
        for index in self._get_indices(indices):
            episode_state.load_episode_state(self._envs[index], state)
        return [None]

    def episode_state(self) -> dict[str, Any] | None:
        envs = self.env_states()
        if None in envs:
            return None
        state = {"kind": "envs", "steps_taken": self._steps_taken, "envs": envs}
        return state if self._statistics is None else {**state, "statistics": self._statistics.state()}

    def load_episode_state(self, state: dict[str, Any]) -> bool:
        if state["kind"] != "envs" or len(state["envs"]) != self.num_envs:
            return False
        if ("statistics" in state) != (self._statistics is not None):  # kept by Monitors in one of them
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
    """What `env_fn` returns, an environment of the gym package adapted.

    :raises EnvironmentFailed: it ends by `sys.exit()` or the like
    """
    try:
        return patch_env(env_fn())  # type: ignore[no-any-return]
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
