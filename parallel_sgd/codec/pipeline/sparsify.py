"""Stages that send a part of the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import Array
from parallel_sgd.codec.traits import Scope

from .selection import Magnitudes, index_bytes, read_indices, write_indices
from .stage import Draw, Indices, PayloadError, Reader, Sparsifier, State, Vector, Writer, share

__all__ = ["GlobalTopK", "RandomK", "Sparsifier", "Threshold", "TopK"]


def kept(rho: float, n: int) -> int:
    return min(n, max(1, ceil(rho * n)))


class TopK(Sparsifier):
    """Sparsifier that sends the k = max(1, ceil(rho n)) numbers of largest magnitude and their places; of equal ones the first.

    ||C(x) - x||^2 is the sum of squares of the n - k smallest, at most (1 - k / n) ||x||^2. Biased, so `ErrorFeedback` or
    `DGCMemory` goes around it. Bytes: 4k + 5 + min(4k, 2k + 4 ceil(n / 65536), ceil(n / 8)); the k values go on to the next
    stage.

    With a warm-up of T packets, bytes are at most those of the first quarter.

    Aji and Heafield, "Sparse communication for distributed gradient descent", 2017; Stich et al., "Sparsified SGD with
    memory", 2018; warm-up and the sampled limit: Lin et al., "Deep gradient compression", 2018.

    Args:
        rho: the share of the numbers to send.
        warmup: T. With 0 < T, rho falls to its value in five steps: the first T packets keep the share rho^((j + 1) / 5) in the
            j-th quarter, j = 0..3; for rho = 0.001 these are 25, 6.3, 1.6 and 0.4 %.

    Raises: TypeError, ValueError unless 0 < rho <= 1 and warmup is an integer of at least 0.
    """

    def __init__(self, rho: float, warmup: int = 0) -> None:
        super().__init__()
        self.rho = share(self, "rho", rho)
        self.warmup = arguments.integer(self, "warmup", warmup, minimum=0)
        self._step = 0
        self._magnitudes = Magnitudes()
        self._values: Vector = np.empty(0, np.float32)

    @property
    def density(self) -> float:
        if self._step >= self.warmup:
            return self.rho
        return float(self.rho ** ((1 + 4 * self._step // self.warmup) / 5))

    def delta(self, n: int) -> float | None:
        return kept(self.rho, n) / n if n else 1.0

    def side_bytes(self, n: int) -> int:
        return index_bytes(self.carried(n), n)

    def carried(self, n: int) -> int:
        # sizes are at most those of the first quarter of the warm-up, known before any packet
        return kept(self.rho**0.2 if self.warmup else self.rho, n)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        indices = self._magnitudes.largest(x, kept(self.density, x.size))
        # a step is a packet of this variable
        if self.warmup:
            self._step = min(self._step + 1, self.warmup)
        write_indices(writer, indices, x.size)
        if self._values.size < indices.size:
            self._values = np.empty(indices.size, np.float32)
        return np.take(x, indices, out=self._values[: indices.size], mode="clip")  # the only mode that writes to `out` at once

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Indices, int]:
        """Read the indices.

        Raises: PayloadError where they are more than the sender keeps, or not as many.
        """
        indices = read_indices(reader, n)
        k = self.carried(n)
        # within a warm-up the share falls, so fewer are allowed
        if indices.size > k or (indices.size < k and not self.warmup):
            raise PayloadError(f"{self!r} keeps {k} of {n} numbers, a packet has {indices.size}")
        return indices, indices.size

    def state_dict(self) -> State:
        return {"step": self._step} if self.warmup else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        rest = dict(state)
        if self.warmup:
            step = np.asarray(rest.pop("step", 0))[()]  # a checkpoint may hold numbers as arrays without axes
            self._step = min(arguments.integer(self, "step", step, minimum=0), self.warmup)
        super().load_state_dict(rest)


class GlobalTopK(TopK):
    """`TopK` of the whole gradient: k = max(1, ceil(rho n)) of all n numbers of the model, so that variables share k by
    magnitude, where `TopK` sends the share rho of each variable.

    Arguments, bytes and errors are those of `TopK`. Its codec has the scope "model".
    """

    scope: ClassVar[Scope] = "model"


class RandomK(Sparsifier):
    """Sparsifier that sends k = max(1, ceil(rho n)) numbers at random places. All nodes draw these alike: no index travels.

    Payloads add up: a sum of them decodes to the sum of the vectors. Bytes: 4k.

    Wangni et al., "Gradient sparsification for communication-efficient distributed optimization", 2018; unscaled with memory:
    Stich et al., "Sparsified SGD with memory", 2018.

    Args:
        rho: the share of the numbers to send.
        scaled: multiply by n / k, which makes it unbiased with E||C(x) - x||^2 = (n / k - 1) ||x||^2. Unscaled it is biased
            with delta = k / n in expectation; then `ErrorFeedback` goes around it.

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
        # scaled by n / k its error may be longer than the vector, unless everything is sent
        self.expands = scaled and self.rho < 1
        self._drawn: tuple[Draw, int, Indices] | None = None
        self._values: Vector = np.empty(0, np.float32)

    def delta(self, n: int) -> float | None:
        k = kept(self.rho, n)
        return 1.0 if k == n else None if self.scaled else k / n

    def side_bytes(self, n: int) -> int:
        return 0

    def carried(self, n: int) -> int:
        return kept(self.rho, n)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        indices = self._places(x.size, draw)
        if self._values.size != indices.size:
            self._values = np.empty(indices.size, np.float32)
        values: Vector = np.take(x, indices, out=self._values, mode="clip")
        return _times(values, x.size / indices.size) if self.scaled and x.size else values

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[Indices, int]:
        indices = self._places(n, draw)
        return indices, indices.size

    def _places(self, n: int, draw: Draw) -> Indices:
        """Return the places, drawn once per step for one's own packet and all that arrive."""
        # of all nodes: the places are the same for each sender
        key = draw._replace(node=-1)
        if self._drawn is None or self._drawn[:2] != (key, n):
            self._drawn = (key, n, subset(draw.generator(shared=True), n, kept(self.rho, n)))
        return self._drawn[2]


