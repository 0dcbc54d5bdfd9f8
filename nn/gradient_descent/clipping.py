"""The length of a vector too long for one pass in the cache, and what a limit makes of it."""

import math
from collections.abc import Iterable

import numpy as np

from nn.arrays import Array


def norm(parts: Iterable[Array]) -> float:
    """Return the Euclidean norm of the vector that `parts` make up; their sums of squares are added in double precision."""
    return math.sqrt(sum(float(np.dot(part, part)) for part in parts))


def clip_factor(parts: Iterable[Array], limit: float) -> float:
    """Return what to multiply a vector by so that its norm is at most `limit`; 1 where it is already, or is not a number."""
    length = norm(parts)
    return limit / length if length > limit else 1.0
