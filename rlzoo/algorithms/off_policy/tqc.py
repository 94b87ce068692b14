"""Truncated quantile critics (Kuznetsov et al. 2020, https://arxiv.org/abs/2005.04269).

SAC with critics that estimate the distribution of returns by quantiles theta_i(s, a). The quantiles of all
target critics are pooled, and the largest are left out against overestimation: of the m quantiles
of each of n critics at (s', a'), a' ~ pi(.|s'), let z_1, ..., z_k be the smallest k = n (m - d). With

    y_j      = r + gamma (z_j - alpha log pi(a'|s'))

an update takes a gradient step on each of, in this order,

    J(alpha) = E[-log alpha (log pi(a|s) + target_entropy)]
    J(Q)     = E[1 / (n m k) sum over critics, i and j of rho_i(y_j - theta_i(s, a))]
    J(pi)    = E[alpha log pi(a|s) - 1 / (n m) sum over critics and i of theta_i(s, a)],   a ~ pi(.|s)

with rho_i the quantile Huber loss for the probability (2 i - 1) / (2 m). Departures from the paper: log alpha
is what is learned, as in SAC; J(Q) is the mean over the critics, as in the authors' code, not the sum; there
are two critics by default (five in the paper), as in sb3-contrib.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.entropy_coefficient import check_entropy
from rlzoo.algorithms.off_policy.off_policy_algorithm import check_off_policy, weighted_mean
from rlzoo.algorithms.off_policy.quantile_regression import quantile_huber_losses
from rlzoo.algorithms.off_policy.sac import SEARCH_SPACE as SAC_SEARCH_SPACE
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.optim.network_optimizer import mean_over_rows
from rlzoo.params import shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Int, SearchSpace
from rlzoo.policies.continuous_policies import TQCPolicy


@dataclass(frozen=True, kw_only=True)
class TQCConfig:
    learning_rate: ScheduleLike = param(
        3e-4, doc=shared.LEARNING_RATE.plus("the same for actor, critics and entropy coefficient")
    )
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
    ent_coef: float | str = param("auto", doc=shared.TEMPERATURE)
    target_update_interval: int = param(1, doc=shared.TARGET_UPDATE_INTERVAL)
    target_entropy: float | str = param("auto", doc=shared.TARGET_ENTROPY)
    top_quantiles_to_drop_per_net: int = param(
        2,
        doc="d, the number of largest quantiles dropped per critic; raise it if values are overestimated",
        section="critics",
    )
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    use_sde_at_warmup: bool = param(False, doc=shared.USE_SDE_AT_WARMUP)
    random_exploration: float = param(0.0, doc=shared.RANDOM_EXPLORATION)
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_entropy(self)
        check_range(self, ("target_update_interval",), low=1)
        check_range(self, ("top_quantiles_to_drop_per_net",), low=0)


SEARCH_SPACE: SearchSpace = {
    **SAC_SEARCH_SPACE,
    "top_quantiles_to_drop_per_net": Int(0, 8),
    "policy_kwargs.n_critics": Int(1, 5),
}


def truncate_quantiles(quantiles: torch.Tensor, n_drop: int) -> torch.Tensor:
    """Pool the quantiles of all critics and drop the largest, [batch, n_kept] in no particular order.

    :param quantiles: [n_critics, batch, n_quantiles]
    :param n_drop: number of dropped quantiles per critic
    """
    n_critics, _, n_quantiles = quantiles.shape[-3:]
    pooled = quantiles.transpose(-3, -2).flatten(-2)  # [batch, n_critics * n_quantiles]
    if n_drop == 0:
        return pooled
    return pooled.topk(n_critics * (n_quantiles - n_drop), largest=False, sorted=False).values


def tqc_target(policy: TQCPolicy, batch: ReplayBatch, ent_coef: torch.Tensor, n_drop: int) -> torch.Tensor:
    """Return y_j, [batch, n_kept].

    `batch.discounts` is gamma^m for m-step returns, 0 after termination, not after truncation.
    """
    with torch.no_grad():
        actions, log_probs = policy.actor.action_log_prob(batch.next_observations)
        quantiles = policy.critic_target.all_values(batch.next_observations, actions)
        quantiles = truncate_quantiles(quantiles, n_drop)
        values = quantiles.sub_((ent_coef * log_probs).unsqueeze(-1))
        return torch.addcmul(batch.rewards.unsqueeze(-1), batch.discounts.unsqueeze(-1), values)


def tqc_critic_loss(
    quantiles: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None
) -> torch.Tensor:
    """Compute J(Q).

    :param quantiles: theta_i(s, a), [n_critics, batch, n_quantiles]
    :param target: [batch, n_kept]
    """
    shape = quantiles.shape[:-1]
    targets = target.unsqueeze(-3).expand(*shape, -1)  # the same for all critics
    losses = quantile_huber_losses(quantiles.flatten(0, -2), targets.flatten(0, -2), sum_over_quantiles=False)
    return weighted_mean(losses.view(shape), weights, n_axes=2)


def tqc_actor_loss(quantiles: torch.Tensor, log_probs: torch.Tensor, ent_coef: torch.Tensor) -> torch.Tensor:
    """Compute J(pi).

    :param quantiles: quantiles of the critics for the actor's actions, [n_critics, batch, n_quantiles]
    """
    return mean_over_rows(ent_coef * log_probs) - mean_over_rows(quantiles, n_axes=3)


class TQC(ActorCriticAlgorithm):
    """TQC for Box actions.

    Example:
        >>> from rlzoo import TQC
        >>> model = TQC("MlpPolicy", "Pendulum-v1", top_quantiles_to_drop_per_net=2).learn(10_000)
    """

    Config = TQCConfig
    search_space = SEARCH_SPACE
    data_parallel = True
    config: TQCConfig
    policy: TQCPolicy
    policy_family = "tqc"

    def setup_optimizers(self) -> None:
        self._check_dropped(self.config.top_quantiles_to_drop_per_net)
        super().setup_optimizers()

    def replace_config(self, **changes: object) -> None:
        """Change hyperparameters.

        :raises UserError: all quantiles would be dropped, or the agent was built with the present value
        """
        self._check_dropped(changes.get("top_quantiles_to_drop_per_net"))
        super().replace_config(**changes)

    def _check_dropped(self, n_drop: object) -> None:
        n_quantiles = self.policy.n_quantiles
        if isinstance(n_drop, int) and n_drop >= n_quantiles:
            raise UserError(
                f"top_quantiles_to_drop_per_net must be below n_quantiles, {n_quantiles}, not {n_drop}"
            )

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        learning_rate = self.set_learning_rates(counters)
        counters.n_updates += 1
        update_target = counters.n_updates % self.config.target_update_interval == 0
        metrics = self.gradient_step(batch, update_target=update_target)
        metrics["learning_rate"] = learning_rate
        return metrics

    def gradient_step(self, batch: ReplayBatch, update_target: bool) -> Metrics:
        """Take a gradient step of critics and actor, and where asked for update the target critics."""
        config, policy = self.config, self.policy
        if config.use_sde:
            policy.reset_noise()  # one matrix for the batch
        actions, log_probs = policy.actor.action_log_prob(batch.observations)
        ent_coef, ent_coef_loss = self.entropy_coefficient.update(log_probs.detach())

        target = tqc_target(policy, batch, ent_coef, config.top_quantiles_to_drop_per_net)
        quantiles = policy.critic.all_values(batch.observations, batch.actions)
        critic_loss = tqc_critic_loss(quantiles, target, batch.weights)
        self.critic_optimizer.step(critic_loss)
        if batch.weights is not None:
            batch.set_priorities(quantiles.mean(dim=2) - target.mean(dim=1))  # [n_critics, batch]

        actor_loss = tqc_actor_loss(
            policy.critic.all_values(batch.observations, actions), log_probs, ent_coef
        )
        self.actor_optimizer.step(actor_loss)

        if update_target:
            self.target_critic.update(config.tau)
        metrics: Metrics = {
            "critic_loss": critic_loss.detach(),
            "actor_loss": actor_loss.detach(),
            "ent_coef": ent_coef,
        }
        if ent_coef_loss is not None:
            metrics["ent_coef_loss"] = ent_coef_loss
        return metrics
