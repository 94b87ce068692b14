"""Read the files of stable-baselines3's `VecNormalize.save` without unpickling them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.io.pickle_tree import Instance, read_pickle, refuse_execution
from rlzoo.io.pickled_values import plain_value

MAX_BYTES = 256 * 2**20
SETTINGS = ("training", "norm_obs", "norm_reward", "clip_obs", "clip_reward", "gamma", "epsilon")


def is_pickle(file: str | os.PathLike[str]) -> bool:
    """Return whether a file starts like a pickle of protocol 2 to 5."""
    try:
        with open(file, "rb") as opened:
            start = opened.read(2)
    except OSError:
        return False
    return len(start) == 2 and start[0] == 0x80 and 2 <= start[1] <= 5


def read_pickled_statistics(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return settings and statistics by the names in the .npz files of `rlzoo.VecNormalize.save`.

    :raises UserError: the file is missing, damaged, or not a pickled VecNormalize
    """
    try:
        if Path(path).stat().st_size > MAX_BYTES:
            raise CheckpointError(f"it is larger than {MAX_BYTES:,} bytes")
        tree = read_pickle(Path(path).read_bytes())
        refuse_execution(tree, "it")
        if not isinstance(tree, Instance) or tree.path.rpartition(".")[2] != "VecNormalize":
            raise CheckpointError("it holds no VecNormalize")
        state = plain_value(tree.attributes())
        if not isinstance(state, dict):
            raise CheckpointError("its VecNormalize has no attributes")
        return {**dict(_settings(state)), **dict(_statistics(state))}
    except CheckpointError as error:
        raise UserError(
            f"{path} is not a readable file of stable-baselines3's VecNormalize: {error}"
        ) from None
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None


def _settings(state: dict[str, object]) -> Iterator[tuple[str, object]]:
    for name in SETTINGS:
        value = state.get(name)
        if isinstance(value, np.generic | np.ndarray) and value.ndim == 0:
            value = value.item()
        if isinstance(value, bool | int | float):
            yield name, value
    keys = state.get("norm_obs_keys")
    if isinstance(keys, list) and all(isinstance(key, str) for key in keys) and state.get("norm_obs"):
        yield "norm_obs_keys", keys


def _statistics(state: dict[str, object]) -> Iterator[tuple[str, np.ndarray]]:
    yield from _moments("ret_rms", state.get("ret_rms"))
    if not state.get("norm_obs"):
        return
    obs_rms = state.get("obs_rms")
    if isinstance(obs_rms, dict):
        for key, statistics in obs_rms.items():
            yield from _moments(f"obs_rms.{key}", statistics)
    else:
        yield from _moments("obs_rms", obs_rms)


def _moments(name: str, statistics: object) -> Iterator[tuple[str, np.ndarray]]:
    """Yield `<name>.mean`, `.var` and `.count` of a RunningMeanStd."""
    if not isinstance(statistics, Instance) or statistics.path.rpartition(".")[2] != "RunningMeanStd":
        raise CheckpointError(f"its {name[:60]} is not a RunningMeanStd")
    moments = plain_value(statistics.attributes())
    for key in ("mean", "var", "count"):
        try:
            yield f"{name}.{key}", np.array(moments[key], np.float64)
        except (KeyError, TypeError, ValueError):
            raise CheckpointError(f"its {name[:60]} has no numbers as {key}") from None
