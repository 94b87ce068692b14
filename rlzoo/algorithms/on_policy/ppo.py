"""Proximal policy optimisation (Schulman et al. 2017, https://arxiv.org/abs/1707.06347).

Maximises the clipped surrogate of eq. 7 in several passes over each rollout, with a value loss and an
entropy bonus (eq. 9), where r = pi(a|s) / pi_old(a|s):

    L(theta) = E[ min(r A, clip(r, 1 - eps, 1 + eps) A) - vf_coef (V - R)^2 + ent_coef H ]

Departures from the paper: advantages are normalised per minibatch, gradients are clipped by their norm, the
value function may be clipped as well (off by default), and an update stops early when the KL divergence
from the old policy exceeds 1.5 target_kl (off by default). A last minibatch of one sample is not
normalised, as in stable-baselines3; a warning is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

import torch

from rlzoo.accel.fast_mlp import Loss, actor_critic_loss, takes_arrays
from rlzoo.algorithms.hyperparameters import ScheduleLike, check_range
from rlzoo.algorithms.on_policy.on_policy_algorithm import OnPolicyAlgorithm
from rlzoo.buffers.rollout_buffer import RolloutBatch, RolloutBuffer, single_minibatch, uneven_minibatches
from rlzoo.core.errors import UserError
from rlzoo.core.returns import clipped_surrogate, explained_variance
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, StochasticPolicy
from rlzoo.optim.network_optimizer import mean_over_rows, mean_squared_error
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Float, Int, OneOrSampled, PowerOfTwo, Scheduled, SearchSpace


@dataclass(frozen=True, kw_only=True)
class PPOConfig:
    learning_rate: ScheduleLike = param(3e-4, doc=shared.LEARNING_RATE)
    n_steps: int = param(2048, doc=shared.N_STEPS)
    batch_size: int = param(64, doc=shared.BATCH_SIZE)
    n_epochs: int = param(10, doc=shared.N_EPOCHS)
    gamma: float = param(0.99, doc=shared.GAMMA)
    gae_lambda: float = param(0.95, doc=shared.GAE_LAMBDA)
    clip_range: ScheduleLike = param(0.2, doc=shared.CLIP_RANGE)
    clip_range_vf: ScheduleLike | None = param(None, doc=shared.CLIP_RANGE_VF)
    normalize_advantage: bool = param(True, doc=shared.NORMALIZE_ADVANTAGE)
    ent_coef: float = param(0.0, doc=shared.ENT_COEF)
    vf_coef: float = param(0.5, doc=shared.VF_COEF)
    max_grad_norm: float = param(0.5, doc=shared.MAX_GRAD_NORM)
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    target_kl: float | None = param(None, doc=shared.TARGET_KL_STOP)

    def __post_init__(self) -> None:
        check_ppo(self)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(5e-6, 1e-2, log=True)),
    "n_steps": PowerOfTwo(8, 4096),
    "batch_size": PowerOfTwo(8, 1024),
    "n_epochs": Int(1, 20, log=True),
    "gamma": ranges.GAMMA,
    "gae_lambda": ranges.GAE_LAMBDA,
    "clip_range": Scheduled(Float(0.05, 0.5)),
    "clip_range_vf": OneOrSampled(None, Scheduled(Float(0.05, 1.0, log=True))),
    "ent_coef": ranges.ENT_COEF,
    "vf_coef": Float(0.1, 1.0),
    "max_grad_norm": Float(0.3, 5.0, log=True),
    **ranges.STATE_DEPENDENT_NOISE,
    **ranges.ACTOR_CRITIC_NETWORKS,
}


def check_ppo(config: Any) -> None:
    """Check the hyperparameters that PPO and its variants share."""
    check_range(config, ("n_steps", "n_epochs", "batch_size"), low=1)
    check_range(config, ("gamma", "gae_lambda"), low=0, high=1)
    check_range(config, ("clip_range", "clip_range_vf", "target_kl", "max_grad_norm"), low=0, above=True)
    check_range(config, ("learning_rate", "vf_coef"), low=0)
    if config.batch_size == 1 and config.normalize_advantage:
        raise UserError("batch_size must be at least 2 when advantages are normalised (normalize_advantage)")


def ppo_loss(
    policy: StochasticPolicy,
    batch: RolloutBatch,
    clip_range: float,
    clip_range_vf: float | None,
    config: PPOConfig,
    in_arrays: bool = False,
) -> tuple[Loss, Metrics]:
    """Compute the negated objective of eq. 9 on one minibatch.

    :param batch: with `advantages, returns, values, log_probs`, [n_rows]; [n_seeds, n_rows] of several agents
    :param in_arrays: compute it with its gradients, faster, in NumPy, if possible; for `NetworkOptimizer`
    :return: the loss, a scalar or (`in_arrays`) `KnownGradients`; metrics, [n_seeds] each of several agents
    """
    values, log_probs, entropy = policy.evaluate_actions(batch.obs, batch.actions, **batch.context)
    advantages = batch.normalized_advantages() if config.normalize_advantage else batch.advantages
    if in_arrays and clip_range_vf is None and takes_arrays(log_probs, entropy):
        new, old = log_probs.detach().numpy(), batch.log_probs.numpy()
        surrogate = clipped_surrogate(new, old, advantages.numpy(), clip_range)
        return actor_critic_loss(values, log_probs, entropy, batch.returns, surrogate, config)

    log_ratio = log_probs - batch.log_probs
    ratio = log_ratio.exp()
    clipped_ratio = ratio.clamp(1 - clip_range, 1 + clip_range)
    policy_loss = -mean_over_rows(torch.minimum(advantages * ratio, advantages * clipped_ratio))  # eq. 7

    values = values.view_as(batch.returns)
    if clip_range_vf is not None:
        values = batch.values + (values - batch.values).clamp(-clip_range_vf, clip_range_vf)
    value_loss = mean_squared_error(values, batch.returns)

    # Without a closed form, -log pi(a|s) is an estimate of the entropy from the sampled actions.
    entropy_loss = mean_over_rows(log_probs) if entropy is None else -mean_over_rows(entropy)
    loss = policy_loss + config.vf_coef * value_loss
    if config.ent_coef != 0:  # skip the entropy term when its coefficient is 0
        loss = loss + config.ent_coef * entropy_loss

    with torch.no_grad():
        return loss, {
            "loss": loss.detach(),
            "policy_gradient_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy_loss": entropy_loss.detach(),
            # the estimator k3 of http://joschu.net/blog/kl-approx.html
            "approx_kl": (ratio - 1 - log_ratio).mean(-1),
            "clip_fraction": (ratio != clipped_ratio).float().mean(-1),
        }


class PPO(OnPolicyAlgorithm):
    """PPO for Box, Discrete, MultiDiscrete and MultiBinary actions.

    Example:
        >>> from rlzoo import PPO, make_vec_env
        >>> model = PPO("MlpPolicy", make_vec_env("CartPole-v1", 8), n_steps=256).learn(100_000)
    """

    Config: ClassVar[type] = PPOConfig
    takes_tensors = True
    learns_from_get = True
    search_space = SEARCH_SPACE
    config: Any  # variants have their own Config
    default_log_interval = 1
    data_parallel = True

    @classmethod
    def n_envs_problem(cls, config: Any, n_envs: int) -> str | None:
        return uneven_minibatches(config.batch_size, config.n_steps, n_envs, config.normalize_advantage)

    @classmethod
    def n_envs_hint(cls, config: Any, n_envs: int) -> str | None:
        return single_minibatch(config.batch_size, config.n_steps, n_envs)

    def update(self, rollout: RolloutBuffer, counters: Counters) -> Metrics:
        config, policy = self.config, self.policy
        learning_rate = self.set_learning_rate(policy.optimizer, counters)
        clip_range = self.schedule("clip_range", counters)
        clip_range_vf = None if config.clip_range_vf is None else self.schedule("clip_range_vf", counters)

        batch = self.read_rollout(rollout)
        batch.log_probs, values, next_values = self.old_values(rollout, batch)
        advantages, returns = rollout.advantages_and_returns(
            values, next_values, config.gamma, config.gae_lambda
        )
        rollout.learned = (values, batch.log_probs, advantages, returns)
        batch.values, batch.advantages, batch.returns = self.flat_columns(values, advantages, returns)

        self.set_training_mode(True)
        history: list[Metrics] = []
        epochs = (self.minibatches(batch, config.batch_size, rollout) for _ in range(config.n_epochs))
        for minibatch in chain.from_iterable(epochs):
            metrics, stop = self.gradient_step(minibatch, clip_range=clip_range, clip_range_vf=clip_range_vf)
            history.append(metrics)
            if stop:
                break
            counters.n_updates += 1

        metrics = self.summarise(history, counters)
        metrics.update(explained_variance=explained_variance(values, returns), learning_rate=learning_rate)
        metrics["clip_range"] = clip_range
        if clip_range_vf is not None:
            metrics["clip_range_vf"] = clip_range_vf
        if hasattr(policy, "log_std"):
            metrics["std"] = policy.log_std.detach().exp().mean()
        return metrics

    def gradient_step(
        self, batch: RolloutBatch, clip_range: float, clip_range_vf: float | None
    ) -> tuple[Metrics, bool]:
        """Take a gradient step on a minibatch, or return True: the policy has changed by `target_kl`."""
        config = self.config
        with self.network_optimizer.recorded():
            loss, metrics = ppo_loss(self.policy, batch, clip_range, clip_range_vf, config, in_arrays=True)
        if config.target_kl is not None and self.over_ranks(metrics["approx_kl"]) > 1.5 * config.target_kl:
            return metrics, True
        self.network_optimizer.step(loss, config.max_grad_norm)
        return metrics, False
