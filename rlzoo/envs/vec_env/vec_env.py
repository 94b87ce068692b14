"""Vector environments: one class with two faces.

The face that users know is `reset() -> obs` and `step(actions) -> obs, rewards, dones, infos`. The face that
the training loops use is `step_arrays(actions) -> StepArrays`: no dict per environment, nothing copied,
`terminated` and `truncated` apart. A class writes one of `step_wait` and `wait_arrays`; the other is derived
from it. Episodes restart in the step that ends them.
"""

from __future__ import annotations

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from gymnasium import spaces

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Obs, copy_obs, obs_row, stack_obs
from rlzoo.envs.vec_env.tile_images import show_image, tile_images

Indices: TypeAlias = int | Iterable[int] | None
StepReturn: TypeAlias = tuple[Obs, np.ndarray, np.ndarray, list[dict[str, Any]]]
VecEnvIndices, VecEnvObs, VecEnvStepReturn = Indices, Obs, StepReturn
W = TypeVar("W", bound="VecEnvWrapper")


@dataclass(slots=True)
class StepArrays:
    """What one step of `n_envs` environments gave.

    The arrays are valid until the next step: a reader copies what it keeps.
    """

    obs: Obs  # [n_envs, ...]; where an episode ended, the first observation of the next one
    rewards: np.ndarray  # [n_envs] float32
    terminated: np.ndarray  # [n_envs] bool: the task ended
    truncated: np.ndarray  # [n_envs] bool: a limit outside of the task was hit
    ended: np.ndarray  # [n_ended] int: the environments whose episode ended, ascending
    final_obs: Obs | None  # [n_ended, ...] last observations of those episodes; None where none ended
    infos: Sequence[
        dict[str, Any]
    ]  # n_envs dicts, possibly one shared empty dict: readers never write into them


NO_ENDS = np.empty(0, dtype=np.int64)
NO_ENDS.flags.writeable = False


def _depth_of(cls: type, name: str) -> int:
    """Position in the method resolution order of the class that defines `name`."""
    return next(depth for depth, parent in enumerate(cls.__mro__) if name in parent.__dict__)


def infos_of_step(step: StepArrays) -> list[dict[str, Any]]:
    """Return infos with `TimeLimit.truncated` and, where an episode ended, `terminal_observation`."""
    limits = (step.truncated & ~step.terminated).tolist()
    infos = [{**info, "TimeLimit.truncated": limit} for info, limit in zip(step.infos, limits, strict=True)]
    for row, index in enumerate(step.ended.tolist()):
        infos[index]["terminal_observation"] = copy_obs(obs_row(step.final_obs, row))
    return infos


def _tuple_from_arrays(wait_arrays: Callable[[Any], StepArrays]) -> Callable[[Any], StepReturn]:
    def step_wait(self: Any) -> StepReturn:
        step = wait_arrays(self)
        dones = step.terminated | step.truncated
        return copy_obs(step.obs), step.rewards.copy(), dones, infos_of_step(step)

    return step_wait


