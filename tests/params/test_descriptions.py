"""Every hyperparameter of every algorithm describes itself."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from rlzoo.config import catalog
from rlzoo.config.her_entries import BUFFER_KEYS
from rlzoo.config.hyperparams import ZOO_KEYS
from rlzoo.params import shared
from rlzoo.params.descriptions import SECTIONS, Doc, by_section, describe, param

ALGOS = [algo for algo in catalog.names() if hasattr(catalog.load(algo), "Config")]


def config_of(algo: str) -> Any:
    return catalog.load(algo).Config  # type: ignore[attr-defined]


@pytest.mark.parametrize("algo", ALGOS)
def test_every_field_has_a_description_and_a_section(algo: str) -> None:
    for item in describe(config_of(algo)):
        assert len(item.text) > 20, item
        assert not item.text.endswith("."), item
        assert item.section in SECTIONS, item


@pytest.mark.parametrize("algo", ALGOS)
def test_sections_hold_every_field_once(algo: str) -> None:
    shown = [item.name for items in by_section(describe(config_of(algo))).values() for item in items]
    assert sorted(shown) == sorted(field.name for field in dataclasses.fields(config_of(algo)))


@pytest.mark.parametrize("algo", ALGOS)
def test_config_is_a_plain_frozen_dataclass(algo: str) -> None:
    config = config_of(algo)()
    defaults = {field.name: getattr(config_of(algo), field.name) for field in dataclasses.fields(config)}
    assert dataclasses.asdict(config) == defaults
    assert pickle.loads(pickle.dumps(config)) == config == copy.deepcopy(config)
    assert dataclasses.replace(config, learning_rate=0.5).learning_rate == 0.5
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.learning_rate = 1.0


@pytest.mark.parametrize("algo", ALGOS)
def test_constructor_arguments_have_descriptions(algo: str) -> None:
    arguments = catalog.load(algo).common_arguments  # type: ignore[attr-defined]
    assert {name for name in arguments if not name.startswith("_")} <= shared.CONSTRUCTOR.keys()


def test_file_keys_have_descriptions() -> None:
    assert {*ZOO_KEYS, *BUFFER_KEYS, "policy", "policy_kwargs"} <= shared.FILE_KEYS.keys()


def test_no_shared_description_is_unused() -> None:
    texts = [item.text for algo in ALGOS for item in describe(config_of(algo))]
    for name, doc in vars(shared).items():
        if isinstance(doc, Doc):
            assert sum(text.startswith(doc.text) for text in texts) >= 1, name


def test_param_needs_a_section_with_a_text() -> None:
    with pytest.raises(ValueError, match="needs a section"):
        param(1, doc="number of heads")
