"""How hyperparameters are drawn, counted and written down."""

from __future__ import annotations

import json
from typing import Any

import optuna
import pytest

from rlzoo.core.errors import UserError
from rlzoo.params.search_parameters import (
    Choice,
    Conditional,
    Float,
    FractionOf,
    Int,
    OneMinusLogUniform,
    OneOrSampled,
    Parameter,
    PowerOfTwo,
    Scheduled,
)
from rlzoo.tuning.space.search_space import Space

optuna.logging.set_verbosity(optuna.logging.WARNING)

KNOWN = {"train_freq": 8, "n_envs": 2, "use_sde": True}
EVERY_KIND: list[Parameter] = [
    Float(1e-5, 1e-2, log=True),
    Float(0.0, 1.0, step=0.25),
    Int(1, 10, step=3),
    PowerOfTwo(8, 1024),
    OneMinusLogUniform(1e-4, 0.2),
    Choice([64, 64], {"pi": [8], "qf": [16]}, "relu", None, 2, False),
    OneOrSampled((1, "episode"), Int(1, 9)),
    Scheduled(Float(1e-5, 1e-2, log=True)),
    FractionOf(("train_freq", "n_envs"), 0.1, 2.0),
    Conditional("use_sde", (True,), OneOrSampled(-1, Int(4, 64, log=True))),
]


def fixed(**params: Any) -> Any:
    return optuna.trial.FixedTrial(params)


@pytest.mark.parametrize("parameter", EVERY_KIND, ids=lambda parameter: type(parameter).__name__)
def test_what_is_drawn_is_contained_and_plain(parameter: Parameter) -> None:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = []
    for _ in range(40):
        trial = study.ask()
        drawn.append(parameter.suggest(trial, "x", KNOWN))
        again = parameter.suggest(optuna.trial.FixedTrial(trial.params), "x", KNOWN)
        assert again == drawn[-1]
    assert all(parameter.contains(value, KNOWN) for value in drawn)
    assert json.loads(json.dumps(drawn)) == drawn
    assert len({repr(value) for value in drawn}) > 1


@pytest.mark.parametrize("parameter", EVERY_KIND, ids=lambda parameter: type(parameter).__name__)
def test_json_and_back(parameter: Parameter) -> None:
    again = Parameter.from_json(json.loads(json.dumps(parameter.to_json())))
    assert again == parameter


@pytest.mark.parametrize("text", ['{"kind": "Cubic"}', '{"low": 1}', '{"kind": "Float"}', "3", "null"])
def test_foreign_json_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="not made by this version"):
        Parameter.from_json(json.loads(text))


def test_values_as_trials_record_them() -> None:
    assert PowerOfTwo(8, 64).suggest(fixed(**{"log2(n_steps)": 5}), "n_steps") == 32
    assert OneMinusLogUniform(1e-4, 0.5).suggest(fixed(**{"1 - gamma": 0.25}), "gamma") == 0.75
    assert Choice([64, 64], [8]).suggest(fixed(net="[8]"), "net") == [8]
    episode = OneOrSampled((1, "episode"), Int(1, 9))
    assert episode.suggest(fixed(**{"f is": "[1, 'episode']"}), "f") == [1, "episode"]
    assert episode.suggest(fixed(**{"f is": "another", "f": 3}), "f") == 3
    rate = Scheduled(Float(0.0, 1.0))
    assert rate.suggest(fixed(**{"lr": 0.5, "lr schedule": "linear"}), "lr") == "lin_0.5"
    assert rate.suggest(fixed(**{"lr": 0.5, "lr schedule": "constant"}), "lr") == 0.5


def test_a_ratio_counts_in_its_whole() -> None:
    steps = FractionOf(("train_freq", "n_envs"), 0.25, 2.0, otherwise=OneOrSampled(-1, Int(1, 64)))
    assert steps.suggest(fixed(**{"g ratio": 0.5}), "g", KNOWN) == 8
    assert steps.suggest(fixed(**{"g ratio": 0.25}), "g", {"train_freq": 1, "n_envs": 1}) == 1
    assert [steps.contains(value, KNOWN) for value in (3, 4, -1, 32, 33)] == [False, True, True, True, False]
    per_episode = {"train_freq": [1, "episode"], "n_envs": 1}
    assert steps.suggest(fixed(**{"g is": -1}), "g", per_episode) == -1
    assert steps.contains(64, per_episode) and not steps.contains(65, per_episode)


