"""Soft actor-critic (Haarnoja et al. 2018, https://arxiv.org/abs/1812.05905).

Maximises reward and entropy together. With the target value of the next state (eq. 3, with the smaller of
the target critics)

    V(s') = min_i Q_i'(s', a') - alpha log pi(a'|s'),   a' ~ pi(.|s')

an update takes a gradient step on each of

    J(alpha) = E[-log alpha (log pi(a|s) + target_entropy)]           eq. 18
    J(Q_i)   = 1/2 E[(Q_i(s, a) - (r + gamma V(s')))^2]               eq. 5
    J(pi)    = E[alpha log pi(a|s) - min_i Q_i(s, a)],  a ~ pi(.|s)   eq. 7

Departures from the paper: J(alpha) has log alpha where eq. 18 has alpha, as the authors' code does, and its
gradient step comes first (last in algorithm 1), while critics and actor use the alpha from before it; with
`policy_delay`, alpha is updated only in the steps that update the actor; `learning_starts` is 100, as in
stable-baselines3. Options make it DroQ
(Hiraoka et al. 2022: `policy_kwargs=dict(layer_norm="critic", dropout=0.01)`, `gradient_steps=20`,
`policy_delay=20`) and REDQ (Chen et al. 2021: `policy_kwargs=dict(n_critics=10)`, `n_target_critics=2`,
`gradient_steps=20`, `policy_delay=20`), which both average the critics in the actor's loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.entropy_coefficient import check_entropy
from rlzoo.algorithms.off_policy.off_policy_algorithm import check_off_policy, weighted_mean
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.errors import UserError
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.optim.network_optimizer import mean_over_rows
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Conditional, Float, Int, OneOrSampled, Scheduled, SearchSpace
from rlzoo.policies.continuous_policies import SACPolicy


@dataclass(frozen=True, kw_only=True)
class SACConfig:
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
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    use_sde_at_warmup: bool = param(False, doc=shared.USE_SDE_AT_WARMUP)
    random_exploration: float = param(0.0, doc=shared.RANDOM_EXPLORATION)
    policy_delay: int = param(1, doc=shared.POLICY_DELAY)
    n_target_critics: int | None = param(
        None,
        doc="target critics sampled for each target (REDQ, Chen et al. 2021,"
        " https://arxiv.org/abs/2101.05982); the actor then maximises the mean of all critics instead of"
        " their minimum; None: all",
        section="critics",
    )
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_entropy(self)
        check_range(self, ("target_update_interval", "policy_delay", "n_target_critics"), low=1)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    **ranges.REPLAY,
    "tau": Float(5e-4, 0.1, log=True),
    **ranges.UPDATES,
    "ent_coef": OneOrSampled("auto", Float(1e-4, 1.0, log=True)),
    **ranges.STATE_DEPENDENT_NOISE,
    "policy_kwargs.log_std_init": Conditional("use_sde", (True,), Float(-4.0, 1.0)),
    **ranges.OFF_POLICY_NETWORKS,
}


def sac_target(
    policy: SACPolicy, batch: ReplayBatch, ent_coef: torch.Tensor, n_target_critics: int | None
) -> torch.Tensor:
    """Return r + discount * V(s') of eq. 3, [batch].

    `batch.discounts` is gamma^m for m-step returns, 0 after termination, not after truncation.
    """
    with torch.no_grad():
        actions, log_probs = policy.actor.action_log_prob(batch.next_observations)
        # [n_critics, batch]
        values = policy.critic_target.all_values(batch.next_observations, actions)[..., 0]
        if n_target_critics is not None and n_target_critics < len(values):
            values = values[torch.randperm(len(values), device=values.device)[:n_target_critics]]
        values = values.amin(dim=-2) - ent_coef * log_probs
        return torch.addcmul(batch.rewards, batch.discounts, values)


def sac_critic_loss(
    values: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute eq. 5 summed over the critics, and the TD errors.

    :param values: Q_i(s, a), [n_critics, batch]
    :param target: [batch]
    :return: the scalar loss; Q_i - target, [n_critics, batch]
    """
    td_errors = values - target.unsqueeze(-2)
    n_critics = values.shape[-2]  # the mean over [n_critics, batch], times n_critics, sums over the critics
    return 0.5 * n_critics * weighted_mean(td_errors.square(), weights, n_axes=2), td_errors


def sac_actor_loss(values: torch.Tensor, log_probs: torch.Tensor, ent_coef: torch.Tensor) -> torch.Tensor:
    """Compute eq. 7.

    :param values: Q-values of the actor's actions: the smallest of the critics, or their mean, [batch]
    """
    return mean_over_rows(ent_coef * log_probs - values)


class SAC(ActorCriticAlgorithm):
    """SAC for Box actions.

    Example:
        >>> from rlzoo import SAC
        >>> model = SAC("MlpPolicy", "Pendulum-v1", ent_coef="auto_0.1").learn(10_000)
    """

    Config = SACConfig
    search_space = SEARCH_SPACE
    data_parallel = True
    config: SACConfig
    policy: SACPolicy
    policy_family = "squashed"

    def setup_optimizers(self) -> None:
        policy, n_targets = self.policy, self.config.n_target_critics
        if n_targets is not None and n_targets > policy.n_critics:
            raise UserError(
                f"n_target_critics must be at most {policy.n_critics}, n_critics of the policy,"
                f" not {n_targets}"
            )
        super().setup_optimizers()

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        config = self.config
        learning_rate = self.set_learning_rates(counters)
        counters.n_updates += 1
        update_actor = counters.n_updates % config.policy_delay == 0
        update_target = counters.n_updates % config.target_update_interval == 0
        metrics = self.gradient_step(batch, update_actor=update_actor, update_target=update_target)
        metrics["learning_rate"] = learning_rate
        return metrics

    def gradient_step(self, batch: ReplayBatch, update_actor: bool, update_target: bool) -> Metrics:
        """Take a gradient step of the critics, and where asked for of the actor and the target critics."""
        config, policy = self.config, self.policy
        if config.use_sde:
            policy.reset_noise()  # one matrix for the batch
        if update_actor:
            actions, log_probs = policy.actor.action_log_prob(batch.observations)
            ent_coef, ent_coef_loss = self.entropy_coefficient.update(log_probs.detach())
        else:
            ent_coef, ent_coef_loss = self.entropy_coefficient.value(), None

        target = sac_target(policy, batch, ent_coef, config.n_target_critics)
        values = policy.critic.all_values(batch.observations, batch.actions)[..., 0]
        critic_loss, td_errors = sac_critic_loss(values, target, batch.weights)
        self.critic_optimizer.step(critic_loss)
        batch.set_priorities(td_errors)

        metrics: Metrics = {"critic_loss": critic_loss.detach(), "ent_coef": ent_coef}
        if update_actor:
            values = policy.critic.all_values(batch.observations, actions)[..., 0]
            averaged = config.n_target_critics is not None or policy.dropout > 0  # REDQ and DroQ
            q_values = values.mean(dim=-2) if averaged else values.amin(dim=-2)
            actor_loss = sac_actor_loss(q_values, log_probs, ent_coef)
            self.actor_optimizer.step(actor_loss)
            metrics["actor_loss"] = actor_loss.detach()
        if ent_coef_loss is not None:
            metrics["ent_coef_loss"] = ent_coef_loss
        if update_target:
            self.target_critic.update(config.tau)
        return metrics