def _times(values: Vector, factor: float) -> Vector:
    """Multiply in place; a number too large for float32 becomes its largest one."""
    # clipped, not refused: one number too large must not end a job
    with np.errstate(over="ignore"):
        np.multiply(values, factor, out=values)
    largest = np.finfo(np.float32).max
    return np.clip(values, -largest, largest, out=values)


def subset(generator: np.random.Generator, n: int, k: int) -> Indices:
    """Return k of the numbers 0..n - 1, ascending, every subset equally likely.

    Draws with repetition until k different ones are there, then leaves out random ones of the surplus: at no step is any
    number preferred. More than half of the numbers are the complement of a smaller subset.
    """
    # the complement needs fewer draws
    if k > n // 2:
        rest = np.ones(n, np.bool_)
        rest[subset(generator, n, n - k)] = False
        return np.flatnonzero(rest)
    chosen, count = np.zeros(n, np.bool_), 0
    while count < k:
        missing = k - count
        # as many as are expected to be missing after collisions, and some more
        chosen[generator.integers(n, size=missing + missing * k // n + 4, dtype=np.uint32)] = True
        count = int(np.count_nonzero(chosen))
    places = np.flatnonzero(chosen)
    if count == k:
        return places
    # the surplus is taken away at random too: leaving out the last ones would prefer low numbers
    keep = np.ones(count, np.bool_)
    keep[generator.choice(count, count - k, replace=False, shuffle=False)] = False
    return places[keep]


class Threshold(Sparsifier):
    """Sparsifier that sends tau for every x > tau and -tau for every x < -tau: their places, and one bit each for the sign.

    The excess over tau stays in the residual: `ErrorFeedback` goes around it. Biased, and no contraction, because nothing is
    sent where no magnitude exceeds tau. Bytes for k such numbers: 5 + min(4k, 2k + 4 ceil(n / 65536), ceil(n / 8)) +
    ceil(k / 8), where the paper has 4k.

    Strom, "Scalable distributed DNN training using commodity GPU cloud computing", 2015.

    Raises: TypeError, ValueError unless tau is a number > 0.
    """

    def __init__(self, tau: float) -> None:
        super().__init__()
        self.tau = arguments.number(self, "tau", tau, 0, open_low=True)
        self._limit = np.float32(self.tau)
        self._magnitudes = Magnitudes()

    def side_bytes(self, n: int) -> int:
        return index_bytes(n, n) + -(-n // 8)

    def carried(self, n: int) -> int:
        # nothing, since all values are tau or -tau
        return 0

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        indices = self._magnitudes.where(x, np.greater, self._limit)
        write_indices(writer, indices, x.size)
        writer.write(np.packbits(np.signbit(x[indices])))
        return x[:0]

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[tuple[Indices, Array], int]:
        indices = read_indices(reader, n)
        negative = np.unpackbits(reader.read(-(-indices.size // 8), np.uint8), count=indices.size)
        return (indices, negative), 0

    def entries(self, values: Vector, side: tuple[Indices, Array]) -> tuple[Indices, Vector]:
        indices, negative = side
        return indices, np.where(negative, -self._limit, self._limit)
