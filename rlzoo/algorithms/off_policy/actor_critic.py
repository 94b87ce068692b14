"""What algorithms that replay experience to an actor and critics share: vectors, optimisers and targets.

The losses, and the order in which they are lowered, are in the files of the algorithms.
"""

from __future__ import annotations

from typing import Any

import torch
from gymnasium import spaces

from rlzoo.accel.flat_parameters import FlatParameters
from rlzoo.algorithms.off_policy.entropy_coefficient import EntropyCoefficient
from rlzoo.algorithms.off_policy.off_policy_algorithm import OffPolicyAlgorithm
from rlzoo.core.types import Counters
from rlzoo.optim.polyak import Target


class ActorCriticAlgorithm(OffPolicyAlgorithm):
    """A learner with a `ContinuousPolicy`: actor and critics learn apart, each by an optimiser of its own.

    There is a `Target` for each copy that the policy has, and the entropy coefficient where the algorithm has
    one.
    """

    action_spaces = (spaces.Box,)
    shown_otherwise = (*OffPolicyAlgorithm.shown_otherwise, "target_entropy")
    policy: Any
    actor_averager: Target
    critic_averager: Target
    entropy: EntropyCoefficient

    def setup_optimizers(self) -> None:
        policy = self.policy
        self.actor_flat = FlatParameters(policy.actor.parameters())
        self.critic_flat = FlatParameters(policy.critic.learned_parameters())
        policy.actor.optimizer = self.make_optimizer(self.actor_flat)
        policy.critic.optimizer = self.make_optimizer(self.critic_flat)
        if policy.with_target_actor:
            self.actor_averager = Target(self.actor_flat, policy.actor, policy.actor_target)
        if policy.with_target_critics:
            self.critic_averager = Target(self.critic_flat, policy.critic, policy.critic_target)
        if hasattr(self.config, "ent_coef"):
            self.entropy = EntropyCoefficient(self)

    def state(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "actor.optimizer": self.policy.actor.optimizer,
            "critic.optimizer": self.policy.critic.optimizer,
            **(self.entropy.state() if hasattr(self.config, "ent_coef") else {}),
            **super().state(),
        }

    def parameter_vectors(self) -> list[torch.Tensor]:
        return [self.actor_flat.vector.detach(), self.critic_flat.vector.detach()]

    @property
    def target_entropy(self) -> float:
        """The entropy that a learned coefficient aims at, a number also where the argument was "auto"."""
        return self._entropy.target_entropy

    @target_entropy.setter
    def target_entropy(self, value: float | str) -> None:
        self._replace_config(target_entropy=value)

    @property
    def log_ent_coef(self) -> torch.Tensor | None:
        """Logarithm [1] of the entropy coefficient where it is learned, else None."""
        return self._entropy.flat.vector if self._entropy.learned else None

    @property
    def ent_coef_tensor(self) -> torch.Tensor:
        """The present entropy coefficient, a scalar."""
        return self._entropy.value()

    @property
    def ent_coef_optimizer(self) -> torch.optim.Optimizer | None:
        """The optimiser of the entropy coefficient where it is learned, else None."""
        return self._entropy.optimizer if self._entropy.learned else None

    @property
    def _entropy(self) -> EntropyCoefficient:
        if "entropy" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no entropy coefficient")
        return self.entropy

    def set_learning_rates(self, clock: Counters) -> float:
        """Give both optimisers the present learning rate, and return it."""
        self.set_learning_rate(self.policy.critic.optimizer, clock)
        return self.set_learning_rate(self.policy.actor.optimizer, clock)
