"""The file format of agents: one zip without executable content.

    metadata.json            format version, algorithm, environment id, versions, platform, git commit, date
    config.json              hyperparameters, spaces, policy (see `rlzoo.io.encoding`)
    weights.safetensors      parameters and buffers of the networks
    optimizers.safetensors   tensors of the optimisers' state
    normalize.safetensors    statistics of VecNormalize
    state.json               counters and random generators

A file whose metadata say `actor_only` holds what acting needs, compressed, and without the tensors of
optimisers and statistics where there are none: it cannot be trained on.

Reading trusts nothing: sizes are checked before anything is unpacked, contents against their checksums,
nothing is written to the disk and nothing is unpickled. Whatever is wrong with a file is one
`CheckpointError`.
"""

from __future__ import annotations

import copy
import inspect
import io
import json
import math
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NoReturn, TypeAlias, cast

import torch
from torch import nn

from rlzoo.accel.flat_parameters import fit_layout
from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.core.runtime import get_system_info as get_system_info
from rlzoo.core.runtime import git_commit, processor_name, utc_now, versions
from rlzoo.io.container import (
    FileKind,
    PathOrFile,
    file_name,
    first_line,
    is_pickle,
    refuse_foreign_start,
    tensors_from_bytes,
    tensors_to_bytes,
)
from rlzoo.io.zip_members import DAMAGE, DEFAULT_LIMITS, Limits, check_members, read_member

FORMAT_VERSION = 1
MAX_DEPTH = 64
"""Levels of nesting in the JSON members."""

Json: TypeAlias = dict[str, Any]
Tensors: TypeAlias = dict[str, torch.Tensor]

MODEL_FILE = FileKind("model file", (".zip",))
find_checkpoint = MODEL_FILE.find

_JSON = {"metadata": "metadata.json", "config": "config.json", "state": "state.json"}
_TENSORS = {name: f"{name}.safetensors" for name in ("weights", "optimizers", "normalize")}
_MEMBERS = {*_JSON.values(), *_TENSORS.values()}
_OPTIONAL_FOR_ACTING = {_TENSORS["optimizers"], _TENSORS["normalize"]}
"""Members that a file for acting only may lack: it has no optimisers, and not always statistics."""


@dataclass
class Checkpoint:
    """The contents of a model file; `normalize` may be given as arrays, but is read as tensors."""

    metadata: Json
    config: Json
    weights: Mapping[str, torch.Tensor]
    optimizers: Mapping[str, torch.Tensor] = field(default_factory=dict)
    normalize: Mapping[str, Any] = field(default_factory=dict)
    state: Json = field(default_factory=dict)

    @property
    def actor_only(self) -> bool:
        """Whether only acting is possible with it."""
        return bool(self.metadata.get("actor_only", False))

    def steps(self, name: str = "num_timesteps") -> int:
        """Return a counter of the training.

        :raises CheckpointError: it is not there
        """
        try:
            value = self.state["state"]["clock"][name]
        except (LookupError, TypeError):
            value = None
        if type(value) is not int or value < 0:
            raise CheckpointError(f"state.json of the model file is damaged: {name} is {str(value)[:40]!r}")
        return value


