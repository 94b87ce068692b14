"""Replay buffers in files (see `rlzoo.io.container`): the filled slots, oldest first.

All checksums are verified before the buffer is touched.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

import numpy as np
import torch
from gymnasium import spaces

from rlzoo.buffers.base_buffer import Obs
from rlzoo.buffers.replay.final_obs_store import FinalObsStore, as_array
from rlzoo.buffers.replay.replay_buffer import ENDED, FINAL_STORED, TERMINATED, ReplayBuffer
from rlzoo.buffers.replay.replay_observations import RingColumn, StackedObservations
from rlzoo.buffers.stored import Stored
from rlzoo.core.errors import CheckpointError
from rlzoo.io.container import (
    ArrayFile,
    FileColumn,
    MissingFile,
    PathOrFile,
    checkpoint_errors,
    file_name,
    row_ranges,
)
from rlzoo.io.space_json import space_from_json, space_to_json
from rlzoo.io.zip_members import DAMAGE

REPLAY_FILE = ArrayFile("replay buffer", (".safetensors", ".pkl"), "rlzoo replay buffer")


def save_replay_buffer(path: PathOrFile, replay: ReplayBuffer) -> None:
    """Write a replay buffer, whole or not at all.

    :param path: a path (`.safetensors` is appended when it has no suffix), or a binary file object
    :raises RunFailed: the disk is full or the folder not writable; a previous file is intact
    """
    metadata = {
        **_identity(replay),
        "n_slots": str(replay.n_slots),
        "position": str(replay.head),
        "size": str(replay.size()),
        "started": str(int(replay.started)),
        "stored": json.dumps(asdict(replay.stored)),
        "state": json.dumps(replay.own_state()),
    }
    REPLAY_FILE.save(path, _columns(replay), metadata)


def _columns(replay: ReplayBuffer) -> dict[str, FileColumn]:
    """Return the columns of a file, oldest rows first."""
    obs, size = replay.obs, replay.size()
    seen = size + 1 + obs.n_context
    first_seen = replay.oldest - obs.n_context
    parts = {
        name: _ring_column(replay, column.read, seen, first_seen)
        for name, column in _observation_columns(replay).items()
    }
    parts["actions"] = _ring_column(replay, replay.action_column.read, size, replay.oldest)
    arrays: dict[str, np.ndarray] = {"rewards": replay.reward_column, "flags": replay.flags}
    arrays |= {f"own.{name}": column for name, column in replay.own_columns().items()}
    for name, array in arrays.items():
        parts[name] = _ring_column(replay, array.__getitem__, size, replay.oldest)
    flags = replay.flags[_slots(replay, replay.oldest, size)]
    handles = replay.handles[_slots(replay, replay.oldest, size)][(flags & FINAL_STORED) > 0]
    parts |= _store_columns("finals", obs.finals, handles)
    if isinstance(obs, StackedObservations):
        slots = _slots(replay, first_seen, seen)
        begun = (obs.ages[slots] == 0) & (obs.older_handles[slots] >= 0)
        parts["ages"] = _ring_column(replay, obs.ages.__getitem__, seen, first_seen)
        parts["filled"] = FileColumn.of(begun)
        parts |= _store_columns("older", obs.older, obs.older_handles[slots][begun])
    return parts


def _observation_columns(replay: ReplayBuffer) -> dict[str, RingColumn]:
    columns = replay.obs.columns
    if isinstance(columns, dict):
        return {f"observations.{key}": column for key, column in columns.items()}
    return {"observations": columns}


def _slots(replay: ReplayBuffer, first: int, count: int) -> np.ndarray:
    return np.arange(first, first + count) % replay.n_slots


def _ring_column(
    replay: ReplayBuffer, read: Callable[[slice], np.ndarray], count: int, first: int
) -> FileColumn:
    """Return the rows of `count` slots from `first` on, around the end of the ring."""

    def rows(start: int, stop: int) -> np.ndarray:
        return np.concatenate([read(segment) for segment, _ in _segments(replay, first, start, stop)])

    row = read(slice(0, 1))[0]
    return FileColumn(row.dtype, row.shape, count, rows)


def _segments(replay: ReplayBuffer, first: int, start: int, stop: int) -> Iterator[tuple[slice, slice]]:
    """Yield slots of the ring and the rows of [start, stop) in them, where row 0 is in slot `first`."""
    at = start
    while at < stop:
        slot = (first + at) % replay.n_slots
        count = min(stop - at, replay.n_slots - slot)
        yield slice(slot, slot + count), slice(at - start, at - start + count)
        at += count


def _store_columns(name: str, store: FinalObsStore, handles: np.ndarray) -> dict[str, FileColumn]:
    def part(rows: torch.Tensor, key: str | None) -> FileColumn:
        def read(start: int, stop: int) -> np.ndarray:
            gathered = store.gather(handles[start:stop])
            return as_array(gathered if key is None else gathered[key])

        return FileColumn(rows[:0].cpu().numpy().dtype, tuple(rows.shape[1:]), len(handles), read)

    if isinstance(store.rows, dict):
        return {f"{name}.{key}": part(rows, key) for key, rows in store.rows.items()}
    return {name: part(store.rows, None)}


def _identity(replay: ReplayBuffer) -> dict[str, str]:
    """Return what a file and the buffer it is loaded into must have in common."""
    return {
        "class": _class_name(type(replay).__name__),
        "observation_space": json.dumps(space_to_json(replay.observation_space)),
        "action_space": json.dumps(space_to_json(replay.action_space)),
        "n_envs": str(replay.n_envs),
        "frame_stack": str(replay.frame_stack),
    }


def _class_name(name: str) -> str:
    """Return the name of a class in files; the plain classes store the same and read each other's files."""
    return "ReplayBuffer" if name in ("DictReplayBuffer", "NStepReplayBuffer") else name


