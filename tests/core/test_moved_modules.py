"""Classes that saved files name by a former module are found where they are now."""

from __future__ import annotations

import importlib

import pytest

from rlzoo.config.class_names import class_path
from rlzoo.core.moved_modules import _MOVED, current_name
from rlzoo.io.encoding import decode_value


@pytest.mark.parametrize("former", sorted(_MOVED))
def test_moved_module_exists_now(former: str) -> None:
    module = current_name(f"rlzoo.{former}.Name").removesuffix(".Name")
    assert module != f"rlzoo.{former}"
    importlib.import_module(module)


def test_former_policy_name_decodes() -> None:
    from rlzoo import ActorCriticPolicy

    assert decode_value({"$class": "rlzoo.networks.policies.ActorCriticPolicy"}) is ActorCriticPolicy


def test_former_buffer_name_decodes() -> None:
    from rlzoo import HerReplayBuffer

    assert decode_value({"$class": "rlzoo.buffers.her.HerReplayBuffer"}) is HerReplayBuffer


def test_former_wrapper_name_in_yaml_resolves() -> None:
    assert class_path("rlzoo.envs.wrappers.HistoryWrapper") == "rlzoo.envs.single_env.wrappers.HistoryWrapper"


@pytest.mark.parametrize("name", ["torch.nn.ReLU", "rlzoo.PPO", "rlzoo", "mine.envs.wrappers.W"])
def test_other_names_stay(name: str) -> None:
    assert current_name(name) == name
