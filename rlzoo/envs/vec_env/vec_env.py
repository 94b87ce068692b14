"""Vectorised environments: the base classes of all backends and wrappers.

A `VecEnv` has two step APIs. The tuple API is that of stable-baselines3: `step(actions) -> obs, rewards,
dones, infos`. The array API is `step_arrays(actions) -> VecStep`: it keeps `terminated` and `truncated` apart
and neither copies arrays nor builds a dict per environment; the training loops use it. A subclass defines one
of `step_wait` and `wait_arrays`; the other is derived from it. Episodes restart within the step that ends
them (same-step autoreset).
"""

from __future__ import annotations

import inspect
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info, Obs, copy_obs, obs_row, stack_obs
from rlzoo.envs.single_env.monitor import EpisodeStatistics
from rlzoo.envs.vec_env.tile_images import show_image, tile_images

Indices: TypeAlias = int | Iterable[int] | None
StepReturn: TypeAlias = tuple[Obs, np.ndarray, np.ndarray, list[Info]]
Options: TypeAlias = dict[str, object]  # of `reset`
State: TypeAlias = dict[str, Any]  # of episodes or wrappers, in a checkpoint: plain values and arrays, nested
VecEnvIndices, VecEnvObs, VecEnvStepReturn = Indices, Obs, StepReturn
W = TypeVar("W", bound="VecEnvWrapper")
Wrapper = TypeVar("Wrapper")


@dataclass(slots=True)
class VecStep:
    """Result of one step of `n_envs` environments.

    The arrays are overwritten by the next step: copy what must outlive it.
    """

    obs: Obs  # [n_envs, ...]; where an episode ended, the first observation of the next one
    rewards: np.ndarray  # [n_envs] float32
    terminated: np.ndarray  # [n_envs] bool: the episode ended in a terminal state
    truncated: np.ndarray  # [n_envs] bool: the episode was cut off, e.g. by a time limit
    ended: np.ndarray  # [n_ended] int: indices of the environments whose episode ended, ascending
    final_obs: Obs | None  # [n_ended, ...] final observations of those episodes; None where none ended
    infos: Sequence[Info]  # [n_envs]; may be one shared empty dict, so readers must not write into them


NO_ENDS = np.empty(0, dtype=np.int64)
NO_ENDS.flags.writeable = False


def _depth_of(cls: type, name: str) -> int:
    """Return the position in the method resolution order of the class that defines `name`."""
    return next(depth for depth, parent in enumerate(cls.__mro__) if name in parent.__dict__)


def infos_of_step(step: VecStep) -> list[Info]:
    """Return infos with `TimeLimit.truncated` and, where an episode ended, `terminal_observation`."""
    limits = (step.truncated & ~step.terminated).tolist()
    of_envs = (
        step.infos if len(step.infos) == len(limits) else [{}] * len(limits)
    )  # not those of a TensorStep
    infos = [{**info, "TimeLimit.truncated": limit} for info, limit in zip(of_envs, limits, strict=True)]
    if step.final_obs is not None:
        for row, index in enumerate(step.ended.tolist()):
            infos[index]["terminal_observation"] = copy_obs(obs_row(step.final_obs, row))
    return infos


def _tuple_from_arrays(wait_arrays: Callable[[VecEnv], VecStep]) -> Callable[[VecEnv], StepReturn]:
    def step_wait(self: VecEnv) -> StepReturn:
        step = wait_arrays(self)
        dones = step.terminated | step.truncated
        return copy_obs(step.obs), step.rewards.copy(), dones, infos_of_step(step)

    return step_wait


def _arrays_from_tuple(step_wait: Callable[..., StepReturn]) -> Callable[..., VecStep]:
    def wait_arrays(self: VecEnv, *actions: np.ndarray) -> VecStep:
        obs, rewards, dones, infos = step_wait(self, *actions)
        dones = np.asarray(dones, dtype=bool)
        ended = np.flatnonzero(dones)
        truncated = np.zeros(len(dones), dtype=bool)
        finals = []
        for index in ended.tolist():
            info = infos[index]
            truncated[index] = info.get("TimeLimit.truncated", False)
            if "terminal_observation" in info:
                finals.append(info["terminal_observation"])
            elif truncated[index]:
                raise UserError(
                    f"{type(self).__name__}: the episode of environment {index} was truncated, but its info"
                    " lacks the 'terminal_observation' that its value is bootstrapped from"
                )
            else:  # a terminal state has value 0, so any observation will do
                finals.append(obs_row(obs, index))
        return VecStep(
            obs=obs,
            rewards=np.asarray(rewards, dtype=np.float32),
            terminated=dones & ~truncated,
            truncated=truncated,
            ended=ended,
            final_obs=stack_obs(finals) if finals else None,
            infos=infos or [{}] * len(dones),  # some return no infos rather than empty ones
        )

    return wait_arrays


