"""The length of a vector too long for one pass in the cache, and what a limit makes of it."""

import math
from collections.abc import Iterable

import numpy as np

from nn.arrays import Array

_LEAST, _MOST = 1e-30, 1e37
"""Between these a sum of squares has lost nothing to the range of float32."""


def norm(parts: Iterable[Array]) -> float:
    """Return the Euclidean norm of the vector that `parts` make up; their sums of squares are added in double precision.

    That of one part is computed in the type of its numbers and, where it is too large or too small for float32, again in
    double precision: a vector of numbers of 1e20 or 1e-25 has a norm, too.
    """
    with np.errstate(over="ignore"):
        return math.sqrt(sum(_square(part) for part in parts))


def clip_factor(parts: Iterable[Array], limit: float) -> float:
    """Return what to multiply a vector by so that its norm is at most `limit`; 1 where it is already, or is not a number."""
    length = norm(parts)
    return limit / length if length > limit else 1.0


def _square(part: Array) -> float:
    square = float(np.dot(part, part))
    if part.dtype == np.float64 or _LEAST < square < _MOST:
        return square
    wide = part.astype(np.float64)
    return float(np.dot(wide, wide))
