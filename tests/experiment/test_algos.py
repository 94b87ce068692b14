from __future__ import annotations

import pytest

import rlzoo
from rlzoo.config import catalog
from rlzoo.core.errors import UserError


class Patient(rlzoo.PPO):
    """An algorithm of a user."""


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    for table in ("_TARGETS", "_CLASSES"):
        monkeypatch.setattr(catalog, table, dict(getattr(catalog, table)))


def test_algos_are_those_of_the_commands():
    assert list(rlzoo.ALGOS) == catalog.names()
    assert rlzoo.ALGOS["ppo"] is rlzoo.PPO
    assert "nope" not in rlzoo.ALGOS
    with pytest.raises(KeyError):
        rlzoo.ALGOS["nope"]


def test_assigned_algorithm_trains(tmp_path, conf):
    rlzoo.ALGOS["patient"] = Patient
    model = rlzoo.train(
        algo="patient", conf_file=conf, n_timesteps=40, log_folder=tmp_path, eval_freq=-1, verbose=0
    )
    assert type(model) is Patient
    del rlzoo.ALGOS["patient"]
    assert "patient" not in rlzoo.ALGOS


def test_assigned_algorithm_takes_the_place_of_another():
    rlzoo.ALGOS.update({"ppo": Patient})
    assert rlzoo.ALGOS["ppo"] is catalog.load("ppo") is Patient


@pytest.mark.parametrize("value", [dict, "rlzoo.PPO", None])
def test_what_is_no_algorithm_is_refused(value):
    with pytest.raises(UserError, match=r"ALGOS\['x'\] must be a class derived from an algorithm of rlzoo"):
        rlzoo.ALGOS["x"] = value
