"""What subclasses of users override, written for stable-baselines3.

The loops take gradient steps by `update`. Where a subclass overrides `train`, they call that instead, with
the arguments that stable-baselines3 gives, and the agent has the attributes that its `train` methods read.
Where it overrides how experience is collected, another loop calls its methods, see
`rlzoo.algorithms.collection`. Other methods of that library have no counterpart; a subclass that overrides
one cannot be constructed, since it would train as if it overrode nothing.
"""

from __future__ import annotations

import functools
import itertools
import operator
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import torch
from torch import nn

from rlzoo.algorithms.agent.agent import Agent
from rlzoo.algorithms.collection import uncalled_override
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.core.signatures import is_own
from rlzoo.envs.vec_wrappers.vec_normalize import VecNormalize
from rlzoo.optim.parameters import get_parameters_by_name

UNCALLED_METHODS: Mapping[str, str] = {
    "collect_rollouts": "act(inputs), which chooses the actions of a step; begin_rollout() and"
    " end_episodes(indices), or a callback; or set the class attribute `loop` to a function of one's own",
    "_on_step": "a callback's _on_step(), or train()",
    "_sample_action": "act(inputs), or explore(obs) of off-policy algorithms",
    "_store_transition": "add_step() of a class for replay_buffer_class",
    "_update_info_buffer": "a callback, which sees the infos of each step",
    "_dump_logs": "dump_logs(), or rollout_metrics(), which adds to what is logged",
    "_update_current_progress_remaining": "a schedule, which is a function of the progress remaining",
    "_wrap_env": "a wrapper around the environment that is handed over",
}
COLLECTION_METHODS = ("collect_rollouts", "_sample_action", "_store_transition", "_on_step")
"""What a subclass may override where one of the classes that it derives from has it."""
UNCALLED_WITHOUT_TRAIN: Mapping[str, str] = {
    "_update_learning_rate": "set_learning_rate(optimizer, counters), or train() too",
}
NORM_STATS = "batch_norm_stats"
"""Ends the names of lists of statistics of normalisation layers, such as `critic_batch_norm_stats_target`."""


def _has_own(cls: type, name: str) -> bool:
    """Return whether a class of rlzoo among those that a class derives from has a method."""
    return any(name in vars(base) for base in cls.__mro__ if is_own(base))


def _with_named_parts(state: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    """Return a `state` that also has what `_get_torch_save_params` names."""

    @functools.wraps(state)
    def with_named_parts(self: Any) -> dict[str, Any]:
        parts = state(self)
        for name in itertools.chain(*self._get_torch_save_params()):
            part = operator.attrgetter(name)(self)
            if not any(part is known for known in parts.values()):
                parts[name] = part
        return parts

    return with_named_parts


class Overridable(Agent):
    """An agent whose `train` a subclass may override, with what that finds in stable-baselines3."""

    overrides_collection: ClassVar[bool] = False  # whether it overrides how experience is collected
    saves_attributes: ClassVar[bool] = False  # whether files hold optimisers and tensors among attributes
    refusal: ClassVar[str | None] = None  # why the class cannot be constructed

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if not (cls.saves_attributes or is_own(cls._get_torch_save_params)):
            cls.state = _with_named_parts(cls.state)  # type: ignore[assignment, method-assign]
        uncalled = dict(UNCALLED_METHODS)
        collection = [name for name in COLLECTION_METHODS if _has_own(cls, name)]
        cls.overrides_collection = not all(is_own(getattr(cls, name)) for name in collection)
        if cls.overrides_collection and is_own(cls.loop):
            cls.loop = cls.overridden_loop
        called = ["_update_info_buffer", "_update_current_progress_remaining"]
        for name in [*collection, *(called if cls.overrides_collection else [])]:
            uncalled.pop(name, None)
        if is_own(getattr(cls, "train", Overridable)):
            uncalled |= UNCALLED_WITHOUT_TRAIN
        elif not _has_own(cls, "train"):
            uncalled["train"] = "update(batch, counters), which learns from a batch"
        cls.refusal = uncalled_override(cls, uncalled)

    def __getstate__(self) -> dict[str, object]:
        """Leave out what belongs to a training, for copies and for other processes."""
        of_training = ("_callback", "compiled_step", "gradient_step", "is_captured", "threads")
        state = {name: value for name, value in vars(self).items() if name not in of_training}
        return {**state, "optimized_ids": ()} if self.has_replaced_networks() else state

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        if state.get("optimized_ids"):
            self.note_optimized()
        rollout = state.get("last_rollout")
        if isinstance(rollout, RolloutBuffer) and rollout.algorithm is None:
            rollout.algorithm = weakref.ref(self)

    def note_optimized(self) -> None:
        """Hook after a copy was made."""

    def has_replaced_networks(self) -> bool:
        """Return whether a script has replaced networks since there are optimisers for them."""
        return False

    def prepare_train(self) -> None:
        """Hook before each call of an overridden `train`."""

    @property
    def _n_updates(self) -> int:
        return self.counters.n_updates

    @_n_updates.setter
    def _n_updates(self, value: int) -> None:
        self.counters.n_updates = value

    def _get_torch_save_params(self) -> tuple[list[str], list[str]]:
        """Return names of modules and optimisers, and of tensors, that files hold of a user's class."""
        return ["policy"], []

    @property
    def _n_calls(self) -> int:
        return self.counters.num_timesteps // max(self.n_envs * self.n_ranks, 1)

    @_n_calls.setter
    def _n_calls(self, value: int) -> None:
        """Do nothing: it follows from `num_timesteps`."""

    @property
    def _episode_num(self) -> int:
        return self.counters.episodes

    @_episode_num.setter
    def _episode_num(self, value: int) -> None:
        self.counters.episodes = value

    @property
    def _num_timesteps_at_start(self) -> int:
        return self.collector.start_timesteps

    @property
    def _vec_normalize_env(self) -> VecNormalize | None:
        return self.get_vec_normalize_env()

    def _update_learning_rate(
        self, optimizers: torch.optim.Optimizer | Iterable[torch.optim.Optimizer]
    ) -> None:
        """Give the optimisers the present learning rate, and log it."""
        for optimizer in [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else optimizers:
            self.set_learning_rate(optimizer, self.counters)
        self.logger.record("train/learning_rate", self.schedule("learning_rate", self.counters))


def norm_stats(policy: nn.Module, name: str) -> list[torch.Tensor]:
    """Return the running statistics of a network's normalisation layers.

    :param name: such as `critic_batch_norm_stats_target`; without a network it is the Q-function
    """
    network, _, suffix = name.partition(NORM_STATS)
    networks = [network.rstrip("_")] if network else ["critic", "q_net", "quantile_net"]
    found = [getattr(policy, part + suffix) for part in networks if hasattr(policy, part + suffix)]
    return get_parameters_by_name(found[0], ["running_"]) if found else []
