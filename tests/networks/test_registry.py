"""Which class a policy's name, or the class of another family, stands for."""

from __future__ import annotations

import pytest
from torch import nn

import rlzoo
from rlzoo.core.errors import UserError
from rlzoo.policies.policy_registry import _POLICIES, get_policy_class, policy_name

FAMILIES = sorted(_POLICIES)


@pytest.mark.parametrize(
    ("family", "name"),
    [
        (family, name)
        for family in FAMILIES
        for name in ("MlpPolicy", "CnnPolicy", "MultiInputPolicy")
        if family != "population" or name == "MlpPolicy"  # vectors of weights are for vectors of numbers
    ],
)
def test_the_public_class_is_the_one_of_each_family(family: str, name: str) -> None:
    found = get_policy_class(family, getattr(rlzoo, name))
    assert found is get_policy_class(family, name)
    assert policy_name(family, found) == name


@pytest.mark.parametrize("name", ["LnMlpPolicy", "LnCnnPolicy"])
def test_layer_normalised_policies_are_where_they_make_sense(name: str) -> None:
    for family in ("q_network", "quantile", "deterministic", "squashed", "tqc"):
        assert get_policy_class(family, getattr(rlzoo, name)) is get_policy_class(family, name)
    with pytest.raises(UserError, match=f"unknown policy '{name}'"):
        get_policy_class("crossq", getattr(rlzoo, name))


def test_ones_own_class_is_returned_as_it_is() -> None:
    class Mine(nn.Module):
        pass

    assert get_policy_class("squashed", Mine) is Mine
    with pytest.raises(UserError, match=r"torch\.nn\.Module"):
        get_policy_class("squashed", int)


def test_actor_critic_class_is_refused_by_other_algorithms() -> None:
    class Old(rlzoo.FeedForwardPolicy):
        pass

    assert get_policy_class("feed_forward", Old) is Old
    for family, base in {
        "squashed": "SACPolicy",
        "deterministic": "TD3Policy",
        "q_network": "DQNPolicy",
    }.items():
        with pytest.raises(UserError, match=f"Old is a policy for A2C, PPO and TRPO: derive it from {base}"):
            get_policy_class(family, Old)


def test_name_registered_for_other_algorithms_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_POLICIES, "actor_critic", {**_POLICIES["actor_critic"]})
    rlzoo.register_policy("Old", type("Old", (rlzoo.FeedForwardPolicy,), {}))
    assert get_policy_class("actor_critic", "Old").__name__ == "Old"
    with pytest.raises(UserError, match=r"'Old' is registered for other algorithms: .*family='squashed'"):
        get_policy_class("squashed", "Old")
    with pytest.raises(UserError, match="unknown policy"):
        get_policy_class("squashed", ["MlpPolicy"])  # type: ignore[arg-type]


def test_an_agent_learns_with_the_public_class() -> None:
    model = rlzoo.SAC(rlzoo.LnMlpPolicy, "Pendulum-v1", learning_starts=8, batch_size=8, device="cpu")
    assert isinstance(model.policy, get_policy_class("squashed", "LnMlpPolicy"))
    assert model.learn(16).n_updates > 0
