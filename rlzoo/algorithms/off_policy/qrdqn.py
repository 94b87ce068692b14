"""Quantile regression DQN (Dabney et al. 2018, https://arxiv.org/abs/1710.10044).

As DQN, but the network estimates N quantiles theta_i of the return of each action instead of its mean. With
the best next action by the mean of the target network's quantiles (algorithm 1 of the paper),

    a* = argmax_a' 1/N sum_j theta'_j(s', a')
    L  = sum_i 1/N sum_j rho_tau_i(r + gamma theta'_j(s', a*) - theta_i(s, a)),   tau_i = (2 i - 1) / (2 N)

where i = 1, ..., N and rho is the quantile Huber loss (eq. 10, kappa = 1). Adam has the paper's epsilon,
0.01 / batch size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rlzoo.algorithms.hyperparameters import ScheduleLike, TrainFreq
from rlzoo.algorithms.off_policy.dqn import DQN, check_q_learning
from rlzoo.algorithms.off_policy.dqn import SEARCH_SPACE as DQN_SEARCH_SPACE
from rlzoo.algorithms.off_policy.off_policy_algorithm import check_off_policy, weighted_mean
from rlzoo.algorithms.off_policy.quantile_regression import quantile_huber_loss, quantile_huber_losses
from rlzoo.buffers.replay.replay_batch import ReplayBatch
from rlzoo.buffers.replay.replay_buffer import ReplayBuffer
from rlzoo.core.types import Metrics
from rlzoo.params import ranges, shared
from rlzoo.params.descriptions import param
from rlzoo.params.search_parameters import Int, SearchSpace
from rlzoo.policies.value_based import QRDQNPolicy


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig:
    learning_rate: ScheduleLike = param(5e-5, doc=shared.LEARNING_RATE)
    buffer_size: int = param(1_000_000, doc=shared.BUFFER_SIZE)
    learning_starts: int = param(100, doc=shared.LEARNING_STARTS)
    batch_size: int = param(32, doc=shared.REPLAY_BATCH_SIZE)
    tau: float = param(1.0, doc=shared.TAU.plus("1 copies the network"))
    gamma: float = param(0.99, doc=shared.GAMMA)
    train_freq: TrainFreq = param(4, doc=shared.TRAIN_FREQ)
    gradient_steps: int = param(1, doc=shared.GRADIENT_STEPS)
    replay_buffer_class: type[ReplayBuffer] | None = param(None, doc=shared.REPLAY_BUFFER_CLASS)
    replay_buffer_kwargs: dict[str, object] | None = param(None, doc=shared.REPLAY_BUFFER_KWARGS)
    optimize_memory_usage: bool = param(False, doc=shared.OPTIMIZE_MEMORY_USAGE)
    n_steps: int = param(1, doc=shared.N_STEP_RETURNS)
    target_update_interval: int = param(10_000, doc=shared.TARGET_UPDATE_STEPS)
    exploration_fraction: float = param(0.005, doc=shared.EXPLORATION_FRACTION)
    exploration_initial_eps: float = param(1.0, doc=shared.EXPLORATION_INITIAL_EPS)
    exploration_final_eps: float = param(0.01, doc=shared.EXPLORATION_FINAL_EPS)
    max_grad_norm: float | None = param(None, doc=shared.MAX_GRAD_NORM.plus("None: no clipping"))
    buffer_device: str = param("cpu", doc=shared.BUFFER_DEVICE)

    def __post_init__(self) -> None:
        check_off_policy(self)
        check_q_learning(self)


SEARCH_SPACE: SearchSpace = {
    **ranges.without(DQN_SEARCH_SPACE, *ranges.PRIORITIES, "prioritized_replay", "double_q"),
    "policy_kwargs.n_quantiles": Int(5, 250, log=True),
}


def qrdqn_target(policy: QRDQNPolicy, batch: ReplayBatch) -> Tensor:
    """Return r + discount * theta'_j(s', a*), [batch, n_quantiles].

    `batch.discounts` is gamma^m for m-step returns, 0 after termination, not after truncation.
    """
    with torch.no_grad():
        quantiles = policy.quantile_net_target(batch.next_observations)  # [batch, n_quantiles, n_actions]
        best = quantiles.mean(dim=1).argmax(dim=1)
        theta = quantiles.gather(2, action_index(best, quantiles)).squeeze(2)
        return torch.addcmul(batch.rewards.unsqueeze(1), batch.discounts.unsqueeze(1), theta)


def qrdqn_loss(
    quantiles: Tensor, actions: Tensor, target_quantiles: Tensor, weights: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Compute the quantile Huber loss L.

    :param quantiles: theta(s, .), [batch, n_quantiles, n_actions]
    :param actions: [batch]
    :param target_quantiles: [batch, n_quantiles]
    :param weights: importance weights of prioritised replay, [batch]
    :return: the scalar loss; where replay is prioritised, TD errors of the means, [batch]
    """
    theta = quantiles.gather(2, action_index(actions, quantiles)).squeeze(2)
    if weights is None:
        return quantile_huber_loss(theta, target_quantiles), None
    losses = quantile_huber_losses(theta, target_quantiles)
    td_errors = theta.detach().mean(dim=1) - target_quantiles.mean(dim=1)
    return weighted_mean(losses, weights), td_errors


def action_index(actions: Tensor, quantiles: Tensor) -> Tensor:
    """Return the index [batch, n_quantiles, 1] of actions [batch] in [batch, n_quantiles, n_actions]."""
    return actions.view(-1, 1, 1).expand(-1, quantiles.shape[1], 1)


class QRDQN(DQN):
    """QR-DQN for Discrete actions.

    Example:
        >>> from rlzoo import QRDQN
        >>> model = QRDQN("MlpPolicy", "CartPole-v1", policy_kwargs=dict(n_quantiles=25)).learn(50_000)
    """

    Config = QRDQNConfig
    search_space = SEARCH_SPACE
    data_parallel = False
    config: QRDQNConfig
    policy: QRDQNPolicy
    policy_family = "quantile"

    @property
    def n_quantiles(self) -> int:
        """Number of quantiles of the return that the policy estimates for each action."""
        n_quantiles: int = self.policy.n_quantiles
        return n_quantiles

    def policy_arguments(self) -> dict[str, Any]:
        arguments = super().policy_arguments()
        if "optimizer_class" not in arguments:
            options = {"eps": 0.01 / self.config.batch_size}
            arguments["optimizer_kwargs"] = {**options, **(arguments.get("optimizer_kwargs") or {})}
        return arguments

    def gradient_step(self, batch: ReplayBatch) -> Metrics:
        config, policy = self.config, self.policy
        with (
            self.network_optimizer.recorded()
        ):  # before the target network pushes the weights out of the cache
            quantiles = policy.quantile_net(batch.observations)
        target = qrdqn_target(policy, batch)
        loss, td_errors = qrdqn_loss(quantiles, batch.actions, target, batch.weights)
        self.network_optimizer.step(loss, config.max_grad_norm)
        if td_errors is not None:
            batch.set_priorities(td_errors)
        return {"loss": loss.detach()}
