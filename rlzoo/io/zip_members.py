"""Members of a zip archive that may come from anybody: everything is checked before anything is unpacked."""

from __future__ import annotations

import struct
import zipfile
import zlib
from dataclasses import dataclass

from rlzoo.core.errors import CheckpointError


@dataclass(frozen=True)
class Limits:
    """What a model file may ask for; more is refused before it is read."""

    total_bytes: int = 8 * 2**30  # all members, unpacked
    free_bytes: int = 256 * 2**20  # all members, unpacked, whatever they take in the file; from there on
    ratio: int = 4  # ... unpacked to packed size: numbers hardly shrink
    json_bytes: int = 16 * 2**20  # each JSON member, unpacked
    json_nodes: int = 500_000  # lists and objects in each
    header_bytes: int = 4 * 2**20  # names and shapes of the tensors in a member


DEFAULT_LIMITS = Limits()

DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ArithmeticError,
    AssertionError, AttributeError, LookupError, TypeError, ValueError, MemoryError,
)  # fmt: skip
"""What zipfile, json, torch, NumPy and Gymnasium raise on bytes that are not what they should be."""


def check_members(
    archive: zipfile.ZipFile, limits: Limits = DEFAULT_LIMITS, folders: bool = False
) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name, after everything that can be checked without unpacking.

    :param folders: the archive may contain folders
    :raises CheckpointError: a member is there twice, a path, a link or encrypted, or they unpack to more than
        the limits allow
    """
    infos = archive.infolist()
    members = {info.filename: info for info in infos}
    if len(members) != len(infos):
        raise CheckpointError("a member is there twice")
    for name, info in members.items():
        if (("/" in name or info.is_dir()) and not folders) or "\\" in name or ".." in name:
            raise CheckpointError(f"a member is a path: {name[:80]!r}")
        if (info.external_attr >> 16) & 0o170000 not in (0, 0o100000):
            raise CheckpointError(f"{name} is a link or a device")
        if info.flag_bits & 0x1:
            raise CheckpointError(f"{name} is encrypted")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise CheckpointError(f"{name} is compressed in an unknown way")
    unpacked, packed = (sum(getattr(info, name) for info in infos) for name in ("file_size", "compress_size"))
    limit = min(limits.total_bytes, max(limits.free_bytes, limits.ratio * packed))
    if unpacked > limit:
        raise CheckpointError(f"it unpacks from {packed:,} bytes to {unpacked:,}, more than {limit:,} bytes")
    return members


def read_member(archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], name: str) -> bytes:
    """Return the content of a member.

    :raises CheckpointError: there is no such member, or it is not of the size that it declares
    """
    if name not in members:
        raise CheckpointError(f"{name} is missing")
    with archive.open(members[name]) as member:  # checks the CRC at the end of the data
        content = member.read(members[name].file_size)
        if len(content) != members[name].file_size or member.read(1):
            raise CheckpointError(f"{name} is not of its declared size")
    return content
