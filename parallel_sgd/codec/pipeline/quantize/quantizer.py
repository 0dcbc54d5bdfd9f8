"""Base of all quantisers: they write everything, work in chunks, keep their buffers, and pack small codes into bytes."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nn.arguments import integer

from ..stage import PayloadError, Reader, Stage, Vector

#: Elements worked on at once: their temporaries stay in the second-level cache, and the overhead of a call does not matter.
CHUNK = 1 << 16

#: Vectors whose scale is smaller become zeros where the quantiser divides by it, since the quotient could overflow.
FLOOR = 2.0**-96

LARGEST = float(np.finfo(np.float32).max)

NOTHING: Vector = np.empty(0, np.float32)
NOTHING.setflags(write=False)


def chunks(n: int, size: int = CHUNK) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


class Quantizer(Stage, fixed=("_rooms",)):
    """A stage that writes some bits for each value and carries none: a stage after it would see nothing."""

    def __init__(self) -> None:
        self._rooms: dict[str, NDArray[Any]] = {}

    def carried(self, n: int) -> int:
        return 0

    def _room(self, name: str, count: int, dtype: type[np.generic]) -> NDArray[Any]:
        """Return a buffer of its own for each name, the same one in every call; its content is arbitrary."""
        room = self._rooms.get(name)
        if room is None or room.size < count:
            room = self._rooms[name] = np.empty(count, dtype)
        return room[:count]

    def _scales(self, reader: Reader, count: int, levels: int = 1) -> Vector:
        """Read scales. Raises PayloadError where one is negative or not finite, or `levels` times one would not be."""
        scales: Vector = reader.read(count, np.float32)
        if count:
            low, high = float(scales.min()), float(scales.max())
            if not (low >= 0 and high * levels <= LARGEST):  # both are NaN where any is
                wrong = high if low >= 0 else low
                raise PayloadError(f"{type(self).__name__} sends scales that are finite and not negative, got {wrong:g}")
        return scales


# Small codes in bytes: 2 and 4 bits by words, planes of single bits by packbits; back by a table of 256 rows.
#
# The first code stands in the lowest bits. A gather of a row of floats per byte is the fastest way back: it unpacks, converts
# and scales at once.

Bytes = NDArray[np.uint8]


def width(owner: Quantizer, bits: int) -> int:
    """Return `bits`, if codes of so many can be packed.

    Raises: TypeError, ValueError otherwise.
    """
    if integer(owner, "bits", bits, 2) not in (2, 4, 8):
        raise ValueError(f"{type(owner).__name__} 'bits' must be 2, 4 or 8, got {bits}")
    return int(bits)


def packed_size(n: int, bits: int) -> int:
    return -(-n * bits // 8)


def pack(codes: Bytes, bits: int, out: Bytes) -> None:
    """Put codes below 2^bits together, 8 / bits to a byte of `out`, which says how many; destroys `codes`."""
    if bits == 8:
        out[:] = codes[: out.size]
    elif bits == 4:
        words: NDArray[Any] = codes[: 2 * out.size].view("<u2")
        # the low byte of a word becomes c0 + 16 c1
        words |= words >> 4
        np.copyto(out, words, casting="unsafe")
    else:
        words = codes[: 4 * out.size].view("<u4")
        # c1 and c3 join their neighbours first, then both pairs the lowest byte
        words |= words >> 6
        words |= words >> 12
        np.copyto(out, words, casting="unsafe")


def code_table(values: NDArray[Any], bits: int) -> NDArray[np.float32]:
    """Return the values of all the codes in a byte: row b has the 8 / bits values of byte b; `values[code]` is one of them."""
    shifts = np.arange(0, 8, bits)
    return np.ascontiguousarray(values[(np.arange(256)[:, None] >> shifts) & ((1 << bits) - 1)], np.float32)


def unpack(packed: Bytes, table: NDArray[np.float32], out: Vector) -> None:
    """Write the rows of a table that the bytes name, one after the other, until `out` is full."""
    width = table.shape[1]
    whole = out.size // width
    rows = out[: whole * width].reshape(whole, width)
    for piece in chunks(whole, CHUNK // width):  # NumPy makes wide indices of the bytes: eight times their size
        np.take(table, packed[piece], axis=0, out=rows[piece], mode="clip")
    if out.size > whole * width:
        out[whole * width :] = table[packed[whole], : out.size - whole * width]


def holds_zero(packed: Bytes, bits: int) -> bool:
    """Tell whether any of the codes in whole bytes is 0."""
    if bits == 8:
        return not packed.all()
    # the lowest bit of each code in a byte; below it becomes the or of all bits of the code
    marks = 0x11 if bits == 4 else 0x55
    for piece in chunks(packed.size):
        folded = packed[piece] | packed[piece] >> 1
        if bits == 4:
            folded |= folded >> 2
        if int(np.bitwise_and.reduce(folded)) & marks != marks:
            return True
    return False


def pack_flags(flags: NDArray[np.bool_], out: Bytes) -> None:
    """Put flags together, eight to a byte; zeros fill the last one."""
    out[:] = np.packbits(flags, bitorder="little")


def two_planes(first: Bytes, second: Bytes) -> Bytes:
    """Return, for each half of each byte of two planes, a byte of both: the low nibbles of each come first."""
    pairs = first.astype("<u2")
    pairs |= np.multiply(second, 256, dtype="<u2")
    # the nibbles p0 p1 n0 n1 of a word become p0 n0 p1 n1
    inner = (pairs << 4) & 0x0F00
    inner |= (pairs >> 4) & 0x00F0
    pairs &= 0xF00F
    pairs |= inner
    return pairs.view(np.uint8)


def total(values: NDArray[Any]) -> float:
    """Return the sum of finite float32 values: in float32, pairwise, or in float64 where that is too small."""
    with np.errstate(over="ignore"):
        result = float(np.add.reduce(values))
    return result if isfinite(result) else float(np.add.reduce(values, dtype=np.float64))
