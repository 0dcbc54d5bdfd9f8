"""The mathematics of PowerSGD: a matrix from two exchanges of its factors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from nn import arguments

from .stage import Draw, LinearCode, Vector

__all__ = ["PowerSGD"]

Matrix = NDArray[np.float32]

#: Elements of a matrix that are added and multiplied while they are in L2.
CHUNK: Final = 1 << 16


class PowerSGD(LinearCode):
    """Code that sends a gradient as factors of rank r, one step of power iteration from those of the step before.

    One object serves one variable on one node. For a gradient G of shape (..., p), seen as m x p, and the residual E:

    1. `project`: M = G + E, sends P = M Q; the exchange takes the mean of all P.
    2. `back_project`: makes the columns of P orthonormal, sends Q = M^T P; the exchange takes the mean of all Q.
    3. `reconstruct`: the result is P Q^T, the same on all nodes, and E = M - P Q^T; Q is where the next step begins.

    Both rounds are linear: the result is that of one node which has the mean of all M, so sums on a ring may be taken on the
    way. The first Q is drawn alike on all nodes. Bytes: 4 r m and 4 r p. Where r (m + p) is not less than m p, and for fewer
    than two axes, there is one round of the 4 n bytes of the gradient itself (`is_dense`); so it is always where r reaches
    min(m, p). The result is exact up to rounding where the mean of all M has no more than rank r and Q is not blind to it.

    It is biased, and remembers by itself; no `ErrorFeedback` goes around it. In the paper momentum follows the merge.

    Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019.

    Raises: TypeError, ValueError unless rank is a positive integer.
    """

    matrices: ClassVar[bool] = True
    keeps: ClassVar[tuple[str, ...]] = ("residual", "right")  # m x p and p x r, between two steps; none before the first one

    def __init__(self, rank: int = 2) -> None:
        self.rank = arguments.integer(self, "rank", rank, minimum=1)
        self._shape: tuple[int, ...] | None = None
        self._residual: Matrix | None = None  # E between steps, M within one
        self._right: Matrix | None = None  # Q
        self._left: Matrix | None = None  # P, orthonormal, from the second round on
        self._result: Matrix = np.empty((0, 0), np.float32)

    def sizes(self, shape: Sequence[int], numbers: int) -> tuple[int, ...]:
        return self.rounds(shape)

    def start(self, x: NDArray[Any], shape: Sequence[int], draw: Draw) -> Vector:
        return self.project(x.reshape(shape), draw)

    def proceed(self, mean: NDArray[Any]) -> tuple[Vector, bool]:
        if self._shape is not None and self.is_dense(self._shape):
            return mean, True
        if self._left is None:
            return self.back_project(mean), False
        return self.reconstruct(mean).reshape(-1), True

    def rounds(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return how many numbers are sent in each round: (r m, r p), or (n,) where the gradient is sent dense."""
        n, p = prod(shape), shape[-1] if len(shape) > 1 else 1
        if len(shape) < 2 or n == 0:
            return (n,)
        m = n // p
        r = min(self.rank, m, p)
        # no fewer bytes than the gradient itself: then it is sent as it is, which loses nothing
        return (r * m, r * p) if r * (m + p) < n else (n,)

    def is_dense(self, shape: Sequence[int]) -> bool:
        return len(self.rounds(shape)) == 1

    def project(self, gradient: NDArray[Any], draw: Draw) -> Vector:
        """Begin a step: return P, flat, valid until the next call; `back_project` takes its mean over all nodes.

        A dense gradient is returned as it is, flat, and its mean is the result already.

        Args:
            gradient: finite numbers, in the shape of the variable.
            draw: keys the random numbers of the first Q, equal on all nodes.

        Raises: ValueError when the gradient has another shape than those before, or numbers that are not finite.
        """
        flat: Vector = np.ascontiguousarray(gradient, np.float32).reshape(-1)
        # a sum is one pass; only where it is not finite each number is looked at
        if not np.isfinite(np.add.reduce(flat)) and not np.isfinite(flat).all():
            raise ValueError(f"PowerSGD takes finite numbers, got {int((~np.isfinite(flat)).sum())} that are not")
        if self._shape is not None and self._shape != gradient.shape:
            raise ValueError(f"PowerSGD serves a variable of shape {self._shape}, got {gradient.shape}")
        self._shape = gradient.shape
        self._left = None
        if self.is_dense(gradient.shape):
            # dense: the mean is the result already, so there is no error to keep
            return flat
        matrix = flat.reshape(-1, gradient.shape[-1])
        right = self._start(matrix.shape, draw)
        memory = self._residual
        if memory is None:
            memory = self._residual = np.zeros(matrix.shape, np.float32)
        product: Matrix = np.empty((matrix.shape[0], right.shape[1]), np.float32)
        for part in _rows(matrix):
            # the residual becomes M in place, and E again in `reconstruct`
            rows = np.add(memory[part], matrix[part], out=memory[part])
            np.matmul(rows, right, out=product[part])
        return product.reshape(-1)

    def back_project(self, mean: Vector) -> Vector:
        """Take the mean of all P; return Q, flat. `reconstruct` takes its mean over all nodes.

        Raises: RuntimeError when no step of two rounds has begun; ValueError when the mean has another size than P.
        """
        memory, old = self._under_way()
        # a QR of the mean, which all nodes have alike, so they get the same basis
        self._left = _orthonormal(_matrix(mean, memory.shape[0], old.shape[1]))
        right: Matrix = np.matmul(memory.T, self._left)
        return right.reshape(-1)

    def reconstruct(self, mean: Vector) -> Matrix:
        """Take the mean of all Q; return the result in the gradient's shape, valid until the next step, and keep its error E.

        Raises: RuntimeError when the first round is not complete; ValueError when the mean has another size than Q.
        """
        memory, old = self._under_way()
        if self._left is None or self._shape is None:
            raise RuntimeError("PowerSGD needs the mean of the first round before that of the second: call back_project()")
        # copied: the mean lies in a buffer of the exchange, and Q is kept for the next step
        right = self._right = _matrix(mean, memory.shape[1], old.shape[1]).copy()
        if self._result.shape != memory.shape:
            self._result = np.empty(memory.shape, np.float32)
        across = right.T
        for part in _rows(memory):
            rows = np.matmul(self._left[part], across, out=self._result[part])
            np.subtract(memory[part], rows, out=memory[part])
        self._left = None
        return self._result.reshape(self._shape)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a copy of a state that `state_dict` returned; an empty one starts afresh.

        Raises: ValueError where it is no such state.
        """
        if state and set(state) != {"residual", "right"}:
            raise ValueError(f"PowerSGD state must hold residual and right, got {', '.join(sorted(state))}")
        loaded = {name: np.array(value, np.float32) for name, value in state.items()}
        # an outer axis more, or other shapes than fit together, would fail in the middle of a batch
        if loaded and (any(v.ndim != 2 for v in loaded.values()) or loaded["residual"].shape[1] != loaded["right"].shape[0]):
            raise ValueError(f"PowerSGD state must hold m x p and p x r, got {[v.shape for v in loaded.values()]}")
        super().load_state_dict(loaded)
        self._shape = self._left = None

    def _start(self, shape: tuple[int, ...], draw: Draw) -> Matrix:
        m, p = shape
        r = min(self.rank, m, p)
        right = self._right
        if right is None:
            # from the shared generator: all nodes begin with the same Q, or the means of P would be of different projections
            right = self._right = draw.generator(shared=True).standard_normal((p, r), np.float32)
        if right.shape != (p, r) or (self._residual is not None and self._residual.shape != shape):
            raise ValueError(f"PowerSGD has a state for other than {m} x {p} numbers of rank {r}")
        return right

    def _under_way(self) -> tuple[Matrix, Matrix]:
        if self._residual is None or self._right is None or self._shape is None:
            raise RuntimeError("PowerSGD has no step of two rounds under way: call project() with a gradient that is not dense")
        return self._residual, self._right


def _matrix(flat: Vector, rows: int, columns: int) -> Matrix:
    if flat.size != rows * columns:
        raise ValueError(f"PowerSGD expects the mean of {rows * columns} numbers, got {flat.size}")
    return flat.reshape(rows, columns)


def _orthonormal(matrix: Matrix) -> Matrix:
    """Return an orthonormal basis of the space of the columns of `matrix`; dependent columns are completed."""
    basis: Matrix = np.linalg.qr(matrix)[0]
    return basis


def _rows(matrix: Matrix) -> list[slice]:
    # whole rows, as many as fit a chunk
    step = max(1, CHUNK // matrix.shape[1])
    return [slice(start, start + step) for start in range(0, matrix.shape[0], step)]