def _arrays_from_tuple(step_wait: Callable[..., StepReturn]) -> Callable[..., StepArrays]:
    def wait_arrays(self: Any, *actions: Any) -> StepArrays:
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
                    " lacks the 'terminal_observation' that its value is estimated from"
                )
            else:  # a terminated episode is worth nothing afterwards: any observation does
                finals.append(obs_row(obs, index))
        return StepArrays(
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
    """`num_envs` environments that step together.

    :param num_envs: number of environments
    :param observation_space: the space of one environment's observation
    :param action_space: the space of one environment's action
    :param render_mode: how the environments were told to render
    """

    metadata: dict[str, Any] = {"render_modes": ["human", "rgb_array"]}
    render_mode: str | None = None
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
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        self._seeds: list[int | None] = [None] * num_envs
        self._options: list[dict[str, Any]] = [{} for _ in range(num_envs)]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env_name()}, num_envs={vars(self).get('num_envs')})"

    def env_name(self) -> str:
        """Return the id of the environments; "?" where only worker processes know it."""
        return self._env_name

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Derive the face that `cls` did not write from the one it did.

        The derived method calls the method of `cls` itself, not `self`'s: `super().step_wait()` in a subclass
        then runs what the parent wrote and cannot come back to the subclass.
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
        """Reset all environments with the seeds and options set before; infos are in `reset_infos`.

        :return: first observations [n_envs, ...], which later steps leave alone
        """

    @abstractmethod
    def step_async(self, actions: np.ndarray) -> None:
        """Start a step with `actions` [n_envs, ...]; `step_wait` or `wait_arrays` ends it."""

    def step_wait(self) -> StepReturn:
        """End the step: copies of obs, rewards, dones, and one dict per environment.

        Where an episode ended, the dict has its last observation as `terminal_observation`;
        `TimeLimit.truncated` says whether a limit, not the task, ended it.
        """
        raise NotImplementedError(f"{type(self).__name__} defines neither step_wait nor wait_arrays")

    def wait_arrays(self) -> StepArrays:
        """End the step: everything as arrays that are valid until the next step."""
        raise NotImplementedError(f"{type(self).__name__} defines neither step_wait nor wait_arrays")

    def step(self, actions: np.ndarray) -> StepReturn:
        """Step every environment; see `step_wait`."""
        self.step_async(actions)
        return self.step_wait()

    def step_arrays(self, actions: np.ndarray) -> StepArrays:
        """Step every environment; see `wait_arrays`."""
        self.step_async(actions)
        return self.wait_arrays()

    def close(self) -> None:
        """Release what the environments hold; closing twice is fine."""

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """The attribute of each of the chosen environments, looked up through their wrappers."""
        raise NotImplementedError(f"{type(self).__name__} has no access to attributes of single environments")

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Set the attribute of each of the chosen environments."""
        raise NotImplementedError(f"{type(self).__name__} has no access to attributes of single environments")

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Call a method of each of the chosen environments; returns what each returned."""
        raise NotImplementedError(f"{type(self).__name__} has no access to methods of single environments")

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        """Whether each of the chosen environments is wrapped by `wrapper_class`."""
        return [False for _ in self._get_indices(indices)]

    def has_attr(self, attr_name: str) -> bool:
        """Whether the environments have the attribute."""
        try:
            self.get_attr(attr_name)
        except (AttributeError, NotImplementedError):
            return False
        return True

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Give environment i the seed `seed + i` at its next reset; None draws a seed. Returns the seeds."""
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31 - self.num_envs))
        self._seeds = [seed + index for index in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Give the environments `options` at their next reset: one dict for all, or a list of one each."""
        if isinstance(options, list):
            if len(options) != self.num_envs:
                raise UserError(f"set_options: {len(options)} dicts for {self.num_envs} environments")
            self._options = [dict(option) for option in options]
        else:
            self._options = [dict(options or {}) for _ in range(self.num_envs)]

    def episode_state(self) -> dict[str, Any] | None:
        """The episodes in progress and the random generators that they draw from, as plain values and arrays.

        None where they cannot be restored.
        """
        return None

    def load_episode_state(self, state: dict[str, Any]) -> bool:
        """Continue the episodes that `episode_state` returned, after a `reset`.

        :return: False when they are those of other environments; then nothing has changed
        """
        return False

    def will_draw(self) -> None:
        """Prepare for images from the next reset on, where single environments draw better ones."""

    def get_images(self) -> Sequence[np.ndarray | None]:
        """One RGB image [height, width, 3] per environment."""
        if self.render_mode != "rgb_array":
            warnings.warn(f"images need render_mode='rgb_array'; it is {self.render_mode!r}", stacklevel=2)
            return [None] * self.num_envs
        return self.env_method("render")

    def render(self, mode: str | None = None) -> np.ndarray | None:
        """Show the environments (human), or return one image [height, width, 3] of all (rgb_array)."""
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
        """The vector environment inside all `VecEnvWrapper`s."""
        return self

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        """The class whose attribute `name` a wrapper further out hides (`already_found`), or None."""
        if already_found and hasattr(self, name):
            return f"{type(self).__module__}.{type(self).__name__}"
        return None

    def _get_indices(self, indices: Indices) -> Sequence[int]:
        """Indices of chosen environments as a sequence; None means all."""
        if indices is None:
            return range(self.num_envs)
        chosen = (
            [int(indices)] if isinstance(indices, (int, np.integer)) else [int(index) for index in indices]
        )
        for index in chosen:
            if not -self.num_envs <= index < self.num_envs:
                raise UserError(f"environment index {index} is out of range for {self.num_envs} environments")
        return [index % self.num_envs for index in chosen]

    def _take_seeds_and_options(self) -> Iterator[tuple[int | None, dict[str, Any] | None]]:
        """Seed and options of each environment for one reset; later resets have none."""
        pairs = zip(self._seeds, self._options, strict=True)
        self._seeds = [None] * self.num_envs
        self._options = [{} for _ in range(self.num_envs)]
        return ((seed, options or None) for seed, options in pairs)