@dataclass
class Content:
    """A verified file."""

    metadata: dict[str, str]
    arrays: dict[str, np.ndarray]  # views of the memory map
    state: dict[str, float | str]  # of a derived buffer

    def number(self, name: str) -> int:
        return int(self.metadata[name])


def load_replay_buffer(path: PathOrFile, replay: ReplayBuffer, truncate_last_traj: bool = True) -> None:
    """Fill a replay buffer with what a file holds; when not all of it fits, with the newest transitions.

    :param path: a path (also without its `.safetensors` or `.pkl`), or a binary file object
    :param replay: the buffer to fill, made with the same spaces and number of environments
    :param truncate_last_traj: truncate the episodes that were unfinished when the file was written; False:
        the next `add_step` continues them
    :raises CheckpointError: the file is missing, damaged, foreign, or of another buffer; the buffer is as it
        was before
    """
    name = file_name(path)
    with checkpoint_errors(f"{name} is not loaded as a replay buffer", MissingFile):
        data = REPLAY_FILE.map(path)
        metadata, arrays = REPLAY_FILE.load(data, lambda found: _check_identity(found, replay))
        content = Content(metadata, arrays, json.loads(metadata["state"]))
        _check_columns(content, replay)
        replay.stored.check_source(_stored(content, replay))
    try:
        _fill(replay, content)
    except DAMAGE as error:
        replay.reset()
        raise CheckpointError(f"{name} has a state that no replay buffer is in: {error}") from None
    if truncate_last_traj:
        replay.end_episodes()
        replay.started = False


def _stored(content: Content, replay: ReplayBuffer) -> Stored:
    """Return whether the experience in a file is raw or scaled; files of earlier versions do not say."""
    said = content.metadata.get("stored")
    return replay.stored_by_older if said is None else Stored(**json.loads(said))


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
    """Check names, dtypes and lengths of the columns, and the values that index others."""
    size, n_slots, position, started = map(content.number, ("size", "n_slots", "position", "started"))
    if started not in (0, 1) or not (
        0 <= size <= n_slots - 1 - replay.obs.n_context and 0 <= position < n_slots
    ):
        raise CheckpointError(f"it has {size} steps at {position} of {n_slots}")
    arrays, stacked = content.arrays, isinstance(replay.obs, StackedObservations)
    parts = _columns(replay)
    if missing := parts.keys() ^ arrays.keys():
        raise CheckpointError(f"{min(missing)[:80]} is not where it belongs")
    for name, part in parts.items():
        array = arrays[name]
        floats = name.startswith(("observations", "finals")) and array.dtype.kind == part.dtype.kind == "f"
        if (array.dtype != part.dtype and not floats) or array.shape[1:] != part.shape:
            found, mine = f"{array.dtype}{array.shape[1:]}", f"{part.dtype}{part.shape}"
            raise CheckpointError(f"{name} has rows of {found}, but the buffer has rows of {mine}")
    flags = arrays["flags"]
    lengths = {"finals": int(((flags & FINAL_STORED) > 0).sum())}
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
    valid = np.isin(flags, (0, FINAL_STORED, FINAL_STORED | ENDED, FINAL_STORED | ENDED | TERMINATED)).all()
    if not valid or (stacked and arrays["ages"].max(initial=0) > replay.obs.n_context):
        raise CheckpointError("its episodes are damaged")


