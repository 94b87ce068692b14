"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477).

DDPG with three changes against values that grow too high: the smaller of two critics makes the target
(section 4.2), actor and targets change less often than the critics (section 5.2), and noise on the target's
action smooths the values (section 5.3). A gradient step is (algorithm 1)

    a'     = clip(pi'(s') + clip(eps, -c, c), -1, 1),   eps ~ N(0, sigma)
    y      = r + gamma min_i Q_i'(s', a')
    J(Q_i) = E[(Q_i(s, a) - y)^2]

and on every policy_delay-th one

    J(pi)  = -E[Q_1(s, pi(s))]
    Q_i'  <- tau Q_i + (1 - tau) Q_i',   pi' <- tau pi + (1 - tau) pi'

Departures from the paper: there may be any number of critics (`policy_kwargs=dict(n_critics=3)`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rlzoo.algorithms.base import Metrics
from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.off_policy_algorithm import as_rows, check_off_policy, weighted_mean
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.core.types import Counters


@dataclass(frozen=True, kw_only=True)
class TD3Config:
    learning_rate: ScheduleLike = 1e-3  # of actor and critics
    buffer_size: int = 1_000_000  # transitions that are remembered
    learning_starts: int = 100  # steps of random actions before learning begins
    batch_size: int = 256
    tau: float = 0.005  # how fast the target networks follow
    gamma: float = 0.99  # discount
    train_freq: TrainFreq = 1  # steps between two rounds of updates, or (n, "episode")
    gradient_steps: int = 1  # gradient steps in a round; -1: as many as steps were taken
    action_noise: Any = None  # added to the actions that are executed
    replay_buffer_class: Any = None
    replay_buffer_kwargs: Any = None
    optimize_memory_usage: bool = False  # accepted: no observation is ever stored twice
    n_steps: int = 1  # steps of the returns in the target
    policy_delay: int = 2  # gradient steps of the critics for each of the actor and the targets
    target_policy_noise: float = 0.2  # sigma, standard deviation of the noise on the target's action
    target_noise_clip: float = 0.5  # c, the largest magnitude of that noise
    random_exploration: float = 0.0  # probability of a uniformly random action
    buffer_device: str = "cpu"  # where experience is stored

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_range(self, ("policy_delay",), low=1)
        check_range(self, ("target_policy_noise", "target_noise_clip"), low=0)


def td3_target(policy: Any, batch: ReplayBatch, noise: float, noise_clip: float) -> torch.Tensor:
    """y, [batch].

    :param noise: standard deviation of the noise on the target's action, whose magnitude is at most
        `noise_clip`
    """
    with torch.no_grad():
        actions = policy.actor_target(batch.next_observations)
        if noise > 0:
            actions = actions + torch.randn_like(actions).mul_(noise).clamp_(-noise_clip, noise_clip)
            actions = actions.clamp_(-1, 1)
        values = policy.critic_target(batch.next_observations, actions)[..., 0]  # [n_critics, batch]
        return torch.addcmul(batch.rewards, batch.discounts, values.amin(dim=0))


def td3_critic_loss(
    values: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """J(Q_i) summed over the critics, and the temporal differences.

    :param values: Q_i(s, a), [n_critics, batch]
    :param target: [batch]
    :return: the scalar loss; Q_i - target, [n_critics, batch]
    """
    differences = values - target
    return len(values) * weighted_mean(differences.square(), weights), differences


def td3_actor_loss(policy: Any, observations: Any) -> torch.Tensor:
    """J(pi)."""
    values: torch.Tensor = policy.critic.first(observations, policy.actor(observations))
    return -values.mean()


class TD3(ActorCriticAlgorithm):
    """TD3 for Box actions."""

    Config = TD3Config
    config: TD3Config
    policy_family = "deterministic"

    def update(self, batch: ReplayBatch, clock: Counters) -> Metrics:
        config, policy = self.config, self.policy
        learning_rate = self.set_learning_rates(clock)
        clock.n_updates += 1

        target = td3_target(policy, batch, config.target_policy_noise, config.target_noise_clip)
        values = policy.critic(batch.observations, as_rows(batch.actions))[..., 0]
        critic_loss, differences = td3_critic_loss(values, target, batch.weights)
        self.critic_flat.zero_grad()
        critic_loss.backward()
        policy.critic.optimizer.step()
        if batch.weights is not None:
            batch.priorities = differences.detach().abs().mean(dim=0)

        metrics: Metrics = {"critic_loss": critic_loss.detach(), "learning_rate": learning_rate}
        if clock.n_updates % config.policy_delay == 0:
            actor_loss = td3_actor_loss(policy, batch.observations)
            self.actor_flat.zero_grad()
            actor_loss.backward(inputs=self.actor_flat.parameters)  # spares the critics' gradients
            policy.actor.optimizer.step()
            self.critic_averager.update(config.tau)
            self.actor_averager.update(config.tau)
            metrics["actor_loss"] = actor_loss.detach()
        return metrics
