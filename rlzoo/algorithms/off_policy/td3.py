"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, https://arxiv.org/abs/1802.09477).

DDPG with three changes against overestimated values: the smaller of two critics makes the target
(section 4.2), actor and targets change less often than the critics (section 5.2), and noise on the target's
action smooths the values (section 5.3). A gradient step is (algorithm 1)

    a'     = clip(pi'(s') + clip(eps, -c, c), -1, 1),   eps ~ N(0, sigma)
    y      = r + gamma min_i Q_i'(s', a')
    J(Q_i) = E[(Q_i(s, a) - y)^2]

and on every policy_delay-th one

    J(pi)  = -E[Q_1(s, pi(s))]
    Q_i'  <- tau Q_i + (1 - tau) Q_i',   pi' <- tau pi + (1 - tau) pi'

Departures from the paper: there is no exploration noise unless `action_noise` is given (the paper adds
N(0, 0.1); shipped hyperparameters set it); `learning_starts` is 100 (1,000 or 10,000 in the paper) and
`batch_size` 256 (100), as in stable-baselines3; there may be any number of critics
(`policy_kwargs=dict(n_critics=3)`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq, check_range
from rlzoo.algorithms.off_policy.actor_critic import ActorCriticAlgorithm
from rlzoo.algorithms.off_policy.off_policy_algorithm import check_off_policy, weighted_mean
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.action_noise import ActionNoise
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics, TensorObs
from rlzoo.optim.network_optimizer import mean_over_rows
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Float, Int, Scheduled, SearchSpace
from rlzoo.policies.continuous_policies import TD3Policy


@dataclass(frozen=True, kw_only=True)
class TD3Config:
    learning_rate: ScheduleLike = param(1e-3, doc=shared.LEARNING_RATE.plus("the same for actor and critics"))
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
    policy_delay: int = param(
        2,
        doc="critic updates per update of actor and target networks; a larger delay trains the actor"
        " on more accurate critics",
        section="optimisation",
    )
    target_policy_noise: float = param(
        0.2,
        doc="sigma, standard deviation of the noise on target actions in [-1, 1]; higher smooths the"
        " Q-function more",
        section="target networks",
    )
    target_noise_clip: float = param(
        0.5, doc="c, upper bound on the magnitude of the noise on target actions", section="target networks"
    )
    random_exploration: float = param(0.0, doc=shared.RANDOM_EXPLORATION)
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_range(self, ("policy_delay",), low=1)
        check_range(self, ("target_policy_noise", "target_noise_clip"), low=0)


SEARCH_SPACE: SearchSpace = {
    "learning_rate": Scheduled(Float(1e-5, 1e-2, log=True)),
    "batch_size": Int(16, 512, log=True),
    **ranges.REPLAY,
    "tau": Float(5e-4, 0.1, log=True),
    **ranges.UPDATES,
    "policy_delay": Int(1, 4),
    "target_policy_noise": Float(0.0, 0.5),
    "target_noise_clip": Float(0.1, 1.0),
    **ranges.ACTION_NOISE,
    **ranges.OFF_POLICY_NETWORKS,
}


def td3_target(policy: TD3Policy, batch: ReplayBatch, noise: float, noise_clip: float) -> torch.Tensor:
    """Return y = r + discount * min_i Q_i'(s', a'), [batch].

    `batch.discounts` is gamma^m for m-step returns, 0 after termination, not after truncation.

    :param noise: standard deviation of the noise on the target's action, whose magnitude is at most
        `noise_clip`
    """
    with torch.no_grad():
        actions = policy.actor_target(batch.next_observations)
        if noise > 0:
            actions = actions + policy.randn_like(actions).mul_(noise).clamp_(-noise_clip, noise_clip)
            actions = actions.clamp_(-1, 1)
        # [n_critics, batch]
        values = policy.critic_target.all_values(batch.next_observations, actions)[..., 0]
        return torch.addcmul(batch.rewards, batch.discounts, values.amin(dim=-2))


def td3_critic_loss(
    values: torch.Tensor, target: torch.Tensor, weights: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute J(Q_i) summed over the critics, and the TD errors.

    :param values: Q_i(s, a), [n_critics, batch]
    :param target: [batch]
    :return: the scalar loss; Q_i - target, [n_critics, batch]
    """
    td_errors = values - target.unsqueeze(-2)
    n_critics = values.shape[-2]  # the mean over [n_critics, batch], times n_critics, sums over the critics
    return n_critics * weighted_mean(td_errors.square(), weights, n_axes=2), td_errors


def td3_actor_loss(policy: TD3Policy, observations: TensorObs) -> torch.Tensor:
    """Compute J(pi)."""
    values: torch.Tensor = policy.critic.first_values(observations, policy.actor(observations))
    return -mean_over_rows(values, n_axes=2)


class TD3(ActorCriticAlgorithm):
    """TD3 for Box actions.

    Example:
        >>> from rlzoo import TD3, NormalActionNoise
        >>> noise = NormalActionNoise([0.0], [0.1])
        >>> model = TD3("MlpPolicy", "Pendulum-v1", action_noise=noise).learn(10_000)
    """

    Config = TD3Config
    search_space = SEARCH_SPACE
    data_parallel = True
    config: TD3Config
    policy: TD3Policy
    policy_family = "deterministic"

    def update(self, batch: ReplayBatch, counters: Counters) -> Metrics:
        learning_rate = self.set_learning_rates(counters)
        counters.n_updates += 1
        update_actor = counters.n_updates % self.config.policy_delay == 0
        metrics = self.gradient_step(batch, update_actor=update_actor)
        metrics["learning_rate"] = learning_rate
        return metrics

    def gradient_step(self, batch: ReplayBatch, update_actor: bool) -> Metrics:
        """Take a gradient step of the critics, and where asked for of the actor and both targets."""
        config, policy = self.config, self.policy
        target = td3_target(policy, batch, config.target_policy_noise, config.target_noise_clip)
        values = policy.critic.all_values(batch.observations, batch.actions)[..., 0]
        critic_loss, td_errors = td3_critic_loss(values, target, batch.weights)
        self.critic_optimizer.step(critic_loss)
        batch.set_priorities(td_errors)

        metrics: Metrics = {"critic_loss": critic_loss.detach()}
        if update_actor:
            actor_loss = td3_actor_loss(policy, batch.observations)
            self.actor_optimizer.step(actor_loss)
            self.target_critic.update(config.tau)
            self.target_actor.update(config.tau)
            metrics["actor_loss"] = actor_loss.detach()
        return metrics
