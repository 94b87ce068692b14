"""Action noise and parameter noise, for exploration.

Action noise is sampled from NumPy's global generator, which `set_random_seed` seeds and checkpoints store.
Any other state (the last value, a step count) is in `state_dict`.
"""

from __future__ import annotations

import copy
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rlzoo.core.errors import CheckpointError, UserError

MAX_ENVS = 2**16
"""Limit of environments of vectorised noise, so that a model file cannot allocate all memory."""
State: TypeAlias = Mapping[str, Any]  # as in a checkpoint: plain values and arrays


class OtherNoise(CheckpointError):
    """The state of other noise than the agent's."""


class NotNoise(UserError, TypeError):
    """A value is not the ActionNoise of one environment."""


class ActionNoise(ABC):
    """Base class of action noise; calling it returns the next noise.

    Noise is added to actions scaled to [-1, 1], and has their shape.
    """

    @abstractmethod
    def __call__(self) -> np.ndarray: ...

    def reset(self) -> None:
        """Reset the state at the end of an episode."""

    def arguments(self) -> dict[str, object]:
        """Return the arguments of the constructor, for a model file."""
        raise NotImplementedError

    def state_dict(self) -> State:
        """Return the state, for a checkpoint."""
        return {}

    def load_state_dict(self, state: State) -> None:
        """Restore the state that `state_dict` returned.

        :raises CheckpointError: the state is of other noise
        """
        _check_names(self, state, ())


class NormalActionNoise(ActionNoise):
    """Uncorrelated Gaussian noise.

    >>> noise = NormalActionNoise(mean=np.zeros(2), sigma=0.1 * np.ones(2))
    >>> noise().shape
    (2,)

    :param mean: mean per action dimension, or one number for all
    :param sigma: standard deviation, likewise
    :param dtype: dtype of the noise
    :raises UserError: values that are not finite, or a negative standard deviation
    """

    def __init__(self, mean: npt.ArrayLike, sigma: npt.ArrayLike, dtype: npt.DTypeLike = np.float32) -> None:
        self.mean, self.sigma = _numbers("mean", mean), _deviations("sigma", sigma)
        self.dtype = _float_type(dtype)
        self._shape = _common_shape(mean=self.mean, sigma=self.sigma)

    def __call__(self) -> np.ndarray:
        return (self.mean + self.sigma * np.random.standard_normal(self._shape)).astype(self.dtype)

    def arguments(self) -> dict[str, object]:
        return {"mean": self.mean, "sigma": self.sigma, "dtype": self.dtype.name}

    def __repr__(self) -> str:
        return f"NormalActionNoise(mu={self.mean}, sigma={self.sigma})"


