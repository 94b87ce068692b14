"""Actor-critic with a Kronecker-factored trust region (Wu et al. 2017, https://arxiv.org/abs/1708.05144).

One natural gradient step per rollout on the objective of A2C, for actor and critic at once:

    L(theta) = E[ log pi(a|s) A - vf_coef (V - R)^2 + ent_coef H ]

The Fisher matrix is that of p(a, v|s) = pi(a|s) p(v|s) with a Gaussian p(v|s) around V(s) (section 3.1),
whose samples are actions of the policy and values with noise; `sampled_log_likelihood` has its scale. The
step is as long as the trust region allows, and at most `learning_rate` (section 3.3); see rlzoo.optim.kfac.

Departures from the paper: the norm of a step is bounded, too (not that of the gradient, which says little
about the step, and would stop learning where values are large and wrong); averages of the factors start as
plain means, so that no other optimiser is needed at first; with `async_eigen_decomp` the eigendecomposition
is computed in the background and used exactly one decomposition later, instead of whenever it is ready;
layers with more than 1,024 inputs are decomposed more rarely than `kfac_update` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from gymnasium import spaces

from rlzoo.accel.flat_parameters import FlatParameters, without_dynamo
from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.buffers.rollout_buffer import RolloutBuffer
from rlzoo.core.errors import UserError
from rlzoo.core.returns import explained_variance
from rlzoo.core.schedules import Counters, lr_schedule
from rlzoo.core.types import Metrics
from rlzoo.distributions import Distribution
from rlzoo.networks.lstm import LayerNormLSTMCell
from rlzoo.optim.kfac import KFAC
from rlzoo.optim.kfac_factors import KroneckerFactors
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Choice, Float, Int, OneOrSampled, SearchSpace


@dataclass(frozen=True, kw_only=True)
class ACKTRConfig:
    learning_rate: ScheduleLike = param(
        0.25,
        doc="upper bound on eta, the factor on the natural gradient; a number or a schedule; kfac_clip and"
        " max_grad_norm lower it further",
        section="optimisation",
    )
    n_steps: int = param(20, doc=shared.N_STEPS.plus("each rollout is one natural gradient step"))
    gamma: float = param(0.99, doc=shared.GAMMA)
    gae_lambda: float | None = param(None, doc=shared.GAE_LAMBDA.plus("None: n-step returns"))
    ent_coef: float = param(0.01, doc=shared.ENT_COEF)
    vf_coef: float = param(0.25, doc=shared.VF_COEF)
    vf_fisher_coef: float = param(
        1.0,
        doc="weight of the value function in the Fisher matrix; raise it for smaller steps of the"
        " value function",
        section="trust region",
    )
    max_grad_norm: float = param(
        0.5,
        doc="upper bound on the L2 norm of a step (eta times the natural gradient)",
        section="optimisation",
    )
    kfac_clip: float = param(
        0.001,
        doc="upper bound on the KL divergence of a step (section 3.3); lower it for smaller policy updates",
        section="trust region",
    )
    lr_schedule: str = param("linear", doc=shared.LR_SCHEDULE)
    kfac_update: int = param(
        1,
        doc="updates between two eigendecompositions of the Fisher factors; more are faster and less"
        " accurate",
        section="trust region",
    )
    async_eigen_decomp: bool = param(
        False,
        doc="decompose the Fisher factors while the next rollout is collected, and use the result"
        " one update later",
        section="trust region",
    )
    momentum: float = param(
        0.9, doc="weight of previous steps in the current one, in [0, 1)", section="optimisation"
    )
    damping: float = param(
        0.01,
        doc="added to the eigenvalues of the Fisher matrix; raise it if training is unstable",
        section="trust region",
    )
    stats_decay: float = param(
        0.99,
        doc="decay per update of the running averages of the Fisher factors, in [0, 1)",
        section="trust region",
    )

    def __post_init__(self) -> None:
        check_range(self, ("n_steps", "kfac_update"), low=1)
        check_range(self, ("gamma", "gae_lambda"), low=0, high=1)
        check_range(self, ("max_grad_norm", "kfac_clip", "damping"), low=0, above=True)
        check_range(self, ("learning_rate", "vf_coef", "vf_fisher_coef"), low=0)
        for name in ("momentum", "stats_decay"):
            if not 0 <= getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 0 and below 1, not {getattr(self, name)!r}")
        lr_schedule(self.lr_schedule, 1.0)  # that there is one of this name


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Float(1e-3, 1.0, log=True),
    "lr_schedule": Choice("constant", "linear"),
    "n_steps": Int(4, 2048, log=True),
    "gamma": ranges.GAMMA,
    "gae_lambda": OneOrSampled(None, ranges.GAE_LAMBDA),
    "ent_coef": ranges.ENT_COEF,
    "vf_coef": Float(0.1, 1.0),
    "max_grad_norm": Float(0.3, 10.0, log=True),
    "kfac_clip": Float(1e-4, 1e-2, log=True),
    "damping": Float(1e-3, 1e-1, log=True),
    **ranges.ACTOR_CRITIC_NETWORKS,
}


def acktr_loss(
    values: torch.Tensor,
    log_probs: torch.Tensor,
    entropy: torch.Tensor | None,
    advantages: torch.Tensor,
    returns: torch.Tensor,
    config: ACKTRConfig,
) -> tuple[torch.Tensor, Metrics]:
    """Compute the negated objective on one rollout; every argument is [n_steps * n_envs].

    :return: the scalar loss, and metrics as detached tensors
    """
    policy_loss = -(advantages * log_probs).mean()
    value_loss = F.mse_loss(values, returns)
    entropy_loss = log_probs.mean() if entropy is None else -entropy.mean()
    loss = policy_loss + config.vf_coef * value_loss + config.ent_coef * entropy_loss
    return loss, {
        "loss": loss.detach(),
        "policy_loss": policy_loss.detach(),
        "value_loss": value_loss.detach(),
        "entropy_loss": entropy_loss.detach(),
    }


def sampled_log_likelihood(
    distribution: Distribution, values: torch.Tensor, vf_fisher_coef: float
) -> torch.Tensor:
    """Compute the log-likelihood of sampled actions and values, [batch], whose derivatives make the Fisher
    matrix.

    For the values that is up to a constant a Gaussian with variance 1 / (2 vf_fisher_coef), while the drawn
    values have variance 1, as in OpenAI Baselines. So the critic's Fisher information of one value is
    4 vf_fisher_coef^2: 4 by default, not the 1 of a Gaussian with variance 1.

    :param values: means of the values, [batch]
    """
    actions = distribution.sample().detach()
    noisy = (values + torch.randn_like(values)).detach()
    return distribution.log_prob(actions) - vf_fisher_coef * (values - noisy).square()


class ACKTR(OnPolicyAlgorithm):
    """ACKTR for Box and Discrete actions.

    Example:
        >>> from rlzoo import ACKTR, make_vec_env
        >>> model = ACKTR("MlpPolicy", make_vec_env("CartPole-v1", 8)).learn(100_000)
    """

    Config = ACKTRConfig
    takes_tensors = True
    whole_rollouts = True
    search_space = SEARCH_SPACE
    config: ACKTRConfig
    action_spaces = (spaces.Box, spaces.Discrete)
    needs_old_values = False
    default_log_interval = 100
    divergence_suspects = ("learning_rate", "kfac_clip", "max_grad_norm", "vf_coef")

    def policy_arguments(self) -> dict[str, Any]:
        arguments = super().policy_arguments()
        for name in ("optimizer_class", "optimizer_kwargs"):
            if name in arguments:
                raise UserError(f"{name} in policy_kwargs is of no use: the optimiser of ACKTR is K-FAC")
        return arguments

    def setup_optimizers(self) -> None:
        config = self.config
        self.flat = FlatParameters(self.policy.parameters())
        self.factors = KroneckerFactors(self.policy, config.async_eigen_decomp, diagonal=(LayerNormLSTMCell,))
        self.policy.optimizer = without_dynamo(KFAC)(
            self.flat,
            self.factors,
            lr=self.schedules["learning_rate"](1.0),
            momentum=config.momentum,
            damping=config.damping,
            kfac_clip=config.kfac_clip,
            max_grad_norm=config.max_grad_norm,
        )
        self.network_optimizer = NetworkOptimizer(self.policy, self.flat)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "policy.optimizer.factors": self.factors}

    def update(self, rollout: RolloutBuffer, counters: Counters) -> Metrics:
        config, policy, optimizer = self.config, self.policy, self.policy.optimizer
        learning_rate = self.set_learning_rate(optimizer, counters)
        for name in ("momentum", "damping", "kfac_clip", "max_grad_norm"):
            optimizer.param_groups[0][name] = getattr(config, name)  # which may have been assigned since

        batch = self.read_rollout(rollout)
        old = self.baseline(rollout, batch) if self.has_train_mode_layers else None
        self.set_training_mode(True)
        with self.factors.recording():
            values, log_probs, entropy = policy.evaluate_actions(batch.obs, batch.actions, **batch.context)
        values = values.flatten()
        # evaluate_actions has left the distribution of these observations in the policy
        log_likelihood = sampled_log_likelihood(policy.action_dist, values, config.vf_fisher_coef)
        self.factors.update(log_likelihood, config.stats_decay, config.kfac_update)

        baseline, next_values = old or self.baseline(rollout, batch, values)
        advantages, returns = rollout.advantages_and_returns(
            baseline, next_values, config.gamma, 1.0 if config.gae_lambda is None else config.gae_lambda
        )
        rollout.learned = (baseline, log_probs.detach(), advantages, returns)
        advantages_, returns_ = self.flat_columns(advantages, returns)

        loss, metrics = acktr_loss(values, log_probs, entropy, advantages_, returns_, config)
        self.network_optimizer.step(loss)
        counters.n_updates += 1

        metrics = self.summarise([metrics], counters)
        metrics.update(explained_variance=explained_variance(baseline, returns), learning_rate=learning_rate)
        if hasattr(policy, "log_std"):
            metrics["std"] = policy.log_std.detach().exp().mean()
        return metrics
