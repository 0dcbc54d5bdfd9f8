"""The identity of a data set: a hash of its arrays."""

import hashlib
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np

from nn.arrays import Array, refuse_masked

__all__ = ["Arrays", "checksum_of"]

Arrays: TypeAlias = tuple[Array, Array, Array, Array]
"""``(train_x, train_y, test_x, test_y)``"""


def checksum_of(arrays: Iterable[Array]) -> str:
    """Return the SHA-256 over dtype, shape and bytes of every array, as 64 hexadecimal digits.

    Memory layout and byte order do not count: a transposed copy or a big-endian array of equal values has the same
    checksum. Raises TypeError for arrays of Python objects, whose bytes are addresses, ValueError for masked numbers.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array.dtype.hasobject:
            raise TypeError(f"checksum_of needs arrays of numbers, got dtype {array.dtype}")
        refuse_masked("a data set", array)
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        digest.update(f"{plain.dtype.str}{plain.shape}\n".encode())
        digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
