"""All numbers above a fixed magnitude."""

from __future__ import annotations

import numpy as np

from nn import arguments

from ..payload import Array, Reader, Writer
from ..stage import Draw, Vector
from .index import index_bytes, read_indices, write_indices
from .magnitude import Magnitudes
from .sparsifier import Indices, Sparsifier


class Threshold(Sparsifier):
    """Sends tau for every x > tau and -tau for every x < -tau: where they stand, and one bit each for the sign.

    What is more than tau stays in the residual: `ErrorFeedback` goes around it. Biased, and no contraction, because nothing is
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
        """Bytes where every number is sent, the most there can be."""
        return index_bytes(n, n) + -(-n // 8)

    def carried(self, n: int) -> int:
        """Nothing goes on."""
        return 0

    def encode(self, x: Vector, writer: Writer, draw: Draw) -> Vector:
        """Write indices and signs."""
        indices = self._magnitudes.where(x, np.greater, self._limit)
        write_indices(writer, indices, x.size)
        writer.write(np.packbits(np.signbit(x[indices])))
        return x[:0]

    def parse(self, reader: Reader, n: int, draw: Draw) -> tuple[tuple[Indices, Array], int]:
        """Read indices and signs."""
        indices = read_indices(reader, n)
        negative = np.unpackbits(reader.read(-(-indices.size // 8), np.uint8), count=indices.size)
        return (indices, negative), 0

    def entries(self, values: Vector, side: tuple[Indices, Array]) -> tuple[Indices, Vector]:
        """Return tau with the signs that were sent."""
        indices, negative = side
        return indices, np.where(negative, -self._limit, self._limit)

    def __repr__(self) -> str:
        return f"Threshold(tau={self.tau!r})"
