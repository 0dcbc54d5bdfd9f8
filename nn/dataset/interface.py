"""What a data set is: four arrays, a name, a checksum that tells whether a machine already holds them, and more that tell which
rows are others; and how samples to evaluate on are set aside.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import abstractmethod
from collections.abc import Iterable
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array, refuse_masked
from nn.random import keyed

__all__ = ["PARTS", "AbsDataset", "Arrays", "Rows", "check_fraction", "checksum_of", "drawn_rows", "row_checksums_of", "split"]

PARTS: Final = ("train_x", "train_y", "test_x", "test_y")
_MOST_BLOCKS: Final = 64


class AbsDataset(Configurable, internal=("checksum", "row_checksums")):
    """A data set for supervised learning, split into a training part and a test part.

    A subclass implements `load`, and `get_config` when its constructor takes arguments that are plain data
    (samples themselves are none):

    >>> class Parity(AbsDataset):
    ...     def load(self, download=True):
    ...         x = np.arange(8, dtype=np.uint8)[:, None]
    ...         return x[:6], x[:6, 0] % 2, x[6:], x[6:, 0] % 2
    """

    @property
    def name(self) -> str:
        """The name of the data set's directory; the class name in lower case unless a subclass says otherwise."""
        return type(self).__name__.lower()

    @abstractmethod
    def load(self, download: bool = True) -> Arrays:
        """Return ``(train_x, train_y, test_x, test_y)``, samples along the first axis.

        Every call returns equal arrays. With ``download=False`` nothing is fetched from a network.

        Raises FileNotFoundError where the samples cannot be had, ValueError where their files are damaged.
        """

    def checksum(self) -> str:
        """Return `checksum_of` the four arrays (64 hexadecimal digits); loads them once and remembers the result."""
        return self._checksums[0]

    def row_checksums(self) -> dict[str, str]:
        """Return `row_checksums_of` each of the four arrays, by its name in `PARTS`; loads them as `checksum` does."""
        return dict(self._checksums[1])

    @cached_property
    def _checksums(self) -> tuple[str, dict[str, str]]:
        arrays = self.load()
        return checksum_of(arrays), dict(zip(PARTS, map(row_checksums_of, arrays), strict=True))

    def source_of(self, part: str) -> str:
        """Return the file of the array `part`, one of `PARTS`, for messages; "" where there is none."""
        return ""


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


def row_checksums_of(array: Array) -> str:
    """Return type and shape of an array, and the CRC-32 of each of up to 64 blocks of its rows, as words of a text."""
    plain = np.atleast_1d(np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C"))
    blocks = (plain[low:high].reshape(-1).view(np.uint8).data for low, high in pairwise(row_borders(len(plain))))
    return " ".join([plain.dtype.name, "x".join(map(str, plain.shape)), *(f"{zlib.crc32(block):08x}" for block in blocks)])


def row_borders(rows: int) -> list[int]:
    """Return where the blocks begin and, at last, the number of rows."""
    blocks = min(rows, _MOST_BLOCKS)
    return [number * rows // max(blocks, 1) for number in range(blocks + 1)]


Rows = NDArray[np.int64]
"""Numbers of samples, from 0."""


def check_fraction(owner: object, value: float) -> float:
    """Return `value` if it is a share of samples to set aside, more than 0 and less than 1; see `nn.arguments.number`."""
    return arguments.number(owner, "test_fraction", value, 0.0, 1.0, open_low=True)


def split(x: Array, y: Array, fraction: float, seed: int) -> Arrays:
    """Return ``(train_x, train_y, test_x, test_y)`` where the test part is the share `fraction` of the samples.

    The test part has ``round(fraction * n)`` samples, but at least one, and leaves at least one. Which ones depends on
    `seed` and the number of samples alone; both parts keep the order of the samples.

    Raises ValueError where there are fewer than two samples.
    """
    if len(x) < 2:
        raise ValueError(f"a data set must hold at least 2 samples to set some aside, got {len(x)}")
    train, test = _draw(len(x), fraction, seed)
    return x[train], y[train], x[test], y[test]


def drawn_rows(data: object, train: int, test: int) -> tuple[Rows, Rows] | None:
    """Return which samples of the whole the `train` samples to train on and the `test` others are that `data` loads.

    None where `data` was given both parts, or leaves rows out: its `draws_rows` tells.
    """
    if not getattr(data, "draws_rows", False):
        return None
    drawn = _draw(train + test, data.test_fraction, data.seed)  # type: ignore[attr-defined]
    return drawn if len(drawn[0]) == train else None


def _draw(samples: int, fraction: float, seed: int) -> tuple[Rows, Rows]:
    count = min(max(round(fraction * samples), 1), samples - 1)
    order = keyed(seed, "test-split").permutation(samples)
    test, train = order[:count], order[count:]
    test.sort()
    train.sort()
    return train, test
