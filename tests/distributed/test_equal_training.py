"""Several ranks learn what one process learns, up to rounding."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from tests.distributed import train_cases
from tests.distributed.start_ranks import run_script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and gloo uses lo")


@pytest.fixture(scope="module")
def of_ranks(tmp_path_factory):
    """The folder with the results of two ranks."""
    folder = tmp_path_factory.mktemp("ranks")
    run_script(folder, Path(train_cases.__file__), str(folder))
    return folder


@pytest.mark.parametrize("name", train_cases.CASES)
def test_two_ranks_learn_what_one_process_learns(name, of_ranks, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train_cases.train(name, tmp_path)
    one, two = (np.load(folder / f"{name}.npz") for folder in (tmp_path, of_ranks))
    assert np.abs(one["parameters"] - two["parameters"]).max() < 1e-5
    assert np.array_equal(one["statistics"], two["statistics"])  # steps, updates, returns of the episodes
    assert np.allclose(one["metrics"], two["metrics"], rtol=1e-3, atol=1e-4, equal_nan=True)