class ForeignCheckpoint(CheckpointError):
    """A model file of another program.

    :param kind: "stable-baselines3", "stable-baselines", "torch" or "pickle"
    """

    def __init__(self, message: str, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


def metadata(algorithm: str, env_id: str | None) -> Json:
    """Return what a file says about its origin."""
    return {
        "format_version": FORMAT_VERSION,
        "algorithm": algorithm,
        "env_id": env_id,
        "versions": dict(versions()),
        "platform": platform.platform(),
        "git_commit": git_commit(),
        "processor": processor_name(),
        "date": utc_now(),
    }


# Writing


def write_checkpoint(path: PathOrFile, checkpoint: Checkpoint) -> None:
    """Write a model file, whole or not at all.

    :param path: a path (`.zip` is appended when it has no suffix; missing folders are made), or a binary
        file object
    :raises RunFailed: the disk is full or the folder not writable; a previous file is intact
    """
    content = _to_zip(checkpoint)
    MODEL_FILE.write(path, [content], len(content))


def _to_zip(checkpoint: Checkpoint) -> memoryview:
    buffer = io.BytesIO()
    packing = zipfile.ZIP_DEFLATED if checkpoint.actor_only else zipfile.ZIP_STORED
    dispensable = _OPTIONAL_FOR_ACTING if checkpoint.actor_only else set()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in _JSON.items():
            text = json.dumps(getattr(checkpoint, name), allow_nan=False, separators=(",", ":"))
            archive.writestr(member, text, zipfile.ZIP_DEFLATED, 1)
        for name, member in _TENSORS.items():
            if (tensors := getattr(checkpoint, name)) or member not in dispensable:
                archive.writestr(member, tensors_to_bytes(tensors), packing)
    return buffer.getbuffer()


# Reading


def read_checkpoint(path: PathOrFile, limits: Limits = DEFAULT_LIMITS) -> Checkpoint:
    """Read a model file; nothing in it is executed and nothing is written to the disk.

    :param path: a path (also without its `.zip`), or a binary file object
    :raises MissingFile: there is no such file
    :raises CheckpointError: the file is damaged, foreign, or asks for more than the limits
    """
    with MODEL_FILE.open(path) as file:
        return _read(seekable(file), file_name(file), limits)


def seekable(file: BinaryIO) -> BinaryIO:
    """Return the file, or its content where it can be read only once."""
    if hasattr(file, "seekable") and file.seekable():
        return file
    content = file.read()
    if not isinstance(content, bytes):
        raise UserError("a model is loaded from a file opened for binary reading, not for text")
    return io.BytesIO(content)


def _read(file: BinaryIO, name: str, limits: Limits) -> Checkpoint:
    try:
        _refuse_foreign_start(file)
        with zipfile.ZipFile(file) as archive:
            members = _check_members(archive, limits)
            info = _read_json(archive, members, "metadata.json", limits)
            _check_version(info)
            if type(info.get("actor_only", False)) is not bool:
                raise CheckpointError("metadata.json does not say whether it holds the actor only")
            dispensable = _OPTIONAL_FOR_ACTING if info.get("actor_only") else set()
            if wrong := (_MEMBERS ^ members.keys()) - dispensable:
                first = min(wrong)
                raise CheckpointError(
                    f"{first} is missing" if first in _MEMBERS else f"{first[:80]!r} does not belong in it"
                )
            config, state = (
                _read_json(archive, members, _JSON[part], limits) for part in ("config", "state")
            )
            tensors = {
                part: _read_tensors(archive, members, member, limits) if member in members else {}
                for part, member in _TENSORS.items()
            }
    except ForeignCheckpoint as error:
        raise ForeignCheckpoint(f"{name} is {error}", error.kind) from None
    except DAMAGE as error:
        raise CheckpointError(f"{name} is no intact model file: {first_line(error)}") from None
    return Checkpoint(info, config, tensors["weights"], tensors["optimizers"], tensors["normalize"], state)


def _refuse_foreign_start(file: BinaryIO) -> None:
    """Name what is no zip by its first bytes; a zip is looked into later."""
    file.seek(0)
    start = file.read(64)
    if not isinstance(start, bytes):
        raise CheckpointError("it was opened for text, not for binary reading")
    if is_pickle(start):
        raise ForeignCheckpoint(
            "a pickle (an agent of Stable Baselines 2.7 or older, or of cloudpickle); "
            "pickles are never loaded, they can execute anything",
            "pickle",
        )
    refuse_foreign_start(start)


def _check_members(archive: zipfile.ZipFile, limits: Limits) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, after everything that can be checked without unpacking."""
    _refuse_foreign_members(set(archive.namelist()))
    members = check_members(archive, limits)
    for name in _JSON.values():
        if name in members and members[name].file_size > limits.json_bytes:
            raise CheckpointError(f"{name} is larger than {limits.json_bytes} bytes")
    return members


def _refuse_foreign_members(names: set[str]) -> None:
    if "_stable_baselines3_version" in names or {"data", "policy.pth"} <= names:
        raise ForeignCheckpoint(
            "a stable-baselines3 file: load it with load() of its algorithm, or make a run folder of it with"
            " `rlzoo import`",
            "stable-baselines3",
        )
    if "data" in names and names & {"parameters", "parameter_list"}:
        raise ForeignCheckpoint("a Stable Baselines 2 file; its pickles are not loaded", "stable-baselines")
    if any(name == "data.pkl" or name.endswith("/data.pkl") for name in names):
        raise ForeignCheckpoint("a PyTorch file (torch.save), not a model file of rlzoo", "torch")


def _check_version(info: Json) -> None:
    version = info.get("format_version")
    if type(version) is not int or version < 1 or not isinstance(info.get("algorithm"), str):
        raise CheckpointError("metadata.json does not say which format and algorithm it is")
    if version > FORMAT_VERSION:
        written = info.get("versions")
        by = f"rlzoo {str(written.get('rlzoo'))[:20]}" if isinstance(written, dict) else "a newer rlzoo"
        raise CheckpointError(
            f"it has format {version}, written by {by}; this rlzoo reads up to {FORMAT_VERSION}: upgrade it"
        )


def _read_json(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str, limits: Limits
) -> Json:
    content = read_member(archive, members, name)
    if content.count(b"[") + content.count(b"{") > limits.json_nodes:
        raise CheckpointError(f"{name} holds more than {limits.json_nodes:,} lists")
    try:
        tree = json.loads(
            content,
            parse_constant=_refuse_number,
            parse_float=_finite,
            object_pairs_hook=_without_duplicates,
        )
    except RecursionError:
        raise CheckpointError(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise CheckpointError(f"{name}: {error}") from None
    if not isinstance(tree, dict):
        raise CheckpointError(f"{name} is no JSON object")
    level: list[Any] = [tree]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if type(child) in (dict, list)
        ]
        if not level:
            return tree
    raise CheckpointError(f"{name} is nested too deeply")


def _refuse_number(text: str) -> NoReturn:
    raise CheckpointError(f"{text[:20]} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if abs(number) != float("inf") else _refuse_number(text)


def _without_duplicates(pairs: list[tuple[str, object]]) -> Json:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise CheckpointError("a JSON object has the same key twice")
    return tree


def _read_tensors(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str, limits: Limits
) -> Tensors:
    content = read_member(archive, members, name)
    if int.from_bytes(content[:8], "little") > limits.header_bytes:
        raise CheckpointError(f"{name}: its header is larger than {limits.header_bytes} bytes")
    try:
        return tensors_from_bytes(content)
    except ValueError as error:
        raise CheckpointError(f"{name}: {error}") from None


# Into modules and optimisers


def load_module(
    module: nn.Module,
    tensors: Mapping[str, torch.Tensor],
    prefix: str = "",
    without: tuple[str, ...] = (),
) -> None:
    """Copy the tensors whose names start with `prefix` into a module, all or none of them.

    :param without: parameters whose names start so are not in the file, and stay as they are
    :raises CheckpointError: a parameter is missing, unknown, or of another shape or kind; it is named
    """
    given = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    own = {name: value for name, value in module.state_dict().items() if not name.startswith(without)}
    if missing := [name for name in own if name not in given]:
        raise CheckpointError(f"the parameter {prefix}{missing[0]} is not in the model file")
    if unknown := [name for name in given if name not in own]:
        raise CheckpointError(f"the network lacks the parameter {prefix}{unknown[0]} of the model file")
    for name, value in own.items():
        check_fits(f"{prefix}{name}", given[name], value)
    module.load_state_dict(given, strict=not without)


def check_fits(name: str, value: torch.Tensor, own: torch.Tensor) -> None:
    """Check that a tensor of a file fits the parameter `own`.

    :raises CheckpointError: another shape or kind of number; names the tensor, what is expected and what
        was found
    """
    if value.shape != own.shape:
        expected, found = tuple(own.shape), tuple(value.shape)
        raise CheckpointError(f"{name} has shape {expected} in the network, but {found} in the model file")
    if value.dtype != own.dtype and not (value.is_floating_point() and own.is_floating_point()):
        raise CheckpointError(f"{name} is {own.dtype} in the network, but {value.dtype} in the model file")


def check_finite(name: str, value: torch.Tensor) -> None:
    """Check that all numbers in a tensor of a file are finite.

    :raises CheckpointError: one is NaN or infinite
    """
    if not math.isfinite(value.sum()) and not value.isfinite().all():  # the sum takes no memory
        raise CheckpointError(
            f"{name} is NaN or infinite in the model file: the training of this agent diverged"
        )


_OF_THIS_MACHINE = ("foreach", "fused", "capturable", "differentiable")


def load_optimizer(optimizer: torch.optim.Optimizer, state: Any, name: str) -> None:
    """Give an optimiser the state dict of a file, after checking that it fits the parameters.

    Which kernels it uses (`foreach`, `fused`, `capturable`) stays its own: the file may come from a GPU.

    :raises CheckpointError: other parameters or options, or a state of another shape; each is named
    """
    try:
        state = fit_layout(state, optimizer)
        groups = [
            _fitting_group(own, saved, name)
            for own, saved in zip(optimizer.param_groups, state["param_groups"], strict=True)
        ]
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        indices = [index for group in groups for index in group["params"]]
        entries = state["state"]
        for index, parameter in zip(indices, parameters, strict=True):
            expected = _first_entry(type(optimizer), groups[0], parameter) if entries else {}
            _check_entry(entries.get(index, {}), expected, parameter, f"parameter {index} of {name}")
        if len({frozenset(entry) for entry in entries.values()}) > 1:
            raise CheckpointError(f"the state of {name} does not say the same of every parameter")
        copied = copy.deepcopy(entries)  # else an agent that gave them would share its averages
        optimizer.load_state_dict({"state": copied, "param_groups": cast(Any, groups)})
    except CheckpointError:
        raise
    except DAMAGE as error:
        raise CheckpointError(f"the state of {name} does not fit the model: {error}") from None


def _first_entry(kind: type, options: Json, parameter: torch.Tensor) -> Json:
    """Return what an optimiser keeps of a parameter after a step, of a vector in its first number; nothing
    where that is unknown."""
    arguments = inspect.signature(kind).parameters
    if "params" not in arguments or not kind.__module__.startswith(("torch.optim.", "rlzoo.")):
        return {}
    known = {name: options[name] for name in arguments if name in options and name != "params"}
    like = nn.Parameter(torch.zeros_like(parameter[:1] if parameter.dim() == 1 else parameter))
    like.grad = torch.zeros_like(like)
    try:
        stepped = kind([like], **{**known, "lr": 0.0})
        stepped.step()
    except (RuntimeError, TypeError, ValueError):  # it needs a closure, or further arguments
        return {}
    return dict(stepped.state[like])


def _check_entry(entry: Json, expected: Json, parameter: torch.Tensor, name: str) -> None:
    if entry and (missing := expected.keys() - entry.keys()):
        raise CheckpointError(f"{min(missing)} of {name} is missing")
    for key, value in entry.items():
        own: Any = expected.get(key, value)
        if isinstance(own, torch.Tensor) != isinstance(value, torch.Tensor):
            raise CheckpointError(f"{key} of {name} is {str(value)[:40]!r}")
        if isinstance(value, torch.Tensor) and (value.dim() or own.dim()):
            check_fits(f"{key} of {name}", value, own if parameter.dim() > 1 and own.dim() else parameter)
            check_finite(f"{key} of {name}", value)
        elif isinstance(value, torch.Tensor):
            if not value.is_floating_point():
                raise CheckpointError(f"{key} of {name} is of the type {value.dtype}")
        elif not (value is None or isinstance(value, int | float)):
            raise CheckpointError(f"{key} of {name} is no number")


def _fitting_group(own: Json, saved: Json, name: str) -> Json:
    """Return the options of a parameter group in the file, each of the kind that the optimiser has."""
    for key, value in own.items():
        if key not in ("params", *_OF_THIS_MACHINE) and _kind(saved.get(key)) != _kind(value):
            found = str(saved.get(key))[:80]
            raise CheckpointError(
                f"the option {key} of {name} is {found} in the file, but {value!r} in the model"
            )
    return {**saved, **{key: own[key] for key in _OF_THIS_MACHINE if key in own}}


def _kind(value: object) -> object:
    if isinstance(value, list | tuple):
        return [_kind(item) for item in value]
    if isinstance(value, int | float | torch.Tensor) and not isinstance(value, bool):
        return type(float(value))  # an int may be too large for one
    return type(value)
