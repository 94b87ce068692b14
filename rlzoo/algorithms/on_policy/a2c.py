"""Advantage actor-critic, the synchronous form of A3C (Mnih et al. 2016, https://arxiv.org/abs/1602.01783).

One gradient step per rollout on the policy gradient with an entropy bonus (section 4 of the paper) and
the value loss:

    L(theta) = E[ log pi(a|s) A - vf_coef (V - R)^2 + ent_coef H ]

Departures from the paper: copies of the environment step together instead of asynchronous workers; the
advantage is the generalised one (`gae_lambda` 1 gives the paper's n-step return); gradients are clipped
by their norm; RMSprop adds epsilon outside the root (inside in the paper, which
`policy_kwargs={"optimizer_class": RMSpropTFLike}` does).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from rlzoo.accel.fast_mlp import Loss, actor_critic_loss, takes_arrays
from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer
from rlzoo.core.returns import explained_variance, policy_gradient
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.optim.network_optimizer import mean_over_rows, mean_squared_error
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Choice, Float, Int, Scheduled, SearchSpace


@dataclass(frozen=True, kw_only=True)
class A2CConfig:
    learning_rate: ScheduleLike = param(7e-4, doc=shared.LEARNING_RATE)
    n_steps: int = param(5, doc=shared.N_STEPS.plus("each rollout is one gradient step"))
    gamma: float = param(0.99, doc=shared.GAMMA)
    gae_lambda: float = param(1.0, doc=shared.GAE_LAMBDA)
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    vf_coef: float = param(0.5, doc=shared.VF_COEF)
    max_grad_norm: float = param(0.5, doc=shared.MAX_GRAD_NORM)
    rms_prop_eps: float = param(1e-5, doc=shared.RMS_PROP_EPS)
    use_rms_prop: bool = param(
        True,
        doc="optimise with RMSprop, as the paper does; False: the policy's optimiser (Adam unless"
        " policy_kwargs name another)",
        section="optimisation",
    )
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    normalize_advantage: bool = param(False, doc=shared.NORMALIZE_ADVANTAGE)

    def __post_init__(self) -> None:
        check_range(self, ("n_steps",), low=1)
        check_range(self, ("gamma", "gae_lambda"), low=0, high=1)
        check_range(self, ("max_grad_norm", "rms_prop_eps"), low=0, above=True)
        check_range(self, ("learning_rate", "vf_coef"), low=0)


Evaluated: TypeAlias = "tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]"
"""Values [B, 1], log-probabilities [B] and entropies [B] of a policy."""

SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "n_steps": Int(2, 256, log=True),
    "gamma": ranges.GAMMA,
    "gae_lambda": ranges.GAE_LAMBDA,
    "normalize_advantage": Choice(False, True),
    "ent_coef": ranges.ENT_COEF,
    "vf_coef": Float(0.1, 1.0),
    "max_grad_norm": Float(0.3, 5.0, log=True),
    "use_rms_prop": Choice(True, False),
    **ranges.STATE_DEPENDENT_NOISE,
    **ranges.ACTOR_CRITIC_NETWORKS,
}


def a2c_loss(
    values: torch.Tensor,
    log_probs: torch.Tensor,
    entropy: torch.Tensor | None,
    advantages: torch.Tensor,
    returns: torch.Tensor,
    config: A2CConfig,
    moments: tuple[torch.Tensor, torch.Tensor] | None = None,
    in_arrays: bool = False,
) -> tuple[Loss, Metrics]:
    """Compute the negated objective on one rollout; every argument is [n_steps * n_envs].

    Of several agents, without `normalize_advantage`, it is [n_seeds, n_steps * n_envs].

    :param values: may have a last axis of one column
    :param moments: mean and standard deviation of the advantages of all ranks; None: of `advantages`
    :param in_arrays: compute it with its gradients, faster, in NumPy, if possible; for `NetworkOptimizer`
    :return: the loss, a scalar or (`in_arrays`) `KnownGradients`; metrics, [n_seeds] each of several agents
    """
    if config.normalize_advantage and len(advantages) > 1:
        mean, std = moments or (advantages.mean(), advantages.std())
        advantages = (advantages - mean) / (std + 1e-8)
    if in_arrays and takes_arrays(log_probs, entropy):
        objective = policy_gradient(log_probs.detach().numpy(), advantages.numpy())
        return actor_critic_loss(values, log_probs, entropy, returns, objective, config)
    values = values.view_as(returns)
    policy_loss = -mean_over_rows(advantages * log_probs)
    value_loss = mean_squared_error(values, returns)
    # Without a closed form, -log pi(a|s) is an estimate of the entropy from the sampled actions.
    entropy_loss = mean_over_rows(log_probs) if entropy is None else -mean_over_rows(entropy)
    loss = policy_loss + config.vf_coef * value_loss
    if config.ent_coef != 0:  # skip the entropy term when its coefficient is 0
        loss = loss + config.ent_coef * entropy_loss
    return loss, {
        "loss": loss.detach(),
        "policy_loss": policy_loss.detach(),
        "value_loss": value_loss.detach(),
        "entropy_loss": entropy_loss.detach(),
    }


class A2C(OnPolicyAlgorithm):
    """A2C for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Example:
        >>> from rlzoo import A2C, make_vec_env
        >>> model = A2C("MlpPolicy", make_vec_env("CartPole-v1", 8)).learn(100_000)
    """

    Config = A2CConfig
    takes_tensors = True
    whole_rollouts = True
    learns_from_get = True
    search_space = SEARCH_SPACE
    config: A2CConfig
    needs_old_values = False
    default_log_interval = 100
    data_parallel = True

    def policy_arguments(self) -> dict[str, Any]:
        arguments = super().policy_arguments()
        if self.config.use_rms_prop and "optimizer_class" not in arguments:
            options = {"alpha": 0.99, "eps": self.config.rms_prop_eps}
            arguments["optimizer_class"] = torch.optim.RMSprop
            arguments["optimizer_kwargs"] = {**options, **(arguments.get("optimizer_kwargs") or {})}
        return arguments

    def update(self, rollout: RolloutBuffer, counters: Counters) -> Metrics:
        config, policy = self.config, self.policy
        learning_rate = self.set_learning_rate(policy.optimizer, counters)

        batch = self.read_rollout(rollout)
        before = self.has_train_mode_layers or self.is_captured or rollout.has_own_get
        old = self.old_values(rollout, batch) if before else None
        self.set_training_mode(True)
        evaluated: Evaluated | None = None
        if old is None:  # one forward pass for both
            ours = self.gradient_step.__module__.startswith("rlzoo.")  # else it may call loss.backward()
            with self.network_optimizer.recorded() if ours else nullcontext():
                evaluated = policy.evaluate_actions(batch.obs, batch.actions, **batch.context)
            old = evaluated[1].detach(), *self.baseline(rollout, batch, evaluated[0].flatten())
        log_probs, baseline, next_values = old
        advantages, returns = rollout.advantages_and_returns(
            baseline, next_values, config.gamma, config.gae_lambda
        )
        batch.advantages, batch.returns = self.flat_columns(advantages, returns)
        rollout.learned = (baseline, log_probs, advantages, returns)
        batches = self.own_minibatches(rollout) if rollout.has_own_get else [batch]
        history = [self.gradient_step(one, evaluated=evaluated) for one in batches]
        counters.n_updates += 1

        metrics = self.summarise(history, counters)
        metrics.update(explained_variance=explained_variance(baseline, returns), learning_rate=learning_rate)
        if hasattr(policy, "log_std"):
            metrics["std"] = policy.log_std.detach().exp().mean()
        return metrics

    def gradient_step(self, batch: RolloutBatch, evaluated: Evaluated | None) -> Metrics:
        """Take a gradient step on a rollout.

        :param batch: with `advantages` and `returns`
        :param evaluated: what `evaluate_actions` returns for it, where that is known
        """
        policy, config = self.policy, self.config
        values, log_probs, entropy = evaluated or policy.evaluate_actions(
            batch.obs, batch.actions, **batch.context
        )
        moments = None if self.ranks is None else self.ranks.moments(batch.advantages)
        loss, metrics = a2c_loss(
            values,
            log_probs,
            entropy,
            batch.advantages,
            batch.returns,
            config,
            moments,
            in_arrays=True,
        )
        self.network_optimizer.step(loss, config.max_grad_norm)
        return metrics