@pytest.mark.parametrize(
    ("parameter", "inside", "outside"),
    [
        (Float(0.1, 1.0), [0.1, 0.5, 1], [0.05, True, "0.5", None]),
        (Int(1, 8), [1, 8, 4.0], [0, 9, 1.5, True]),
        (PowerOfTwo(8, 64), [8, 64], [4, 12, 128]),
        (OneMinusLogUniform(1e-4, 0.1), [0.9, 0.9999], [0.89, 1.0, 0.99999]),
        (Choice([64, 64], [8]), [[64, 64], (8,), {"pi": [64, 64], "vf": [64, 64]}], [[64], {"pi": [8]}]),
        (Scheduled(Float(0.1, 1.0)), ["lin_0.5", 0.5], ["lin_2", "lin_0.5_0.1", "cos_0.5"]),
        (OneOrSampled(None, Float(0.1, 1.0)), [None, 0.5], [0.0]),
    ],
)
def test_contains(parameter: Parameter, inside: list[Any], outside: list[Any]) -> None:
    assert [value for value in inside if not parameter.contains(value)] == []
    assert [value for value in outside if parameter.contains(value)] == []


def test_grids() -> None:
    assert Float(0.0, 1.0, step=0.25).grid() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert Int(1, 10, step=3).grid() == [1, 4, 7, 10]
    assert PowerOfTwo(8, 32).grid() == [8, 16, 32]
    assert OneOrSampled(None, Choice(1, 2)).grid() == [None, 1, 2]
    assert Float(0.0, 1.0).grid() is None
    assert Int(1, 10**9).grid() is None


# ---------------------------------------------------------------------- spaces


SPACE = Space(
    {
        "use_sde": Choice(False, True),
        "sde_sample_freq": Conditional("use_sde", (True,), OneOrSampled(-1, Choice(4, 8))),
        "policy_kwargs.net_arch": Choice([64], [8]),
        "policy_kwargs.log_std_init": Choice(-1, 0),
    }
)


def test_a_conditional_row_is_absent_where_it_does_not_apply() -> None:
    rows = SPACE.without(["policy_kwargs"])
    assert rows.sample(fixed(use_sde=False)) == {"use_sde": False}
    trial = fixed(**{"use_sde": True, "sde_sample_freq is": "another", "sde_sample_freq": 8})
    assert rows.sample(trial) == {"use_sde": True, "sde_sample_freq": 8}


@pytest.mark.parametrize("use_sde", [True, False])
def test_a_fixed_value_decides_what_applies(use_sde: bool) -> None:
    space = Space(SPACE.rows, {"use_sde": use_sde}).without(["use_sde", "policy_kwargs"])
    assert space.size == (3 if use_sde else 1)
    assert space.sample(fixed(**{"sde_sample_freq is": -1})) == ({"sde_sample_freq": -1} if use_sde else {})


@pytest.mark.parametrize(
    ("fixed_key", "left"),
    [
        ("use_sde", 3),
        ("policy_kwargs", 2),
        ("policy_kwargs.net_arch", 3),
        ("policy_kwargs.net_arch.pi", 3),
        ("policy", 4),
    ],
)
def test_without(fixed_key: str, left: int) -> None:
    assert len(SPACE.without([fixed_key]).rows) == left


def test_the_grid_has_each_combination_once() -> None:
    points = SPACE.grid()
    assert len(points) == SPACE.size == 4 * 2 * 2
    samples = [SPACE.sample(optuna.trial.FixedTrial(point)) for point in points]
    assert len({repr(sample) for sample in samples}) == len(samples)
    study = optuna.create_study()
    study.enqueue_trial(points[-1])
    trial = study.ask()
    assert SPACE.sample(trial) == samples[-1]
    assert trial.params == points[-1]


def test_a_grid_needs_values_that_can_be_counted() -> None:
    with pytest.raises(UserError, match="one by one: learning_rate has no countable values"):
        Space({"gamma": Choice(0.9, 0.99), "learning_rate": Float(0.1, 0.2)}).grid()
    with pytest.raises(UserError, match="over 100,000 combinations"):
        Space({name: Int(1, 100) for name in "abc"}).grid()
    assert Space({name: Int(1, 100) for name in "abc"}).size is None


def test_a_space_travels_as_json() -> None:
    space = Space(SPACE.rows, {"n_envs": 4})
    assert Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    for foreign in ({}, None, {"rows": 3, "given": {}}):
        with pytest.raises(UserError, match="not made by this version"):
            Space.from_json(foreign)
