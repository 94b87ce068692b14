"""A policy as one torch module, from raw observations to the actions that the environment executes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

from rlzoo.algorithms.base import Algorithm
from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import choice_counts
from rlzoo.export.observation_layers import Part, PreparePart, observation_parts
from rlzoo.networks.lstm import reset_state
from rlzoo.policies.base_policy import BasePolicy
from rlzoo.policies.masked_policies import MaskableActorCriticPolicy
from rlzoo.policies.recurrent_policies import ACTOR, RecurrentActorCriticPolicy

ACTIONS, MASKS, STARTS, STATES = "actions", "action_masks", "episode_start", ("state_h", "state_c")
PREDICTS = (BasePolicy, MaskableActorCriticPolicy, RecurrentActorCriticPolicy)


@dataclass(frozen=True)
class Port:
    """An input or an output of a policy module.

    :ivar shape: with "batch" in the place of the number of observations
    :ivar dtype: as NumPy names it
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str

    @property
    def batch_axis(self) -> int:
        """Index of the batch axis."""
        return self.shape.index("batch")

    def example(self, n: int) -> Tensor:
        """Return zeros for `n` observations."""
        sizes = [n if size == "batch" else int(size) for size in self.shape]
        return torch.zeros(sizes, dtype=torch_dtype(self.dtype))


class ExecutedActions(nn.Module):
    """Convert the policy's actions to those that the environment executes; see `BasePolicy.env_actions`."""

    low: Tensor
    high: Tensor
    start: Tensor

    def __init__(self, space: spaces.Space[object], squash_output: bool) -> None:
        super().__init__()
        self.shape, self.dtype = tuple(space.shape or ()), torch_dtype(str(space.dtype))
        self.is_box, self.squash_output = isinstance(space, spaces.Box), squash_output
        if isinstance(space, spaces.Box):
            self.register_buffer("low", torch.tensor(space.low))
            self.register_buffer("high", torch.tensor(space.high))
            self.bounded = bool(np.isfinite([space.low, space.high]).any())
        self.shifts = isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and bool(np.any(space.start))
        if self.shifts:
            self.register_buffer("start", torch.tensor(space.start))  # type: ignore[attr-defined]

    def forward(self, actions: Tensor) -> Tensor:
        if self.is_box:
            actions = actions.reshape(-1, *self.shape)
            if self.squash_output:
                actions = self.low + 0.5 * (actions + 1.0) * (self.high - self.low)
            if self.bounded:
                actions = torch.minimum(torch.maximum(actions, self.low), self.high)
            if not self.dtype.is_floating_point:
                actions = torch.round(actions)
        elif self.shifts:
            actions = actions + self.start
        return actions.to(self.dtype).reshape(-1, *self.shape)


class PolicyModule(nn.Module):
    """The complete deterministic policy of an agent: `model.predict(obs, deterministic=True)` as a module.

    Inputs, in the order of `inputs`: the observation as the environment returns it, one tensor for each entry
    of a Dict; for a policy with action masks `action_masks` (bool, true: allowed); for a recurrent one
    `state_h` and `state_c` as `predict` has them, and `episode_start` (bool). Outputs: the actions to
    execute, and for a recurrent policy the state afterwards.

    >>> module = PolicyModule(model)  # doctest: +SKIP
    >>> actions = module(torch.from_numpy(venv.reset()))  # doctest: +SKIP

    :param model: an agent; the wrappers of its environment become part of the module
    :raises UserError: a policy with its own predict method, or a wrapper that cannot be exported
    """

    def __init__(self, model: Algorithm) -> None:
        super().__init__()
        check_policy(model)
        self.parts: dict[str, Part] = observation_parts(model)
        self.inputs, self.outputs = _ports(model, self.parts)
        self.is_dict = isinstance(model.observation_space, spaces.Dict)
        self.is_masked = isinstance(model.policy, MaskableActorCriticPolicy)
        self.is_recurrent = isinstance(model.policy, RecurrentActorCriticPolicy)
        self.prepare = nn.ModuleList(PreparePart(part) for part in self.parts.values())
        self.policy = acting_copy(model.policy)
        self.executed = ExecutedActions(model.action_space, model.policy.squash_output)
        self.eval()

    def forward(self, *inputs: Tensor) -> Any:
        prepared = [prepare(x) for prepare, x in zip(self.prepare, inputs, strict=False)]
        obs: Any = dict(zip(self.parts, prepared, strict=True)) if self.is_dict else prepared[0]
        others = inputs[len(self.parts) :]
        policy: Any = self.policy
        if self.is_recurrent:
            h, c, starts = others
            rnn_state = {f"{ACTOR}_h": h.transpose(0, 1), f"{ACTOR}_c": c.transpose(0, 1)}
            actions, after = policy.act_recurrent(obs, reset_state(rnn_state, starts), deterministic=True)
            h, c = (after[f"{ACTOR}_{part}"].transpose(0, 1) for part in "hc")
            return self.executed(actions), h, c
        if self.is_masked:
            return self.executed(policy.act(obs, deterministic=True, action_masks=others[0]))
        return self.executed(policy.predict_actions(obs, deterministic=True))

    def examples(self, n: int = 2) -> tuple[Tensor, ...]:
        """Return inputs for `n` observations, of zeros, with every action allowed."""
        return tuple(port.example(n) + (port.name == MASKS) for port in self.inputs)


