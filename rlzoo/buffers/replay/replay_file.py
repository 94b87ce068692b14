"""Replay buffers in files: the safetensors format, a JSON header and the plain bytes of the columns.

A file is written by streaming the filled slots, oldest first, and read through a memory map, so neither
needs the buffer in memory a second time. Nothing in a file is executed. The header has a checksum of itself
and one of every column; all of them are verified before the buffer is touched.

Source of the format: the documentation of safetensors, https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import mmap
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from gymnasium import spaces

from rlzoo.buffers.replay.final_obs_store import Aside
from rlzoo.buffers.replay.replay_buffer import ASIDE, ENDED, TERMINATED, ReplayBuffer
from rlzoo.buffers.replay.replay_observations import Column, StackedObservations
from rlzoo.buffers.stored import Stored
from rlzoo.core.errors import CheckpointError, RunFailed, UserError, nearest
from rlzoo.io.atomic import atomic_write
from rlzoo.io.space_json import space_from_json, space_to_json

FORMAT, FORMAT_VERSION = "rlzoo replay buffer", 1
SUFFIX = ".safetensors"
CHUNK_BYTES = 16 * 2**20
MAX_HEADER = 64 * 2**20

PathOrFile: TypeAlias = "str | os.PathLike[str] | BinaryIO"

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
_NO_CHECKSUM = '"checksum":"00000000"'


@dataclass
class Part:
    """A column of a file: `n` rows that are read from a buffer, or written to it, a few at a time."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]  # of one row
    n: int
    read: Callable[[int, int], np.ndarray]  # rows [start, stop)

    @property
    def nbytes(self) -> int:
        return self.n * self.row_bytes

    @property
    def row_bytes(self) -> int:
        return int(np.prod(self.shape)) * self.dtype.itemsize

    def chunks(self) -> Iterator[np.ndarray]:
        yield from (self.read(start, stop) for start, stop in _ranges(self.n, self.row_bytes))


def save_replay_buffer(path: PathOrFile, replay: ReplayBuffer) -> None:
    """Write a replay buffer, whole or not at all.

    :param path: a path (`.safetensors` is appended when it has no suffix), or a binary file object
    :raises RunFailed: the disk is full or the folder not writable; a previous file is intact
    """
    parts = _parts(replay)
    header = _header(replay, parts)
    if isinstance(path, str | os.PathLike):
        size = len(header) + sum(part.nbytes for part in parts.values())
        with atomic_write(with_suffix(path), size=size) as file:
            _write(file, header, parts)
        return
    if not hasattr(path, "write"):
        raise UserError(
            f"a replay buffer is saved to a path or a file opened for binary writing, not {path!r}"
        )
    try:
        _write(path, header, parts)
    except OSError as error:
        raise RunFailed(f"cannot write the replay buffer: {error.strerror or error}") from error


def with_suffix(path: str | os.PathLike[str]) -> Path:
    """The path that `save_replay_buffer` writes to."""
    path = Path(path)
    if not path.name:
        raise UserError(f"{str(path)!r} is no name for a replay buffer")
    return path if path.suffix else path.with_name(f"{path.name}{SUFFIX}")


def _write(file: BinaryIO, header: bytes, parts: dict[str, Part]) -> None:
    file.write(header)
    for part in parts.values():
        for chunk in part.chunks():
            file.write(np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data)


def _parts(replay: ReplayBuffer) -> dict[str, Part]:
    """What is written, oldest first; wider numbers before narrower ones, so that all lie aligned."""
    obs, size = replay.obs, replay.size()
    seen = size + 1 + obs.n_context
    first_seen = replay.oldest - obs.n_context
    parts = {
        name: _slots_part(replay, column.read, seen, first_seen)
        for name, column in _observation_columns(replay).items()
    }
    parts["actions"] = _slots_part(replay, replay.action_column.read, size, replay.oldest)
    arrays: dict[str, np.ndarray] = {"rewards": replay.reward_column, "flags": replay.flags}
    arrays |= {f"own.{name}": column for name, column in replay.own_columns().items()}
    for name, array in arrays.items():
        parts[name] = _slots_part(replay, array.__getitem__, size, replay.oldest)
    flags = replay.flags[_slots(replay, replay.oldest, size)]
    tickets = replay.tickets[_slots(replay, replay.oldest, size)][(flags & ASIDE) > 0]
    parts |= _aside_parts("finals", obs.finals, tickets)
    if isinstance(obs, StackedObservations):
        slots = _slots(replay, first_seen, seen)
        begun = (obs.ages[slots] == 0) & (obs.older_tickets[slots] >= 0)
        parts["ages"] = _slots_part(replay, obs.ages.__getitem__, seen, first_seen)
        parts["filled"] = Part(begun.dtype, begun.shape[1:], seen, lambda start, stop: begun[start:stop])
        parts |= _aside_parts("older", obs.older, obs.older_tickets[slots][begun])
    return dict(sorted(parts.items(), key=lambda item: -item[1].dtype.itemsize))


