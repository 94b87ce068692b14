"""Base class of off-policy actor-critic algorithms: optimisers and target networks.

The losses, and the order of the gradient steps, are in the files of the algorithms.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from gymnasium import spaces

from rlzoo.accel.flat_parameters import ParameterGroup
from rlzoo.accel.gpu.detached_step import replaced_step
from rlzoo.algorithms.actor_critic_optimizers import optimize_actor_and_critic
from rlzoo.algorithms.manual.manual_step import manual_step
from rlzoo.algorithms.off_policy.entropy_coefficient import EntropyCoefficient, target_entropy_of
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm
from rlzoo.core.schedules import Counters
from rlzoo.core.types import Metrics
from rlzoo.optim.network_optimizer import NetworkOptimizer
from rlzoo.optim.polyak import TargetNetwork
from rlzoo.policies.continuous_policies import ContinuousPolicy


class ActorCriticAlgorithm(OffPolicyAlgorithm):
    """Base class of DDPG, TD3, SAC, TQC and CrossQ: an actor and critics, each with an optimiser.

    There is a `TargetNetwork` for each target network of the policy, and an entropy coefficient where the
    algorithm has one.
    """

    action_spaces = (spaces.Box,)
    shown_otherwise = (*OffPolicyAlgorithm.shown_otherwise, "target_entropy")
    policy: ContinuousPolicy
    actor_flat: ParameterGroup
    critic_flat: ParameterGroup
    actor_optimizer: NetworkOptimizer
    critic_optimizer: NetworkOptimizer
    target_actor: TargetNetwork
    target_critic: TargetNetwork
    entropy_coefficient: EntropyCoefficient

    def accelerated(self) -> AbstractContextManager[None]:
        """Let `learn` take compiled gradient steps if asked for, else manual ones if possible."""
        is_free = not self.compile_networks and self.cuda_graphs in ("auto", "off")
        step = manual_step(self) if is_free else None
        return super().accelerated() if step is None else replaced_step(self, step)

    def setup_optimizers(self) -> None:
        optimize_actor_and_critic(self)
        if hasattr(self.config, "ent_coef") and self.optimized_policy is None:  # else it is kept
            self.entropy_coefficient = EntropyCoefficient(self)

    def state(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "actor.optimizer": self.policy.actor.optimizer,
            "critic.optimizer": self.policy.critic.optimizer,
            **(self.entropy_coefficient.state() if hasattr(self.config, "ent_coef") else {}),
            **super().state(),
        }

    def parameter_vectors(self) -> list[torch.Tensor]:
        return [self.actor_flat.vector.detach(), self.critic_flat.vector.detach()]

    def summarise(self, history: list[Metrics], counters: Counters) -> Metrics:
        metrics = super().summarise(history, counters)
        if getattr(self.config, "use_sde", False):
            metrics["std"] = self.policy.actor.get_std().detach().mean()
        return metrics

    @property
    def target_entropy(self) -> float:
        """Target entropy of a learned coefficient; a number also where the argument was "auto"."""
        return self._entropy_coefficient.target_entropy

    @target_entropy.setter
    def target_entropy(self, value: float | str) -> None:
        self.replace_config(target_entropy=value)

    @property
    def log_ent_coef(self) -> torch.Tensor | None:
        """Logarithm [1] of the entropy coefficient where it is learned, else None."""
        return self._entropy_coefficient.log_ent_coef if self._entropy_coefficient.learned else None

    @property
    def ent_coef_tensor(self) -> torch.Tensor:
        """Current entropy coefficient, a scalar."""
        return self._entropy_coefficient.value()

    @property
    def ent_coef_optimizer(self) -> torch.optim.Optimizer | None:
        """The optimiser of the entropy coefficient where it is learned, else None."""
        return self._entropy_coefficient.optimizer if self._entropy_coefficient.learned else None

    @property
    def _entropy_coefficient(self) -> EntropyCoefficient:
        if "entropy_coefficient" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no entropy coefficient")
        return self.entropy_coefficient

    def replace_config(self, **changes: object) -> None:
        """Change hyperparameters.

        :raises UserError: the agent was built with the present value
        """
        before = getattr(self.config, "ent_coef", None)
        super().replace_config(**changes)
        if before is None or "entropy_coefficient" not in self.__dict__:
            return
        if self.config.ent_coef != before:
            self.entropy_coefficient = self.entropy_coefficient.replaced(self)
        self.entropy_coefficient.target_entropy = target_entropy_of(self)

    def set_learning_rates(self, counters: Counters) -> float:
        """Set the current learning rate of all optimisers, and return it."""
        if "entropy_coefficient" in self.__dict__ and self.entropy_coefficient.learned:
            self.set_learning_rate(self.entropy_coefficient.optimizer, counters)
        self.set_learning_rate(self.policy.critic.optimizer, counters)
        return self.set_learning_rate(self.policy.actor.optimizer, counters)
