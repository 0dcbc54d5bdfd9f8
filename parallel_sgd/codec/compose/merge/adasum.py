"""A sum that does not count twice what two gradients have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from parallel_sgd.codec.interfaces import Array

from .rule import MergeRule


class Adasum(MergeRule):
    """a (1 - a.b / (2 |a|^2)) + b (1 - a.b / (2 |b|^2)), along the tree over workers: the sum of orthogonal vectors, and the
    vector itself of equal ones. Products are taken for each variable, in float64.

    Maleki et al., "Scaling distributed training with adaptive summation", 2021, for a power of two of workers; here the left
    half of an odd number is the larger one.
    """

    whole: ClassVar[bool] = True

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the adaptive sum; it is in the first part then."""
        if len(parts) == 1:
            return parts[0]
        middle = (len(parts) + 1) // 2
        left = self.combine(parts[:middle], weights[:middle])
        right = self.combine(parts[middle:], weights[middle:])
        common = _product(left, right)
        np.multiply(left, _share(common, _product(left, left)), out=left)
        np.multiply(right, _share(common, _product(right, right)), out=right)
        return np.add(left, right, out=left)


def _share(common: float, square: float) -> float:
    return 1 - common / (2 * square) if square else 1.0


def _product(a: Array, b: Array) -> float:
    return float(np.einsum("i,i->", a, b, dtype=np.float64))
