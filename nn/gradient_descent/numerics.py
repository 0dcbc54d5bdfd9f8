"""Numerics of long vectors: norms, clipping, and running means that must become 0 before they become denormal."""

from __future__ import annotations

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
    """Return the factor that shortens a vector to a norm of at most `limit`; 1 where it is shorter, or is not a number."""
    length = norm(parts)
    # False for NaN, which no factor would mend.
    return limit / length if length > limit else 1.0


def _square(part: Array) -> float:
    square = float(np.dot(part, part))
    # Numbers of this size are exact enough; the check costs nothing, another pass would.
    if part.dtype == np.float64 or _LEAST < square < _MOST:
        return square
    wide = part.astype(np.float64)
    return float(np.dot(wide, wide))


FLUSH_EVERY = 128
"""Steps between two looks; at a decay of 0.9 a number of 1e-30 needs 175 steps to become denormal in float32."""

NEGLIGIBLE = 1e-30
"""Means below this move no parameter: with the usual epsilon by at most 1e-22 learning rates."""


def flush_to_zero(step: int, *slots: Array) -> None:
    """Set numbers too small to matter to 0 every so many steps, as they arise where gradients stay 0."""
    if step % FLUSH_EVERY == 0:
        for slot in slots:
            # The mask takes memory and time, hence not in every step.
            slot[np.abs(slot) < NEGLIGIBLE] = 0


def flush_squares_to_zero(step: int, decay: float, *slots: Array) -> None:
    """Set running means of squares that would be denormal before the next look to 0, every so many steps.

    A root is taken of them, so they matter for longer than other means: a mean set to 0 here has a root of 1e-15 at most, at
    a decay of 0.999 of 1e-19, and changes no bit of a sum with the usual epsilon.
    """
    if step % FLUSH_EVERY == 0:
        for slot in slots:
            tiny = float(np.finfo(slot.dtype).tiny)
            # With a small decay its power would be next to 0 and the bound large; it is NEGLIGIBLE at most.
            slot[slot < tiny / max(decay**FLUSH_EVERY, tiny / NEGLIGIBLE)] = 0
