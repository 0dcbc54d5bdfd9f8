"""Rounding of floats to bytes in fixed point: to nearest, and stochastically."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..stage import Vector
from .dither import FRACTION, Dither

#: Added to a number below 2^22 in size, it makes a float whose bits, as an integer, are those of the constant plus the
#: nearest integer, ties to even: the exponent is such that the last bit of the mantissa counts 1. Its low 22 bits are zeros.
MAGIC = np.float32(1.5 * 2**23)

#: What `Rounder.stochastic` adds to every code.
OFFSET = 128

#: The factor of stochastic codes: one step of the code.
STEP = 1 << FRACTION


class Rounder:
    """The work space of rounding up to CHUNK values at once; what its methods return is valid until the next call."""

    def __init__(self) -> None:
        self._floats: Vector = np.empty(0, np.float32)
        self._dither: NDArray[np.int32] = np.empty(0, np.int32)
        self._codes: NDArray[np.uint8] = np.empty(0, np.uint8)

    def room(self, size: int) -> Vector:
        """Return a float buffer of `size` values, the one that `fixed` and `stochastic` work in."""
        if self._floats.size < size:
            self._floats = np.empty(size, np.float32)
        return self._floats[:size]

    def fixed(self, x: NDArray[Any], factor: Any) -> NDArray[np.int32]:
        """Return MAGIC's bits plus the integers next to `x * factor`, which must be below 2^22. `x` may be rows of buckets."""
        room = self.room(x.size)
        np.multiply(x, factor, out=room.reshape(x.shape))
        np.add(room, MAGIC, out=room)
        return room.view(np.int32)

    def stochastic(self, fixed: NDArray[np.int32], dither: Dither) -> NDArray[np.uint8]:
        """Return fixed / 2^15, rounded up with the probability of its fraction, plus OFFSET; zeros pad it to whole eights.

        `fixed` is what `fixed` returned, of numbers of at most 127 steps. With y = fixed / 2^15 and u uniform in
        {0, .., 2^15 - 1} / 2^15 the code is floor(y + u), whose expectation is y exactly: what biases a quantiser is only
        the rounding to fixed point, at most 2^-16 of a step.
        """
        if self._dither.size < fixed.size:
            self._dither = np.empty(fixed.size, np.int32)
            self._codes = np.empty(-(-fixed.size // 8) * 8, np.uint8)
        noise = self._dither[: fixed.size]
        dither.fill(noise)
        np.add(fixed, noise, out=fixed)
        np.right_shift(fixed, FRACTION, out=fixed)
        codes = self._codes[: -(-fixed.size // 8) * 8]
        codes[fixed.size :] = OFFSET
        # the low byte of MAGIC's bits is 128 after the shift
        np.copyto(codes[: fixed.size], fixed, casting="unsafe")
        return codes
