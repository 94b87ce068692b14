"""Vectorised environments whose tensors stay on the device: no copy to the host between two steps."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeAlias, cast

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from rlzoo.core.errors import UserError
from rlzoo.core.observations import Info
from rlzoo.core.runtime import get_device
from rlzoo.envs.single_env.monitor import Monitor
from rlzoo.envs.tensor.tensor_episodes import TensorEpisodes
from rlzoo.envs.vec_env.vec_env import NO_ENDS, Indices, State, VecEnv, VecStep


class SupportsDlpack(Protocol):
    """An array of another library on the same device, exchanged without a copy."""

    def __dlpack__(self) -> object:
        """Return a capsule with the memory of the array."""

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return type and number of the device."""


TensorLike: TypeAlias = "Tensor | SupportsDlpack"


@dataclass(slots=True)
class TensorStep:
    """Result of one step of `n_envs` environments, as tensors that no later step overwrites.

    :param obs: [n_envs, ...]; where an episode ended, the first observation of the next one
    :param rewards: [n_envs] float32
    :param terminated: [n_envs] bool: the episode ended in a terminal state
    :param truncated: [n_envs] bool: the episode was cut off by the time limit
    :param next_obs: [n_envs, ...]; where an episode ended, its final observation
    :param ended: the environments of `infos`
    :param infos: statistics of episodes that ended in the last steps, read once in `READ_INTERVAL` steps
    :param final_obs: of a `VecStep`; `next_obs` has them
    """

    obs: Tensor
    rewards: Tensor
    terminated: Tensor
    truncated: Tensor
    next_obs: Tensor
    ended: np.ndarray
    infos: Sequence[Info]
    final_obs: None = None


def as_tensor(array: TensorLike, device: torch.device) -> Tensor:
    """Return an array of any library with DLPack as a tensor on a device, without gradients; no copy if it is
    there already."""
    tensor = array if isinstance(array, Tensor) else torch.from_dlpack(array)
    return tensor.detach().to(device)


