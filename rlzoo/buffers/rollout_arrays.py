"""A rollout as arrays and batches for scripts, computed on access."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import BaseBuffer, Obs, map_obs, part_shape
from rlzoo.buffers.samples import (
    DictRolloutBufferSamples,
    MaskableDictRolloutBufferSamples,
    MaskableRolloutBufferSamples,
    RolloutBufferSamples,
)
from rlzoo.core.errors import UserError
from rlzoo.core.returns import gae

Values: TypeAlias = "torch.Tensor | npt.ArrayLike"
Samples: TypeAlias = (
    RolloutBufferSamples
    | DictRolloutBufferSamples
    | MaskableRolloutBufferSamples
    | MaskableDictRolloutBufferSamples
)
KINDS: dict[tuple[bool, bool], Callable[..., Samples]] = {
    (False, False): RolloutBufferSamples,
    (True, False): DictRolloutBufferSamples,
    (False, True): MaskableRolloutBufferSamples,
    (True, True): MaskableDictRolloutBufferSamples,
}
"""Samples by whether observations are Dicts, and whether choices were masked."""


class Estimates(NamedTuple):
    """Values, log-probabilities, advantages and returns of a rollout, arrays [n_steps, n_envs]."""

    values: np.ndarray
    log_probs: np.ndarray
    advantages: np.ndarray
    returns: np.ndarray


ARRAYS = (
    "observations", "actions", "rewards", "episode_starts", "action_masks",
    "values", "log_probs", "advantages", "returns",
)  # fmt: skip
"""Attributes of a rollout that are arrays [n_steps, n_envs, ...]; the masks where there are some."""
COPIES = ("episode_starts", "action_masks")
"""Those that are copies of what the rollout stores."""
FLATTENED = ("observations", "actions", "values", "log_probs", "advantages", "returns", "action_masks")
"""Those that `get` of stable-baselines3 flattens."""

T = TypeVar("T")


class _Column(Generic[T]):
    """Descriptor of an array of a rollout, computed on access; an assigned one is written to the rollout.

    Where `RolloutArrays.expose` has put the array into `vars(rollout)`, that one is read and replaced.

    :param compute: return the array of a rollout
    """

    def __init__(self, compute: Callable[[Any], T], doc: str | None = None) -> None:
        self.compute = compute
        self.__doc__ = doc or compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, rollout: RolloutArrays | None, owner: type) -> T:
        if rollout is None:  # of the class
            return self  # type: ignore[return-value]
        return vars(rollout)[self.name] if self.name in vars(rollout) else self.compute(rollout)

    def __set__(self, rollout: RolloutArrays, value: Obs) -> None:
        if self.name in vars(rollout):
            vars(rollout)[self.name] = value
            return

        def write(column: np.ndarray, values: Values) -> None:
            if self.name in COPIES or rollout.on_device:
                raise UserError(f"{self.name} of a rollout cannot be assigned, except in `get`")
            if not column.flags.writeable:
                raise UserError(f"{self.name} of a rollout that an algorithm has filled cannot be assigned")
            if (array := _array(values)).shape[:1] != column.shape[:1]:
                raise UserError(f"{self.name} has the shape {column.shape}, not {array.shape}")
            column[:] = np.reshape(array, column.shape)

        map_obs(write, self.compute(rollout), value)


def _estimate(name: str, doc: str) -> _Column[np.ndarray]:
    return _Column(lambda rollout: getattr(rollout.estimated(), name), doc)


class RolloutArrays(BaseBuffer):
    """Arrays [n_steps, n_envs, ...] of a rollout.

    `observations`, `actions` and `rewards` share memory with the buffer. `values`, `log_probs`, `advantages`
    and `returns` are computed from a whole rollout when they are first asked for, or are those of the last
    update. Before it, in `_on_rollout_end`, the advantages and returns of a rollout on the CPU may be
    changed, and are learned from. Values and log-probabilities may not.
    """

    n_steps: int
    gae_lambda: float
    gamma: float
    obs_column: Obs  # [n_steps + 1, n_envs, ...]
    action_column: np.ndarray
    reward_column: np.ndarray
    terminated: np.ndarray
    truncated: np.ndarray
    starts_column: np.ndarray
    extra_columns: dict[str, torch.Tensor]  # columns of some policies, [n_steps, n_envs, ...]
    filled: int
    estimates: Estimates | None
    learned: tuple[Values, Values, Values, Values] | None  # estimates of the last update, not converted
    computed: tuple[np.ndarray, np.ndarray] | None = None  # advantages and returns that callbacks may change
    algorithm: weakref.ref[Any] | None = None  # what computes estimates
    final_values_added = False  # to the rewards where episodes were truncated
    on_device: ClassVar[bool] = False
    has_own_get: ClassVar[bool] = False  # of a class that overrides how batches are read
    generator_ready: bool = False  # whether `get` of such a class has flattened the arrays
    _pos: int = 0  # steps that `add` has written
    _flat: tuple[Obs, np.ndarray, list[np.ndarray], Callable[..., Samples]] | None = None  # during `get`

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "get" in vars(cls):
            cls.get = _with_exposed_arrays(cls.get)  # type: ignore[method-assign]
        cls.has_own_get = (cls.get, cls._get_samples) != (RolloutArrays.get, RolloutArrays._get_samples)

    def __getstate__(self) -> dict[str, object]:
        """Leave out the algorithm, which a copy of it puts back."""
        return {**vars(self), "algorithm": None}

    @property
    def full(self) -> bool:
        """Whether the rollout is full."""
        return self.pos == self.n_steps

    @full.setter
    def full(self, value: bool) -> None:
        """Count all steps as written (True); False changes nothing, as `pos` counts what is written."""
        if value:
            self._pos = self.n_steps

    @property
    def pos(self) -> int:
        """Steps of each environment that the rollout holds."""
        return self.n_steps if self.learned is not None else max(self.filled, self._pos)

    @pos.setter
    def pos(self, value: int) -> None:
        self._pos = value

    def size(self) -> int:
        return self.pos

    # ------------------------------------------------------------------ arrays

    @_Column
    def observations(self) -> Obs:
        """Observations that were acted on."""
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return {key: self._by_step(self.obs_column[key], part) for key, part in space.spaces.items()}
        return self._by_step(self.obs_column, space)

    def _by_step(self, column: np.ndarray, space: spaces.Space[object]) -> np.ndarray:
        return _array(column[:-1]).reshape(self.n_steps, self.n_envs, *part_shape(space))

    @_Column
    def actions(self) -> np.ndarray:
        """Actions as they are learned from, [n_steps, n_envs, action_dim]."""
        return _array(self.action_column).reshape(self.n_steps, self.n_envs, self.action_dim)

    @property
    def rewards(self) -> np.ndarray:
        """Rewards, as stable-baselines3 stores them: where an episode was truncated, the discounted value of
        its final observation is added when they are first asked for, once the rollout is complete."""
        self._add_final_values()
        replaced: np.ndarray | None = vars(self).get("rewards")
        return self.reward_column if replaced is None else replaced

    @rewards.setter
    def rewards(self, values: np.ndarray) -> None:
        self._add_final_values()
        if "rewards" in vars(self):
            vars(self)["rewards"] = values
        else:
            self.reward_column = values

    def _add_final_values(self) -> None:
        algorithm = None if self.algorithm is None else self.algorithm()
        if self.final_values_added or self._pos or self.on_device or algorithm is None:
            return
        is_complete = self.learned is not None or self.filled == self.n_steps
        if not is_complete or not hasattr(algorithm.config, "gae_lambda"):
            return
        ends = self.truncated & ~self.terminated
        if ends.any():  # what is returned there is the reward and the value
            estimates = self.estimated()
            returns = estimates.returns if self.computed is None else self.computed[1]
            self.reward_column[ends] = returns[ends]
            self.final_values_added = True

    @_Column
    def episode_starts(self) -> np.ndarray:
        """1 where an observation is the first of its episode."""
        return _array(self.starts_column).astype(np.float32, copy=False)

    @_Column
    def action_masks(self) -> np.ndarray:
        """1 for each valid choice, [n_steps, n_envs, n_choices].

        :raises AttributeError: no masks were collected
        """
        if "action_masks" not in self.extra_columns:
            raise AttributeError(f"this {type(self).__name__} has no action masks: none were collected")
        return _array(self.extra_columns["action_masks"]).astype(np.float32)

    values = _estimate("values", "Values of the observations that were acted on.")
    log_probs = _estimate("log_probs", "Log-probabilities of the actions.")
    advantages = _estimate("advantages", "Advantages of the actions, by generalised advantage estimation.")
    returns = _estimate("returns", "Lambda-returns, which the value function is fitted to.")

    @property
    def mask_dims(self) -> int:
        """Entries of an action mask."""
        return self.action_masks.shape[-1]

    def expose(self) -> None:
        """Put the arrays, writable, into `vars` of the rollout, for a `get` that replaces them."""
        if "observations" in vars(self):
            return
        for name in ARRAYS:
            if name != "action_masks" or name in self.extra_columns:
                vars(self)[name] = map_obs(_writable, getattr(self, name))

    def hide(self) -> None:
        """Undo `expose`."""
        for name in ARRAYS:
            vars(self).pop(name, None)

    def estimated(self) -> Estimates:
        """Return values, log-probabilities, advantages and returns, computed at the first call.

        :raises UserError: the rollout is not complete
        """
        if self.estimates is None:
            algorithm = None if self.algorithm is None else self.algorithm()
            if algorithm is None:
                zeros = np.zeros((self.n_steps, self.n_envs), np.float32)
                self.estimates = Estimates(zeros, zeros.copy(), zeros.copy(), zeros.copy())
                return self.estimates
            if self.learned is None and self.filled < self.n_steps:
                raise UserError(
                    f"the rollout in progress has {self.filled} of {self.n_steps} steps: values, log_probs,"
                    " advantages and returns are there at its end, in _on_rollout_end"
                )
            columns = algorithm.estimate(self) if self.learned is None else self.learned
            shape = (self.n_steps, self.n_envs)
            self.estimates = Estimates(*(_read_only(_array(column).reshape(shape)) for column in columns))
            if self.learned is None and not self.on_device:
                self.computed = (self.estimates.advantages, self.estimates.returns)
                advantages, returns = (column.copy() for column in self.computed)
                self.estimates = Estimates(*self.estimates[:2], advantages, returns)
        return self.estimates

    def written(self, advantages: np.ndarray, returns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return advantages and returns, or what a callback has written in the place of either."""
        if self.estimates is None or self.computed is None or self.learned is not None:
            return advantages, returns
        changed = [
            not np.array_equal(now, before, equal_nan=True)
            for now, before in zip(self.estimates[2:], self.computed, strict=True)
        ]
        return (
            self.estimates.advantages if changed[0] else advantages,
            self.estimates.returns if changed[1] else returns,
        )

    # ------------------------------------------------------------------ by scripts

    def prepare_to_be_filled(self) -> None:
        """Empty the buffer for an `add` of the user's, which may write to its arrays."""
        self.algorithm = None  # it computes nothing then
        self.starts_column = self.starts_column.astype(np.float32)
        self.reset()

    def add(  # type: ignore[override]
        self,
        obs: Obs,
        action: Values,
        reward: Values,
        episode_start: Values,
        value: Values,
        log_prob: Values,
        action_masks: Values | None = None,
    ) -> None:
        """Write the next step of all environments, for a buffer that no algorithm fills.

        :param obs: what was acted on, [n_envs, ...]
        :param episode_start: whether `obs` is the first of its episode, [n_envs]
        :param value: of `obs`, [n_envs]; `log_prob` that of the action
        :param action_masks: which choices were allowed, [n_envs, n_choices]
        :raises UserError: the rollout is complete: call `reset`
        """
        t = self._pos
        if t == self.n_steps:
            raise UserError(f"the rollout is complete with {t} steps: call reset() before add()")
        if t == 0:
            zeros = np.zeros((self.n_steps, self.n_envs), np.float32)
            self.estimates = Estimates(zeros, zeros.copy(), zeros.copy(), zeros.copy())
            self.learned = None
            self.extra_columns.clear()
        estimates = self.estimated()

        def write(column: np.ndarray, rows: Values) -> None:
            column[t] = np.reshape(_array(rows), column.shape[1:])

        map_obs(write, self.obs_column, obs)
        write(self.action_column, action)
        write(self.reward_column, reward)
        write(self.starts_column, episode_start)
        write(estimates.values, value)
        write(estimates.log_probs, log_prob)
        if action_masks is not None:
            rows = np.reshape(_array(action_masks), (self.n_envs, -1)).astype(bool)
            if "action_masks" not in self.extra_columns:
                self.extra_columns["action_masks"] = torch.ones(self.n_steps, *rows.shape, dtype=torch.bool)
            self.extra_columns["action_masks"][t] = torch.from_numpy(rows)
        self._pos += 1

    def compute_returns_and_advantage(self, last_values: Values, dones: Values) -> None:
        """Fill `advantages` and `returns` from what `add` wrote.

        In a rollout that an algorithm has filled, they are recomputed from the present rewards, with the
        values of the algorithm.

        :param last_values: values of the observations after the last step, [n_envs]
        :param dones: whether the episodes ended with the last step, [n_envs]
        :raises UserError: the algorithm has already learned from the rollout
        """
        if self.learned is not None:
            raise UserError("the rollout has been learned from already: change it in _on_rollout_end")
        if not self._pos and self.algorithm is not None and self.algorithm() is not None:
            self.estimates = None
            return
        estimates = self.estimated()
        last = _array(last_values).reshape(1, -1).astype(np.float32)
        ended = np.concatenate([self.starts_column[1:], _array(dones).reshape(1, -1)]).astype(bool)
        following = np.concatenate([estimates.values[1:], last])
        estimates.advantages[:], estimates.returns[:] = gae(
            self.reward_column,
            estimates.values,
            following,
            ended,
            np.zeros_like(ended),
            self.gamma,
            self.gae_lambda,
        )

    def get(self, batch_size: int | None = None) -> Iterator[Samples]:
        """Yield batches of the whole rollout in random order, with `action_masks` where there are some.

        :param batch_size: rows of a batch; None: all of them
        :raises UserError: the rollout is not complete
        """
        if not self.full:
            raise UserError(f"the rollout has {self.pos} of {self.n_steps} steps, and get() needs all")
        if self.has_own_get:
            self._flatten()
        n_rows = self.n_steps * self.n_envs
        order = np.random.permutation(n_rows)
        self._flat = self._flat_columns()
        size = batch_size or n_rows
        try:
            for start in range(0, n_rows, size):
                yield self._get_samples(order[start : start + size])
        finally:
            self._flat = None

    def _flatten(self) -> None:
        """Flatten the exposed arrays by environment, once in a rollout."""
        self.expose()
        for name in () if self.generator_ready else FLATTENED:
            if name in vars(self):
                vars(self)[name] = map_obs(self.swap_and_flatten, vars(self)[name])
        self.generator_ready = True

    def _get_samples(self, batch_inds: np.ndarray, env: object = None) -> Samples:
        """Return rows of the rollout that `get` goes through, flattened by environment."""
        observations, actions, columns, kind = self._flat or self._flat_columns()
        return kind(
            map_obs(lambda column: self.to_torch(column[batch_inds]), observations),
            *(self.to_torch(column[batch_inds]) for column in (actions, *columns)),
        )

    def _flat_columns(self) -> tuple[Obs, np.ndarray, list[np.ndarray], Callable[..., Samples]]:
        """Return observations, actions and the other columns of batches, flattened, and the kind of these."""

        def flat(column: np.ndarray) -> np.ndarray:
            is_flat = self.has_own_get and self.generator_ready
            return column if is_flat else self.swap_and_flatten(column)

        observations, actions = map_obs(flat, self.observations), flat(self.actions).astype(np.float32)
        estimates = (self.values, self.log_probs, self.advantages, self.returns)
        columns = [flat(column).reshape(-1) for column in estimates]
        masked = "action_masks" in self.extra_columns
        if masked:
            columns.append(flat(self.action_masks))
        return observations, actions, columns, KINDS[isinstance(observations, dict), masked]


def _with_exposed_arrays(get: Callable[..., Iterator[Samples]]) -> Callable[..., Iterator[Samples]]:
    """Return a `get` that finds the arrays in `vars` of the rollout, as one for stable-baselines3 expects."""

    @functools.wraps(get)
    def exposing(self: RolloutArrays, *args: Any, **kwargs: Any) -> Iterator[Samples]:
        self.expose()
        return get(self, *args, **kwargs)

    return exposing


def _writable(array: np.ndarray) -> np.ndarray:
    return array if array.flags.writeable else array.copy()


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view


def _array(values: Values) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)
