"""Behaviour cloning (Pomerleau 1991, https://doi.org/10.1162/neco.1991.3.1.88).

Learns to act as demonstrations do, without a reward and without stepping the environment. On minibatches of
the expert's steps it lowers

    J(pi) = -E[log pi(a|s)]                                                Discrete
    J(pi) = E[(a - mu(s))^2 + log sigma + (a - mu(s))^2 / (2 sigma^2)]     Box, pi = N(mu(s), sigma^2)

where the mean over the dimensions of the action is taken, and mu is held fixed in the last term: sigma
becomes the spread of what mu leaves unexplained, and the gradient of mu is not divided by sigma^2, as it
would be with the plain likelihood, which fits poorly predicted actions too little (Seitzer et al. 2022,
https://arxiv.org/abs/2203.09168). `ent_coef` adds an entropy bonus.

A timestep is a step of the expert that was learned from: `learn(total_timesteps)` draws so many of them, at
random and with replacement. Minibatches of a recurrent policy are whole episodes. The critic of the
policy does not learn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from gymnasium import spaces

from rlzoo.algorithms.base import Algorithm
from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.buffers.demonstrations import check_source, is_given
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.distributions import DiagGaussian
from rlzoo.envs.vec_env.vec_env import VecEnv
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Choice, Float, Int, OneOrSampled, Scheduled, SearchSpace
from rlzoo.training.supervised import Demonstrations, Examples, demonstrations_of, imitation_loss, supervised


@dataclass(frozen=True, kw_only=True)
class BCConfig:
    expert_dataset: Any = param(None, doc=shared.EXPERT_DATASET)
    learning_rate: ScheduleLike = param(1e-3, doc=shared.LEARNING_RATE)
    batch_size: int = param(64, doc="expert transitions per minibatch", section="optimisation")
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    max_grad_norm: float | None = param(None, doc=shared.MAX_GRAD_NORM.plus("None: no clipping"))

    def __post_init__(self) -> None:
        check_source(self.expert_dataset)
        check_range(self, ("batch_size",), low=1)
        check_range(self, ("learning_rate", "ent_coef"), low=0)
        check_range(self, ("max_grad_norm",), low=0, above=True)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    "ent_coef": ranges.ENT_COEF,
    "max_grad_norm": OneOrSampled(None, Float(0.1, 10.0, log=True)),
    "policy_kwargs.net_arch": ranges.NET_ARCH,
    "policy_kwargs.activation_fn": ranges.ACTIVATION_FN,
    "policy_kwargs.ortho_init": Choice(True, False),
}


def bc_loss(policy: Any, examples: Examples, ent_coef: float) -> tuple[torch.Tensor, Metrics]:
    """Compute J(pi) - ent_coef H on one minibatch.

    :return: the scalar loss; metrics, detached
    """
    distribution = policy.get_distribution(examples.obs, **examples.context)
    loss, metrics = imitation_loss(policy, examples, distribution)
    if isinstance(distribution, DiagGaussian):
        log_std = distribution.log_std  # [n_dimensions]
        errors = (examples.actions.reshape(len(examples), -1) - distribution.mean).detach()
        loss = loss + (log_std + 0.5 * errors.square() * torch.exp(-2 * log_std)).mean()
        metrics["std"] = log_std.detach().exp().mean()
    if ent_coef != 0:
        entropy = distribution.entropy().mean()
        loss = loss - ent_coef * entropy
        metrics["entropy_loss"] = -entropy.detach()
    return loss, metrics


class BC(Algorithm):
    """Behaviour cloning for Box and Discrete actions.

    Example:
        >>> from rlzoo import BC
        >>> model = BC("MlpPolicy", "CartPole-v1", expert_dataset="expert.npz").learn(100_000)
    """

    Config = BCConfig
    search_space = SEARCH_SPACE
    config: BCConfig
    loop = supervised
    action_spaces = (spaces.Box, spaces.Discrete)
    exclude_from_checkpoint = ("expert_dataset",)
    default_log_interval = 10
    divergence_suspects = ("learning_rate", "max_grad_norm")
    _demonstrations: Demonstrations | None = None

    @property
    def demonstrations(self) -> Demonstrations:
        """The demonstrations, as the agent sees them in its present environment."""
        self._demonstrations = demonstrations_of(self, self._demonstrations)
        return self._demonstrations

    def _setup_model(self) -> None:
        super()._setup_model()
        if is_given(self.config.expert_dataset) and self.env is not None:
            _ = self.demonstrations  # what is wrong with them is said now

    def _start_episodes(self, env: VecEnv, resume: bool) -> None:
        _ = self.demonstrations  # a VecNormalize sees them before it sees anything else
        super()._start_episodes(env, resume)

    def update(self, examples: Examples, counters: Counters) -> Metrics:
        """Take one gradient step on a minibatch of demonstrations."""
        learning_rate = self.set_learning_rate(self.policy.optimizer, counters)
        loss, metrics = bc_loss(self.policy, examples, self.config.ent_coef)
        self.network_optimizer.step(loss, self.config.max_grad_norm)
        counters.n_updates += 1
        return {**metrics, "learning_rate": learning_rate}