class VecEnv(ABC):
    """Base class of vectorised environments: `num_envs` environments that step together.

    >>> venv = make_vec_env("CartPole-v1", n_envs=4, seed=0)
    >>> obs = venv.reset()  # [4, 4] float32
    >>> dones = [False]
    >>> while not any(dones):
    ...     obs, rewards, dones, infos = venv.step(np.zeros(4, int))
    >>> ended = list(dones).index(True)  # obs[ended] is the first observation of its next episode
    >>> infos[ended]["terminal_observation"].shape
    (4,)

    :param num_envs: number of environments
    :param observation_space: observation space of one environment
    :param action_space: action space of one environment
    :param render_mode: the render mode that the environments were made with
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"]}
    render_mode: str | None = None
    ranks: object = None  # several processes step parts of these environments, see rlzoo.distributed
    first_env: int = 0  # number of the first environment among those of all ranks
    env_workers: int = 0  # threads or processes that step environments while the calling thread waits
    on_device: ClassVar[bool] = False  # whether `step_arrays` takes and returns tensors of a device, too
    _steps_taken: int = -1  # of each environment since the first reset; -1: never reset
    _env_name = "?"

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        render_mode: str | None = None,
    ) -> None:
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self.render_mode = render_mode
        self.reset_infos: list[Info] = [{} for _ in range(num_envs)]
        self._seeds: list[int | None] = [None] * num_envs
        self._options: list[Options] = [{} for _ in range(num_envs)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env_name()}, num_envs={vars(self).get('num_envs')})"

    def env_name(self) -> str:
        """Return the id of the environments; "?" where only worker processes know it."""
        return self._env_name

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Derive the step API that `cls` does not define from the one that it does.

        The derived method calls the method of `cls` itself, not `self`'s: `super().step_wait()` in a subclass
        then runs what the parent defined and cannot call back into the subclass.
        """
        super().__init_subclass__(**kwargs)
        tuple_owner, array_owner = (_depth_of(cls, name) for name in ("step_wait", "wait_arrays"))
        if tuple_owner < array_owner:
            cls.wait_arrays = _arrays_from_tuple(cls.step_wait)  # type: ignore[method-assign, assignment]
        elif array_owner < tuple_owner:
            cls.step_wait = _tuple_from_arrays(cls.wait_arrays)  # type: ignore[method-assign, assignment]
        if _depth_of(cls, "step") < _depth_of(cls, "step_arrays"):
            cls.step_arrays = _arrays_from_tuple(cls.step)  # type: ignore[method-assign, assignment]

    @abstractmethod
    def reset(self) -> Obs:
        """Reset all environments, with the seeds and options set before; infos go to `reset_infos`.

        :return: first observations [n_envs, ...], a copy that later steps do not overwrite
        """

    @abstractmethod
    def step_async(self, actions: np.ndarray) -> None:
        """Start a step with `actions` [n_envs, ...]; `step_wait` or `wait_arrays` returns its result."""

    def step_wait(self) -> StepReturn:
        """Wait for the step; return copies of obs [n_envs, ...], rewards [n_envs], dones [n_envs], and infos.

        Where an episode ended, its info has the final observation as `terminal_observation`, and
        `TimeLimit.truncated` is True if the episode was truncated and not terminated.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither step_wait nor wait_arrays")

    def wait_arrays(self) -> VecStep:
        """Wait for the step; return its result as arrays that the next step overwrites."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step_wait nor wait_arrays")

    def step(self, actions: np.ndarray) -> StepReturn:
        """Step every environment with `actions` [n_envs, ...]; see `step_wait`."""
        self.step_async(actions)
        return self.step_wait()

    def step_arrays(self, actions: np.ndarray) -> VecStep:
        """Step every environment with `actions` [n_envs, ...]; see `wait_arrays`."""
        self.step_async(actions)
        return self.wait_arrays()

    def close(self) -> None:
        """Close all environments; a second call does nothing."""

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """Return an attribute of the selected environments (None: all), looked up through their wrappers."""
        raise NotImplementedError(f"{type(self).__name__} has no access to attributes of single environments")

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        """Set an attribute of the selected environments (None: all)."""
        raise NotImplementedError(f"{type(self).__name__} has no access to attributes of single environments")

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        """Call a method of the selected environments (None: all); return a list of its results."""
        raise NotImplementedError(f"{type(self).__name__} has no access to methods of single environments")

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Return whether each of the selected environments is wrapped by `wrapper_class`."""
        return [False for _ in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Return whether the environments have an attribute."""
        try:
            self.get_attr(attr_name)
        except (AttributeError, NotImplementedError):
            return False
        return True

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Seed environment i with `seed + i` at the next reset (None: a random seed); return the seeds."""
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31 - self.num_envs))
        self._seeds = [seed + self.first_env + index for index in range(self.num_envs)]
        return self._seeds

    def set_seeds(self, seeds: Sequence[int | None]) -> None:
        """Seed each environment at the next reset; None leaves its generator as it is."""
        self._seeds = list(seeds)

    def set_options(self, options: list[Options] | Options | None = None) -> None:
        """Pass `options` to the next reset: one dict for all environments, or a list with one for each."""
        if isinstance(options, list):
            if len(options) != self.num_envs:
                raise UserError(f"set_options: {len(options)} dicts for {self.num_envs} environments")
            self._options = [dict(option) for option in options]
        else:
            self._options = [dict(options or {}) for _ in range(self.num_envs)]

    def episode_state(self) -> State | None:
        """Return the state of the episodes in progress and of their random generators, for a checkpoint.

        :return: plain values and arrays; None if the environments cannot be restored
        """
        return None

    def load_episode_state(self, state: State) -> bool:
        """Restore the episodes saved by `episode_state`; call `reset` before.

        :return: False if the state is of other environments; then nothing is changed
        """
        return False

    def prepare_rendering(self) -> None:
        """Switch to environments that render well from the next reset on, if the present ones do not."""

    def n_steps_taken(self) -> int:
        """Return the number of steps of each environment since the first reset."""
        return max(self._steps_taken, 0)

    def get_images(self) -> Sequence[np.ndarray | None]:
        """Return one RGB image [height, width, 3] per environment."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"images need render_mode='rgb_array'; it is {self.render_mode!r}", stacklevel=2)
            return [None] * self.num_envs
        return self.env_method("render")

    def render(self, mode: str | None = None) -> np.ndarray | None:
        """Render all environments: in a window ("human"), or as one tiled image ("rgb_array").

        :return: uint8 [height, width, 3] for "rgb_array", else None
        """
        mode = mode or self.render_mode
        if mode is None:
            warnings.warn("render() needs environments that were made with a render_mode", stacklevel=2)
            return None
        if self.render_mode == "rgb_array" and mode in ("rgb_array", "human"):
            image = tile_images([image for image in self.get_images() if image is not None])
            if mode == "rgb_array":
                return image
            show_image(image)
            return None
        if mode != self.render_mode:
            text = f"render mode {mode!r} needs environments made with it, not {self.render_mode!r}"
            warnings.warn(text, stacklevel=2)
            return None
        self.env_method("render")
        return None

    @property
    def unwrapped(self) -> VecEnv:
        """Return the vectorised environment inside all `VecEnvWrapper`s."""
        return self

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        """Return the class whose attribute `name` an outer wrapper hides (`already_found`), or None."""
        if already_found and hasattr(self, name):
            return f"{type(self).__module__}.{type(self).__name__}"
        return None

    def _get_indices(self, indices: Indices) -> Sequence[int]:
        """Return the indices of the selected environments; None selects all."""
        if indices is None:
            return range(self.num_envs)
        chosen = (
            [int(indices)] if isinstance(indices, (int, np.integer)) else [int(index) for index in indices]
        )
        for index in chosen:
            if not -self.num_envs <= index < self.num_envs:
                raise UserError(f"environment index {index} is out of range for {self.num_envs} environments")
        return [index % self.num_envs for index in chosen]

    def _take_seeds_and_options(self) -> Iterator[tuple[int | None, Options | None]]:
        """Yield seed and options of each environment, for one reset only."""
        pairs = zip(self._seeds, self._options, strict=True)
        self._seeds = [None] * self.num_envs
        self._options = [{} for _ in range(self.num_envs)]
        return ((seed, options or None) for seed, options in pairs)


