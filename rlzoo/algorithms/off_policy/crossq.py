"""CrossQ (Bhatt et al. 2024, https://arxiv.org/abs/1902.05605).

SAC without target networks, with batch normalisation in wide critics. Values of s, a and of s', a' are
computed in one pass, so that both are normalised by the statistics of their mixture. With

    [Q_i(s, a), Q_i(s', a')] = Q_i([s, s'], [a, a']),   a' ~ pi(.|s')
    y = r + gamma (min_i Q_i(s', a') - alpha log pi(a'|s'))

where no gradient passes through y, every gradient step lowers

    J(Q_i)   = 1/2 E[(Q_i(s, a) - y)^2]

and every policy_delay-th one

    J(alpha) = E[-log alpha (log pi(a|s) + target_entropy)]
    J(pi)    = E[alpha log pi(a|s) - min_i Q_i(s, a)],  a ~ pi(.|s)

The step of the critics updates their running statistics; that of the actor updates the actor's, and evaluates
the critics with their running statistics. Adam's beta_1 is 0.5, as in the paper.

Departures from the paper: log alpha is what is learned, as in SAC; batch renormalisation in place of batch
normalisation, in the actor, too, as in the authors' code; critics are 1,024 wide (2,048 in the paper), as in
sb3-contrib.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.entropy_coefficient import check_entropy
from rlzoo.algorithms.off_policy.off_policy_algorithm import check_off_policy, weighted_mean
from rlzoo.algorithms.off_policy.sac import SEARCH_SPACE as SAC_SEARCH_SPACE
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, TensorObs
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Choice, Int, SearchSpace
from rlzoo.policies.continuous_policies import CrossQPolicy


@dataclass(frozen=True, kw_only=True)
class CrossQConfig:
    learning_rate: ScheduleLike = param(
        1e-3, doc=shared.LEARNING_RATE.plus("the same for actor, critics and entropy coefficient")
    )
    buffer_size: int = param(1_000_000, doc=shared.BUFFER_SIZE)
    learning_starts: int = param(100, doc=shared.LEARNING_STARTS)
    batch_size: int = param(256, doc=shared.REPLAY_BATCH_SIZE)
    gamma: float = param(0.99, doc=shared.GAMMA)
    train_freq: TrainFreq = param(1, doc=shared.TRAIN_FREQ)
    gradient_steps: int = param(1, doc=shared.GRADIENT_STEPS)
    action_noise: ActionNoise | None = param(None, doc=shared.ACTION_NOISE)
    replay_buffer_class: type[ReplayBuffer] | None = param(None, doc=shared.REPLAY_BUFFER_CLASS)
    replay_buffer_kwargs: dict[str, object] | None = param(None, doc=shared.REPLAY_BUFFER_KWARGS)
    optimize_memory_usage: bool = param(False, doc=shared.OPTIMIZE_MEMORY_USAGE)
    n_steps: int = param(1, doc=shared.N_STEP_RETURNS)
    ent_coef: float | str = param("auto", doc=shared.TEMPERATURE)
    target_entropy: float | str = param("auto", doc=shared.TARGET_ENTROPY)
    policy_delay: int = param(3, doc=shared.POLICY_DELAY)
    use_sde: bool = param(False, doc=shared.USE_SDE)
    sde_sample_freq: int = param(-1, doc=shared.SDE_SAMPLE_FREQ)
    use_sde_at_warmup: bool = param(False, doc=shared.USE_SDE_AT_WARMUP)
    random_exploration: float = param(0.0, doc=shared.RANDOM_EXPLORATION)
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_entropy(self)
        check_range(self, ("policy_delay",), low=1)


SEARCH_SPACE: SearchSpace = {
    **ranges.without(SAC_SEARCH_SPACE, "tau"),
    "policy_delay": Int(1, 4),
    "policy_kwargs.net_arch": Choice(
        [64, 64],
        [256, 256],
        {"pi": [256, 256], "qf": [512, 512]},
        {"pi": [256, 256], "qf": [1024, 1024]},
        {"pi": [256, 256], "qf": [2048, 2048]},
    ),
}


def crossq_values(policy: CrossQPolicy, batch: ReplayBatch, next_actions: torch.Tensor) -> torch.Tensor:
    """Return Q_i(s, a) and, after them along the batch, Q_i(s', a'), [n_critics, 2 * batch].

    The critics gather statistics of both.
    """
    actions = torch.cat([batch.actions.reshape(next_actions.shape), next_actions])
    policy.critic.train(True)
    values: torch.Tensor = policy.critic.all_values(
        joined(batch.observations, batch.next_observations), actions
    )
    policy.critic.train(False)
    return values[..., 0]


def joined(observations: TensorObs, next_observations: TensorObs) -> TensorObs:
    """Concatenate both along the batch."""
    if isinstance(observations, dict) and isinstance(next_observations, dict):
        return {key: torch.cat([rows, next_observations[key]]) for key, rows in observations.items()}
    return torch.cat([cast(torch.Tensor, part) for part in (observations, next_observations)])


def crossq_critic_loss(
    values: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute J(Q_i) summed over the critics, and the TD errors.

    :param values: Q_i(s, a), [n_critics, batch]
    :param target: y, [batch]
    :return: the scalar loss; Q_i - y, [n_critics, batch]
    """
    td_errors = values - target
    return 0.5 * len(values) * weighted_mean(td_errors.square(), weights, n_axes=2), td_errors