class VecEnvWrapper(VecEnv):
    """A vector environment around another; attributes that it lacks are those of the inner ones.

    :param venv: the vector environment to wrap
    :param observation_space: the new observation space, where it changes
    :param action_space: the new action space, where it changes
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

    def __repr__(self) -> str:
        return f"{type(self).__name__}({vars(self).get('venv')!r})"

    def env_name(self) -> str:
        return self.venv.env_name()

    def reset(self) -> Obs:
        return self.venv.reset()

    def step_async(self, actions: np.ndarray) -> None:
        self.venv.step_async(actions)

    def wait_arrays(self) -> StepArrays:
        return self.venv.wait_arrays()

    def close(self) -> None:
        self.venv.close()

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        return self.venv.seed(seed)

    def set_options(self, options: list[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        self.venv.set_options(options)

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        self.venv.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
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

    def wrapper_state(self) -> dict[str, Any] | None:
        """What this wrapper itself holds of the episodes in progress; None: what cannot be restored."""
        return None

    def load_wrapper_state(self, state: dict[str, Any]) -> None:
        """Take over what `wrapper_state` returned."""

    def episode_state(self) -> dict[str, Any] | None:
        own = self.wrapper_state()
        inner = None if own is None else self.venv.episode_state()
        return None if inner is None else {"kind": type(self).__name__, "own": own, "inner": inner}

    def load_episode_state(self, state: dict[str, Any]) -> bool:
        if state["kind"] != type(self).__name__ or not self.venv.load_episode_state(state["inner"]):
            return False
        self.load_wrapper_state(state["own"])
        return True

    def state_dict(self) -> dict[str, Any]:
        """What the wrapper has learned (arrays and numbers); empty where it learns nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        if state:
            raise UserError(f"{type(self).__name__} has no state to load, but was given {sorted(state)}")

    @property
    def reset_infos(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Infos of the last reset, one dict per environment."""
        return self.venv.reset_infos

    @property
    def unwrapped(self) -> VecEnv:
        return self.venv.unwrapped

    @property
    def class_attributes(self) -> dict[str, Any]:
        """Members of the class, inherited ones too."""
        return dict(inspect.getmembers(type(self)))

    def getattr_depth_check(self, name: str, already_found: bool) -> str | None:
        found_here = name in self.__dict__ or hasattr(type(self), name)
        if found_here and already_found:
            return f"{type(self).__module__}.{type(self).__name__}"
        return self.venv.getattr_depth_check(name, already_found or found_here)

    def getattr_recursive(self, name: str) -> Any:
        """The attribute from this wrapper or the first inner one that has it."""
        if name in self.__dict__ or hasattr(type(self), name):
            return getattr(self, name)
        if isinstance(self.venv, VecEnvWrapper):
            return self.venv.getattr_recursive(name)
        return getattr(self.venv, name)

    def __getattr__(self, name: str) -> Any:
        if name == "venv" or name.startswith("__"):  # not there yet while unpickling or copying
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        hidden = self.getattr_depth_check(name, already_found=False)
        if hidden is not None:
            raise AttributeError(
                f"{type(self).__name__}.{name} is ambiguous: a wrapper inside hides that of {hidden}"
            )
        return self.getattr_recursive(name)


def wrappers_of(venv: Any) -> Iterator[VecEnvWrapper]:
    """The wrappers of `venv`, outermost first."""
    while isinstance(venv, VecEnvWrapper):
        yield venv
        venv = venv.venv


def unwrap_vec_wrapper(env: Any, vec_wrapper_class: type[W]) -> W | None:
    """The outermost wrapper of that class around (or being) `env`, or None."""
    return next((wrapper for wrapper in wrappers_of(env) if isinstance(wrapper, vec_wrapper_class)), None)


def is_vecenv_wrapped(env: Any, vec_wrapper_class: type[VecEnvWrapper]) -> bool:
    """Whether a wrapper of that class is around (or is) `env`."""
    return unwrap_vec_wrapper(env, vec_wrapper_class) is not None


def env_state(venv: VecEnv) -> dict[str, Any]:
    """What the wrappers of `venv` have learned: `<depth>.<class>.<name>` -> array or number."""
    return {
        f"{prefix}{name}": value
        for prefix, wrapper in _stateful(venv)
        for name, value in wrapper.state_dict().items()
    }


def load_env_state(venv: VecEnv, state: dict[str, Any]) -> None:
    """Take over what `env_state` returned for an environment with the same wrappers.

    :raises UserError: a wrapper that learns finds nothing in `state`
    """
    for prefix, wrapper in _stateful(venv):
        mine = {key.removeprefix(prefix): state[key] for key in state if key.startswith(prefix)}
        if not mine:
            raise UserError(
                f"the saved state has nothing for the {type(wrapper).__name__} of the environment"
            )
        wrapper.load_state_dict(mine)


def _stateful(venv: VecEnv) -> Iterator[tuple[str, VecEnvWrapper]]:
    """Wrappers that learn, innermost first, each with the prefix of its names in `env_state`."""
    learners = [wrapper for wrapper in wrappers_of(venv) if wrapper.state_dict()]
    for depth, wrapper in enumerate(reversed(learners)):
        yield f"{depth}.{type(wrapper).__name__}.", wrapper