class OrnsteinUhlenbeckActionNoise(ActionNoise):
    """Ornstein-Uhlenbeck process: noise that is correlated in time (Uhlenbeck and Ornstein 1930).

        x <- x + theta (mean - x) dt + sigma sqrt(dt) N(0, 1)

    :param mean: mean per action dimension, or one number for all
    :param sigma: scale of the noise, likewise
    :param theta: rate of mean reversion
    :param dt: time step
    :param initial_noise: value at the start of an episode; None: 0
    :param dtype: dtype of the noise
    """

    _noise: np.ndarray

    def __init__(
        self,
        mean: npt.ArrayLike,
        sigma: npt.ArrayLike,
        theta: float = 0.15,
        dt: float = 1e-2,
        initial_noise: npt.ArrayLike | None = None,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self.mean, self.sigma = _numbers("mean", mean), _deviations("sigma", sigma)
        self.theta, self.dt = float(theta), float(dt)
        if not (self.theta >= 0 and self.dt > 0):
            raise UserError(f"theta must be at least 0 and dt above 0, not {theta!r} and {dt!r}")
        self.initial_noise = None if initial_noise is None else _numbers("initial_noise", initial_noise)
        self.dtype = _float_type(dtype)
        initial = np.zeros(()) if self.initial_noise is None else self.initial_noise
        self._shape = _common_shape(mean=self.mean, sigma=self.sigma, initial_noise=initial)
        self.reset()

    def __call__(self) -> np.ndarray:
        drift = self.theta * (self.mean - self._noise) * self.dt
        shock = self.sigma * math.sqrt(self.dt) * np.random.standard_normal(self._shape)
        self._noise = self._noise + drift + shock
        return self._noise.astype(self.dtype)

    def reset(self) -> None:
        start = 0.0 if self.initial_noise is None else self.initial_noise
        self._noise = np.array(np.broadcast_to(start, self._shape), np.float64)

    def arguments(self) -> dict[str, object]:
        names = ("mean", "sigma", "theta", "dt", "initial_noise")
        return {**{name: getattr(self, name) for name in names}, "dtype": self.dtype.name}

    def state_dict(self) -> State:
        return {"noise": self._noise.copy()}

    def load_state_dict(self, state: State) -> None:
        _check_names(self, state, ("noise",))
        noise = np.array(state["noise"], np.float64)
        if noise.shape != self._shape:
            raise CheckpointError(f"the action noise has the shape {self._shape}, not {noise.shape}")
        self._noise = noise

    def __repr__(self) -> str:
        return f"OrnsteinUhlenbeckActionNoise(mu={self.mean}, sigma={self.sigma})"


class LinearNormalActionNoise(ActionNoise):
    """Uncorrelated Gaussian noise with a standard deviation that is annealed linearly, then constant.

    :param mean: mean per action dimension, or one number for all
    :param sigma: initial standard deviation, likewise
    :param max_steps: number of calls after which the standard deviation is `final_sigma`
    :param final_sigma: final standard deviation, likewise
    :param dtype: dtype of the noise
    """

    def __init__(
        self,
        mean: npt.ArrayLike,
        sigma: npt.ArrayLike,
        max_steps: int,
        final_sigma: npt.ArrayLike = 0.0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self.mean, self.sigma = _numbers("mean", mean), _deviations("sigma", sigma)
        self.final_sigma = _deviations("final_sigma", final_sigma)
        self.max_steps = int(max_steps)
        if self.max_steps < 1:
            raise UserError(f"max_steps must be at least 1, not {max_steps!r}")
        self.dtype = _float_type(dtype)
        self._shape = _common_shape(mean=self.mean, sigma=self.sigma, final_sigma=self.final_sigma)
        self._step = 0

    def __call__(self) -> np.ndarray:
        done = min(self._step / self.max_steps, 1.0)
        self._step += 1
        sigma = (1.0 - done) * self.sigma + done * self.final_sigma
        return (self.mean + sigma * np.random.standard_normal(self._shape)).astype(self.dtype)

    def arguments(self) -> dict[str, object]:
        names = ("mean", "sigma", "max_steps", "final_sigma")
        return {**{name: getattr(self, name) for name in names}, "dtype": self.dtype.name}

    def state_dict(self) -> State:
        return {"step": self._step}

    def load_state_dict(self, state: State) -> None:
        _check_names(self, state, ("step",))
        self._step = int(state["step"])

    def __repr__(self) -> str:
        return (
            f"LinearNormalActionNoise(mean={self.mean}, sigma={self.sigma}, max_steps={self.max_steps}, "
            f"final_sigma={self.final_sigma})"
        )


class VectorizedActionNoise(ActionNoise):
    """Independent noise for each environment; returns an array [n_envs, ...].

    :param base_noise: noise of one environment, copied for each
    :param n_envs: number of environments
    """

    def __init__(self, base_noise: ActionNoise, n_envs: int) -> None:
        if not isinstance(base_noise, ActionNoise) or isinstance(base_noise, VectorizedActionNoise):
            raise NotNoise(f"base_noise must be the ActionNoise of one environment, not {base_noise!r}")
        if not _is_count(n_envs) or not 1 <= int(n_envs) <= MAX_ENVS:
            raise UserError(f"n_envs must be at least 1 and at most {MAX_ENVS}, not {n_envs!r}")
        self.n_envs = int(n_envs)
        self._base_noise = base_noise
        self._noises = [copy.deepcopy(base_noise) for _ in range(self.n_envs)]

    @property
    def base_noise(self) -> ActionNoise:
        """The noise that is copied for each environment; assigning it replaces all copies."""
        return self._base_noise

    @base_noise.setter
    def base_noise(self, base_noise: ActionNoise) -> None:
        self._base_noise, self._noises = base_noise, VectorizedActionNoise(base_noise, self.n_envs).noises

    @property
    def noises(self) -> list[ActionNoise]:
        """The noise of each environment; an assigned list must have `n_envs` entries."""
        return self._noises

    @noises.setter
    def noises(self, noises: Sequence[ActionNoise]) -> None:
        noises = list(noises)
        for noise in noises:
            if not isinstance(noise, type(self.base_noise)):
                kind = type(self.base_noise).__name__
                raise NotNoise(f"noises must be the {kind} of one environment each, not {noise!r}")
        if len(noises) != self.n_envs:
            raise UserError(f"noises must be {self.n_envs}, one for each environment, not {len(noises)}")
        self._noises = noises

    def __call__(self) -> np.ndarray:
        return np.stack([noise() for noise in self.noises])

    def reset(self, indices: Iterable[int] | None = None) -> None:
        """Reset the noise of the environments whose episodes ended (None: all)."""
        for index in range(self.n_envs) if indices is None else indices:
            self.noises[index].reset()

    def arguments(self) -> dict[str, object]:
        return {"base_noise": self.base_noise, "n_envs": self.n_envs}

    def state_dict(self) -> State:
        return {"noises": [noise.state_dict() for noise in self.noises]}

    def load_state_dict(self, state: State) -> None:
        _check_names(self, state, ("noises",))
        if len(state["noises"]) != self.n_envs:
            raise CheckpointError(
                f"the action noise is for {self.n_envs} environments, not for {len(state['noises'])}"
            )
        for noise, part in zip(self.noises, state["noises"], strict=True):
            noise.load_state_dict(part)

    def __repr__(self) -> str:
        return f"VectorizedActionNoise({self.base_noise!r}, n_envs={self.n_envs})"


class AdaptiveParamNoiseSpec:
    """Adaptive standard deviation of parameter noise, from the distance of actions that the noise causes.

    Plappert et al. 2018, Parameter space noise for exploration, section 3 (https://arxiv.org/abs/1706.01905).

    :param initial_stddev: initial standard deviation of the parameter noise
    :param desired_action_stddev: desired distance between actions of the perturbed and the original policy
    :param adoption_coefficient: factor by which the standard deviation is multiplied or divided
    """

    def __init__(
        self,
        initial_stddev: float = 0.1,
        desired_action_stddev: float = 0.1,
        adoption_coefficient: float = 1.01,
    ) -> None:
        self.initial_stddev = float(initial_stddev)
        self.desired_action_stddev = float(desired_action_stddev)
        self.adoption_coefficient = float(adoption_coefficient)
        if not (self.initial_stddev > 0 and self.desired_action_stddev > 0 and self.adoption_coefficient > 1):
            raise UserError(
                "initial_stddev and desired_action_stddev must be above 0 and adoption_coefficient above 1, "
                f"not {initial_stddev!r}, {desired_action_stddev!r} and {adoption_coefficient!r}"
            )
        self.current_stddev = self.initial_stddev

    def adapt(self, distance: float) -> None:
        """Decrease the standard deviation if the distance is larger than desired, else increase it."""
        if distance > self.desired_action_stddev:
            self.current_stddev /= self.adoption_coefficient
        else:
            self.current_stddev *= self.adoption_coefficient

    def get_stats(self) -> dict[str, float]:
        """Return the current standard deviation, for logging."""
        return {"param_noise_stddev": self.current_stddev}

    def arguments(self) -> dict[str, object]:
        """Return the arguments of the constructor, for a model file."""
        names = ("initial_stddev", "desired_action_stddev", "adoption_coefficient")
        return {name: getattr(self, name) for name in names}

    def state_dict(self) -> State:
        return {"current_stddev": self.current_stddev}

    def load_state_dict(self, state: State) -> None:
        _check_names(self, state, ("current_stddev",))
        self.current_stddev = float(state["current_stddev"])

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.arguments().items())
        return f"AdaptiveParamNoiseSpec({shown})"


NOISE_CLASSES: dict[str, type[ActionNoise] | type[AdaptiveParamNoiseSpec]] = {
    cls.__name__: cls
    for cls in (
        NormalActionNoise,
        OrnsteinUhlenbeckActionNoise,
        LinearNormalActionNoise,
        VectorizedActionNoise,
        AdaptiveParamNoiseSpec,
    )
}
"""Noise that a model file can restore; instances of other classes must be passed again."""


def _numbers(name: str, value: npt.ArrayLike) -> np.ndarray:
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise UserError(f"{name} of the noise must be numbers, not {value!r}") from None
    if not np.isfinite(array).all():
        raise UserError(f"{name} of the noise must be finite, not {value!r}")
    return array


def _deviations(name: str, value: npt.ArrayLike) -> np.ndarray:
    array = _numbers(name, value)
    if (array < 0).any():
        raise UserError(f"{name} of the noise must be at least 0, not {value!r}")
    return array


def _float_type(dtype: npt.DTypeLike) -> np.dtype:
    found = np.dtype(dtype)
    if found.kind != "f":
        raise UserError(f"dtype of the noise must be a floating-point type, not {found}")
    return found


def _common_shape(**arrays: np.ndarray) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*[array.shape for array in arrays.values()])
    except ValueError:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise UserError(f"the shapes of the noise differ: {listed}") from None


def _is_count(value: object) -> bool:
    return isinstance(value, numbers.Real) and float(value).is_integer()


def _check_names(noise: object, state: State, names: tuple[str, ...]) -> None:
    if not isinstance(state, Mapping) or set(state) != set(names):
        raise OtherNoise(f"the file has the state of other noise than {type(noise).__name__}")