def crossq_actor_loss(values: torch.Tensor, log_probs: torch.Tensor, ent_coef: torch.Tensor) -> torch.Tensor:
    """Compute J(pi).

    :param values: Q-values of the actor's actions, [n_critics, batch]
    """
    return (ent_coef * log_probs - values.amin(dim=0)).mean()


class CrossQ(ActorCriticAlgorithm):
    """CrossQ for Box actions.

    Example:
        >>> from rlzoo import CrossQ
        >>> model = CrossQ("MlpPolicy", "Pendulum-v1").learn(10_000)
    """

    Config = CrossQConfig
    search_space = SEARCH_SPACE
    config: CrossQConfig
    policy: CrossQPolicy
    policy_family = "crossq"
    tau: ClassVar[float] = 1.0  # for scripts that read it; there are no target networks

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        learning_rate = self.set_learning_rates(counters)
        counters.n_updates += 1
        update_actor = counters.n_updates % self.config.policy_delay == 0
        metrics = self.gradient_step(batch, update_actor=update_actor)
        metrics["learning_rate"] = learning_rate
        return metrics

    def gradient_step(self, batch: ReplayBatch, update_actor: bool) -> Metrics:
        """Take a gradient step of the critics, and where asked for of the actor."""
        policy = self.policy
        if self.config.use_sde:
            policy.reset_noise()  # one matrix for the batch
        ent_coef, size = self.entropy_coefficient.value(), len(batch.rewards)
        policy.actor.train(False)
        with torch.no_grad():
            next_actions, next_log_probs = policy.actor.action_log_prob(batch.next_observations)
        values = crossq_values(policy, batch, next_actions)
        next_values = values[:, size:].detach().amin(dim=0) - ent_coef * next_log_probs
        # discounts: gamma^m for m-step returns, 0 after termination, not after truncation
        target = torch.addcmul(batch.rewards, batch.discounts, next_values)
        critic_loss, td_errors = crossq_critic_loss(values[:, :size], target, batch.weights)
        self.critic_optimizer.step(critic_loss)
        batch.set_priorities(td_errors)

        metrics: Metrics = {"critic_loss": critic_loss.detach(), "ent_coef": ent_coef}
        if update_actor:
            policy.actor.train(True)
            actions, log_probs = policy.actor.action_log_prob(batch.observations)
            policy.actor.train(False)
            ent_coef, ent_coef_loss = self.entropy_coefficient.update(log_probs.detach())
            actor_loss = crossq_actor_loss(
                policy.critic.all_values(batch.observations, actions)[..., 0], log_probs, ent_coef
            )
            self.actor_optimizer.step(actor_loss)
            metrics["actor_loss"] = actor_loss.detach()
            if ent_coef_loss is not None:
                metrics["ent_coef_loss"] = ent_coef_loss
        return metrics
