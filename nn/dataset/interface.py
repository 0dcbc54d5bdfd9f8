"""Base class of data sets: four arrays, a name, a checksum that tells whether a machine already holds them, and more that tell
which rows are others; and functions that set samples aside to evaluate on.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array, refuse_masked
from nn.random import keyed

__all__ = [
    "PARTS",
    "AbsDataset",
    "Arrays",
    "DrawingDataset",
    "Rows",
    "SplitKind",
    "check_fraction",
    "check_split",
    "checksum_of",
    "draw",
    "drawn_rows",
    "joined",
    "leaves",
    "load_checked",
    "of_leaves",
    "row_checksums_of",
]

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
        return _checksums_of(self.load())

    def source_of(self, part: str) -> str:
        """Return the file of the array `part`, one of `PARTS`, for messages; "" where there is none."""
        return ""


def load_checked(data: AbsDataset) -> Arrays:
    """Load a data set once for its samples and its checksum, which tells from then on what these were.

    Args:
        data: the data set.

    Raises:
        ValueError: Its checksum is known, and the samples have changed since; and as `AbsDataset.load`.
    """
    arrays = data.load()
    # of what is no array of numbers the check of the data tells more than a checksum
    if len(arrays) != len(PARTS) or not all(isinstance(each, np.ndarray) and not each.dtype.hasobject for each in arrays):
        return arrays
    known = vars(data).get("_checksums")
    if known is None:
        data._checksums = _checksums_of(arrays)
    elif checksum_of(arrays) != known[0]:
        raise ValueError(
            f"The samples of data set {data.name} have another checksum than before: its files, or arrays, have changed since "
            "they were first read. Make another data set object of what is there now."
        )
    return arrays


Arrays: TypeAlias = tuple[Array, Array, Array, Array]
"""``(train_x, train_y, test_x, test_y)``; samples of several inputs and labels of several outputs have a field for each."""


def _checksums_of(arrays: Arrays) -> tuple[str, dict[str, str]]:
    return checksum_of(arrays), dict(zip(PARTS, map(row_checksums_of, arrays), strict=True))


def checksum_of(arrays: Iterable[Array]) -> str:
    """Return the SHA-256 over dtype, shape and bytes of every array, as 64 hexadecimal digits.

    Memory layout and byte order do not count: a transposed copy or a big-endian array of equal values has the same
    checksum. Raises TypeError for arrays of Python objects, as their bytes are addresses, ValueError for masked numbers.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array.dtype.hasobject:
            raise TypeError(f"checksum_of needs arrays of numbers, got dtype {array.dtype}")
        refuse_masked("a data set", array)
        plain = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        kind = plain.dtype.str if plain.dtype.names is None else plain.dtype.descr
        digest.update(f"{kind}{plain.shape}\n".encode())
        digest.update(plain.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def joined(owner: str, parts: Mapping[str, Any]) -> Array:
    """Return one array ``(n,)`` with a field for each part, in their order; `array[name]` shows a part.

    Args:
        owner: argument that held the parts, for messages.
        parts: arrays ``(n, ...)`` by name, such as the inputs of a model.

    Raises:
        ValueError: for no parts, names that are no texts without '/', and arrays of other lengths.
    """
    arrays = {name: np.asarray(part) for name, part in parts.items()}
    if not arrays:
        raise ValueError(f"{owner} must hold at least one array by name, got none")
    first = next(iter(arrays))
    for name, array in arrays.items():
        if not isinstance(name, str) or not name or "/" in name:
            raise ValueError(f"{owner} must have texts without '/' as names, got {arguments.short(name)}")
        if not array.ndim or len(array) != len(arrays[first]):
            raise ValueError(
                f"{owner} must hold as many rows for each name, got shape {arrays[first].shape} for '{first}' and "
                f"{array.shape} for '{name}'"
            )
    # without gaps between the fields, whose bytes would count in checksums
    whole = np.zeros(len(arrays[first]), [(name, array.dtype, array.shape[1:]) for name, array in arrays.items()])
    for name, array in arrays.items():
        whole[name] = array
    return whole


def leaves(arrays: Any) -> dict[str, Array]:
    """Return the arrays of a data set by name, those with fields in parts: ``train_x``, or ``train_x/title``.

    Args:
        arrays: train_x, train_y, test_x and test_y.
    """
    found: dict[str, Array] = {}
    for part, array in zip(PARTS, arrays, strict=True):
        if array.dtype.names is None:
            found[part] = array
        else:
            found.update((f"{part}/{name}", np.ascontiguousarray(array[name])) for name in array.dtype.names)
    return found


def of_leaves(found: Mapping[str, Array]) -> tuple[Array, Array, Array, Array]:
    """Return train_x, train_y, test_x and test_y.

    Args:
        found: the arrays by name, as `leaves` gives them.

    Raises:
        ValueError: where a part is missing.
    """
    arrays = []
    for part in PARTS:
        fields = {name.partition("/")[2]: array for name, array in found.items() if name.partition("/")[0] == part}
        if not fields:
            raise ValueError(f"a data set must have the array {part}, got {', '.join(found)[:80]}")
        arrays.append(fields[""] if "" in fields else joined(part, fields))
    return arrays[0], arrays[1], arrays[2], arrays[3]


def row_checksums_of(array: Array) -> str:
    """Return type and shape of an array, and the CRC-32 of each of up to 64 blocks of its rows, as words of a text."""
    plain = np.atleast_1d(np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C"))
    # Blocks of whole rows, so that a message can tell which rows differ.
    blocks = (plain[low:high].reshape(-1).view(np.uint8).data for low, high in pairwise(row_borders(len(plain))))
    return " ".join([plain.dtype.name, "x".join(map(str, plain.shape)), *(f"{zlib.crc32(block):08x}" for block in blocks)])


def row_borders(rows: int) -> list[int]:
    """Return where the blocks begin and, at last, the number of rows."""
    blocks = min(rows, _MOST_BLOCKS)
    return [number * rows // max(blocks, 1) for number in range(blocks + 1)]


Rows = NDArray[np.int64]
"""Numbers of samples, from 0."""

SplitKind: TypeAlias = Literal["random", "stratified", "last"]
"""Which samples are set aside."""


class DrawingDataset(AbsDataset):
    """A data set that sets samples aside by itself, and tells which."""

    _drawn: tuple[Rows, Rows] | None = None

    @property
    def drawn(self) -> tuple[Rows, Rows] | None:
        """Numbers of the samples to train on and of those set aside, once loaded; None where both parts were given."""
        return self._drawn


def check_split(owner: object, value: SplitKind) -> SplitKind:
    """Return a value that says which samples are set aside.

    Args:
        owner: the data set, which errors name; see `nn.arguments.one_of`.
        value: the value.
    """
    return arguments.one_of(owner, "split", value, get_args(SplitKind))


def check_fraction(owner: object, value: float) -> float:
    """Return a share of samples to set aside, more than 0 and less than 1.

    Args:
        owner: the data set, which errors name; see `nn.arguments.number`.
        value: the share.
    """
    return arguments.number(owner, "test_fraction", value, 0.0, 1.0, open_low=True)


def draw(y: Array, fraction: float, seed: int, how: SplitKind = "random") -> tuple[Rows, Rows]:
    """Return which samples are for training and which for the test part; both keep the order of the samples.

    The test part has ``round(fraction * n)`` samples, but at least one, and leaves at least one.

    Args:
        y: the labels ``(n, ...)``.
        fraction: the share of the test part.
        seed: of the draw; "random" depends on it and on the number of samples alone.
        how: "random"; "stratified", by which each class has the same share in both parts, to one sample; "last", the last
            samples, as of a series in the order of time.

    Raises:
        ValueError: for fewer than two samples, and for "stratified" with labels that are no class numbers.
    """
    samples = len(y)
    if samples < 2:
        raise ValueError(f"a data set must hold at least 2 samples to set some aside, got {samples}")
    count = min(max(round(fraction * samples), 1), samples - 1)
    if how == "last":
        rows = np.arange(samples)
        return rows[: samples - count], rows[samples - count :]
    order: Rows = keyed(seed, "test-split").permutation(samples)
    test = order[:count] if how == "random" else order[_of_each_class(y, order, count)]
    # A mask keeps the order of the samples in both parts.
    chosen = np.zeros(samples, bool)
    chosen[test] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def _of_each_class(y: Array, order: Rows, count: int) -> NDArray[np.bool_]:
    """Return which places of the order belong to the test part: of each class its share, rounded to `count` in all."""
    if y.dtype.kind not in "biu" or y.size != len(y):
        raise ValueError(f"split='stratified' needs labels that are class numbers (n,), got {y.dtype} of shape {y.shape}")
    classes, places, sizes = np.unique(y.reshape(-1)[order], return_inverse=True, return_counts=True)
    exact = sizes * (count / len(y))
    # Rounded down at first, and at least one sample of each class is left to train on.
    quota = np.minimum(np.floor(exact).astype(np.int64), np.maximum(sizes - 1, 0))
    # the largest remainders first; a class of one sample stays in training as long as another one has some to give
    for place in np.lexsort((-sizes, quota - exact, sizes < 2)):
        if quota.sum() < count and quota[place] < sizes[place]:
            quota[place] += 1
    ranks = np.empty(len(y), np.int64)
    for place in range(len(classes)):
        # In the drawn order, so that the first of each class are a random choice.
        ranks[places == place] = np.arange(sizes[place])
    found: NDArray[np.bool_] = ranks < quota[places]
    return found


def drawn_rows(data: object, train: int, test: int) -> tuple[Rows, Rows] | None:
    """Return which samples of the whole a data set has loaded.

    None where it was given both parts.

    Args:
        data: the data set; its `drawn` tells.
        train: number of samples to train on.
        test: number of the others.
    """
    drawn: tuple[Rows, Rows] | None = getattr(data, "drawn", None)
    return drawn if drawn is not None and (len(drawn[0]), len(drawn[1])) == (train, test) else None
