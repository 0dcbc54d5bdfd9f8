"""Rules that a few wrong workers cannot move far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from nn import arguments
from parallel_sgd.codec.interfaces import Array

from .rule import MergeRule, weighted_mean

CHUNK: Final = 1 << 15


class TrimmedMean(MergeRule):
    """For each element the mean over workers without the `trim` largest and the `trim` smallest values.

    Yin et al., "Byzantine-robust distributed learning: towards optimal statistical rates", 2018. Bears `trim` wrong workers.

    Raises: TypeError, ValueError unless trim is an integer >= 0; ValueError in a job of no more than 2 trim workers.
    """

    def __init__(self, trim: int = 1) -> None:
        self.trim = arguments.integer(self, "trim", trim, minimum=0)

    def _trimmed(self, count: int) -> int:
        if count <= 2 * self.trim:
            raise ValueError(f"{type(self).__name__} without {self.trim} values at each end leaves nothing of {count} workers")
        return self.trim

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the means of what is left."""
        trim, result = self._trimmed(len(parts)), parts[0]
        for start in range(0, result.size, CHUNK):
            piece = slice(start, start + CHUNK)
            values = np.stack([part[piece] for part in parts])
            values.sort(axis=0)
            np.mean(values[trim : len(parts) - trim], axis=0, out=result[piece])
        return result

    def __repr__(self) -> str:
        return f"TrimmedMean({self.trim})"


class Median(TrimmedMean):
    """For each element the median over workers, of an even number the mean of the two in the middle.

    Yin et al., 2018, as `TrimmedMean`. Bears wrong workers as long as they are fewer than half.
    """

    def __init__(self) -> None:
        super().__init__(0)

    def _trimmed(self, count: int) -> int:
        return (count - 1) // 2

    def __repr__(self) -> str:
        return "Median()"


class Krum(MergeRule):
    """The one vector that is nearest to its W - f - 2 nearest ones; with `keep` > 1 the mean of that many, chosen so.

    Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", 2017. Bears f = `faulty` wrong
    workers of W >= 2 f + 3. Squared distances are taken in float64.

    Raises: TypeError, ValueError unless faulty >= 0 and keep >= 1 are integers; ValueError in a job of too few workers.
    """

    whole: ClassVar[bool] = True

    def __init__(self, faulty: int = 1, keep: int = 1) -> None:
        self.faulty = arguments.integer(self, "faulty", faulty, minimum=0)
        self.keep = arguments.integer(self, "keep", keep, minimum=1)

    def combine(self, parts: Sequence[Array], weights: Sequence[float]) -> Array:
        """Return the chosen vector, or the mean of those."""
        count = len(parts)
        near = count - self.faulty - 2
        if count < 2 * self.faulty + 3 or self.keep > count - self.faulty:
            raise ValueError(f"{self!r} needs {max(2 * self.faulty + 3, self.faulty + self.keep)} workers or more, got {count}")
        distances = np.zeros((count, count))
        for i in range(count):
            for j in range(i):
                distances[i, j] = distances[j, i] = _squared_distance(parts[i], parts[j])
        scores = np.sort(distances, axis=1)[:, 1 : near + 1].sum(axis=1)
        best = sorted(np.argsort(scores, kind="stable")[: self.keep].tolist())
        return weighted_mean([parts[i] for i in best], [1.0] * len(best))

    def __repr__(self) -> str:
        return f"Krum({self.faulty}, keep={self.keep})"


def _squared_distance(a: Array, b: Array) -> float:
    total = 0.0
    for start in range(0, a.size, CHUNK):
        difference = np.subtract(a[start : start + CHUNK], b[start : start + CHUNK], dtype=np.float64)
        total += float(difference @ difference)
    return total
