"""Exchange with neighbours in a fixed graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parallel_sgd.codec.interfaces import Codec
from parallel_sgd.codec.pipeline import Draw

from .mixing import Mixing
from .neighbours import Neighbours

TOLERANCE = 1e-6


class Gossip(Neighbours):
    """x_i <- sum_j a_ij x_j with a fixed symmetric matrix, whose rows add up to 1: decentralised parallel SGD.

    `"ring"` has 1/3 for a worker and for each of its two neighbours, of two workers 1/2. The mean over workers stays what it
    is; what differs from it shrinks in each step by the second largest eigenvalue of the matrix, 1/3 for a ring of 4, 0.805 of
    8. Bytes per worker: a payload for each neighbour.

    Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017, here with the local step before the
    mixture; with `up=DiffRef(...)` and gamma < 1 Koloskova et al., "Decentralized stochastic optimization and gossip
    algorithms with compressed communication" (CHOCO-SGD), 2019.

    Raises: TypeError, ValueError for another name, a matrix that is not square, symmetric, >= 0 and of row sums 1, or gamma.
    """

    def __init__(self, matrix: Sequence[Sequence[float]] | str = "ring", gamma: float = 1.0) -> None:
        super().__init__(gamma)
        self.matrix: list[list[float]] | None = None
        if isinstance(matrix, str):
            if matrix != "ring":
                raise ValueError(f"Gossip 'matrix' must be 'ring' or a matrix, got {matrix!r}")
            return
        a = np.asarray(matrix, np.float64)
        square = a.ndim == 2 and a.shape[0] == a.shape[1]
        if not square or (a < 0).any() or abs(a - a.T).max() > TOLERANCE or abs(a.sum(axis=1) - 1).max() > TOLERANCE:
            raise ValueError(f"Gossip 'matrix' must be square, symmetric, >= 0 and have rows that add up to 1, got {matrix!r}")
        self.matrix = a.tolist()

    def codec_class(self) -> type[Codec]:
        """Mixing."""
        return Mixing

    def fit(self, workers: int) -> None:
        """A matrix has its number of workers."""
        if self.matrix is not None and len(self.matrix) != workers:
            raise ValueError(f"Gossip 'matrix' is for {len(self.matrix)} workers, the job has {workers}")

    def weights(self, node: int, workers: int, draw: Draw) -> dict[int, float]:
        """The positive entries of the worker's row."""
        if self.matrix is not None:
            return {other: a for other, a in enumerate(self.matrix[node]) if a > 0 or other == node}
        around = sorted({(node - 1) % workers, node, (node + 1) % workers})
        return dict.fromkeys(around, 1 / len(around))

    def __repr__(self) -> str:
        return f"Gossip({'ring' if self.matrix is None else self.matrix!r}, gamma={self.gamma:g})"
