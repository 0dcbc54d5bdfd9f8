"""Random bits for stochastic rounding, as fast as NumPy makes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stage import Draw

#: The fraction bits of a number before it is rounded. With codes of 8 bits a sign and these it fits a float's 24 bits.
FRACTION = 15

#: Where a generator of its own costs more than it saves.
_FEW = 1 << 14


class Dither:
    """The random bits of one packet of n values, a function of its draw and n alone.

    The keyed generator is a Philox, which would take as long as all the rest of a quantiser. For more than a few values it
    only seeds an SFC64 (Doty-Humphrey, PractRand), twice as fast; equal keys give equal bits as before.
    """

    def __init__(self, draw: Draw, n: int) -> None:
        keyed: Any = draw.generator().bit_generator
        self._bits = keyed if n <= _FEW else np.random.SFC64(keyed.random_raw(4))

    def words(self, count: int) -> NDArray[np.uint32]:
        """Return `count` uniform words of 32 bits."""
        words: NDArray[np.uint32] = self._bits.random_raw((count + 1) // 2).view(np.uint32)
        return words[:count]

    def fill(self, out: NDArray[np.int32]) -> None:
        """Fill a buffer with uniform numbers of FRACTION bits: 0 to 2^15 - 1."""
        half = (out.size + 1) // 2
        words, room = self.words(half), out.view(np.uint32)
        np.bitwise_and(words, (1 << FRACTION) - 1, out=room[:half])
        np.right_shift(words[: out.size - half], 32 - FRACTION, out=room[half:])
