"""A configuration after everything in it has been checked and looked up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rlzoo.algorithms.base import Algorithm
from rlzoo.experiment.noise_config import NoisePlan

Class = tuple[Callable[..., Any], dict[str, object]]
"""Something to call, and the keyword arguments that the hyperparameters give it."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentConfig:
    """Part of a configuration from which environments are built."""

    n_envs: int = 1  # environments to train in
    frame_stack: int = 1  # observations in one; 1: no stacking
    normalize: dict[str, Any] | None = None  # arguments of VecNormalize; None: no normalisation
    env_kwargs: dict[str, object] = field(default_factory=dict)  # arguments of the environment
    eval_env_kwargs: dict[str, object] = field(default_factory=dict)  # on top of env_kwargs, for evaluation
    monitor_kwargs: dict[str, Any] = field(default_factory=dict)  # arguments of Monitor
    env_wrappers: tuple[Class, ...] = ()  # of each environment, the first innermost
    vec_env_wrappers: tuple[Class, ...] = ()  # of the vectorised environment, the first innermost
    callbacks: tuple[Class, ...] = ()  # besides those for checkpoints and evaluation


@dataclass(frozen=True, kw_only=True)
class ResolvedConfig(EnvironmentConfig):
    """The configuration of one training: classes are imported, values checked and of the right type."""

    algo: str  # as the user named it: "ppo", "her", "ppo2"
    algorithm: type[Algorithm]  # the class that learns
    values: dict[str, object]  # current names, plain values: what config.yml holds
    hyperparams: dict[str, Any]  # the fields of the algorithm's Config that are set
    config: Any  # the algorithm's Config of them
    policy: str | type  # a name, or a class
    policy_kwargs: dict[str, object] | None = None  # arguments of the policy
    stats_window_size: int = 100  # episodes that logged means are over
    noise: NoisePlan | None = None  # becomes a hyperparameter when the action space is known
    n_timesteps: int = 0  # environment steps to train for
    matmul_precision: str = "highest"  # highest, high or medium

    def named_classes(self) -> dict[str, object]:
        """Return the classes that the hyperparameters name, by their dotted names."""
        classes: dict[str, object] = {}
        pending: list[object] = [self.policy, self.policy_kwargs, self.hyperparams]
        while pending:
            value = pending.pop()
            if isinstance(value, Mapping):
                pending += value.values()
            elif isinstance(value, list | tuple):
                pending += value
            elif callable(value) and hasattr(value, "__qualname__"):
                classes[f"{value.__module__}.{value.__qualname__}"] = value
        return classes