class CountingVecEnv(VecEnv):
    """A VecEnv that can count the episodes of all its environments at once."""

    _statistics: EpisodeStatistics | None = None

    def record_episode_statistics(
        self,
        filename: str | os.PathLike[str] | None = None,
        info_keywords: Sequence[str] = (),
        override_existing: bool = True,
        start_index: int = 0,
    ) -> None:
        """Record `info["episode"]` at the end of episodes, as a Monitor around each environment would.

        :param filename: folder for `<start_index + i>.monitor.csv`; None writes no files
        :param info_keywords: keys of an episode's last info to record
        :param override_existing: replace existing files instead of appending to them
        :param start_index: number of the first file
        """
        env_id = None if filename is None else getattr(self.get_attr("spec", 0)[0], "id", None)
        self._statistics = EpisodeStatistics(
            self.num_envs, filename, info_keywords, override_existing, start_index, env_id
        )


class VecEnvWrapper(VecEnv):
    """Base class of wrappers of vectorised environments; missing attributes are looked up in `venv`.

    >>> class NegatedReward(VecEnvWrapper):
    ...     def step_wait(self):
    ...         obs, rewards, dones, infos = self.venv.step_wait()
    ...         return obs, -rewards, dones, infos

    :param venv: the vectorised environment to wrap
    :param observation_space: the new observation space; None keeps that of `venv`
    :param action_space: the new action space; None keeps that of `venv`
    """

    def __init__(
        self,
        venv: VecEnv,
        observation_space: spaces.Space | None = None,
        action_space: spaces.Space | None = None,
    ) -> None:
        self.venv = venv
        self.num_envs = venv.num_envs
        self.observation_space = (
            observation_space if observation_space is not None else venv.observation_space
        )
        self.action_space = action_space if action_space is not None else venv.action_space
        self.render_mode = venv.render_mode
        self.ranks = venv.ranks

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self).get('venv')!r})"

    def env_name(self) -> str:
        return self.venv.env_name()

    def reset(self) -> Obs:
        return self.venv.reset()

    def step_async(self, actions: np.ndarray) -> None:
        self.venv.step_async(actions)

    def wait_arrays(self) -> VecStep:
        return self.venv.wait_arrays()

    def close(self) -> None:
        self.venv.close()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return self.venv.seed(seed)

    def set_options(self, options: list[Options] | Options | None = None) -> None:
        self.venv.set_options(options)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        self.venv.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: object, indices: Indices = None, **method_kwargs: object
    ) -> list[Any]:
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        return self.venv.env_is_wrapped(wrapper_class, indices)

    def has_attr(self, attr_name: str) -> bool:
        return self.venv.has_attr(attr_name)

    def get_images(self) -> Sequence[np.ndarray | None]:
        return self.venv.get_images()

    def render(self, mode: str | None = None) -> np.ndarray | None:
        return self.venv.render(mode)

    def n_steps_taken(self) -> int:
        return self.venv.n_steps_taken()

    def wrapper_state(self) -> State | None:
        """Return the state that this wrapper keeps of episodes in progress; None if it cannot be restored."""
        return None

    def load_wrapper_state(self, state: State) -> None:
        """Restore the state that `wrapper_state` returned."""

    def episode_state(self) -> State | None:
        own = self.wrapper_state()
        inner = None if own is None else self.venv.episode_state()
        return None if inner is None else {"kind": type(self).__name__, "own": own, "inner": inner}

    def load_episode_state(self, state: State) -> bool:
        if state["kind"] != type(self).__name__ or not self.venv.load_episode_state(state["inner"]):
            return False
        self.load_wrapper_state(state["own"])
        return True

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return the running statistics of the wrapper; empty if it has none."""
        return {}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Restore the statistics that `state_dict` returned."""
        if state:
            raise UserError(f"{type(self).__name__} has no state to load, but was given {sorted(state)}")

    @property
    def reset_infos(self) -> list[Info]:  # type: ignore[override]
        """Infos of the last reset, one per environment; those that a wrapper has assigned, if any."""
        own: list[Info] | None = vars(self).get("reset_infos")
        return self.venv.reset_infos if own is None else own

    @reset_infos.setter
    def reset_infos(self, infos: list[Info]) -> None:
        vars(self)["reset_infos"] = infos

    @property
    def unwrapped(self) -> VecEnv:
        return self.venv.unwrapped

    @property
    def class_attributes(self) -> dict[str, object]:
        """Members of the class, including inherited ones."""
        return dict(inspect.getmembers(type(self)))

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        found_here = name in self.__dict__ or hasattr(type(self), name)
        if found_here and already_found:
            return f"{type(self).__module__}.{type(self).__name__}"
        return self.venv.getattr_depth_check(name, already_found or found_here)

    def getattr_recursive(self, name: str) -> Any:
        """Return an attribute of this wrapper, or of the outermost inner one that has it."""
        if name in self.__dict__ or hasattr(type(self), name):
            return getattr(self, name)
        if isinstance(self.venv, VecEnvWrapper):
            return self.venv.getattr_recursive(name)
        return getattr(self.venv, name)

    def __getattr__(self, name: str) -> Any:
        if name == "venv" or name.startswith("__"):  # not set yet while unpickling or copying
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        hidden = self.getattr_depth_check(name, already_found=False)
        if hidden is not None:
            raise AttributeError(
                f"{type(self).__name__}.{name} is ambiguous: a wrapper inside hides that of {hidden}"
            )
        return self.getattr_recursive(name)


