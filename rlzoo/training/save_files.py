"""Functions that scripts for stable-baselines3 save and load by: paths with a suffix, values, model files.

Nothing is unpickled. A model is saved by `model.save`, a replay buffer by `model.save_replay_buffer`, running
statistics by `VecNormalize.save`.
"""

from __future__ import annotations

import io
import os
import warnings
from pathlib import Path
from typing import Any

import torch

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.runtime import get_device, get_system_info
from rlzoo.io.container import described_from_bytes, described_to_bytes
from rlzoo.io.encoding import decode_value, pack, unpack
from rlzoo.io.pickle_tree import Instance, Reference, read_pickle, walk
from rlzoo.io.pickled_values import plain_value
from rlzoo.io.space_json import space_from_json
from rlzoo.training.checkpoint import ForeignCheckpoint, read_checkpoint

KEY = "rlzoo_values"
MODES = {"r": "rb", "read": "rb", "w": "wb", "write": "wb"}


class NoPath(UserError, TypeError):
    """Neither a path nor a file object."""


def open_path(path: Any, mode: str, verbose: int = 0, suffix: str | None = None) -> Any:
    """Open a file for reading or writing bytes, with a suffix where the path has none.

    :param path: a path, or a binary file object, which is returned when it allows the mode
    :param mode: "r" or "read", "w" or "write"
    :param verbose: from 2 on files that are overwritten, and files that are found only with the suffix, are
        warned of; folders that are made always are
    :param suffix: such as "pkl"; written files get it, read ones may have it
    :raises NoPath: `path` is neither
    :raises UserError: another mode, or a file object that is closed or of the other mode

    >>> with open_path("values", "w", suffix="pkl") as file:  # values.pkl
    ...     save_to_pkl(file, {"a": 1})
    """
    is_file = isinstance(path, io.IOBase) or hasattr(path, "read")
    if not (is_file or isinstance(path, str | os.PathLike)):
        raise NoPath(f"a path or a binary file object is needed, not {path!r}")
    if mode not in MODES:
        raise UserError(f"mode must be 'r', 'read', 'w' or 'write', not {mode!r}")
    reads = MODES[mode] == "rb"
    if is_file:
        if path.closed or not (path.readable() if reads else path.writable()):
            raise UserError(f"the file object is closed or cannot be {'read' if reads else 'written'}")
        return path
    place = Path(path)
    with_suffix = Path(f"{place}.{suffix}") if suffix and not place.suffix else place
    if reads:
        if not place.exists() and with_suffix.exists():
            if verbose >= 2:
                warnings.warn(f"{place} does not exist, reading {with_suffix}", stacklevel=2)
            place = with_suffix
        return place.open("rb")
    if with_suffix.is_dir():
        warnings.warn(f"{with_suffix} is a folder, writing {with_suffix}_2", stacklevel=2)
        with_suffix = Path(f"{with_suffix}_2")
    if not with_suffix.parent.exists():
        warnings.warn(f"the folder {with_suffix.parent} does not exist and is made", stacklevel=2)
        with_suffix.parent.mkdir(parents=True, exist_ok=True)
    if verbose >= 2 and with_suffix.exists():
        warnings.warn(f"{with_suffix} exists and is overwritten", stacklevel=2)
    return with_suffix.open("wb")


def save_to_pkl(path: Any, obj: Any, verbose: int = 0) -> None:
    """Write plain values, arrays and tensors, nested in any way; the file is no pickle, whatever its suffix.

    :param path: see `open_path`; the suffix is "pkl"
    :raises UserError: a value of another kind; models, replay buffers and VecNormalize have their own `save`
    """
    try:
        tree, tensors = pack(obj)
    except UserError as error:
        raise UserError(
            f"save_to_pkl writes plain values and arrays only ({error}): use model.save,"
            " model.save_replay_buffer or VecNormalize.save"
        ) from None
    file = open_path(path, "w", verbose, suffix="pkl")
    try:
        file.write(described_to_bytes(tensors, KEY, tree))
    finally:
        if file is not path:
            file.close()


def load_from_pkl(path: Any, verbose: int = 0) -> Any:
    """Read what `save_to_pkl` wrote, or a pickle of plain values and arrays; nothing is executed.

    :param path: see `open_path`; the suffix is "pkl"
    :raises CheckpointError: the file is damaged, or a pickle of objects
    """
    file = open_path(path, "r", verbose, suffix="pkl")
    try:
        content = file.read()
    finally:
        if file is not path:
            file.close()
    try:
        return unpack(*described_from_bytes(content, KEY))
    except ValueError as error:
        if isinstance(error, CheckpointError):
            raise
    value = plain_value(read_pickle(content))
    for part in walk(value):
        if isinstance(part, Instance | Reference):
            raise CheckpointError(
                "the pickle holds objects, which rlzoo does not load, since that would run code: read a"
                " replay buffer by model.load_replay_buffer, statistics by VecNormalize.load and a model by"
                " its load"
            )
    return value


def load_from_zip_file(
    load_path: Any,
    load_data: bool = True,
    custom_objects: dict[str, Any] | None = None,
    device: torch.device | str = "auto",
    verbose: int = 0,
    print_system_info: bool = False,
) -> tuple[dict[str, Any] | None, dict[str, Any], dict[str, Any]]:
    """Read the parts of a model file that rlzoo wrote; a whole model is read by the algorithm's `load`.

    :param load_data: False gives None in place of the hyperparameters
    :param custom_objects: values that replace hyperparameters, or classes for dotted names
    :return: hyperparameters, constructor arguments and spaces by name; parameters as `get_parameters` gives
        them; other tensors by name
    :raises CheckpointError: the file is damaged, or one of stable-baselines3
    """
    try:
        checkpoint = read_checkpoint(load_path)
    except ForeignCheckpoint as error:
        raise CheckpointError(
            f"{error}: load_from_zip_file reads files of rlzoo; the algorithm's load() reads this one"
        ) from None
    if print_system_info:
        get_system_info()
    config, given = checkpoint.config, custom_objects or {}
    data: dict[str, Any] | None = None
    if load_data:
        named = {**config["hyperparameters"], **config["arguments"]}
        data = {name: decode_value(value, given) for name, value in named.items() if name not in given}
        data.update({name: given[name] for name in named.keys() & given.keys()})
        data["n_envs"] = config["n_envs"]
        for name in ("observation_space", "action_space"):
            data[name] = given.get(name, space_from_json(config[name]))
    target = get_device(device)
    parameters: dict[str, Any] = {}
    for name, value in checkpoint.weights.items():
        part, _, key = name.partition("/")
        parameters.setdefault(part, {})[key] = value.to(target)
    parameters |= unpack(checkpoint.state["optimizers"], checkpoint.optimizers)
    others = unpack(checkpoint.state["state"], checkpoint.optimizers).get("others", {})
    tensors = {name: value for name, value in others.items() if isinstance(value, torch.Tensor)}
    return data, parameters, tensors


def save_to_zip_file(*_: object, **__: object) -> None:
    """Raise UserError: a model file is written by `model.save(path)`."""
    raise UserError(
        "save_to_zip_file is not offered: a model file is written by model.save(path), and what it holds by"
        " the model's state()"
    )
