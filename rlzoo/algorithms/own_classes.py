"""Algorithms that users derive from `OnPolicyAlgorithm` or `OffPolicyAlgorithm`, as for stable-baselines3.

Such a class has no `Config`. It has a constructor, which gives some of its arguments to that of the base
class, and a `train`. Its Config is made of the hyperparameters of the base class and of the other parameters
of its constructor, so that all of them are checked, saved and loaded as those of other algorithms.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from rlzoo.algorithms.actor_critic_optimizers import optimize_actor_and_critic
from rlzoo.algorithms.collection import OffPolicyCollection, OnPolicyCollection
from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range, field_names
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.signatures import constructor_parameters
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
        for name, function in (
            ("setup_optimizers", lambda model: setup_optimizers(model, inherited)),
            ("state", state_of),
        ):
            if name not in vars(cls):
                setattr(cls, name, function)
    elif not issubclass(cls.Config, base):
        return
    cls.Config = config_of(cls, getattr(cls, "Config", base), cls.common_arguments)
    if "__init__" in vars(cls):
        cls.__init__ = _noting_arguments(cls.__init__)


def _noting_arguments(constructor: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that notes its arguments, not all of which it gives to the base class."""
    signature = inspect.signature(constructor)

    @functools.wraps(constructor)
    def noting(model: Any, *args: object, **kwargs: object) -> None:
        given = {**signature.bind(model, *args, **kwargs).arguments, **kwargs}
        known = {name: given[name] for name in field_names(model.Config) if name in given}
        model.own_arguments = {**known, **model.own_arguments}
        constructor(model, *args, **kwargs)

    return noting


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
    """
    known = {"policy", "env", *field_names(base), *common}
    fields = [
        (name, "object", _field(parameter.default))
        for name, parameter in constructor_parameters(cls).items()
        if name not in known and not hasattr(cls, name)
    ]
    return dataclasses.make_dataclass(
        f"{cls.__name__}Config", fields, bases=(base,), frozen=True, kw_only=True
    )


def _field(default: object) -> Any:
    if default is inspect.Parameter.empty:
        default = None
    if isinstance(default, list | dict | set):
        return dataclasses.field(default_factory=lambda: default)
    return dataclasses.field(default=default)


def constructor_arguments(cls: type, arguments: Mapping[str, object]) -> dict[str, object]:
    """Return those arguments that the constructor of an algorithm takes, without building networks.

    The others are hyperparameters that the constructor of a user's class gives to the base class by itself.
    """
    if not issubclass(cls.Config, OnPolicyConfig | OffPolicyConfig):  # type: ignore[attr-defined]
        return dict(arguments)
    given = {**arguments, "_init_setup_model": False}
    names = given.keys() if _passes_on(cls) else constructor_parameters(cls).keys()
    return {name: given[name] for name in given.keys() & names}


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


def state_of(model: Any) -> dict[str, object]:
    """Return what a file holds of an agent of a user's class.

    Besides the policy, these are all optimisers, the action noise and the learned tensors that the agent has
    as attributes, such as the logarithm of an entropy coefficient.
    """
    owners = {name: getattr(model.policy, name, None) for name in ("actor", "critic")}
    found = {f"{name}.optimizer": getattr(owner, "optimizer", None) for name, owner in owners.items()}
    state = {"policy": model.policy, "policy.optimizer": getattr(model.policy, "optimizer", None), **found}
    for name, value in vars(model).items():
        is_learned = isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf
        if is_learned or isinstance(value, torch.optim.Optimizer | ActionNoise):
            state[name] = value
    return {name: value for name, value in state.items() if value is not None}
