"""Records in JSON files: dataclasses of plain values, one of them or a list to a file."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

from rlzoo.algorithms.hyperparameters import check_value
from rlzoo.core.atomic import atomic_write
from rlzoo.core.errors import UserError, unknown

Record = TypeVar("Record")


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """The records in a file that holds one, or a list of them.

    :param kind: the dataclass; the annotations of its fields are what values are checked against
    :raises UserError: the file is no JSON, or a record lacks a field, has an unknown one, or one of another
        type or that is not finite, or is refused by its class
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON file: {error}") from None
    return [check_record(path, kind, item) for item in (content if isinstance(content, list) else [content])]


def write_record(path: Path, record: Any) -> None:
    """Write one record, whole or not at all."""
    _write(path, dataclasses.asdict(record))


def write_records(path: Path, records: Iterable[Any]) -> None:
    """Write a list of records, whole or not at all."""
    _write(path, [dataclasses.asdict(record) for record in records])


def check_record(path: Path, kind: type[Record], item: Any) -> Record:
    """The record that `item` describes; `path` is where it stands, or will stand.

    :raises UserError: see `read_records`
    """
    annotations = {field.name: str(field.type) for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if not isinstance(item, dict):
        raise UserError(f"{path}: {str(item)[:40]!r} is no record")
    if missing := annotations.keys() - item.keys():
        raise UserError(f"{path}: {min(missing)} is missing in a record")
    for key in item:
        if key not in annotations:
            raise unknown(f"entry in {path}", key, annotations)
    values = {key: check_value(f"{path}: {key}", value, annotations[key]) for key, value in item.items()}
    for key, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UserError(f"{path}: {key} must be a number, not {value}")
        if annotations[key].startswith("dict") and not isinstance(value, dict):
            raise UserError(f"{path}: {key} must be a dictionary, not {value!r}")
    try:
        return kind(**values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _write(path: Path, content: Any) -> None:
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
