"""Small codes in bytes: 2 and 4 bits by words, planes of single bits by packbits; back by a table of 256 rows.

The first code stands in the lowest bits. A gather of a row of floats per byte is the fastest way back: it unpacks, converts
and scales at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stage import Vector
from .quantizer import CHUNK, chunks

WIDTHS = (2, 4, 8)

Bytes = NDArray[np.uint8]


def packed_size(n: int, bits: int) -> int:
    """Return the bytes of n codes."""
    return -(-n * bits // 8)


def pack(codes: Bytes, bits: int, out: Bytes) -> None:
    """Put codes below 2^bits together, 8 / bits to a byte of `out`, which says how many; destroys `codes`."""
    if bits == 8:
        out[:] = codes[: out.size]
    elif bits == 4:
        words: NDArray[Any] = codes[: 2 * out.size].view("<u2")
        words |= words >> 4
        np.copyto(out, words, casting="unsafe")
    else:
        words = codes[: 4 * out.size].view("<u4")
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
    """Whether any of the codes in whole bytes is 0."""
    if bits == 8:
        return not packed.all()
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
