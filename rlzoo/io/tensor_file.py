"""Tensors and one JSON value in the bytes of a safetensors file."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any

import torch

MAX_HEADER = 2**24  # bytes


def to_bytes(tensors: Mapping[str, torch.Tensor], key: str, value: Any) -> bytes:
    """Return a safetensors file whose metadata hold a JSON value under a key."""
    import safetensors.torch  # only where files are written or read: workers need none

    own = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
    return safetensors.torch.save(own, {key: json.dumps(value)})


def from_bytes(content: bytes, key: str) -> tuple[Any, dict[str, torch.Tensor]]:
    """Return what `to_bytes` was given: the JSON value and the tensors.

    :raises ValueError: it is another file, or damaged
    """
    import safetensors.torch

    try:
        (size,) = struct.unpack("<Q", content[:8])
        if size > min(len(content), MAX_HEADER):
            raise ValueError("no header")
        value = json.loads(json.loads(content[8 : 8 + size])["__metadata__"][key])
        return value, safetensors.torch.load(content)
    except (KeyError, RecursionError, safetensors.SafetensorError, TypeError, struct.error) as error:
        raise ValueError(str(error)) from error