def wrappers_of(venv: object) -> Iterator[VecEnvWrapper]:
    """Yield the wrappers of `venv`, outermost first."""
    while isinstance(venv, VecEnvWrapper):
        yield venv
        venv = venv.venv


def unwrap_vec_wrapper(env: object, vec_wrapper_class: type[W]) -> W | None:
    """Return the outermost wrapper of a class around (or being) `env`, or None."""
    return next((wrapper for wrapper in wrappers_of(env) if isinstance(wrapper, vec_wrapper_class)), None)


def is_vecenv_wrapped(env: object, vec_wrapper_class: type[VecEnvWrapper]) -> bool:
    """Return whether `env` is wrapped by (or is) a wrapper of a class."""
    return unwrap_vec_wrapper(env, vec_wrapper_class) is not None


def is_wrapped(env: gym.Env, wrapper_class: type) -> bool:
    """Return whether `env` is wrapped by (or is) a wrapper of a class."""
    return unwrap_wrapper(env, wrapper_class) is not None


def unwrap_wrapper(env: gym.Env, wrapper_class: type[Wrapper]) -> Wrapper | None:
    """Return the outermost wrapper of a class around (or being) `env`, or None."""
    layer = env
    while isinstance(layer, gym.Wrapper):
        if isinstance(layer, wrapper_class):
            return layer
        layer = layer.env
    return None


def env_state(venv: VecEnv) -> dict[str, np.ndarray]:
    """Return the running statistics of all wrappers of `venv` by `<depth>.<class>.<name>`."""
    return {
        f"{prefix}{name}": value
        for prefix, wrapper in _stateful(venv)
        for name, value in wrapper.state_dict().items()
    }


def load_env_state(venv: VecEnv, state: dict[str, np.ndarray]) -> None:
    """Restore the statistics that `env_state` returned for an environment with the same wrappers.

    :raises UserError: `state` has nothing for one of the wrappers
    """
    for prefix, wrapper in _stateful(venv):
        mine = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        if not mine:
            raise UserError(
                f"the saved state has nothing for the {type(wrapper).__name__} of the environment"
            )
        wrapper.load_state_dict(mine)


def _stateful(venv: VecEnv) -> Iterator[tuple[str, VecEnvWrapper]]:
    """Yield the wrappers with running statistics, innermost first, each with its prefix in `env_state`."""
    stateful = [wrapper for wrapper in wrappers_of(venv) if wrapper.state_dict()]
    for depth, wrapper in enumerate(reversed(stateful)):
        yield f"{depth}.{type(wrapper).__name__}.", wrapper
