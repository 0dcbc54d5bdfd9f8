"""Which of n numbers a packet holds, in the fewest bytes of three ways.

The block begins with k as u32 and the way as u8. Then follow, for k ascending indices below n,

* way 0: the indices as u32, 4 k bytes;
* way 1: how many lie in each block of 65,536, as u32, then their low halves as u16: 2 k + 4 ceil(n / 65536) bytes;
* way 2: one bit for each of the n numbers, the first in the highest bit: ceil(n / 8) bytes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ..payload import Array, PayloadError, Reader, Writer
from .sparsifier import Indices

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
    way = ways.index(min(ways))
    writer.write(np.array([k], np.uint32))
    writer.write(np.array([way], np.uint8))
    if way == WORDS:
        writer.write(indices.astype(np.uint32))
    elif way == HALVES:
        ends = np.searchsorted(indices, np.arange(BLOCK, n + BLOCK, BLOCK))
        writer.write(np.diff(ends, prepend=0).astype(np.uint32))
        writer.write(indices.astype(np.uint16))
    else:
        bits = np.zeros(n, np.bool_)
        bits[indices] = True
        writer.write(np.packbits(bits))


def read_indices(reader: Reader, n: int) -> Indices:
    """Read what `write_indices` wrote.

    Raises: PayloadError where it is no such block, so that no index is out of range or there twice.
    """
    k, way = int(reader.read(1, np.uint32)[0]), int(reader.read(1, np.uint8)[0])
    if k > n or way > BITMAP:
        raise PayloadError(f"a packet of {n} numbers cannot hold {k} indices written in way {way}")
    indices = (_words, _halves, _bitmap)[way](reader, k, n)
    if indices.size != k or (k and (indices[-1] >= n or not (indices[1:] > indices[:-1]).all())):
        raise PayloadError(f"a packet should hold {k} ascending indices below {n}")
    return indices


def _words(reader: Reader, k: int, n: int) -> Indices:
    return reader.read(k, np.uint32).astype(np.intp)


def _halves(reader: Reader, k: int, n: int) -> Indices:
    counts: Array = reader.read(-(-n // BLOCK), np.uint32)
    if int(counts.sum(dtype=np.uint64)) != k:
        raise PayloadError(f"a packet of {k} indices has blocks that hold {int(counts.sum(dtype=np.uint64))}")
    indices = np.repeat(np.arange(0, n, BLOCK), counts.astype(np.intp))
    indices += reader.read(k, np.uint16)
    return indices


def _bitmap(reader: Reader, k: int, n: int) -> Indices:
    bits = np.unpackbits(reader.read(-(-n // 8), np.uint8))
    return np.flatnonzero(bits.view(np.bool_))
