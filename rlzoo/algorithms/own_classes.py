"""Algorithms that users derive from `OnPolicyAlgorithm` or `OffPolicyAlgorithm`, as for stable-baselines3.

Such a class has no `Config`. It has a constructor, which gives some of its arguments to that of the base
class, and a `train`. Its Config is made of the hyperparameters of the base class and of the other parameters
of its constructor, so that all of them are checked, saved and loaded as those of other algorithms.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from rlzoo.algorithms.actor_critic_optimizers import optimize_actor_and_critic
from rlzoo.algorithms.collection import OffPolicyCollection, OnPolicyCollection
from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range, field_names
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.errors import UnknownArgument, UserError, unknown
from rlzoo.core.signatures import constructor_parameters, is_own
from rlzoo.params import shared
from rlzoo.params.descriptions import param
from rlzoo.policies.actor_critic_policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    MultiInputActorCriticPolicy,
)
from rlzoo.policies.continuous_policies import ContinuousPolicy
from rlzoo.policies.value_based import DQNPolicy

BASE_ARGUMENTS: Mapping[str, object] = {
    "supported_action_spaces": None,
    "support_multi_env": True,
    "monitor_wrapper": True,
    "sde_support": True,
}
"""Further arguments that the base classes of stable-baselines3 take; all but the first have no effect."""
RESERVED = {"collector", "config", "counters", "flat", "logger", "schedules", "threads"}
"""Attributes of agents that users do not set."""
ACTOR_CRITIC_POLICIES: Mapping[str, type] = {
    "MlpPolicy": ActorCriticPolicy,
    "CnnPolicy": ActorCriticCnnPolicy,
    "MultiInputPolicy": MultiInputActorCriticPolicy,
}


@dataclass(frozen=True, kw_only=True)
class OnPolicyConfig:
    """Hyperparameters of `OnPolicyAlgorithm`."""

    learning_rate: ScheduleLike = param(3e-4, doc=shared.LEARNING_RATE)
    n_steps: int = param(2048, doc=shared.N_STEPS)
    gamma: float = param(0.99, doc=shared.GAMMA)
    gae_lambda: float = param(1.0, doc=shared.GAE_LAMBDA)
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    vf_coef: float = param(0.5, doc=shared.VF_COEF)
    max_grad_norm: float | None = param(0.5, doc=shared.MAX_GRAD_NORM)
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)

    def __post_init__(self) -> None:
        check_range(self, ("n_steps",), low=1)
        check_range(self, ("gamma", "gae_lambda"), low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class OffPolicyConfig:
    """Hyperparameters of `OffPolicyAlgorithm`."""

    learning_rate: ScheduleLike = param(3e-4, doc=shared.LEARNING_RATE)
    buffer_size: int = param(1_000_000, doc=shared.BUFFER_SIZE)
    learning_starts: int = param(100, doc=shared.LEARNING_STARTS)
    batch_size: int = param(256, doc=shared.REPLAY_BATCH_SIZE)
    tau: float = param(0.005, doc=shared.TAU)
    gamma: float = param(0.99, doc=shared.GAMMA)
    train_freq: TrainFreq = param(1, doc=shared.TRAIN_FREQ)
    gradient_steps: int = param(1, doc=shared.GRADIENT_STEPS)
    action_noise: ActionNoise | None = param(None, doc=shared.ACTION_NOISE)
    replay_buffer_class: type[ReplayBuffer] | None = param(None, doc=shared.REPLAY_BUFFER_CLASS)
    replay_buffer_kwargs: dict[str, object] | None = param(None, doc=shared.REPLAY_BUFFER_KWARGS)
    optimize_memory_usage: bool = param(False, doc=shared.OPTIMIZE_MEMORY_USAGE)
    n_steps: int = param(1, doc=shared.N_STEP_RETURNS)
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    use_sde_at_warmup: bool = param(False, doc=shared.USE_SDE_AT_WARMUP)
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_range(self, ("buffer_size", "batch_size", "n_steps"), low=1)
        check_range(self, ("learning_starts",), low=0)
        check_range(self, ("gradient_steps",), low=-1)
        check_range(self, ("tau", "gamma"), low=0, high=1)


def take_own_class(cls: Any) -> None:
    """Let a user's class work as for stable-baselines3, unless it, or an algorithm of rlzoo, has a Config."""
    if "Config" in vars(cls) or not issubclass(cls, OnPolicyCollection | OffPolicyCollection):
        return
    base = OnPolicyConfig if issubclass(cls, OnPolicyCollection) else OffPolicyConfig
    if not hasattr(cls, "Config"):
        cls.common_arguments = {**cls.common_arguments, **BASE_ARGUMENTS}
        cls.policy_family, cls.saves_attributes = "own", True
        if base is OnPolicyConfig:
            cls.policy_aliases = {**ACTOR_CRITIC_POLICIES, **cls.policy_aliases}
        inherited = cls.setup_optimizers
        if is_own(inherited):
            cls.setup_optimizers = lambda model: setup_optimizers(model, inherited)
        if is_own(cls.state):
            cls.state = state_of
    elif not issubclass(cls.Config, base):
        return
    cls.Config = config_of(cls, getattr(cls, "Config", base), cls.common_arguments)
    cls.own_names = frozenset(field_names(cls.Config)) - {*field_names(base)}
    if not is_own(cls.__init__):
        cls.__init__ = _noting_arguments(cls.__init__)
        cls.defers_setup = base is OffPolicyConfig and not is_own(cls._setup_model)


