"""Reading NumPy archives (`.npz`): sizes are checked before anything is unpacked, nothing is unpickled."""

from __future__ import annotations

import math
import os
import tokenize
import zipfile

import numpy as np
from numpy.lib import format as npy

from rlzoo.core.errors import UserError
from rlzoo.io.container import PathOrFile, file_name, first_line
from rlzoo.io.zip_members import DAMAGE

FREE_BYTES, RATIO = 256 * 2**20, 20
"""Bytes that the arrays of any archive may take; larger ones may take so many times what they do packed."""

_DAMAGE = (*DAMAGE, SyntaxError, tokenize.TokenError)  # of NumPy, on a damaged header


def read_npz(file: PathOrFile, what: str) -> dict[str, np.ndarray]:
    """Return the arrays of an archive.

    :param what: it should hold, for the error
    :raises UserError: there is no such file, it is damaged or of another kind, holds pickled objects, or
        unpacks to more than an archive of its size should
    """
    name = file_name(file)
    try:
        if isinstance(file, str | os.PathLike) and not os.path.isfile(file):
            raise UserError(f"there is no file {name}")
        if not zipfile.is_zipfile(file):
            raise UserError(f"{name} is no .npz archive of {what}")
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            unpacked, packed = (
                sum(getattr(m, size) for m in members) for size in ("file_size", "compress_size")
            )
            if unpacked > max(FREE_BYTES, RATIO * packed):
                raise UserError(f"{name} is damaged: it unpacks from {packed:,} bytes to {unpacked:,}")
            return {
                m.filename.removesuffix(".npy"): _array(archive, m, name)
                for m in members
                if m.filename.endswith(".npy")
            }
    except UserError:
        raise
    except _DAMAGE as error:
        raise UserError(f"{name} is damaged: {first_line(error)}") from None


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> np.ndarray:
    """Return an array of numbers or texts, after its header was compared with the size of its member."""
    with archive.open(member) as file:
        version = npy.read_magic(file)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, _, dtype = read_header(file)
        if dtype.hasobject:
            raise UserError(
                f"{name}: {member.filename.removesuffix('.npy')!r} holds pickled Python objects, "
                "which are never loaded; write the file again"
            )
        if file.tell() + math.prod(shape) * dtype.itemsize != member.file_size:
            raise ValueError(f"{member.filename[:80]} is not of the size that its header says")
    with archive.open(member) as file:
        array: np.ndarray = npy.read_array(file, allow_pickle=False)
    return array
