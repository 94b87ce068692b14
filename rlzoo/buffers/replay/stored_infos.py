"""Info dictionaries in the file of a replay buffer: numbers, texts and arrays, also in lists and dicts."""

from __future__ import annotations

import base64
import json
import warnings
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from rlzoo.core.errors import CheckpointError, UserError
from rlzoo.io.encoding import decode_value, encode_value

MAX_COMPRESSED, MAX_TEXT = 40 * 2**20, 2**31  # bytes


def encode_infos(infos: Iterable[Mapping[str, Any]]) -> str:
    """Return infos as compressed JSON; a warning names entries that are left out, such as objects.

    :raises UserError: they are too large
    """
    left_out: set[str] = set()
    encoded: list[object] = []
    for info in infos:
        kept = {key: value for key, value in info.items() if type(key) is str and _is_data(value)}
        left_out |= set(map(str, info.keys() - kept.keys()))
        encoded.append(encode_value(kept, None))
    if left_out:
        names = ", ".join(sorted(left_out))
        warnings.warn(f"infos are saved without {names}: no numbers, texts or arrays", stacklevel=5)
    text = json.dumps(encoded).encode()
    compressed = zlib.compress(text, 1)
    if len(text) > MAX_TEXT or len(compressed) > MAX_COMPRESSED:
        raise UserError("a HerReplayBuffer with copy_info_dict=True cannot be saved: its infos are too large")
    return base64.b64encode(compressed).decode()


def decode_infos(text: object, n_infos: int) -> list[dict[str, Any]]:
    """Return the last `n_infos` infos that `encode_infos` wrote; nothing in them is called or imported.

    :raises CheckpointError: they are missing or damaged
    """
    if not isinstance(text, str):
        raise CheckpointError("the file has no infos for this HerReplayBuffer, which has copy_info_dict=True")
    try:
        encoded = json.loads(zlib.decompressobj().decompress(base64.b64decode(text, validate=True), MAX_TEXT))
        infos = [decode_value(info) for info in encoded[len(encoded) - n_infos :]]
    except (TypeError, ValueError, zlib.error, RecursionError) as error:
        raise CheckpointError(f"the infos in the file are damaged: {error}"[:300]) from None
    if len(infos) != n_infos or not all(isinstance(info, dict) and _is_data(info) for info in infos):
        raise CheckpointError("the infos in the file are damaged")
    return infos


def _is_data(value: object) -> bool:
    if isinstance(value, dict):
        return all(type(key) is str and _is_data(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_data, value))
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biuf"
    return value is None or isinstance(value, bool | int | float | str)
