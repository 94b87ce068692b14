"""Records in JSON files: dataclasses of plain values, one of them or a list to a file.

A field with a default may be missing in a file, and is not written where it has its default: files that are
older than the field stay valid, and stay as they were.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rlzoo.algorithms.hyperparameters import check_value
from rlzoo.core.errors import UserError, printable, unknown
from rlzoo.io.atomic import atomic_write

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Record = TypeVar("Record", bound="DataclassInstance")


def read_records(path: Path, kind: type[Record]) -> list[Record]:
    """Read the records of a file that holds one, or a list of them.

    :param kind: the dataclass; the annotations of its fields are what values are checked against
    :raises UserError: the file is no JSON, or a record lacks a field without a default, has an unknown one,
        or one of another type or that is not finite, or is refused by its class
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is no JSON file: {error}") from None
    return [check_record(path, kind, item) for item in (content if isinstance(content, list) else [content])]


def write_record(path: Path, record: DataclassInstance) -> None:
    """Write one record, whole or not at all."""
    _write(path, as_written(record))


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Write a list of records, whole or not at all."""
    _write(path, [as_written(record) for record in records])


def as_written(record: DataclassInstance) -> dict[str, object]:
    """Return the fields of a record, without those that have their default."""
    defaults = {field.name: field.default for field in dataclasses.fields(record)}
    return {key: value for key, value in dataclasses.asdict(record).items() if value != defaults[key]}


def check_record(path: Path, kind: type[Record], item: object) -> Record:
    """Return the record that `item` describes; `path` is its file.

    :raises UserError: see `read_records`
    """
    if not isinstance(item, dict):
        raise UserError(f"{path}: {str(item)[:40]!r} is no record")
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    needed = {field.name for field in fields if field.default is dataclasses.MISSING}
    if missing := needed - item.keys():
        raise UserError(f"{path}: {min(missing)} is missing in a record")
    values = check_fields(path, kind, item)
    try:
        return kind(**values)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def check_fields(path: Path | str, kind: type, values: Mapping[str, object]) -> dict[str, Any]:
    """Return values for fields of a dataclass, each in the type of its annotation.

    :raises UserError: a field that the class lacks, a value of another type or one that is not finite
    """
    annotations = {field.name: str(field.type) for field in dataclasses.fields(kind)}
    for key in values:
        if key not in annotations:
            raise unknown(f"entry in {path}", key, annotations)
    return {key: _check(f"{path}: {key}", value, annotations[key]) for key, value in values.items()}


def _check(name: str, value: object, annotation: str) -> object:
    if annotation.startswith("dict"):
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise UserError(f"{name} must be a dictionary, not {repr(value)[:60]}")
        return value
    if annotation.startswith("tuple[str"):
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UserError(f"{name} must be a list of texts, not {repr(value)[:60]}")
        return tuple(value)
    value = check_value(name, value, annotation)
    if isinstance(value, str) and printable(value) != value:
        raise UserError(f"{name} holds control characters: {value[:60]!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{name} must be a number, not {value}")
    return value


def _write(path: Path, content: object) -> None:
    with atomic_write(path) as file:
        file.write((json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
