"""Policies by name, one table per family of algorithms."""

from __future__ import annotations

from torch import nn

from rlzoo.core.errors import UserError, unknown
from rlzoo.policies.actor_critic_policies import (
    ActorCriticCnnPolicy,
    ActorCriticPolicy,
    MultiInputActorCriticPolicy,
)
from rlzoo.policies.base_policy import REGISTERED_CLASSES
from rlzoo.policies.continuous_policies import CROSSQ_POLICIES, SAC_POLICIES, TD3_POLICIES, TQC_POLICIES
from rlzoo.policies.linear_policy import ARSLinearPolicy, ARSPolicy
from rlzoo.policies.masked_policies import (
    MaskableActorCriticCnnPolicy,
    MaskableActorCriticPolicy,
    MaskableMultiInputActorCriticPolicy,
)
from rlzoo.policies.recurrent_policies import (
    CnnLnLstmPolicy,
    MlpLnLstmPolicy,
    RecurrentActorCriticCnnPolicy,
    RecurrentActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)
from rlzoo.policies.value_based import DQN_POLICIES, QRDQN_POLICIES

_POLICIES: dict[str, dict[str, type]] = {
    "actor_critic": {
        "MlpPolicy": ActorCriticPolicy,
        "CnnPolicy": ActorCriticCnnPolicy,
        "MultiInputPolicy": MultiInputActorCriticPolicy,
        "MlpLstmPolicy": RecurrentActorCriticPolicy,
        "MlpLnLstmPolicy": MlpLnLstmPolicy,
        "CnnLstmPolicy": RecurrentActorCriticCnnPolicy,
        "CnnLnLstmPolicy": CnnLnLstmPolicy,
        "MultiInputLstmPolicy": RecurrentMultiInputActorCriticPolicy,
    },
    "maskable": {
        "MlpPolicy": MaskableActorCriticPolicy,
        "CnnPolicy": MaskableActorCriticCnnPolicy,
        "MultiInputPolicy": MaskableMultiInputActorCriticPolicy,
    },
    "population": {"LinearPolicy": ARSLinearPolicy, "MlpPolicy": ARSPolicy},
    "q_network": DQN_POLICIES,
    "quantile": QRDQN_POLICIES,
    "deterministic": TD3_POLICIES,
    "squashed": SAC_POLICIES,
    "tqc": TQC_POLICIES,
    "crossq": CROSSQ_POLICIES,
}

RECURRENCE = {"feed_forward": False, "recurrent": True}
"""Families of "actor_critic" policies that are not recurrent, and of those that are."""

STOCK_NAMES = frozenset(name for policies in _POLICIES.values() for name in policies)

RECURRENT_FAMILIES = ("actor_critic", "recurrent", "acer")
"""Families of algorithms that learn from sequences."""

# Public like MlpPolicy; as for that one, each family puts its own in the place of the class.
LnMlpPolicy: type = _POLICIES["q_network"]["LnMlpPolicy"]
LnCnnPolicy: type = _POLICIES["q_network"]["LnCnnPolicy"]


def register_policy(name: str, policy_class: type, family: str = "actor_critic") -> None:
    """Let algorithms of this family find `policy_class` under `name`.

    :raises UserError: the name is taken by another class, or this is no class
    """
    if not isinstance(policy_class, type):
        raise UserError(f"register_policy() needs a class, not {policy_class!r}")
    policies = _POLICIES.setdefault("actor_critic" if family in RECURRENCE else family, {})
    if policies.get(name, policy_class) is not policy_class:
        raise UserError(f"the policy name {name!r} is taken by {policies[name].__name__}")
    policies[name] = policy_class
    REGISTERED_CLASSES[f"{policy_class.__module__}.{policy_class.__qualname__}"] = policy_class


def get_policy_class(family: str, policy: str | type) -> type:
    """Return the class registered under a name; a custom class is returned as it is.

    A class of another family is replaced by the one of the same name, so that `SAC(MlpPolicy, env)` works
    with the `MlpPolicy` that `rlzoo` exports.

    :raises UserError: for a name that the family does not have
    """
    policies = policies_of(family)
    if not isinstance(policy, str | type):
        raise unknown("policy", str(policy), policies)
    _check_recurrent(family, policy)
    if isinstance(policy, type):
        if not issubclass(policy, nn.Module):
            raise UserError(f"{policy.__name__} is no policy: a policy is a torch.nn.Module")
        if not policies:  # of a user's algorithm
            return policy
        elsewhere = [name for known in _POLICIES.values() for name, found in known.items() if found is policy]
        if policy in policies.values() or not elsewhere:
            _check_actor_critic(family, policy)
            return policy
        policy = elsewhere[0]
    if not policies:
        raise UserError(f"no policy is named {policy!r}: give its class, or name it in policy_aliases")
    if policy not in policies:
        others = set().union(*_POLICIES.values()) - STOCK_NAMES
        if policy in others:
            raise UserError(
                f"{policy!r} is registered for other algorithms: register_policy(..., family={family!r})"
            )
        raise unknown("policy", str(policy), policies)
    return policies[policy]


def policy_name(family: str, policy_class: type) -> str | type:
    """Return the name under which a class is registered; the class itself where it is not."""
    names = [name for name, known in policies_of(family).items() if known is policy_class]
    return names[0] if names else policy_class


def _check_actor_critic(family: str, policy: type) -> None:
    """Check that a custom policy of A2C, PPO or TRPO is not given to an algorithm of another kind."""
    base = _POLICIES.get(family, {}).get("MlpPolicy", policy)
    if issubclass(policy, ActorCriticPolicy) and not issubclass(base, ActorCriticPolicy):
        raise UserError(
            f"{policy.__name__} is a policy for A2C, PPO and TRPO: derive it from {base.__name__}, or give"
            ' "MlpPolicy" and policy_kwargs={"net_arch": [128, 128]}'
        )


def policies_of(family: str) -> dict[str, type]:
    """Return the policies of a family by their names."""
    if family not in RECURRENCE:
        return _POLICIES.get(family, {})
    return {
        name: policy
        for name, policy in _POLICIES["actor_critic"].items()
        if _is_recurrent(policy) is RECURRENCE[family]
    }


def _is_recurrent(policy_class: type | None) -> bool:
    return bool(getattr(policy_class, "recurrent", False))


def _check_recurrent(family: str, policy: str | type) -> None:
    """Check that the policy is recurrent where the algorithm needs that, and only where it supports it."""
    policy_class = policy if isinstance(policy, type) else _POLICIES["actor_critic"].get(policy)
    name = policy.__name__ if isinstance(policy, type) else policy
    if _is_recurrent(policy_class) and family not in RECURRENT_FAMILIES:
        raise UserError(
            f"{name} is recurrent, and this algorithm does not support recurrent policies: use a policy"
            " without an LSTM, or one of ppo, a2c, ppo_lstm, acer, acktr"
        )
    if family == "recurrent" and policy_class is not None and not _is_recurrent(policy_class):
        raise UserError(
            f"{name} is not recurrent, which this algorithm needs: use one such as MlpLstmPolicy "
            "(CnnLstmPolicy, MultiInputLstmPolicy), or ppo"
        )
