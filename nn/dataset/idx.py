"""Reading IDX files, the format of MNIST and its relatives, plain or compressed with gzip.

Layout: two zero bytes, a type code, the number of axes, one big-endian u32 per axis, then the values in C order and
big-endian. Source: http://yann.lecun.com/exdb/mnist/ (section "File formats").
"""

import gzip
import math
import os
import struct
from typing import BinaryIO

import numpy as np

from nn.arrays import Array
from nn.dataset.files import read_values, unpacked

__all__ = ["read_idx"]

_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
# RFC 1952, section 2.3.1: the fields ID1 and ID2.
_GZIP = b"\x1f\x8b"
_MAX_AXES = 8
_MAX_BYTES = 2 << 30  # a small compressed file may claim anything; data sets of this format are far smaller


def read_idx(path: str | os.PathLike[str]) -> Array:
    """Return the array in the IDX file at `path`; whether it is compressed is told by its content, not by its name.

    With `ArrayDataset` files make data sets of their own, for example the test images of MNIST alone.

    >>> with open("labels-idx1-ubyte", "wb") as file:
    ...     written = file.write(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
    >>> read_idx("labels-idx1-ubyte").tolist()
    [7, 8, 9]

    Raises OSError where the file cannot be opened, ValueError naming the file where it is no IDX file, is cut short or
    has bytes behind its last value.
    """
    with open(path, "rb") as file:
        compressed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if not compressed:
            return _read(file, path)
        with unpacked(file, repr(os.fspath(path))) as content:
            return _read(content, path)


def _read(file: BinaryIO | gzip.GzipFile, path: str | os.PathLike[str]) -> Array:
    shown = repr(os.fspath(path))
    magic = file.read(4)
    if len(magic) != 4 or magic[:2] != b"\0\0" or magic[2] not in _DTYPES or not 1 <= magic[3] <= _MAX_AXES:
        raise ValueError(f"{shown} is not an IDX file: it begins with the bytes {magic.hex(' ')}")
    dtype, axes = np.dtype(_DTYPES[magic[2]]), magic[3]
    sizes = file.read(4 * axes)
    if len(sizes) != 4 * axes:
        raise ValueError(f"{shown} ends within its header")
    shape = struct.unpack(f">{axes}I", sizes)
    size = math.prod(shape) * dtype.itemsize
    # Before anything is read or allocated.
    if size > _MAX_BYTES:
        raise ValueError(f"{shown} must hold at most {_MAX_BYTES} bytes of values, its shape {shape} claims {size}")
    return read_values(file, shown, shape, dtype).reshape(shape)
