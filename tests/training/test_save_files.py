"""Paths, values and model files are opened, written and read as scripts for stable-baselines3 do it."""

from __future__ import annotations

import io
import pickle
import warnings

import numpy as np
import pytest
import torch

from rlzoo import A2C
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.training.save_files import (
    load_from_pkl,
    load_from_zip_file,
    open_path,
    save_to_pkl,
    save_to_zip_file,
)


def test_suffix_is_added_where_there_is_none(tmp_path):
    open_path(tmp_path / "a", "w", suffix="txt").close()
    open_path(str(tmp_path / "b.own"), "write", suffix="txt").close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.own"]
    with pytest.warns(UserWarning, match=r"reading .*a\.txt"):
        open_path(tmp_path / "a", "r", verbose=2, suffix="txt").close()
    with pytest.warns(UserWarning, match="is overwritten"):
        open_path(tmp_path / "a", "w", verbose=2, suffix="txt").close()
    with pytest.warns(UserWarning, match="is made"):
        open_path(tmp_path / "new" / "a", "w").close()
    with pytest.warns(UserWarning, match="is a folder"):
        open_path(tmp_path / "new", "w").close()
    assert (tmp_path / "new_2").is_file()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_path(tmp_path / "a", "w", verbose=1, suffix="txt").close()
    with pytest.raises(FileNotFoundError):
        open_path(tmp_path / "nothing", "r")


def test_file_objects_are_checked_against_the_mode(tmp_path):
    with (tmp_path / "a").open("wb") as file:
        assert open_path(file, "w") is file
        for mode in ("r", "other"):
            with pytest.raises(UserError):
                open_path(file, mode)
    with pytest.raises(UserError, match="closed"):
        open_path(file, "w")
    with pytest.raises(TypeError, match="not 7"):
        open_path(7, "w")


def test_values_come_back_and_objects_are_refused(tmp_path):
    values = {"a": [1, 2.5, None, (True, "text")], "b": np.arange(3), "c": torch.ones(2)}
    save_to_pkl(tmp_path / "values", values)
    loaded = load_from_pkl(tmp_path / "values.pkl")
    assert loaded["a"] == values["a"] and loaded["b"].tolist() == [0, 1, 2]
    assert torch.equal(loaded["c"], values["c"])
    with pytest.raises(UserError, match=r"model\.save"):
        save_to_pkl(tmp_path / "model", A2C("MlpPolicy", "CartPole-v1"))


def test_pickles_of_plain_values_are_read_and_of_objects_not():
    plain = {"mean": np.arange(4.0), "names": ["a", "b"]}
    assert load_from_pkl(io.BytesIO(pickle.dumps(plain)))["mean"].tolist() == [0, 1, 2, 3]
    with pytest.raises(CheckpointError, match=r"model\.load_replay_buffer"):
        load_from_pkl(io.BytesIO(pickle.dumps({"a": io.BytesIO})))


def test_parts_of_a_model_file_are_read(tmp_path):
    model = A2C("MlpPolicy", "CartPole-v1", gamma=0.9).learn(10)
    model.save(tmp_path / "model")
    data, parameters, tensors = load_from_zip_file(tmp_path / "model", custom_objects={"gamma": 0.5})
    assert data["gamma"] == 0.5 and data["n_steps"] == model.n_steps and data["n_envs"] == 1
    assert tensors == {} and parameters.keys() == model.get_parameters().keys()
    model.set_parameters(parameters)
    assert load_from_zip_file(tmp_path / "model", load_data=False)[0] is None
    with pytest.raises(UserError, match=r"model\.save\(path\)"):
        save_to_zip_file(tmp_path / "other", data, parameters)
