"""The list of algorithms."""

from __future__ import annotations

import pytest

from rlzoo.config import catalog
from rlzoo.core.errors import UserError


@pytest.fixture
def own_catalog(monkeypatch):
    monkeypatch.setattr(catalog, "_TARGETS", dict(catalog._TARGETS))
    monkeypatch.setattr(catalog, "_ALIASES", dict(catalog._ALIASES))


def test_names_and_targets():
    todays = "a2c acer acktr ars bc crossq ddpg dqn gail her ppo ppo_lstm ppo_mask qrdqn sac td3 tqc trpo"
    assert catalog.names() == sorted([*todays.split(), "ppo1", "ppo2"])
    assert catalog.resolve("ppo") == "rlzoo.algorithms.on_policy.ppo:PPO"


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UserError, match="unknown algorithm 'pop'; did you mean 'ppo'"):
        catalog.load("pop")


def test_register_adds_a_lazy_target_and_its_aliases(own_catalog):
    catalog.register("mine", "collections:OrderedDict", aliases=("my", "mine2"))
    assert "mine" in catalog.names() and "my" not in catalog.names()
    assert catalog.canonical("my") == "mine"
    assert catalog.load("mine2").__name__ == "OrderedDict"


@pytest.mark.parametrize("target", ["collections", "collections.OrderedDict", ":X", "a:b c"])
def test_a_target_of_another_form_is_refused(own_catalog, target):
    with pytest.raises(UserError, match="module:Class"):
        catalog.register("mine", target)


def test_a_taken_name_is_refused(own_catalog):
    with pytest.raises(UserError, match="already taken"):
        catalog.register("ppo", "mine:PPO")
    with pytest.raises(UserError, match="already taken"):
        catalog.register("mine", "mine:PPO", aliases=("a2c",))
