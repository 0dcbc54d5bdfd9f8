"""Sums that do not depend on the order of their terms."""

from __future__ import annotations

import math

import numpy as np

from nn.arrays import Array

UNIT_BITS = 1074
"""Every double is a whole multiple of 2^-UNIT_BITS, the unit in which sums are held."""


class ExactSum:
    """Sums of double precision numbers without any rounding, so that batches of any sizes and in any order give the same.

    The terms of a batch are cut at a power of two that leaves the leading parts so few digits that adding them rounds
    nothing; what was cut off is treated likewise until nothing is left (Rump, Ogita and Oishi, "Accurate Floating-Point
    Summation Part I: Faithful Rounding", 2008). The few exact numbers per batch are added up as integers, `units`, one for
    each column. `not_finite` is 0, or the infinity or NaN that some term was.
    """

    def __init__(self, columns: int = 1) -> None:
        self.units = [0] * columns
        self.not_finite = 0.0

    def add(self, terms: Array) -> None:
        """Add float64 terms (n, columns), which are overwritten. Fastest in blocks that stay in the nearest cache."""
        largest = _largest(terms)
        if not math.isfinite(largest):
            self.not_finite += sum(terms[~np.isfinite(terms)].tolist())
            return
        growth = (len(terms) - 1).bit_length() + 1
        leading = np.empty_like(terms)
        while largest:
            exponent = math.frexp(largest)[1] + growth
            if exponent >= 1023:
                for row in terms.tolist():
                    self._collect(row)
                return
            # below the smallest normal number all doubles have the same spacing, and nothing is cut off
            cut = math.ldexp(1.0, max(exponent, -1022))
            np.add(terms, cut, out=leading)
            np.subtract(leading, cut, out=leading)
            self._collect(leading.sum(axis=0).tolist())
            largest = _largest(np.subtract(terms, leading, out=terms))

    def merge(self, other: ExactSum) -> None:
        """Add all terms of the other."""
        self.units = [mine + its for mine, its in zip(self.units, other.units, strict=True)]
        self.not_finite += other.not_finite

    def mean(self, count: int) -> float:
        """Return the sum of the first column / count, rounded once; infinite or NaN where a term was."""
        return self.units[0] / (count << UNIT_BITS) if math.isfinite(self.not_finite) else self.not_finite

    def _collect(self, numbers: list[float]) -> None:
        for column, number in enumerate(numbers):
            if number:
                numerator, denominator = number.as_integer_ratio()
                self.units[column] += numerator << (UNIT_BITS + 1 - denominator.bit_length())


def _largest(terms: Array) -> float:
    """Return the largest absolute value, 0 without any, NaN or infinity where there is one."""
    if not terms.size:
        return 0.0
    # NumPy finds the place of an extreme, or of the first NaN, faster than its value
    high, low = terms.item(terms.argmax()), terms.item(terms.argmin())
    return float(max(high, -low))