def part_of(space: spaces.Space[object] | None, key: str) -> spaces.Space[object] | None:
    """Return the part of a Dict space; another space is its only part."""
    return space[key] if isinstance(space, spaces.Dict) else space


def check_rows(
    name: str, rows: np.ndarray, space: spaces.Space[object] | None, from_zero: bool = False
) -> None:
    """Check that a column of a file holds values that training can use.

    :param space: of one row; None: numbers
    :param from_zero: choices are counted from zero, wherever those of the space begin
    :raises CheckpointError: NaN, infinity, or a choice that the space does not have
    """
    choices: np.ndarray | np.integer | int | None = None
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        choices = space.n if isinstance(space, spaces.Discrete) else space.nvec
    elif isinstance(space, spaces.MultiBinary):
        choices = 2
    for start, stop in row_ranges(len(rows), rows[:1].nbytes):
        chunk = rows[start:stop]
        if chunk.dtype.kind == "f" and not np.isfinite(chunk).all():
            raise CheckpointError(f"{name} holds NaN or infinity")
        if choices is not None:
            chosen = chunk if from_zero else chunk - getattr(space, "start", 0)
            if not ((chosen >= 0) & (chosen < choices)).all():
                raise CheckpointError(f"{name} holds values that are not in {space}")


def _fill(replay: ReplayBuffer, content: Content) -> None:
    """Load the newest transitions that fit, each into its former slot if the rings have the same size."""
    arrays, obs = content.arrays, replay.obs
    size = min(content.number("size"), replay.buffer_size)
    skipped = content.number("size") - size
    alike = content.number("n_slots") == replay.n_slots
    replay.reset()
    replay.resize(content.number("position") if alike else size, size)
    first_seen = replay.oldest - obs.n_context
    for name, column in _observation_columns(replay).items():
        _write_slots(replay, column.write, first_seen, arrays[name][skipped:])
    columns: dict[str, Callable[[slice, np.ndarray], None]] = {
        "actions": replay.action_column.write,
        "rewards": replay.reward_column.__setitem__,
        "flags": replay.flags.__setitem__,
    }
    columns |= {f"own.{name}": column.__setitem__ for name, column in replay.own_columns().items()}
    for name, write in columns.items():
        _write_slots(replay, write, replay.oldest, arrays[name][skipped:])
    stored = (arrays["flags"] & FINAL_STORED) > 0
    _fill_store(replay, "finals", obs.finals, replay.handles, arrays, stored, skipped, replay.oldest)
    if isinstance(obs, StackedObservations):
        _write_slots(replay, obs.ages.__setitem__, first_seen, arrays["ages"][skipped:])
        obs.older_handles[:] = -1
        _fill_store(
            replay, "older", obs.older, obs.older_handles, arrays, arrays["filled"], skipped, first_seen
        )
    replay.convert(_stored(content, replay))
    replay.started = bool(content.number("started"))
    replay.load_own_state(content.state)


def _write_slots(
    replay: ReplayBuffer, write: Callable[[slice, np.ndarray], None], first: int, rows: np.ndarray
) -> None:
    for start, stop in row_ranges(len(rows), rows[:1].nbytes):
        chunk = rows[start:stop]
        for segment, part in _segments(replay, first, start, stop):
            write(segment, chunk[part])


def _fill_store(
    replay: ReplayBuffer,
    name: str,
    store: FinalObsStore,
    handles: np.ndarray,
    arrays: dict[str, np.ndarray],
    mask: np.ndarray,
    skipped: int,
    first: int,
) -> None:
    """Store the entries of the rows of `mask` again, except for the oldest that do not fit."""
    start = int(mask[:skipped].sum())
    slots, envs = np.nonzero(mask[skipped:])
    slots = (slots + first) % replay.n_slots
    keys = [key for key in arrays if key.split(".", 1)[0] == name]

    def chunks() -> Iterator[Obs]:
        for low, high in row_ranges(len(slots), sum(arrays[key][:1].nbytes for key in keys)):
            rows = {key: arrays[key][start + low : start + high] for key in keys}
            yield rows[name] if name in rows else {key.split(".", 1)[1]: value for key, value in rows.items()}

    handles[slots, envs] = store.extend(slots, chunks())
