"""Matrix product."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Unbroadcast, broadcast_shape
from nn.operation.operation import Operation


class MatMul(Operation):
    """a @ b for a (..., m, k) and b (k, n), or b (..., k, n) with leading axes that broadcast against those of a."""

    def infer(self, *shapes: Shape) -> Shape:
        """Return (..., m, n)."""
        a, b = shapes
        if len(a) < 2 or len(b) < 2:
            raise ValueError(f"MatMul: operands must have at least two axes, got shapes {a} and {b}")
        if a[-1] != b[-2]:
            raise ValueError(f"MatMul: shapes {a} and {b} do not fit together: {a[-1]} columns against {b[-2]} rows")
        return (*broadcast_shape("MatMul", a[:-2], b[:-2]), a[-2], b[-1])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Plan the sums over repeated leading axes; a plain matrix on the right needs none."""
        a, b = shapes
        self._flat = len(b) == 2
        lead = output[:-2]
        self._left = Unbroadcast(a, (*lead, *a[-2:]), dtype)
        self._right = None if self._flat else Unbroadcast(b, (*lead, *b[-2:]), dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write a @ b."""
        a, b = inputs
        if self._flat and a.ndim > 2:
            np.matmul(_rows(a), b, out=_rows(out))
        else:
            np.matmul(a, b, out=out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write gradient @ b^T for a and a^T @ gradient for b."""
        a, b = inputs
        for_a, for_b = wanted
        if for_b is not None:
            if self._right is None:
                np.matmul(_rows(a).T, _rows(gradient), out=for_b)
            else:
                space = self._right.space(for_b)
                self._right.reduce(np.matmul(a.swapaxes(-1, -2), gradient, out=space), for_b)
        if for_a is not None:
            if self._right is None:
                np.matmul(_rows(gradient), b.T, out=_rows(for_a))
            else:
                space = self._left.space(for_a)
                self._left.reduce(np.matmul(gradient, b.swapaxes(-1, -2), out=space), for_a)


def _rows(array: Array) -> Array:
    return array if array.ndim == 2 else array.reshape(-1, array.shape[-1])