def _noting_arguments(constructor: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that notes its arguments, not all of which it gives to the base class."""
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def noting(model: Any, *args: object, **kwargs: object) -> None:
        given = {**signature.bind(model, *args, **kwargs).arguments, **kwargs}
        known = {name: given[name] for name in model.own_names if name in given}
        model.own_arguments = {**known, **model.own_arguments}
        constructor(model, *args, **kwargs)
        is_due = model.setup_is_due and given.get("_init_setup_model", True)
        if is_due and type(model).__init__ is noting and not hasattr(model, "policy"):
            model.finish_setup()

    return noting


def attributes_of_own(cls: type, own: frozenset[str]) -> frozenset[str]:
    """Return those parameters of a user's class that are attributes of another kind, such as properties."""
    return frozenset(name for name in own if not _is_hyperparameter(getattr(cls, name, None)))


def _is_hyperparameter(attribute: object) -> bool:
    getter = getattr(attribute, "fget", None)
    return attribute is None or getattr(getter, "__qualname__", "").startswith("_hyperparameter_property.")


def setup_optimizers(model: Any, of_whole_policy: Callable[[Any], None]) -> None:
    """Make optimisers for a policy of rlzoo; a user's policy that is derived from none of these has its own.

    :param of_whole_policy: makes one for all parameters
    """
    policy = model.policy
    if isinstance(policy, ContinuousPolicy):
        optimize_actor_and_critic(model)
    elif isinstance(policy, ActorCriticPolicy | DQNPolicy):
        if isinstance(policy, DQNPolicy):
            policy.target_net().requires_grad_(False)
        of_whole_policy(model)


def config_of(cls: type, base: type, common: Mapping[str, object]) -> type:
    """Return the Config of a user's class: the fields of `base` and the parameters of its constructor.

    :param base: Config of the class that it is derived from
    :param common: arguments that every algorithm takes, which are no hyperparameters
    :raises UserError: a parameter has the name of an attribute that agents need
    """
    known = {"policy", "env", *field_names(base), *common}
    own = {name: item for name, item in constructor_parameters(cls).items() if name not in known}
    if taken := sorted(own.keys() & RESERVED):
        raise UserError(f"{cls.__name__}: rename the parameter {taken[0]!r}, which is an attribute of agents")
    fields = [(name, "object", _field(parameter.default)) for name, parameter in own.items()]
    made = dataclasses.make_dataclass("Config", fields, bases=(base,), frozen=True, kw_only=True)
    made.__module__, made.__qualname__ = cls.__module__, f"{cls.__qualname__}.Config"
    return made


def _field(default: object) -> Any:
    if default is inspect.Parameter.empty:
        default = None
    if type(default).__hash__ is None:  # a list, a dictionary or an array
        return dataclasses.field(default_factory=lambda: default)
    return dataclasses.field(default=default)


def make_own(cls: Any, policy: object, arguments: Mapping[str, object]) -> Any:
    """Return an agent of a user's class as a file describes it; its networks are yet to be built.

    Its constructor gets what its parameters name. Hyperparameters that it makes something else of, or
    gives to the base class by itself, get the values of the file afterwards.

    :raises UnknownArgument: neither a hyperparameter nor an argument
    """
    known = {*field_names(cls.Config), *cls.common_arguments}
    if unknown_names := sorted(arguments.keys() - known):
        raise unknown("hyperparameter", unknown_names[0], known, UnknownArgument)
    named, passes_on = constructor_parameters(cls), _passes_on(cls)
    given = {name: value for name, value in arguments.items() if name in named}
    for name, value in {"device": arguments["device"], "_init_setup_model": False}.items():
        if name in named or passes_on:
            given[name] = value
    model = _constructed(cls, {"policy": policy, "env": None, **given})
    model.replace_config(**{name: arguments[name] for name in field_names(cls.Config) if name in arguments})
    for name in {"policy_kwargs", "stats_window_size", "verbose", "seed"} & arguments.keys():
        setattr(model, name, arguments[name])
    return model


def _constructed(cls: Any, arguments: dict[str, object]) -> Any:
    """Call a constructor, without the arguments that it gives to its base class itself beside `**kwargs`."""
    while True:
        try:
            return cls(**arguments)
        except TypeError as error:
            twice = re.search(r"multiple values for keyword argument '(\w+)'", str(error))
            if twice is None or arguments.pop(twice[1], error) is error:
                raise


def _passes_on(cls: type) -> bool:
    """Return whether the keywords of a user's class reach that of rlzoo, by `**kwargs`."""
    for base in cls.__mro__:
        if "__init__" in vars(base):
            if base.__module__.startswith("rlzoo."):
                return True
            parameters = inspect.signature(vars(base)["__init__"]).parameters.values()
            if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
                return False
    return False


def state_of(self: Any) -> dict[str, object]:
    """Return what a file holds of an agent of a user's class.

    These are the policy, what `_get_torch_save_params` names, the optimisers of the policy and its parts, and
    of the agent's attributes the modules beside the policy, the optimisers, the learned tensors and the
    action noise.
    """
    state: dict[str, object] = {"policy": self.policy}
    for path, module in self.policy.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, torch.optim.Optimizer):
                state[f"{path or 'policy'}.{name}"] = value
    parts = {id(module) for module in self.policy.modules()}
    for name, value in vars(self).items():
        is_learned = isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf
        is_module = isinstance(value, nn.Module) and id(value) not in parts
        if is_learned or is_module or isinstance(value, torch.optim.Optimizer | ActionNoise):
            state[name] = value
    for name in itertools.chain(*self._get_torch_save_params()):
        state.setdefault(name, operator.attrgetter(name)(self))
    return state