class TensorVecEnv(VecEnv):
    """Base class of environments that step on the device of their tensors, all at once.

    A subclass defines `initial_states`, `transition` and `observe` as functions of tensors; time limits,
    resets (within the step that ends an episode) and episode statistics are here. Each of them may also
    return arrays of another library with DLPack (JAX, CuPy, Warp).

    `step_arrays` takes and returns tensors when it is given tensors, and arrays when it is given arrays: with
    arrays these are ordinary environments, for evaluation and for algorithms that need them on the host. The
    environments move to the device of the actions. They share one generator, seeded with the seed of the
    first environment.

    >>> venv = TensorCartPole(num_envs=4096, device="cpu")
    >>> obs = venv.reset_tensors()  # [4096, 4]
    >>> step = venv.step_tensors(torch.zeros(4096, dtype=torch.int64))
    >>> step.rewards.shape
    torch.Size([4096])

    :param max_episode_steps: steps after which an episode is truncated
    :param device: of the states until actions come from another one
    :param spec: registration of a Gymnasium environment with the same dynamics, which draws images
    """

    on_device = True

    def __init__(
        self,
        num_envs: int,
        observation_space: spaces.Space,
        action_space: spaces.Space,
        max_episode_steps: int,
        device: torch.device | str = "auto",
        spec: gym.envs.registration.EnvSpec | None = None,
    ) -> None:
        super().__init__(num_envs, observation_space, action_space, None if spec is None else "rgb_array")
        self.max_episode_steps = max_episode_steps
        self.device = get_device(device)
        self.spec = spec
        self.episodes = TensorEpisodes(num_envs, self.device)
        self.generator = torch.Generator(self.device)
        self.states: Tensor | None = None  # [n_envs, ...]; None before the first reset
        self._actions: np.ndarray | None = None

    # ------------------------------------------------------------------ what a subclass defines

    @abstractmethod
    def initial_states(self, n: int) -> TensorLike:
        """Draw initial states [n, ...] with `self.generator` on `self.device`."""

    @abstractmethod
    def transition(self, states: Tensor, actions: Tensor) -> tuple[TensorLike, TensorLike, TensorLike]:
        """Return next states [n, ...], rewards [n] and whether they are terminal [n]."""

    @abstractmethod
    def observe(self, states: Tensor) -> TensorLike:
        """Return observations [n, ...] of states."""

    # ------------------------------------------------------------------ tensors

    def to(self, device: torch.device) -> None:
        """Move the environments to a device; random numbers begin with a new sequence there."""
        seed = self.generator.initial_seed()
        self.device = device
        self.generator = torch.Generator(device)
        self.generator.manual_seed(seed)
        self.states = None if self.states is None else self.states.to(device)
        self.episodes.to(device)

    def reset_tensors(self) -> Tensor:
        """Reset all environments; return first observations [n_envs, ...] on the device."""
        for seed, options in list(self._take_seeds_and_options())[:1]:
            if options:
                raise UserError(f"{type(self).__name__} takes no options of reset(), but was given {options}")
            if seed is not None:
                self.generator.manual_seed(seed)
            elif self.states is None:
                self.generator.seed()
        self._steps_taken = max(self._steps_taken, 0)
        self.states = as_tensor(self.initial_states(self.num_envs), self.device)
        self.episodes.start()
        return as_tensor(self.observe(self.states), self.device)

    def step_tensors(self, actions: TensorLike) -> TensorStep:
        """Step every environment with actions [n_envs, ...]; nothing waits for the device.

        :raises UserError: `reset` was not called, or the actions are of another shape
        :raises EnvironmentFailed: a reward or an observation since the last reading was NaN or infinite
        """
        actions = actions if isinstance(actions, Tensor) else torch.from_dlpack(actions)
        if self.states is None:
            raise UserError("call reset() before the first step()")
        if actions.shape != (shape := (self.num_envs, *(self.action_space.shape or ()))):
            raise UserError(f"actions of shape {tuple(actions.shape)} where {shape} was expected")
        if actions.device != self.device:
            self.to(actions.device)
        device = self.device
        states, rewards, terminal = self.transition(self.states, actions)
        states, rewards = as_tensor(states, device), as_tensor(rewards, device).float()
        terminated = as_tensor(terminal, device).bool()
        next_obs = as_tensor(self.observe(states), device)
        truncated = self.episodes.count(rewards, next_obs) >= self.max_episode_steps
        ended = terminated | truncated
        self.episodes.end(ended)
        fresh = as_tensor(self.initial_states(self.num_envs), device)
        self.states = torch.where(_wide(ended, states), fresh, states)
        obs = torch.where(_wide(ended, next_obs), as_tensor(self.observe(self.states), device), next_obs)
        self._steps_taken += 1
        finished = self.episodes.read() if self.episodes.is_due else {}
        envs = np.array([env for env, _ in finished]) if finished else NO_ENDS
        infos = [info for _, info in finished]
        return TensorStep(obs, rewards, terminated, truncated, next_obs, envs, infos)

    # ------------------------------------------------------------------ arrays

    def reset(self) -> np.ndarray:
        self._actions = None
        return _array(self.reset_tensors())

    def step_arrays(self, actions: np.ndarray | TensorLike) -> VecStep:
        """Step every environment: tensors for tensors (a `TensorStep`), arrays for arrays."""
        if not isinstance(actions, Tensor) and (
            isinstance(actions, np.ndarray | Sequence) or not hasattr(actions, "__dlpack__")
        ):
            return super().step_arrays(cast(np.ndarray, actions))
        return cast(VecStep, self.step_tensors(actions))

    def step_async(self, actions: np.ndarray) -> None:
        self._actions = np.asarray(actions)

    def wait_arrays(self) -> VecStep:
        actions, self._actions = self._actions, None
        if actions is None:
            raise UserError("call step_async() before step_wait()")
        step = self.step_tensors(torch.as_tensor(actions, device=self.device))
        terminated, truncated = _array(step.terminated), _array(step.truncated)
        ended = np.flatnonzero(terminated | truncated)
        final_obs = _array(step.next_obs)[ended] if len(ended) else None
        infos: list[Info] = [{}] * self.num_envs
        for env, info in [*zip(step.ended.tolist(), step.infos, strict=True), *self.episodes.read()]:
            infos[env] = info
        obs, rewards = _array(step.obs), _array(step.rewards)
        return VecStep(obs, rewards, terminated, truncated, ended, final_obs, infos)

    # ------------------------------------------------------------------ single environments

    @cached_property
    def _sample(self) -> gym.Env:
        """One Gymnasium environment, to render states and to look up attributes."""
        if self.spec is None:
            raise NotImplementedError(f"{type(self).__name__} has no single environments")
        return gym.make(self.spec, render_mode="rgb_array", disable_env_checker=True)

    def env_name(self) -> str:
        return type(self).__name__ if self.spec is None else self.spec.id

    def env_is_wrapped(self, wrapper_class: type, indices: Indices = None) -> list[bool]:
        return [issubclass(Monitor, wrapper_class) for _ in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[object]:
        chosen = self._get_indices(indices)
        if attr_name in ("spec", "render_mode"):
            return [getattr(self, attr_name) for _ in chosen]
        value = self._sample.get_wrapper_attr(attr_name)
        return [value for _ in chosen]

    def has_attr(self, attr_name: str) -> bool:
        return self.spec is not None and self._sample.has_wrapper_attr(attr_name)

    def set_attr(self, attr_name: str, value: object, indices: Indices = None) -> None:
        raise UserError(f"{type(self).__name__} has no single environments: {attr_name} cannot be set")

    def get_images(self) -> Sequence[np.ndarray | None]:
        if self.states is None:
            raise UserError("call reset() before rendering")
        sample = self._sample
        sample.reset()
        images: list[np.ndarray | None] = []
        for state in _array(self.states).astype(np.float64):
            sample.unwrapped.state = state  # type: ignore[attr-defined]
            images.append(cast(np.ndarray, sample.render()))
        return images

    # ------------------------------------------------------------------ checkpoints

    def episode_state(self) -> State | None:
        if self.states is None:
            return None
        return {
            "kind": self.env_name(),
            "states": _array(self.states),
            "generator": [str(self.device.type), _array(self.generator.get_state())],
            "steps_taken": self._steps_taken,
            "episodes": self.episodes.state(),
        }

    def load_episode_state(self, state: State) -> bool:
        if state["kind"] != self.env_name() or len(state["states"]) != self.num_envs:
            return False
        self.states = torch.as_tensor(state["states"], device=self.device)
        device, random = state["generator"]
        if device == self.device.type:  # generators of other devices draw other numbers
            self.generator.set_state(torch.as_tensor(random))
        self._steps_taken = int(state["steps_taken"])
        self.episodes.load_state(state["episodes"])
        return True

    def close(self) -> None:
        self.episodes.close()
        if "_sample" in self.__dict__:
            self._sample.close()


def _wide(ended: Tensor, rows: Tensor) -> Tensor:
    """Return flags [n] in a shape that broadcasts to rows [n, ...]."""
    return ended.reshape(-1, *[1] * (rows.dim() - 1))


def _array(tensor: Tensor) -> np.ndarray:
    return tensor.cpu().numpy().copy() if tensor.device.type == "cpu" else tensor.cpu().numpy()
