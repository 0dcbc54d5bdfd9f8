"""Finding numbers by their magnitude."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import Any, Final

import numpy as np

from parallel_sgd.codec.pipeline.stage import Vector

from .sparsifier import Indices

CHUNK: Final = 1 << 17
"""Numbers looked at in one go: their magnitudes and the comparison's result stay in L2."""

STRIDE: Final = 61
"""One number of so many is in the sample; a prime, which does not fall in step with the rows of a matrix."""

SMALL: Final = 1 << 14
"""Below this many numbers a sample is not worth its while."""

Comparison = Callable[..., Any]


class Magnitudes:
    """Looks at the magnitudes of vectors, in buffers of its own."""

    def __init__(self) -> None:
        self._magnitudes: Vector = np.empty(0, np.float32)
        self._whole: Vector = np.empty(0, np.float32)
        self._found = np.empty(0, np.bool_)

    def where(self, x: Vector, compare: Comparison, limit: np.float32, most: int) -> Indices | None:
        """Return the indices, ascending, at which `compare(|x|, limit)` holds; None as soon as they are more than `most`."""
        if self._magnitudes.size < min(x.size, CHUNK):
            self._magnitudes = np.empty(min(x.size, CHUNK), np.float32)
            self._found = np.empty(self._magnitudes.size, np.bool_)
        parts: list[Indices] = []
        for start in range(0, x.size, CHUNK):
            chunk = x[start : start + CHUNK]
            found = self._found[: chunk.size]
            compare(np.abs(chunk, out=self._magnitudes[: chunk.size]), limit, out=found)
            indices = np.flatnonzero(found)
            indices += start
            most -= indices.size
            if most < 0:
                return None
            parts.append(indices)
        return np.concatenate(parts) if parts else np.empty(0, np.intp)

    def largest(self, x: Vector, k: int) -> Indices:
        """Return the indices, ascending, of the k largest magnitudes; of equal ones the first.

        A sample gives a limit that a few more than k numbers reach (Lin et al., "Deep Gradient Compression", 2018), of
        which the surplus is trimmed. Where too few or far too many reach it, the limit is looked for among all numbers.
        """
        if k >= x.size:
            return np.arange(x.size)
        if k == 0:
            return np.empty(0, np.intp)
        return self._by_sample(x, k) if x.size >= SMALL else self._among_all(x, k)

    def _by_sample(self, x: Vector, k: int) -> Indices:
        sample = np.abs(x[::STRIDE])
        hits = k / STRIDE  # expected in the sample, with a standard deviation of at most its root
        rank = ceil(hits + 4 * sqrt(hits) + 1)
        if 3 * rank > sample.size:
            return self._among_all(x, k)
        sample.partition(sample.size - rank)
        limit = sample[sample.size - rank]
        found = self.where(x, np.greater_equal, limit, most=4 * rank * STRIDE) if limit > 0 else None
        if found is None or found.size < k:
            return self._among_all(x, k)
        magnitudes = np.abs(x[found])
        surplus = found.size - k
        if not surplus:
            return found
        limit = np.partition(magnitudes, surplus)[surplus]
        keep = magnitudes > limit
        ties = np.flatnonzero(magnitudes == limit)
        keep[ties[: k - np.count_nonzero(keep)]] = True
        return found[keep]

    def _among_all(self, x: Vector, k: int) -> Indices:
        if self._whole.size != x.size:
            self._whole = np.empty(x.size, np.float32)
        np.abs(x, out=self._whole).partition(x.size - k)
        limit = self._whole[x.size - k]
        above = self.where(x, np.greater, limit, most=k)
        if above is None:  # no number is above the k-th largest more than k - 1 times
            raise ValueError("the magnitudes of a vector with NaN have no order")
        ties = self._first_equal(x, limit, k - above.size)
        return np.sort(np.concatenate([above, ties]))

    def _first_equal(self, x: Vector, limit: np.float32, count: int) -> Indices:
        """Return the first `count` indices at which the magnitude is `limit`."""
        parts: list[Indices] = []
        for start in range(0, x.size, CHUNK):
            chunk = x[start : start + CHUNK]
            magnitudes = np.abs(chunk, out=self._magnitudes[: chunk.size])
            equal = np.flatnonzero(np.equal(magnitudes, limit, out=self._found[: chunk.size]))[:count]
            parts.append(equal + start)
            count -= equal.size
            if not count:
                break
        return np.concatenate(parts)
