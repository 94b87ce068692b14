"""Read model files of stable-baselines3 and sb3-contrib without unpickling.

    data                        JSON: plain values, and base64 pickles of others
    policy.pth                  parameters and buffers of the networks (torch.save)
    policy.optimizer.pth, ...   states of the optimisers
    pytorch_variables.pth       further tensors, such as `log_ent_coef`
    _stable_baselines3_version  text

Sizes are checked before unpacking. Tensors are read with `weights_only=True`, which refuses other classes.
The pickles in `data` are interpreted opcode by opcode (`rlzoo.io.pickle_tree`) into records of what they
would build.
"""

from __future__ import annotations

import base64
import binascii
import io
import json
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import torch

from rlzoo.core.errors import CheckpointError, one_line
from rlzoo.io.pickle_tree import (
    ExecutingPickle,
    Instance,
    count_opcodes,
    read_pickle,
    refuse_execution,
    walk,
)
from rlzoo.io.pickled_values import Allowance, plain_value
from rlzoo.io.zip_members import DAMAGE, Limits, check_members, read_member

LIMITS = Limits(json_bytes=64 * 2**20)
SERIALIZED = ":serialized:"
MAKERS = (
    "_codecs.encode", "collections.OrderedDict", "torch.Size", "torch.device",
    "torch._utils._rebuild_parameter", "torch._utils._rebuild_tensor", "torch._utils._rebuild_tensor_v2",
)  # fmt: skip
"""Functions that the pickle of tensors may call; `weights_only=True` also allows e.g. `bytearray(2**40)`."""
POLICY, VARIABLES, VERSION = "policy.pth", "pytorch_variables.pth", "_stable_baselines3_version"


@dataclass
class Sb3File:
    """Contents of a model file.

    :ivar values: attributes of the model by name: plain values, arrays, references and instances
    :ivar weights: parameters and buffers of the networks
    :ivar unread: reasons why attributes could not be read, by name
    :ivar states: state dicts of the optimisers, `{"policy.optimizer": {...}}`
    :ivar variables: further tensors
    :ivar notices: messages about parts that were ignored
    """

    values: dict[str, Any]
    weights: dict[str, torch.Tensor]
    unread: dict[str, str] = field(default_factory=dict)
    states: dict[str, object] = field(default_factory=dict)
    variables: dict[str, torch.Tensor] = field(default_factory=dict)
    version: str = "an unknown version"
    notices: list[str] = field(default_factory=list)


def read_sb3_file(file: BinaryIO, name: str) -> Sb3File:
    """Read a model file.

    :param name: name of the file, for errors
    :raises CheckpointError: the file is damaged, unpacks to too much, or would run code when unpickled
    """
    try:
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            members = check_members(archive, LIMITS)
            contents = {
                member: read_member(archive, members, member)
                for member in members
                if member in ("data", VERSION) or member.endswith(".pth")
            }
        return _read(contents)
    except CheckpointError as error:
        raise CheckpointError(f"{name}, a stable-baselines3 file: {error}") from None
    except DAMAGE as error:
        raise CheckpointError(f"{name} is a damaged stable-baselines3 file: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    return one_line(str(error).splitlines()[0][:160]) if str(error).strip() else type(error).__name__


def _read(contents: dict[str, bytes]) -> Sb3File:
    if POLICY not in contents:
        raise CheckpointError(f"{POLICY} is missing")
    file = Sb3File({}, _tensors(POLICY, contents[POLICY]))
    opcodes, left = count_opcodes(), Allowance()
    for name, value in _json(contents.get("data", b"{}")).items():
        _add_value(file, name, value, opcodes, left)
    if VARIABLES in contents and isinstance(variables := _load(VARIABLES, contents[VARIABLES]), Mapping):
        file.variables = {
            str(name): tensor.detach()
            for name, tensor in variables.items()
            if isinstance(tensor, torch.Tensor)
        }
    for name in contents.keys() - {POLICY, VARIABLES, VERSION, "data"}:
        part = name.removesuffix(".pth")
        try:
            file.states[part] = _load(name, contents[name])
        except ExecutingPickle:
            raise
        except CheckpointError as error:
            file.notices.append(f"{part} starts fresh: {error}")
    if VERSION in contents:
        file.version = one_line(contents[VERSION][:20].decode(errors="replace"))
    return file


def _json(content: bytes) -> dict[str, object]:
    if len(content) > LIMITS.json_bytes or content.count(b"[") + content.count(b"{") > LIMITS.json_nodes:
        raise CheckpointError("its member data is too large")
    try:
        tree = json.loads(content)
    except RecursionError:
        raise CheckpointError("its member data is nested too deeply") from None
    if not isinstance(tree, dict):
        raise CheckpointError("its member data is no JSON object")
    return tree


def _add_value(file: Sb3File, name: str, value: object, opcodes: Iterator[int], left: Allowance) -> None:
    if not isinstance(value, dict) or SERIALIZED not in value:
        file.values[name] = value
        return
    try:
        tree = read_pickle(base64.b64decode(value[SERIALIZED], validate=True), opcodes)
        refuse_execution(tree, name)
        file.values[name] = plain_value(tree, left)
    except ExecutingPickle:
        raise
    except CheckpointError as error:
        file.unread[name] = str(error)
    except (binascii.Error, TypeError, ValueError):
        file.unread[name] = "no base64"


# -- tensors -------------------------------------------------------------------------------------


def _tensors(name: str, content: bytes) -> dict[str, torch.Tensor]:
    """Return the tensors of a member by name."""
    loaded = _load(name, content)
    if not isinstance(loaded, Mapping):
        raise CheckpointError(f"{name} holds no tensors by name")
    for key, value in loaded.items():
        if not (isinstance(key, str) and isinstance(value, torch.Tensor)):
            raise CheckpointError(f"{name} holds something else than tensors by name")
    return {key: value.detach() for key, value in loaded.items()}


def _load(name: str, content: bytes) -> object:
    """Read a file of torch.save: tensors on the CPU, plain values, and dictionaries and lists of them."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = check_members(archive, LIMITS, folders=True)
            if sum(info.file_size for info in members.values()) > len(content):
                raise CheckpointError("it unpacks to more than it holds: torch.save compresses nothing")
            for member in members:
                if member.endswith("data.pkl"):
                    _check_makers(read_pickle(read_member(archive, members, member)), name)
        loaded = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except ExecutingPickle:
        raise
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from None
    except Exception as error:  # torch raises various classes
        kind = type(error).__name__  # its message suggests to load the file unchecked
        raise CheckpointError(f"{name} is damaged, or names more than tensors ({kind})") from None
    for value in walk(loaded):
        if isinstance(value, torch.Tensor):
            _check_plain(name, value)
    return loaded


def _check_makers(tree: object, name: str) -> None:
    refuse_execution(tree, name)
    for value in walk(tree):
        if isinstance(value, Instance) and value.path not in MAKERS and value.maker is not None:
            raise CheckpointError(f"it holds an object of {value.path[:80] or 'an unknown class'}")


def _check_plain(name: str, tensor: torch.Tensor) -> None:
    """Raise unless the tensor owns its numbers: a view may repeat a few bytes endlessly."""
    plain = (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type == "cpu"
        and not tensor.is_quantized
        and not tensor.is_complex()
    )
    if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
        raise CheckpointError(f"{name} holds a tensor that is not read")
