"""The contract of a callback: what runs beside the training, and can end it.

A callback overrides the hooks with an underscore. Where nothing is due, a step costs no more than a counter;
`locals` is looked up when it is read.

    class Print(BaseCallback):
        def _on_step(self) -> bool:
            print(self.num_timesteps, self.locals["rewards"])
            return True              # False ends the training
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import torch

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.observations import Obs, copy_obs, copy_of
from rlzoo.core.types import Metrics
from rlzoo.envs.vec_env.vec_env import VecEnv, infos_of_step
from rlzoo.metrics.logger import Logger
from rlzoo.networks.lstm import rnn_states

StepFunction: TypeAlias = Callable[[Mapping[str, Any], dict[str, Any]], "bool | None"]
Reader: TypeAlias = Callable[[], object]
"""Looks up one of the locals."""
CallbackLike: TypeAlias = "BaseCallback | StepFunction | Sequence[BaseCallback | StepFunction] | None"


class BaseCallback(ABC):
    """The hooks of a training, in the order they are called.

    In every hook there are `model`, `training_env`, `logger`, `num_timesteps` (steps of all environments),
    `n_calls` (calls of `on_step`), `locals` and `globals` of the training loop, and `parent`, the callback
    that triggers this one.

    :param verbose: 0 silent, 1 says what it does, 2 more
    """

    state_names: tuple[str, ...] = ("n_calls",)
    """Attributes (numbers, strings, lists) that a checkpoint keeps; those of parent classes are added."""

    called_after_step = False
    """Whether the training calls `after_step`; not where another callback calls `on_step` unseen."""

    def __init__(self, verbose: int = 0) -> None:
        self.verbose = verbose
        self.n_calls = 0
        self.num_timesteps = 0
        self.locals: Mapping[str, Any] = {}  # Any: callbacks index and compute with them
        self.globals: dict[str, object] = {}
        self.model: Any = None
        self.parent: BaseCallback | None = None

    @property
    def training_env(self) -> VecEnv:
        """The vector environment that the model trains in."""
        env: VecEnv = self.model.get_env()
        return env

    @property
    def logger(self) -> Logger:
        return self.model.logger  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ to override

    def _init_callback(self) -> None:
        """Run once the model is known; nothing else has happened yet."""

    def _on_training_start(self) -> None:
        """Run before the first rollout."""

    def _on_rollout_start(self) -> None:
        """Run before each collection of experience."""

    @abstractmethod
    def _on_step(self) -> bool:
        """Run after each step of the vector of environments.

        :return: False ends the training
        """

    def after_step(self) -> None:
        """Run after every callback of the training has had the step; see `called_after_step`."""

    def _on_rollout_end(self) -> None:
        """Run after each collection of experience, before the update."""

    def _on_training_end(self) -> None:
        """Run after the last update."""

    def child_callbacks(self) -> Sequence[BaseCallback]:
        """Return callbacks that this one triggers."""
        return ()

    # ------------------------------------------------------------------ called by the training loop

    def init_callback(self, model: Any) -> None:
        """Tell the callback and its children the model; called once per `learn`."""
        self.model = model
        self.num_timesteps = model.num_timesteps
        self._init_callback()
        for child in self.child_callbacks():
            child.parent = self._parent_of_children()
            child.init_callback(model)

    def on_training_start(self, locals_: Mapping[str, Any], globals_: dict[str, object]) -> None:
        self.locals, self.globals = locals_, globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()
        for child in self.child_callbacks():
            child.on_training_start(locals_, globals_)

    def on_rollout_start(self) -> None:
        self._on_rollout_start()

    def on_step(self) -> bool:
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        go_on = self._on_step()
        return True if go_on is None else bool(go_on)  # a missing `return True` does not stop training

    def on_rollout_end(self) -> None:
        self._on_rollout_end()

    def on_training_end(self) -> None:
        self._on_training_end()
        for child in self.child_callbacks():
            child.on_training_end()

    def update_locals(self, locals_: Mapping[str, Any]) -> None:
        """Make `locals_` the locals that this callback and its children see."""
        self.locals = locals_
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: Mapping[str, Any]) -> None:
        """Pass the locals on to `child_callbacks`; where overridden, called before every step."""
        for child in self.child_callbacks():
            child.update_locals(locals_)

    def _parent_of_children(self) -> BaseCallback | None:
        return self

    # ------------------------------------------------------------------ checkpoints

    def state_dict(self) -> dict[str, object]:
        """Return the attributes in `state_names` and the children's, ready for JSON."""
        return {
            "type": type(self).__name__,
            "values": {name: getattr(self, name) for name in self._all_state_names()},
            "children": [child.state_dict() for child in self.child_callbacks()],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned; a child that is not in the state keeps its initial state.

        :raises CheckpointError: it is not the state of a callback, or of values of other types
        """
        if not is_callback_state(state):
            raise CheckpointError("the state of the callbacks in the model file is damaged")
        for name in self._all_state_names():
            if name in state["values"]:
                value = state["values"][name]
                if not _of_one_type(getattr(self, name), value):
                    raise CheckpointError(
                        f"the state of {type(self).__name__} in the model file is damaged: "
                        f"{name} is {str(value)[:60]!r}"
                    )
                setattr(self, name, value)
        unclaimed = list(state["children"])
        for child in self.child_callbacks():
            for index, saved in enumerate(unclaimed):
                if saved["type"] == type(child).__name__:
                    child.load_state_dict(unclaimed.pop(index))
                    break

    def _all_state_names(self) -> list[str]:
        return [name for cls in type(self).__mro__ for name in vars(cls).get("state_names", ())]


def is_callback_state(state: object) -> bool:
    """Return whether a value has the form of what `BaseCallback.state_dict` returns."""
    return (
        isinstance(state, Mapping)
        and isinstance(state.get("type"), str)
        and isinstance(state.get("values"), Mapping)
        and isinstance(state.get("children"), list)
        and all(map(is_callback_state, state["children"]))
    )


def _of_one_type(own: object, saved: object) -> bool:
    """Return whether a saved value may replace an attribute: numbers numbers, lists lists of such."""
    if isinstance(own, Real) and not isinstance(own, bool):
        return isinstance(saved, Real) and not isinstance(saved, bool)
    if isinstance(own, list):
        return isinstance(saved, list) and all(
            isinstance(item, Real) or _of_one_type(own, item) for item in saved
        )
    return own is None or saved is None or isinstance(saved, type(own))


class EventCallback(BaseCallback):
    """Triggers another callback when something happens: `_on_event()` is to be called in `_on_step`.

    :param callback: triggered through its `on_step`; a list or a function is converted
    """

    def __init__(self, callback: CallbackLike = None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = None if callback is None else as_callback(callback)

    def child_callbacks(self) -> Sequence[BaseCallback]:
        return () if self.callback is None else (self.callback,)

    def _on_event(self) -> bool:
        return True if self.callback is None else self.callback.on_step()

    def _on_step(self) -> bool:
        return True


class CallbackList(BaseCallback):
    """Callbacks called one after the other; all of them, even after one has said stop.

    :param callbacks: callbacks, or functions `(locals, globals) -> bool`
    """

    def __init__(self, callbacks: Sequence[BaseCallback | StepFunction]) -> None:
        super().__init__()
        self.callbacks = [as_callback(callback) for callback in callbacks]

    def child_callbacks(self) -> Sequence[BaseCallback]:
        return self.callbacks

    def _parent_of_children(self) -> BaseCallback | None:
        return self.parent  # a list is transparent: its members are triggered by whatever triggers it

    def _on_rollout_start(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_start()

    def _on_step(self) -> bool:
        go_on = True
        for callback in self.callbacks:
            go_on = callback.on_step() and go_on
        return go_on

    def _on_rollout_end(self) -> None:
        for callback in self.callbacks:
            callback.on_rollout_end()


class TrainingCallbacks(CallbackList):
    """All callbacks of a training; those with an `after_step`, at any depth, get it last.

    Locals are looked up when they are read, so that each callback is given them once. Those that override
    how they take them or pass them on get them before every step.
    """

    _passing_on: Sequence[BaseCallback] = ()

    def init_callback(self, model: Any) -> None:
        super().init_callback(model)
        self._last = [
            callback
            for callback in _descendants(self)
            if type(callback).after_step is not BaseCallback.after_step
        ]
        for callback in self._last:
            callback.called_after_step = True
        self._passing_on = [*_that_pass_on(self)]

    def update_locals(self, locals_: Mapping[str, Any]) -> None:
        if locals_ is not self.locals:
            super().update_locals(locals_)

    def _on_step(self) -> bool:
        for callback in self._passing_on:
            callback.update_locals(self.locals)
        go_on = super()._on_step()
        for callback in self._last:
            callback.after_step()
        return go_on


def _descendants(callback: BaseCallback) -> Iterator[BaseCallback]:
    for child in callback.child_callbacks():
        yield child
        yield from _descendants(child)


def _that_pass_on(callback: BaseCallback) -> Iterator[BaseCallback]:
    """Yield the outermost callbacks inside of one that override how locals are taken or passed on."""
    for child in callback.child_callbacks():
        cls = type(child)
        methods = (cls.update_locals, cls.update_child_locals)
        if methods != (BaseCallback.update_locals, BaseCallback.update_child_locals):
            yield child
        else:
            yield from _that_pass_on(child)


class ConvertCallback(BaseCallback):
    """A function as a callback.

    :param callback: called with (locals, globals) after each step; False ends the training
    """

    def __init__(self, callback: StepFunction | None, verbose: int = 0) -> None:
        super().__init__(verbose)
        self.callback = callback

    def _on_step(self) -> bool:
        go_on = True if self.callback is None else self.callback(self.locals, self.globals)
        return True if go_on is None else bool(go_on)


def to_callback(callback: CallbackLike, *further: BaseCallback) -> CallbackList:
    """Return what `learn(callback=...)` takes, as one list.

    :param further: callbacks that follow
    :raises UserError: something that is no callback
    """
    if callback is None:
        return TrainingCallbacks(further)
    callbacks = callback if isinstance(callback, list | tuple) else [callback]
    return TrainingCallbacks([*callbacks, *further])


def as_callback(callback: object) -> BaseCallback:
    """Return a callback, a list or a function as one callback.

    :raises UserError: it is none of these
    """
    if isinstance(callback, BaseCallback):
        return callback
    if isinstance(callback, list | tuple):
        return CallbackList(callback)
    if isinstance(callback, type) and issubclass(callback, BaseCallback):
        raise UserError(
            f"callback: {callback.__name__} is a class; an instance is needed, {callback.__name__}(...)"
        )
    if callable(callback):
        return ConvertCallback(callback)
    raise UserError(
        f"a callback is a BaseCallback, a list of them or a function (locals, globals), not {callback!r}"
    )


def check_frequency(name: str, value: int) -> int:
    """Return the value, checked.

    :raises UserError: below 1
    """
    if value < 1:
        raise UserError(f"{name} must be at least 1, not {value}")
    return value


class LoopLocals(Mapping[str, object]):
    """What callbacks see as `locals`: looked up when read, so that it costs nothing when nobody looks.

    `actions` are the policy's where it learns from a rollout, and what the environments executed where it
    replays experience; the others are `clipped_actions` and `buffer_actions`.

    `history` is no local: the metrics of the last update, one dict per gradient step or one for all of them.

    :param buffers: `rollout_buffer` or `replay_buffer`
    """

    def __init__(
        self, algorithm: Any, callback: object = None, log_interval: int = 1, **buffers: object
    ) -> None:
        self.algorithm = algorithm
        self.inputs: Any = None  # what was acted on
        self.step: Any = None
        self.result: Any = None
        self.history: list[Metrics] = []
        self._ended_at = -1  # steps at the end of the last rollout
        self._read: dict[str, object] = {}  # of the present step: the same array for all who ask
        self._read_at = -1
        self._readers: dict[str, Reader] = {
            "self": lambda: algorithm,
            "callback": lambda: callback,
            "log_interval": lambda: log_interval,
            **{name: partial(buffers.get, name) for name in buffers},
            "env": lambda: algorithm.env,
            "total_timesteps": lambda: algorithm.counters.total_timesteps,
        }
        self._step_readers: dict[str, Reader] = {
            "infos": lambda: infos_of_step(self.result),
            "rewards": self._rewards,
            "dones": lambda: self.result.terminated | self.result.truncated,
            "new_obs": self._new_obs,
            "obs_tensor": lambda: self.inputs.obs,
        }
        of_loop = self._of_replay if "replay_buffer" in buffers else self._of_rollout
        self._step_readers |= of_loop()

    def end_rollout(self) -> None:
        """Let `values` be those of what the last step led to, until the next rollout."""
        self._ended_at = self.algorithm.counters.num_timesteps
        self._read.pop("values", None)

    def _of_replay(self) -> dict[str, Reader]:
        config = self.algorithm.config
        self._readers |= {
            "learning_starts": lambda: config.learning_starts,
            "action_noise": lambda: self.algorithm.action_noise,
            "num_collected_steps": lambda: self.algorithm.counters.collected,
            "num_collected_episodes": lambda: self.algorithm.counters.ended,
        }
        return {
            "actions": lambda: self.step.env_action,
            "buffer_actions": lambda: _read_only(self.step.action.cpu().numpy()),
        }

    def _of_rollout(self) -> dict[str, Reader]:
        if "rollout_buffer" in self._readers:
            self._readers |= {
                "iteration": lambda: self.algorithm.counters.iteration,
                "n_rollout_steps": lambda: self.algorithm.config.n_steps,
                "n_steps": lambda: getattr(self["rollout_buffer"], "filled", 0),
            }
        readers: dict[str, Reader] = {
            "actions": lambda: self.step.action.cpu().numpy(),
            "clipped_actions": lambda: self.step.env_action,
            "values": self._values,
            "log_probs": self._log_probs,
        }
        if getattr(type(self.algorithm), "wants_action_masks", False):
            self._readers["use_masking"] = lambda: self.algorithm.wants_action_masks
            readers["action_masks"] = lambda: self.inputs.action_masks
        if getattr(self.algorithm, "recurrent", False):
            readers["episode_starts"] = lambda: torch.as_tensor(
                self.inputs.episode_start, dtype=torch.float32, device=self.algorithm.device
            )
            readers["lstm_states"] = lambda: rnn_states(self.algorithm.rnn_state)
        return readers

    def _rewards(self) -> Any:
        """Copy the rewards, since environments write into theirs; read-only, as they are stored already."""
        rewards = copy_of(self.result.rewards)
        return _read_only(rewards) if isinstance(rewards, np.ndarray) else rewards

    def _new_obs(self) -> Obs:
        """Copy what the step led to and the agent acts on next, since environments write into theirs."""
        obs = copy_obs(self.result.obs)
        collector = self.algorithm.collector
        if collector.obs is self.result.obs:
            collector.obs = obs
        return obs

    def _values(self) -> torch.Tensor:
        if self._ended_at == self.algorithm.counters.num_timesteps:
            return self.algorithm.last_values(self["rollout_buffer"]).reshape(-1, 1)  # type: ignore[no-any-return]
        if "values" in self.step.extra:
            return self.step.extra["values"].reshape(-1, 1)  # type: ignore[no-any-return]
        with torch.no_grad():
            return self.algorithm.policy.predict_values(self.inputs.obs).reshape(-1, 1)  # type: ignore[no-any-return]

    def _log_probs(self) -> torch.Tensor:
        extra, obs = self.step.extra, self.inputs.obs
        if "log_probs" in extra:
            return extra["log_probs"]  # type: ignore[no-any-return]
        context = {name: extra[name] for name in ("action_masks", "gaussian_actions") if name in extra}
        with torch.no_grad():
            _, log_probs, _ = self.algorithm.policy.evaluate_actions(obs, self.step.action, **context)
        return log_probs  # type: ignore[no-any-return]

    def _present(self) -> dict[str, Reader]:
        return self._readers if self.result is None else {**self._readers, **self._step_readers}

    def __getitem__(self, name: str) -> object:
        if name in self._readers:
            return self._readers[name]()
        if self.result is None:
            raise KeyError(name)
        if self._read_at != self.algorithm.counters.num_timesteps:
            self._read, self._read_at = {}, self.algorithm.counters.num_timesteps
        if name not in self._read:
            self._read[name] = self._step_readers[name]()
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._present())

    def __len__(self) -> int:
        return len(self._present())


def _read_only(array: np.ndarray) -> np.ndarray:
    view = array.view()
    view.flags.writeable = False
    return view
