"""Remembered trajectories in files: safetensors, with a header that says what they belong to.

Nothing in a file is executed, and its columns have a checksum.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium import spaces
from safetensors import SafetensorError
from safetensors.numpy import load, save

from rlzoo.buffers.replay.replay_file import check_rows, find_replay_file, part_of, with_suffix
from rlzoo.buffers.stored import Conversion, Stored
from rlzoo.buffers.trajectories import STEPWISE, TrajectoryBuffer
from rlzoo.core.errors import CheckpointError, RunFailed, UserError
from rlzoo.io.atomic import atomic_write
from rlzoo.io.space_json import space_to_json

FORMAT, FORMAT_VERSION = "rlzoo trajectories", "1"

_KINDS = {
    "rewards": "f", "log_mu": "f", "memory": "f", "terminated": "b", "truncated": "b", "episode_starts": "b",
    "position": "iu", "finals": "iu",
}  # fmt: skip
"""NumPy's kinds of the columns that are the same for all environments."""
_DAMAGE = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, SafetensorError,
    TypeError, ValueError,
)  # fmt: skip


def save_trajectories(
    path: Any, buffer: TrajectoryBuffer, identity: Mapping[str, Any], stored: Stored | None = None
) -> None:
    """Write all trajectories, whole or not at all.

    :param path: a path (`.safetensors` is appended when it has no suffix), or a binary file object
    :param identity: spaces and numbers that a buffer must share to be filled from the file
    :param stored: whether the trajectories are raw
    :raises RunFailed: the disk is full or the folder not writable; a previous file is intact
    """
    arrays = {name: np.ascontiguousarray(array) for name, array in buffer.arrays().items()}
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "checksum": str(_checksum(arrays))}
    header["stored"] = json.dumps(asdict(stored or Stored()))
    data = save(arrays, {**header, **_as_text(identity)})
    if isinstance(path, str | os.PathLike):
        with atomic_write(with_suffix(path), size=len(data)) as file:
            file.write(data)
        return
    if not hasattr(path, "write"):
        raise UserError(f"trajectories are saved to a path or a file opened for binary writing, not {path!r}")
    try:
        path.write(data)
    except OSError as error:
        raise RunFailed(f"cannot write the trajectories: {error.strerror or error}") from error


def load_trajectories(
    path: Any, buffer: TrajectoryBuffer, identity: Mapping[str, Any], conversion: Conversion | None = None
) -> None:
    """Fill a buffer with what a file holds; when not all of it fits, with the newest.

    :param conversion: how experience in the file becomes what the buffer stores
    :raises CheckpointError: the file is missing, damaged, foreign, or of other spaces or numbers; the buffer
        is as it was before
    """
    if isinstance(path, str | os.PathLike):
        name, data = str(path), find_replay_file(path).read_bytes()
    elif hasattr(path, "read"):
        name, data = str(getattr(path, "name", "the file object")), path.read()
    else:
        raise UserError(f"trajectories are read from a path or a file object, not from {path!r}")
    try:
        arrays, said = _verified(data, _as_text(identity))
        _check_columns(arrays, identity)
        if conversion is not None and "rewards" in arrays:
            arrays = _converted(arrays, conversion, said)
        if "rewards" in arrays:
            buffer.set_arrays(arrays)
        else:
            buffer.reset()
    except _DAMAGE as error:
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise CheckpointError(f"{name} is not loaded as trajectories: {reason}") from None


def _converted(
    arrays: dict[str, np.ndarray], conversion: Conversion, said: str | None
) -> dict[str, np.ndarray]:
    """:param said: what the file says about how it is stored; None: it is of an earlier version"""
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


def _verified(data: bytes, identity: Mapping[str, str]) -> tuple[dict[str, np.ndarray], str | None]:
    """The arrays of a file, after its header was compared and its checksum computed; how they are stored."""
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= len(data) - 8 or data[8:9] != b"{":
        raise CheckpointError("it is damaged or of another format")
    metadata = json.loads(data[8 : 8 + length]).get("__metadata__", {})
    if metadata.get("format") != FORMAT:
        raise CheckpointError("it is another kind of file")
    if metadata["format_version"] != FORMAT_VERSION:
        raise CheckpointError(f"its format {metadata['format_version'][:20]} is not the one of this rlzoo")
    for name, mine in identity.items():
        if metadata[name] != mine:
            found, mine = metadata[name][:120], mine[:120]
            raise CheckpointError(f"its {name.replace('_', ' ')} is {found}, but the agent's is {mine}")
    arrays = load(data)
    if str(_checksum(arrays)) != metadata["checksum"]:
        raise CheckpointError("its columns are damaged")
    return arrays, metadata.get("stored")


def _check_columns(arrays: Mapping[str, np.ndarray], identity: Mapping[str, Any]) -> None:
    """That the columns have as many slots, environments and steps as each other, and final rows a place."""
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


def _checksum(arrays: Mapping[str, np.ndarray]) -> int:
    checksum = 0
    for name in sorted(arrays):
        checksum = zlib.crc32(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data, checksum)
    return checksum


def _as_text(identity: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(space_to_json(value), sort_keys=True)
        if isinstance(value, spaces.Space)
        else str(value)
        for name, value in identity.items()
    }