def _observation_columns(replay: ReplayBuffer) -> dict[str, Column]:
    columns = replay.obs.columns
    if isinstance(columns, dict):
        return {f"observations.{key}": column for key, column in columns.items()}
    return {"observations": columns}


def _slots(replay: ReplayBuffer, first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count) % replay.n_slots


def _slots_part(replay: ReplayBuffer, read: Callable[[Any], np.ndarray], count: int, first: int) -> Part:
    """The rows of `count` slots from `first` on, around the end of the ring."""

    def rows(start: int, stop: int) -> np.ndarray:
        return np.concatenate([read(segment) for segment, _ in _segments(replay, first, start, stop)])

    row = read(slice(0, 1))[0]
    return Part(row.dtype, row.shape, count, rows)


def _segments(replay: ReplayBuffer, first: int, start: int, stop: int) -> Iterator[tuple[slice, slice]]:
    """Slots of the ring, and rows of [start, stop) that belong into them, where row 0 is in slot `first`."""
    at = start
    while at < stop:
        slot = (first + at) % replay.n_slots
        count = min(stop - at, replay.n_slots - slot)
        yield slice(slot, slot + count), slice(at - start, at - start + count)
        at += count


def _aside_parts(name: str, aside: Aside, tickets: np.ndarray) -> dict[str, Part]:
    def part(rows: Any, key: str | None) -> Part:
        def read(start: int, stop: int) -> np.ndarray:
            gathered = aside.gather(tickets[start:stop])
            array: np.ndarray = (gathered if key is None else gathered[key]).cpu().numpy()
            return array

        return Part(rows[:0].cpu().numpy().dtype, tuple(rows.shape[1:]), len(tickets), read)

    if isinstance(aside.rows, dict):
        return {f"{name}.{key}": part(rows, key) for key, rows in aside.rows.items()}
    return {name: part(aside.rows, None)}