def check_policy(model: Algorithm) -> None:
    """Check that the policy predicts as those of rlzoo do.

    :raises UserError: it is not a BasePolicy, or overrides `predict`
    """
    policy = model.policy
    name = type(policy).__name__
    if not isinstance(policy, BasePolicy):
        raise UserError(f"{name} cannot be exported: it is not derived from rlzoo.BasePolicy")
    for method in ("predict", "env_actions"):
        if not any(getattr(type(policy), method) is getattr(known, method) for known in PREDICTS):
            raise UserError(f"{name} cannot be exported: it overrides {method}()")


def acting_copy(policy: BasePolicy) -> BasePolicy:
    """Return a copy of a policy without critics, target networks and optimisers."""
    memo: dict[int, object] = {id(getattr(policy, "optimizer", None)): None}
    for (
        module
    ) in policy.modules():  # detach tensors with a graph (of an update, of gSDE): they cannot be copied
        for value in _tensors(getattr(module, "action_dist", None)):
            if not value.is_leaf:  # parameters stay parameters
                memo[id(value)] = value.detach()
    copied = copy.deepcopy(policy, memo).cpu().eval().requires_grad_(False)
    modules = dict(copied.named_modules())
    for path in (prefix.rstrip(".") for prefix in policy.training_only_keys):
        parent, _, name = path.rpartition(".")
        if path in modules:
            setattr(modules[parent], name, nn.Identity())
    return copied


def _tensors(distribution: object) -> Iterator[Tensor]:
    """Yield the tensors of an action distribution, and of the distributions in it."""
    held = vars(distribution) if hasattr(distribution, "__dict__") else {}
    slots = [slot for kind in type(distribution).__mro__ for slot in getattr(kind, "__slots__", ())]
    for value in (*held.values(), *(getattr(distribution, slot, None) for slot in slots)):
        if isinstance(value, Tensor):
            yield value
        elif isinstance(value, list | tuple):
            for part in value[:]:  # a copy: distributions without parameters refuse to be iterated
                yield from _tensors(part)


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype of a NumPy dtype.

    :raises UserError: there is none
    """
    try:
        return torch.from_numpy(np.empty(0, np.dtype(name))).dtype
    except TypeError:
        raise UserError(f"PyTorch has no {name} tensors") from None


def _ports(model: Algorithm, parts: dict[str, Part]) -> tuple[list[Port], list[Port]]:
    """Return the inputs and the outputs of an agent."""
    inputs = [_port(name, part.space) for name, part in parts.items()]
    space = model.action_space
    outputs = [_port(ACTIONS, space)]
    policy = model.policy
    if isinstance(policy, MaskableActorCriticPolicy):
        inputs.append(Port(MASKS, ("batch", sum(choice_counts(space))), "bool"))
    if isinstance(policy, RecurrentActorCriticPolicy):
        shape = (policy.n_lstm_layers, "batch", policy.lstm_output_dim)
        inputs += [*(Port(name, shape, "float32") for name in STATES), Port(STARTS, ("batch",), "bool")]
        outputs += [Port(f"next_{name}", shape, "float32") for name in STATES]
    _check_names([port.name for port in (*inputs, *outputs)])
    return inputs, outputs


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the key {name!r} of the observations is also the name of another tensor")


def _port(name: str, space: spaces.Space[object]) -> Port:
    return Port(name, ("batch", *(space.shape or ())), str(space.dtype))
