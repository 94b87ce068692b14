"""Stored trajectories in files (see `rlzoo.io.container`), with a header that says what they belong to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium import spaces

from rlzoo.buffers.replay.replay_file import check_rows, part_of
from rlzoo.buffers.stored import Conversion, Stored
from rlzoo.buffers.trajectories import STEPWISE, TrajectoryBuffer
from rlzoo.core.errors import CheckpointError
from rlzoo.io.container import ArrayFile, FileColumn, MissingFile, PathOrFile, checkpoint_errors, file_name
from rlzoo.io.space_json import space_to_json

TRAJECTORY_FILE = ArrayFile("replay buffer", (".safetensors", ".pkl"), "rlzoo trajectories", sealed=False)

_KINDS = {
    "rewards": "f", "log_mu": "f", "memory": "f", "terminated": "b", "truncated": "b", "episode_starts": "b",
    "position": "iu", "finals": "iu",
}  # fmt: skip
"""NumPy's kinds of the columns that are the same for all environments."""


def save_trajectories(
    path: PathOrFile, buffer: TrajectoryBuffer, identity: Mapping[str, Any], stored: Stored | None = None
) -> None:
    """Write all trajectories, whole or not at all.

    :param path: a path (`.safetensors` is appended when it has no suffix), or a binary file object
    :param identity: spaces and numbers that a buffer must share to be filled from the file
    :param stored: whether the trajectories are raw
    :raises RunFailed: the disk is full or the folder not writable; a previous file is intact
    """
    columns = {name: FileColumn.of(array) for name, array in buffer.arrays().items()}
    metadata = {"stored": json.dumps(asdict(stored or Stored())), **_as_text(identity)}
    TRAJECTORY_FILE.save(path, columns, metadata)


def load_trajectories(
    path: PathOrFile,
    buffer: TrajectoryBuffer,
    identity: Mapping[str, Any],
    conversion: Conversion | None = None,
) -> None:
    """Fill a buffer with what a file holds; when not all of it fits, with the newest.

    :param conversion: how experience in the file becomes what the buffer stores
    :raises CheckpointError: the file is missing, damaged, foreign, or of other spaces or numbers; the buffer
        is as it was before
    """
    mine = _as_text(identity)
    with checkpoint_errors(f"{file_name(path)} is not loaded as trajectories", MissingFile):
        data = TRAJECTORY_FILE.map(path)
        metadata, arrays = TRAJECTORY_FILE.load(data, lambda found: _check_identity(found, mine))
        _check_columns(arrays, identity)
        if conversion is not None and "rewards" in arrays:
            arrays = _converted(arrays, conversion, metadata.get("stored"))
        if "rewards" in arrays:
            buffer.set_arrays(arrays)
        else:
            buffer.reset()


def _converted(
    arrays: dict[str, np.ndarray], conversion: Conversion, said: str | None
) -> dict[str, np.ndarray]:
    """Return the columns of a file as the buffer stores them.

    :param said: what the file says about how it is stored; None: it is of an earlier version
    """
    of_obs, of_rewards = conversion.functions(None if said is None else Stored(**json.loads(said)))
    converted = {
        **arrays,
        "rewards": of_rewards(arrays["rewards"].reshape(-1)).reshape(arrays["rewards"].shape),
    }
    for prefix, n_axes in (("obs/", 3), ("final_obs/", 1)):
        parts = {name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)}
        if not parts:
            continue
        lead = next(iter(parts.values())).shape[:n_axes]
        flat = {key: part.reshape(-1, *part.shape[n_axes:]) for key, part in parts.items()}
        result = of_obs(flat.get("", flat))
        for key, rows in result.items() if isinstance(result, dict) else [("", result)]:
            converted[f"{prefix}{key}"] = rows.reshape(*lead, *rows.shape[1:])
    return converted


def _check_identity(metadata: Mapping[str, str], identity: Mapping[str, str]) -> None:
    for name, mine in identity.items():
        if metadata[name] != mine:
            found, mine = metadata[name][:120], mine[:120]
            raise CheckpointError(f"its {name.replace('_', ' ')} is {found}, but the agent's is {mine}")


def _check_columns(arrays: Mapping[str, np.ndarray], identity: Mapping[str, Any]) -> None:
    """Check that columns have as many slots, steps and environments as each other, final rows a place."""
    if "rewards" not in arrays:
        return
    n_slots, n_envs, n_steps = len(arrays["rewards"]), identity["n_envs"], identity["n_steps"]
    lengths = {"obs": n_steps + 1, "memory": 1, **dict.fromkeys(STEPWISE, n_steps)}
    for name, array in arrays.items():
        expected = lengths.get(name.split("/")[0])
        if expected is not None and array.shape[:3] != (n_slots, n_envs, expected):
            raise CheckpointError(f"{name} is {array.shape}, not {(n_slots, n_envs, expected)}")
        name, _, key = name.partition("/")
        of_choices = name == "actions" and _of_choices(identity)
        if array.dtype.kind not in _KINDS.get(name, "biuf") or (of_choices and array.dtype != np.int64):
            raise CheckpointError(f"{name} holds values of type {array.dtype}")
        if name in ("obs", "final_obs"):
            check_rows(name, array, part_of(identity.get("observation_space"), key))
        else:
            check_rows(
                name, array, identity.get("action_space") if name == "actions" else None, from_zero=True
            )
    if not 0 <= int(arrays["position"][0]) <= n_slots:
        raise CheckpointError(f"the position is {int(arrays['position'][0])} of {n_slots}")
    if "finals" in arrays:
        limits = np.array([[n_slots], [n_steps], [n_envs]])
        if not ((arrays["finals"] >= 0) & (arrays["finals"] < limits)).all():
            raise CheckpointError("its final observations belong nowhere")


def _of_choices(identity: Mapping[str, Any]) -> bool:
    return isinstance(identity.get("action_space"), spaces.Discrete | spaces.MultiDiscrete)


def _as_text(identity: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(space_to_json(value), sort_keys=True)
        if isinstance(value, spaces.Space)
        else str(value)
        for name, value in identity.items()
    }
