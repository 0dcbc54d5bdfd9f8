"""The largest numbers of a vector."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nn import arguments

from ..payload import PayloadError, Reader, Writer
from ..stage import Draw, State, Vector
from .index import index_bytes, read_indices, write_indices
from .magnitude import Magnitudes
from .sparsifier import Indices, Sparsifier, kept, share


class TopK(Sparsifier):
    """Sends the k = max(1, ceil(rho n)) numbers of largest magnitude and where they stand; of equal ones the first.

    ||C(x) - x||^2 is the sum of squares of the n - k smallest, at most (1 - k / n) ||x||^2. Biased, so `ErrorFeedback` or
    `DGCMemory` goes around it. Bytes: 4k + 5 + min(4k, 2k + 4 ceil(n / 65536), ceil(n / 8)); the k values go on to the next
    stage.

    With `warmup` = T, rho falls to its value in five steps: the first T packets keep the share rho^((j + 1) / 5) in the j-th
    quarter, j = 0..3; for rho = 0.001 these are 25, 6.3, 1.6 and 0.4 %. Then bytes are at most those of the first quarter.

    Aji and Heafield, "Sparse communication for distributed gradient descent", 2017; Stich et al., "Sparsified SGD with
    memory", 2018; warm-up and the sampled limit: Lin et al., "Deep gradient compression", 2018.

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
        """The share that the next packet keeps."""
        if self._step >= self.warmup:
            return self.rho
        return float(self.rho ** ((1 + 4 * self._step // self.warmup) / 5))

    def delta(self, n: int) -> float | None:
        """k / n."""
        return kept(self.rho, n) / n if n else 1.0

    def side_bytes(self, n: int) -> int:
        """The index block; exact without a warm-up."""
        return index_bytes(self.carried(n), n)

    def carried(self, n: int) -> int:
        """Return k; exact without a warm-up."""
        return kept(self.rho**0.2 if self.warmup else self.rho, n)

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write the indices, return the values at them."""
        indices = self._magnitudes.largest(x, kept(self.density, x.size))
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
        if indices.size > k or (indices.size < k and not self.warmup):
            raise PayloadError(f"{self!r} keeps {k} of {n} numbers, a packet has {indices.size}")
        return indices, indices.size

    def entries(self, values: Vector, side: Indices) -> tuple[Indices, Vector]:
        """Return what was sent."""
        return side, values

    def state_dict(self) -> State:
        """Return how many packets of the warm-up were sent."""
        return {"step": self._step} if self.warmup else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        rest = dict(state)
        if self.warmup:
            step = np.asarray(rest.pop("step", 0))[()]  # a checkpoint may hold numbers as arrays without axes
            self._step = min(arguments.integer(self, "step", step, minimum=0), self.warmup)
        super().load_state_dict(rest)

    def __repr__(self) -> str:
        return f"TopK(rho={self.rho!r}, warmup={self.warmup})" if self.warmup else f"TopK(rho={self.rho!r})"
