"""The same random numbers of a vector on every node."""

from __future__ import annotations

import numpy as np

from ..payload import Reader, Writer
from ..stage import Draw, Vector
from .sparsifier import Indices, Sparsifier, kept, share


class RandomK(Sparsifier):
    """Sends k = max(1, ceil(rho n)) numbers at random places, which all nodes draw alike, so that no index travels.

    Payloads add up: what decodes from a sum is the sum. `scaled` multiplies by n / k, which makes it unbiased with
    E||C(x) - x||^2 = (n / k - 1) ||x||^2. Unscaled it is biased with delta = k / n in expectation; then `ErrorFeedback` goes
    around it. Bytes: 4k.

    Wangni et al., "Gradient sparsification for communication-efficient distributed optimization", 2018; unscaled with memory:
    Stich et al., "Sparsified SGD with memory", 2018.

    Raises: TypeError, ValueError unless 0 < rho <= 1 and scaled is a bool.
    """

    linear = True
    deterministic = False
    shared_seed = True

    def __init__(self, rho: float, scaled: bool = True) -> None:
        super().__init__()
        if not isinstance(scaled, bool):
            raise TypeError(f"RandomK 'scaled' must be True or False, got {scaled!r}")
        self.rho = share(self, "rho", rho)
        self.scaled = self.unbiased = scaled
        self._drawn: tuple[Draw, int, Indices] | None = None
        self._values: Vector = np.empty(0, np.float32)

    def delta(self, n: int) -> float | None:
        """k / n; None where it is scaled."""
        k = kept(self.rho, n)
        return 1.0 if k == n else None if self.scaled else k / n

    def side_bytes(self, n: int) -> int:
        """None are needed."""
        return 0

    def carried(self, n: int) -> int:
        """Return k."""
        return kept(self.rho, n)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Return the numbers at the places of this step."""
        indices = self._places(x.size, draw)
        if self._values.size != indices.size:
            self._values = np.empty(indices.size, np.float32)
        values: Vector = np.take(x, indices, out=self._values, mode="clip")
        return _times(values, x.size / indices.size) if self.scaled and x.size else values

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Indices, int]:
        """Draw the places of this step again."""
        indices = self._places(n, draw)
        return indices, indices.size

    def entries(self, values: Vector, side: Indices) -> tuple[Indices, Vector]:
        """Return what was sent."""
        return side, values

    def _places(self, n: int, draw: Draw) -> Indices:
        """Return the places, drawn once per step for one's own packet and all that arrive."""
        key = draw._replace(node=-1)
        if self._drawn is None or self._drawn[:2] != (key, n):
            self._drawn = (key, n, subset(draw.generator(shared=True), n, kept(self.rho, n)))
        return self._drawn[2]

    def __repr__(self) -> str:
        return f"RandomK(rho={self.rho!r}, scaled={self.scaled})"


def _times(values: Vector, factor: float) -> Vector:
    """Multiply in place; what is too large for float32 becomes its largest number."""
    with np.errstate(over="ignore"):
        np.multiply(values, factor, out=values)
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest, out=values)


def subset(generator: np.random.Generator, n: int, k: int) -> Indices:
    """Return k of the numbers 0..n - 1, ascending, every subset equally likely.

    Draws with repetition until k different ones are there, then leaves out random ones of what is too much: at no step is any
    number preferred. More than half is what a smaller subset leaves over.
    """
    if k > n // 2:
        rest = np.ones(n, np.bool_)
        rest[subset(generator, n, n - k)] = False
        return np.flatnonzero(rest)
    chosen, count = np.zeros(n, np.bool_), 0
    while count < k:
        missing = k - count
        chosen[generator.integers(n, size=missing + missing * k // n + 4, dtype=np.uint32)] = True
        count = int(np.count_nonzero(chosen))
    places = np.flatnonzero(chosen)
    if count == k:
        return places
    keep = np.ones(count, np.bool_)
    keep[generator.choice(count, count - k, replace=False, shuffle=False)] = False
    return places[keep]
