"""Indices of the numbers that a sparsifier sends: found by magnitude, and written in the fewest bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import ceil, sqrt
from typing import Any, Final

import numpy as np

from nn.arrays import Array

from .stage import Indices, PayloadError, Reader, Vector, Writer

#: Numbers looked at in one go: their magnitudes and the comparison's result stay in L2.
CHUNK: Final = 1 << 17

#: One number of so many is in the sample; a prime, which does not fall in step with the rows of a matrix.
STRIDE: Final = 61

#: Below this many numbers a sample is not worth its while.
SMALL: Final = 1 << 14

Comparison = Callable[..., Any]


class Magnitudes:
    """Search by the magnitudes of vectors, in buffers of its own."""

    def __init__(self) -> None:
        self._magnitudes: Vector = np.empty(0, np.float32)
        self._whole: Vector = np.empty(0, np.float32)
        self._found = np.empty(0, np.bool_)

    def where(self, x: Vector, compare: Comparison, limit: np.float32) -> Indices:
        """Return the indices, ascending, at which `compare(|x|, limit)` holds."""
        return _joined(self._search(x, compare, limit))

    def largest(self, x: Vector, k: int) -> Indices:
        """Return the indices, ascending, of the k largest magnitudes; of equal ones the first.

        A sample gives a limit that a few more than k numbers reach (Lin et al., "Deep gradient compression", 2018), of
        which the surplus is trimmed. Where too few or far too many reach it, the limit is looked for among all numbers.
        """
        if k >= x.size:
            return np.arange(x.size)
        if k == 0:
            return np.empty(0, np.intp)
        found = self._by_sample(x, k) if x.size >= SMALL else None
        return self._among_all(x, k) if found is None else found

    def _by_sample(self, x: Vector, k: int) -> Indices | None:
        hits = k / STRIDE  # expected in the sample, with a standard deviation of at most its root
        # four standard deviations above the expectation, so that hardly ever too few reach the limit
        rank = ceil(hits + 4 * sqrt(hits) + 1)
        sample = x[::STRIDE]
        # a large share of the numbers is wanted: a sample saves nothing then
        if 3 * rank > sample.size:
            return None
        limit = _kth_largest(np.abs(sample), rank)
        # most numbers are 0: those at the limit would be all of them
        if limit == 0:
            return None
        parts, count = [], 0
        for part in self._search(x, np.greater_equal, limit):
            parts.append(part)
            count += part.size
            # far too many: the numbers at the places of the sample are not like the others
            if count > 4 * rank * STRIDE:
                return None
        return _trimmed(x, _joined(parts), k) if count >= k else None

    def _among_all(self, x: Vector, k: int) -> Indices:
        if self._whole.size != x.size:
            self._whole = np.empty(x.size, np.float32)
        limit = _kth_largest(np.abs(x, out=self._whole), k)
        above = self.where(x, np.greater, limit)
        ties, missing = [], k - above.size
        for part in self._search(x, np.equal, limit):
            ties.append(part[:missing])
            missing -= ties[-1].size
            # equal magnitudes: the first ones in order, so that equal vectors give equal packets
            if not missing:
                break
        return np.sort(np.concatenate([above, *ties]))

    def _search(self, x: Vector, compare: Comparison, limit: np.float32) -> Iterator[Indices]:
        size = min(x.size, CHUNK)
        if self._found.size < size:
            self._magnitudes, self._found = np.empty(size, np.float32), np.empty(size, np.bool_)
        for start in range(0, x.size, CHUNK):
            chunk = x[start : start + CHUNK]
            found = self._found[: chunk.size]
            compare(np.abs(chunk, out=self._magnitudes[: chunk.size]), limit, out=found)
            # a copy by `flatnonzero`, so the buffers may be used again
            indices = np.flatnonzero(found)
            indices += start
            yield indices


def _kth_largest(magnitudes: Vector, k: int) -> np.float32:
    """Return the k-th largest of `magnitudes`; their order changes."""
    # a partition in linear time, not a sort
    magnitudes.partition(magnitudes.size - k)
    found: np.float32 = magnitudes[magnitudes.size - k]
    return found


def _trimmed(x: Vector, found: Indices, k: int) -> Indices:
    """Return the k of the indices `found` at which x has the largest magnitudes, of equal ones the first."""
    magnitudes = np.abs(x[found])
    limit = _kth_largest(magnitudes.copy(), k)
    keep = magnitudes > limit
    ties = np.flatnonzero(magnitudes == limit)
    keep[ties[: k - np.count_nonzero(keep)]] = True
    return found[keep]


def _joined(parts: Iterable[Indices]) -> Indices:
    return np.concatenate([np.empty(0, np.intp), *parts])


# Which of n numbers a packet holds, in the fewest bytes of three ways.
#
# The block begins with k as u32 and the way as u8. Then follow, for k ascending indices below n,
#
# * way 0: the indices as u32, 4 k bytes;
# * way 1: how many lie in each block of 65,536, as u32, then their low halves as u16: 2 k + 4 ceil(n / 65536) bytes;
# * way 2: one bit for each of the n numbers, the first in the highest bit: ceil(n / 8) bytes.

BLOCK: Final = 1 << 16
HEAD: Final = 5
WORDS, HALVES, BITMAP = range(3)


def sizes(k: int, n: int) -> tuple[int, int, int]:
    """Return the bytes that k of n indices take in each way, without the head."""
    return 4 * k, 2 * k + 4 * -(-n // BLOCK), -(-n // 8)


def index_bytes(k: int, n: int) -> int:
    """Return the bytes of the block, head included: 5 + min(4k, 2k + 4 ceil(n / 65536), ceil(n / 8))."""
    return HEAD + min(sizes(k, n))


def write_indices(writer: Writer, indices: Indices, n: int) -> None:
    """Write ascending indices, each once, below n."""
    k = indices.size
    ways = sizes(k, n)
    # of equal sizes the first way, so that a sender has one form for the same indices
    way = ways.index(min(ways))
    writer.write(np.array([k], np.uint32))
    writer.write(np.array([way], np.uint8))
    if way == WORDS:
        writer.write(indices.astype(np.uint32))
    elif way == HALVES:
        # where each block of 65,536 ends among the ascending indices
        ends = np.searchsorted(indices, np.arange(BLOCK, n + BLOCK, BLOCK))
        writer.write(np.diff(ends, prepend=0).astype(np.uint32))
        writer.write(indices.astype(np.uint16))
    else:
        bits = np.zeros(n, np.bool_)
        bits[indices] = True
        writer.write(np.packbits(bits))


def read_indices(reader: Reader, n: int) -> Indices:
    """Read indices that `write_indices` wrote.

    Raises: PayloadError where it is no such block, so that no index is out of range or there twice.
    """
    k, way = int(reader.read(1, np.uint32)[0]), int(reader.read(1, np.uint8)[0])
    if k > n or way > BITMAP:
        raise PayloadError(f"a packet of {n} numbers cannot hold {k} indices written in way {way}")
    indices = (_words, _halves, _bitmap)[way](reader, k, n)
    # ascending and each once: `decode` counts on that, and a hostile packet could count a number twice
    if indices.size != k or (k and (indices[-1] >= n or not (indices[1:] > indices[:-1]).all())):
        raise PayloadError(f"a packet should hold {k} ascending indices below {n}")
    return indices


def _words(reader: Reader, k: int, n: int) -> Indices:
    return reader.read(k, np.uint32).astype(np.intp)


def _halves(reader: Reader, k: int, n: int) -> Indices:
    counts: Array = reader.read(-(-n // BLOCK), np.uint32)
    # in 64 bits: a sum of hostile counts must not wrap around to k
    if int(counts.sum(dtype=np.uint64)) != k:
        raise PayloadError(f"a packet of {k} indices has blocks that hold {int(counts.sum(dtype=np.uint64))}")
    indices = np.repeat(np.arange(0, n, BLOCK), counts.astype(np.intp))
    indices += reader.read(k, np.uint16)
    return indices


def _bitmap(reader: Reader, k: int, n: int) -> Indices:
    bits = np.unpackbits(reader.read(-(-n // 8), np.uint8))
    return np.flatnonzero(bits.view(np.bool_))
