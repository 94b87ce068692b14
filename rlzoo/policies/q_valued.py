"""Actor-critic policies whose critic estimates the Q-value of every action."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor

from rlzoo.core.errors import UserError
from rlzoo.core.preprocessing import TensorObs
from rlzoo.distributions import Distribution
from rlzoo.policies.actor_critic_policies import ActorCriticPolicy


class QValueMixin:
    """Q(s, a) in the place of V(s), for an ActorCriticPolicy of Discrete actions, which may be recurrent.

    `predict_values` gives V(s) = sum_a pi(a|s) Q(s, a); `log_probs_and_q_values` gives the rest.
    """

    def _n_values(self: Any) -> int:
        return int(self.action_space.n)

    def log_probs_and_q_values(self: Any, obs: TensorObs, **context: Any) -> tuple[Tensor, Tensor]:
        """Return log-probabilities and Q values of all actions, both [B, n_actions].

        :param context: `sequences` or `rnn_state`, for a recurrent policy
        """
        run = (
            [self._runner(obs, context.get("sequences"), context.get("rnn_state"))] if self.recurrent else []
        )
        distribution, q = super()._distribution_and_values(obs, *run)  # type: ignore[misc]
        return distribution.log_probs, q

    def _distribution_and_values(self, obs: TensorObs, *run: Any) -> tuple[Distribution, Tensor]:
        distribution, q = super()._distribution_and_values(obs, *run)  # type: ignore[misc]
        return distribution, (distribution.probs * q).sum(dim=1, keepdim=True)

    def predict_values(self, obs: TensorObs, **context: Any) -> Tensor:
        """Compute values of raw observations, [B, 1]."""
        log_probs, q = self.log_probs_and_q_values(obs, **context)
        return (log_probs.exp() * q).sum(dim=1, keepdim=True)


@cache
def q_value_policy(policy_class: Any) -> Any:
    """Return the subclass of a policy with Q(s, a) in the place of V(s).

    :param policy_class: an ActorCriticPolicy, which may be recurrent
    :raises UserError: another kind of class
    """
    if not (isinstance(policy_class, type) and issubclass(policy_class, ActorCriticPolicy)):
        name = getattr(policy_class, "__name__", policy_class)
        raise UserError(f"{name} has no Q values: derive it from ActorCriticPolicy")
    name = policy_class.__name__
    members = {"__doc__": f"{name} with Q values.", "__module__": __name__}
    return type(f"QValued{name}", (QValueMixin, policy_class), members)