def _ranges(n_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    step = max(CHUNK_BYTES // max(row_bytes, 1), 1)
    yield from ((start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _identity(replay: ReplayBuffer) -> dict[str, str]:
    """What a file and the buffer it is loaded into must have in common."""
    return {
        "class": _class_name(type(replay).__name__),
        "observation_space": json.dumps(space_to_json(replay.observation_space)),
        "action_space": json.dumps(space_to_json(replay.action_space)),
        "n_envs": str(replay.n_envs),
        "frame_stack": str(replay.frame_stack),
    }


def _class_name(name: str) -> str:
    """What files call a class: the plain classes store the same, and each reads what another one wrote."""
    return "ReplayBuffer" if name in ("DictReplayBuffer", "NStepReplayBuffer") else name


def _header(replay: ReplayBuffer, parts: dict[str, Part]) -> bytes:
    checksums = {}
    for name, part in parts.items():
        checksums[name] = 0
        for chunk in part.chunks():
            checksums[name] = zlib.crc32(
                np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data, checksums[name]
            )
    metadata = {
        "checksum": "00000000",  # of the header with these zeros in it
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        **_identity(replay),
        "n_slots": str(replay.n_slots),
        "position": str(replay.head),
        "size": str(replay.size()),
        "started": str(int(replay._started)),
        "stored": json.dumps(asdict(replay.stored)),
        "checksums": json.dumps(checksums),
        "state": json.dumps(replay.own_state()),
    }
    tree: dict[str, Any] = {"__metadata__": metadata}
    end = 0
    for name, part in parts.items():
        start, end = end, end + part.nbytes
        shape = [part.n, *part.shape]
        tree[name] = {"dtype": _DTYPES[part.dtype.name], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(tree, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    checksum = f'"checksum":"{zlib.crc32(text.encode()):08x}"'
    content = text.replace(_NO_CHECKSUM, checksum, 1).encode()
    return len(content).to_bytes(8, "little") + content


# Reading

# What json, numpy and mmap raise on bytes that are not what they should be.
_DAMAGE = (
    ArithmeticError, AttributeError, LookupError, MemoryError, OSError, RecursionError, TypeError, ValueError,
)  # fmt: skip


@dataclass
class Content:
    """A verified file."""

    metadata: dict[str, str]
    arrays: dict[str, np.ndarray]  # views of the memory map
    state: dict[str, Any]  # of a derived buffer

    def number(self, name: str) -> int:
        return int(self.metadata[name])


def load_replay_buffer(path: PathOrFile, replay: ReplayBuffer, truncate_last_traj: bool = True) -> None:
    """Fill a replay buffer with what a file holds; when not all of it fits, with the newest transitions.

    :param path: a path (also without its `.safetensors` or `.pkl`), or a binary file object
    :param replay: the buffer to fill, made with the same spaces and number of environments
    :param truncate_last_traj: end the episodes that were going on when the file was written, as if truncated;
        otherwise the next `add_step` continues them
    :raises CheckpointError: the file is missing, damaged, foreign, or of another buffer; the buffer is as it
        was before
    """
    name = str(path) if isinstance(path, str | os.PathLike) else str(getattr(path, "name", "the file object"))
    try:
        content = _verified(_mapped(path), replay)
    except _DAMAGE as error:
        if isinstance(error, CheckpointError) and isinstance(error, FileNotFoundError):
            raise
        reason = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
        raise CheckpointError(f"{name} is not loaded as a replay buffer: {reason}") from None
    try:
        _fill(replay, content)
    except _DAMAGE as error:
        replay.reset()
        raise CheckpointError(f"{name} has a state that no replay buffer is in: {error}") from None
    if truncate_last_traj:
        replay._close(np.arange(replay.n_envs))
        replay._started = False


class MissingReplayFile(CheckpointError, FileNotFoundError):
    """There is no such file."""


def find_replay_file(path: str | os.PathLike[str]) -> Path:
    """The existing file that a path means, with or without `.safetensors` or `.pkl`.

    A `.pkl` is one by its name only. For a missing one, the `.safetensors` beside it is meant.

    :raises CheckpointError: there is none; the nearest name in the same folder is suggested
    """
    path = Path(path)
    candidates = [path, *(path.with_name(f"{path.name}{suffix}") for suffix in (SUFFIX, ".pkl") if path.name)]
    if path.suffix == ".pkl":
        candidates.append(path.with_suffix(SUFFIX))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    if path.is_dir():
        raise MissingReplayFile(f"{path} is a folder, not a replay buffer")
    names = [other.name for other in path.parent.glob(f"*{SUFFIX}")] if path.parent.is_dir() else []
    match = nearest(path.name if path.suffix else path.name + SUFFIX, names)
    hint = f"; did you mean {str(path.with_name(match))!r}?" if match else ""
    raise MissingReplayFile(f"there is no replay buffer {str(path)!r}{hint}")


def _mapped(path: PathOrFile) -> memoryview:
    """The bytes of a file, of which only those that are looked at are read."""
    if isinstance(path, str | os.PathLike):
        with find_replay_file(path).open("rb") as file:
            return _map(file)
    if not hasattr(path, "read"):
        raise UserError(f"a replay buffer is loaded from a path or a file opened for reading, not {path!r}")
    try:
        path.fileno()
    except (AttributeError, OSError):
        return memoryview(path.read())
    return _map(path)[path.tell() :]


def _map(file: BinaryIO) -> memoryview:
    if os.fstat(file.fileno()).st_size == 0:
        return memoryview(b"")
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _verified(data: memoryview, replay: ReplayBuffer) -> Content:
    """The columns of a file, after everything was checked that can be wrong with it."""
    _refuse_foreign_start(bytes(data[:64]))
    length = int.from_bytes(data[:8], "little")
    if not 2 <= length <= min(len(data) - 8, MAX_HEADER):
        raise CheckpointError("it is damaged or of another format")
    raw = bytes(data[8 : 8 + length])
    tree = json.loads(raw)
    metadata = tree.pop("__metadata__", {})
    if metadata.get("format") != FORMAT:
        raise CheckpointError("it is another kind of safetensors file")
    if int(metadata["format_version"]) > FORMAT_VERSION:
        raise CheckpointError(f"its format {metadata['format_version'][:20]} is newer than this rlzoo")
    zeroed = raw.replace(f'"checksum":"{metadata["checksum"]}"'.encode(), _NO_CHECKSUM.encode(), 1)
    if f"{zlib.crc32(zeroed):08x}" != metadata["checksum"]:
        raise CheckpointError("its header is damaged")
    _check_identity(metadata, replay)
    checksums = json.loads(metadata["checksums"])
    body, end = data[8 + length :], 0
    arrays = {}
    for name, entry in tree.items():
        start, stop = entry["data_offsets"]
        if start != end or not start <= stop <= len(body):
            raise CheckpointError(
                f"it is truncated: {len(data):,} bytes" if stop > len(body) else "it has gaps"
            )
        end = stop
        arrays[name] = _array(name, entry, body[start:stop], checksums[name])
    if end != len(body):
        raise CheckpointError("it is longer than its columns")
    content = Content(metadata, arrays, json.loads(metadata["state"]))
    _check_columns(content, replay)
    replay.stored.check_source(_stored(content, replay))
    return content


def _stored(content: Content, replay: ReplayBuffer) -> Stored:
    """Whether the experience in a file is raw or scaled; files of earlier versions do not say."""
    said = content.metadata.get("stored")
    return replay.stored_by_older if said is None else Stored(**json.loads(said))


def _array(name: str, entry: dict[str, Any], data: memoryview, checksum: int) -> np.ndarray:
    dtype = {code: dtype for dtype, code in _DTYPES.items()}[entry["dtype"]]
    found = 0
    for start in range(0, len(data), CHUNK_BYTES):
        found = zlib.crc32(data[start : start + CHUNK_BYTES], found)
    if found != checksum:
        raise CheckpointError(f"{name} is damaged")
    shape = entry["shape"]
    if not all(type(size) is int and size >= 0 for size in shape):
        raise CheckpointError(f"{name} has the shape {str(shape)[:80]}")
    return np.frombuffer(data, dtype).reshape(shape)


def _refuse_foreign_start(start: bytes) -> None:
    """Name what is no safetensors file by its first bytes."""
    if not start:
        raise CheckpointError("it is empty")
    if start[0] == 0x80 and len(start) > 1 and start[1] <= 5 and start[8:9] != b"{":
        raise CheckpointError("it is a pickle, and pickles are never loaded: they can execute anything")
    if start.startswith(b"PK"):
        raise CheckpointError("it is a zip, perhaps the file of a model")
    if start.startswith(b"version https://git-lfs"):
        raise CheckpointError("it is a Git LFS pointer, the file itself was not downloaded")


def _check_identity(metadata: dict[str, str], replay: ReplayBuffer) -> None:
    for name, mine in _identity(replay).items():
        found = metadata[name]
        if name.endswith("space"):
            if json.loads(found) == json.loads(mine):
                continue
            found, mine = (" ".join(str(space_from_json(json.loads(text))).split()) for text in (found, mine))
        if name == "class":
            found = _class_name(found)
        if found != mine:
            words = {"class": "a", "n_envs": "n_envs =", "frame_stack": "frame_stack ="}
            word = words.get(name, f"the {name.replace('_', ' ')}")
            raise CheckpointError(f"it has {word} {found[:120]}, but the buffer has {word} {mine[:120]}")


def _check_columns(content: Content, replay: ReplayBuffer) -> None:
    """Names, kinds and lengths of the columns, and the values that say where others are."""
    size, n_slots, position, started = map(content.number, ("size", "n_slots", "position", "started"))
    if started not in (0, 1) or not (
        0 <= size <= n_slots - 1 - replay.obs.n_context and 0 <= position < n_slots
    ):
        raise CheckpointError(f"it has {size} steps at {position} of {n_slots}")
    arrays, stacked = content.arrays, isinstance(replay.obs, StackedObservations)
    parts = _parts(replay)
    if missing := parts.keys() ^ arrays.keys():
        raise CheckpointError(f"{min(missing)[:80]} is not where it belongs")
    for name, part in parts.items():
        array = arrays[name]
        floats = name.startswith(("observations", "finals")) and array.dtype.kind == part.dtype.kind == "f"
        if (array.dtype != part.dtype and not floats) or array.shape[1:] != part.shape:
            found, mine = f"{array.dtype}{array.shape[1:]}", f"{part.dtype}{part.shape}"
            raise CheckpointError(f"{name} has rows of {found}, but the buffer has rows of {mine}")
    flags = arrays["flags"]
    lengths = {"finals": int(((flags & ASIDE) > 0).sum())}
    if stacked:
        lengths["older"] = int(arrays["filled"].sum())
    seen = size + 1 + replay.obs.n_context
    for name, array in arrays.items():
        head = name.split(".")[0]
        expected = lengths.get(head, seen if head in ("observations", "ages", "filled") else size)
        if len(array) != expected:
            raise CheckpointError(f"{name} has {len(array)} rows, not {expected}")
    for name, array in arrays.items():
        if name.split(".")[0] in ("observations", "finals", "older"):
            check_rows(name, array, part_of(replay.observation_space, name.partition(".")[2]))
        elif name in ("actions", "rewards", "own.priorities"):
            check_rows(name, array, replay.action_space if name == "actions" else None, from_zero=True)
    if "own.priorities" in arrays and (arrays["own.priorities"] < 0).any():
        raise CheckpointError("own.priorities has negative numbers")
    valid = np.isin(flags, (0, ASIDE, ASIDE | ENDED, ASIDE | ENDED | TERMINATED)).all()
    if not valid or (stacked and arrays["ages"].max(initial=0) > replay.obs.n_context):
        raise CheckpointError("its episodes are damaged")


def part_of(space: Any, key: str) -> Any:
    """The part of a Dict space; another space is its only part."""
    return space[key] if isinstance(space, spaces.Dict) else space


def check_rows(name: str, rows: np.ndarray, space: spaces.Space[Any] | None, from_zero: bool = False) -> None:
    """Ask that a column of a file holds what training can use.

    :param space: of one row; None: numbers
    :param from_zero: choices are counted from zero, wherever those of the space begin
    :raises CheckpointError: NaN, infinity, or a choice that the space does not have
    """
    choices: Any = None
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        choices = space.n if isinstance(space, spaces.Discrete) else space.nvec
    elif isinstance(space, spaces.MultiBinary):
        choices = 2
    for start, stop in _ranges(len(rows), rows[:1].nbytes):
        chunk = rows[start:stop]
        if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
            raise CheckpointError(f"{name} holds NaN or infinity")
        if choices is not None:
            chosen = chunk if from_zero else chunk - getattr(space, "start", 0)
            if not ((chosen >= 0) & (chosen < choices)).all():
                raise CheckpointError(f"{name} holds values that are not in {space}")


def _fill(replay: ReplayBuffer, content: Content) -> None:
    """Take over the newest transitions that fit, each at the slot it came from where the rings are alike."""
    arrays, obs = content.arrays, replay.obs
    size = min(content.number("size"), replay.buffer_size)
    skipped = content.number("size") - size
    alike = content.number("n_slots") == replay.n_slots
    replay.reset()
    replay.head = content.number("position") if alike else size
    replay._size, replay.laps = size, int(size > replay.head)
    first_seen = replay.oldest - obs.n_context
    for name, column in _observation_columns(replay).items():
        _write_slots(replay, column.write, first_seen, arrays[name][skipped:])
    columns: dict[str, Callable[[Any, np.ndarray], None]] = {
        "actions": replay.action_column.write,
        "rewards": replay.reward_column.__setitem__,
        "flags": replay.flags.__setitem__,
    }
    columns |= {f"own.{name}": column.__setitem__ for name, column in replay.own_columns().items()}
    for name, write in columns.items():
        _write_slots(replay, write, replay.oldest, arrays[name][skipped:])
    aside = (arrays["flags"] & ASIDE) > 0
    _fill_aside(replay, "finals", obs.finals, replay.tickets, arrays, aside, skipped, replay.oldest)
    if isinstance(obs, StackedObservations):
        _write_slots(replay, obs.ages.__setitem__, first_seen, arrays["ages"][skipped:])
        obs.older_tickets[:] = -1
        _fill_aside(
            replay, "older", obs.older, obs.older_tickets, arrays, arrays["filled"], skipped, first_seen
        )
    replay.convert(_stored(content, replay))
    replay._started = bool(content.number("started"))
    replay.load_own_state(content.state)


def _write_slots(
    replay: ReplayBuffer, write: Callable[[Any, np.ndarray], None], first: int, rows: np.ndarray
) -> None:
    for start, stop in _ranges(len(rows), rows[:1].nbytes):
        chunk = rows[start:stop]
        for segment, part in _segments(replay, first, start, stop):
            write(segment, chunk[part])


def _fill_aside(
    replay: ReplayBuffer,
    name: str,
    aside: Aside,
    tickets: np.ndarray,
    arrays: dict[str, np.ndarray],
    mask: np.ndarray,
    skipped: int,
    first: int,
) -> None:
    """Keep aside again what belongs to the rows of `mask`, apart from those that do not fit."""
    start = int(mask[:skipped].sum())
    slots, envs = np.nonzero(mask[skipped:])
    slots = (slots + first) % replay.n_slots
    keys = [key for key in arrays if key.split(".", 1)[0] == name]

    def chunks() -> Iterator[Any]:
        for low, high in _ranges(len(slots), sum(arrays[key][:1].nbytes for key in keys)):
            rows = {key: arrays[key][start + low : start + high] for key in keys}
            yield rows[name] if name in rows else {key.split(".", 1)[1]: value for key, value in rows.items()}

    tickets[slots, envs] = aside.extend(slots, chunks())
