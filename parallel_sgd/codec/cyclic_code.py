"""The cyclic gradient code: which sums the workers send, and how any n - s of them give the sum of all blocks."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from nn.random import keyed

Matrix = NDArray[np.float64]

SEEDS: Final = 20
#: Sets of workers that a code is judged by: all, or as many drawn at random.
MOST_SETS: Final = 2048


class CyclicCode:
    """Tandon et al., "Gradient coding: avoiding stragglers in distributed learning", ICML 2017, algorithm 2.

    Worker i sends sum_j B_ij g_j over its blocks i, ..., i+s modulo n. The rows of B lie in the null space of a random H
    (s x n) with H 1 = 0, so that those of any n - s workers span it, which holds 1: B_ii = 1 and the other coefficients of row
    i are -H_J^-1 H_i over the columns J of its other blocks. What a worker's rounding does to the result grows with
    `amplification`, the largest sum over n - s workers of |a_i| |B_i|: so H is the best of `SEEDS` draws, that of `seed`.

    >>> code = cyclic_code(3, 1)
    >>> bool(np.allclose(code.decoder([0, 2]) @ code.matrix[[0, 2]], 1))
    True
    """

    def __init__(self, workers: int, stragglers: int) -> None:
        if workers < 1 or not 0 <= stragglers < workers:
            raise ValueError(
                f"CyclicCode 'stragglers' must be at least 0 and less than the number of workers, got {stragglers} of {workers}"
            )
        self.workers = workers
        self.stragglers = stragglers
        sets = _alive_sets(workers, workers - stragglers)
        best: tuple[float, int, Matrix] | None = None
        for seed in range(SEEDS if stragglers else 1):
            matrix = _matrix(workers, stragglers, seed)
            decoders = _decoders(matrix, sets)
            grown = float((np.abs(decoders) * np.linalg.norm(matrix, axis=1)[sets]).sum(axis=1).max())
            if best is None or grown < best[0]:
                best = (grown, seed, matrix)
        if best is None:
            raise RuntimeError("CyclicCode has drawn no matrix")
        self.amplification, self.seed, self.matrix = best
        self.matrix.flags.writeable = False

    def decoder(self, alive: Collection[int]) -> Matrix:
        """The vector a with a^T B_alive = 1^T, in ascending order of the workers in `alive`.

        Raises: ValueError unless there are exactly n - s workers.
        """
        needed = self.workers - self.stragglers
        nodes = sorted(set(alive))
        if len(nodes) != needed or not set(nodes) <= set(range(self.workers)):
            raise ValueError(
                f"A cyclic code for {self.workers} workers, of whom {self.stragglers} may be missing, needs the sums of "
                f"{needed}, got those of {nodes}"
            )
        solved: Matrix = _decoders(self.matrix, np.array([nodes]))[0]
        return solved


@lru_cache(maxsize=16)
def cyclic_code(workers: int, stragglers: int) -> CyclicCode:
    """The code for these numbers, the same on every node; shared by all codecs of a worker."""
    return CyclicCode(workers, stragglers)


def _matrix(workers: int, stragglers: int, seed: int) -> Matrix:
    """B for the H of this seed."""
    h = keyed(seed, "cyclic code", workers, stragglers).standard_normal((stragglers, workers))
    h[:, -1] = -h[:, :-1].sum(axis=1)
    matrix = np.eye(workers)
    if stragglers:
        for node in range(workers):
            others = [(node + ahead) % workers for ahead in range(1, stragglers + 1)]
            matrix[node, others] = -np.linalg.solve(h[:, others], h[:, node])
    return matrix


def _alive_sets(workers: int, alive: int) -> NDArray[Any]:
    if comb(workers, alive) <= MOST_SETS:
        return np.array(list(combinations(range(workers), alive)))
    draw = keyed(0, "alive sets", workers, alive)
    return np.array([np.sort(draw.permutation(workers)[:alive]) for _ in range(MOST_SETS)])


def _decoders(matrix: Matrix, sets: NDArray[Any]) -> Matrix:
    """a for each set: in an orthonormal basis of the row space of B, of n - s dimensions, the system is square."""
    alive = sets.shape[1]
    basis = np.linalg.svd(matrix)[2][:alive].T
    rows = (matrix @ basis)[sets]
    ones = np.broadcast_to(basis.sum(axis=0)[:, None], (len(sets), alive, 1))
    solved: Matrix = np.linalg.solve(rows.swapaxes(1, 2), ones)[..., 0]
    return solved
