"""Products of matrices, and sums of products over several axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from typing import Any, ClassVar, Final

import numpy as np

from nn import arguments
from nn.arrays import BATCH, Array, Shape
from nn.operation.broadcasting import Unbroadcast, batch_stays_aside, broadcast_shape
from nn.operation.operation import MaskOf, Operation, batch_leads
from nn.threads import sum_of_products

SMALL: Final = 1 << 12
"""Products of fewer numbers are added as fast by NumPy, and too few to tell by them whether the bits are the same."""

MOST_SQUARES = 1 << 24
"""Of fewer numbers, rounding takes less than two thirds from a sum of squares in float32, in any order."""

UNREAD = 1 << 18
"""So many numbers must stay unread for squares of others to be worth the calls."""


class MatMul(Operation):
    """a @ b for a (..., m, k) and b (k, n), or b (..., k, n) with leading axes that broadcast against those of a."""

    multiplies: ClassVar[bool] = True
    mask_of: ClassVar[MaskOf] = "first"
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)
    _add: Callable[[Array, Array, Array], None] | None = None

    def infer(self, *shapes: Shape) -> Shape:
        a, b = shapes
        if len(a) < 2 or len(b) < 2:
            raise ValueError(f"MatMul: operands must have at least two axes, got shapes {a} and {b}")
        if a[-1] != b[-2]:
            raise ValueError(
                f"MatMul: axis {len(b) - 2} of the second operand must have the length {a[-1]} of the last axis of the first, "
                f"whose shape is {a}, got {b[-2]} in shape {b}"
            )
        return (*broadcast_shape("MatMul", a[:-2], b[:-2]), a[-2], b[-1])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        a, b = shapes
        if len(b) == 2:
            return batch_leads(a) and BATCH not in b
        stacks = [shape[:-2] for shape in shapes]
        return BATCH not in (*a[-2:], *b[-2:]) and batch_stays_aside(stacks, broadcast_shape("MatMul", *stacks))

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._flat = len(shapes[1]) == 2
        read = math.prod(shapes[0]) + math.prod(output)
        # Worth it only where inputs and gradient together have far fewer numbers than the product.
        tells = self._flat and read < min(math.prod(shapes[1]) - UNREAD, MOST_SQUARES)
        self._limit = float(np.finfo(dtype).max) / 2 if tells else 0.0
        stacks = () if self._flat else shapes
        # With leading axes that broadcast, the gradient of an operand has the leading axes of the output until it is summed.
        self._full = [(*output[:-2], *shape[-2:]) for shape in stacks]
        self._sides = [Unbroadcast(shape, full, dtype, self.scratch) for shape, full in zip(stacks, self._full, strict=True)]
        self._space = [
            self.scratch.empty(full, dtype) if side.sums else None for side, full in zip(self._sides, self._full, strict=True)
        ]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        a, b = inputs
        if self._flat:
            np.dot(a, b, out) if a.ndim == 2 else np.dot(_rows(a), b, _rows(out))
        else:
            np.matmul(a, b, out)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        a, b = inputs
        for_a, for_b = wanted
        if self._flat:
            rows = gradient if gradient.ndim == 2 else _rows(gradient)
            if for_b is not None:
                left = a if a.ndim == 2 else _rows(a)
                if self._add is None:
                    np.dot(left.T, rows, for_b)
                elif left.flags.c_contiguous and rows.flags.c_contiguous:
                    self._add(left, rows, for_b)
                else:
                    # The BLAS call takes contiguous rows; for others the bits must be those of product and sum as well.
                    np.add(for_b, np.dot(left.T, rows), out=for_b)
            if for_a is not None:
                np.dot(rows, b.T, for_a if for_a.ndim == 2 else _rows(for_a))
            return
        if for_b is not None:
            self._stacked(1, a.swapaxes(-1, -2), gradient, for_b)
        if for_a is not None:
            self._stacked(0, gradient, b.swapaxes(-1, -2), for_a)

    def shares_gradients(self, shapes: Sequence[Shape]) -> Sequence[int]:
        return (1,) if len(shapes[1]) == 2 else ()

    def write_share(self, index: int, inputs: Sequence[Array], gradient: Array, target: Array, share: int, shares: int) -> None:
        count = len(target)
        # Whole rows of the target, so a share reads all samples and nothing is added up between shares.
        part = slice(count * share // shares, count * (share + 1) // shares)
        # Not `np.dot`, which copies a matrix of which neither rows nor columns lie one behind the other.
        np.matmul(_rows(inputs[0])[:, part].T, _rows(gradient), out=target[part])

    def surely_finite(self, index: int, inputs: Sequence[Array], gradient: Array) -> bool:
        """Return whether |a|^2 + |d|^2 of input a and gradient d is below half of the largest float.

        By Cauchy and Schwarz no number of a.T @ d, nor any part of its sum, exceeds |a| |d| <= (|a|^2 + |d|^2) / 2. That may be
        a quarter of the largest float, the rest is for rounding. NaN and squares that overflow compare as false.
        """
        if index == 0 or not self._limit:
            return False
        a, d = inputs[0], gradient
        return bool(np.vdot(a, a) + np.vdot(d, d) < self._limit)

    def adding(self, inputs: Sequence[Array], gradient: Array) -> MatMul | None:
        own = self._flat and type(self).backward is MatMul.backward  # else what it adds is the subclass's affair
        add = _find_sum(_rows(gradient).shape[0], *inputs[1].shape, gradient.dtype) if own else None
        if add is None:
            return None
        other = copy(self)
        other._add = add
        return other

    def _stacked(self, side: int, a: Array, b: Array, target: Array) -> None:
        """Write a @ b, summed over the axes that the operand lacks."""
        space = self._space[side]
        # Without a sum the product is written where it is wanted.
        product = target.reshape(self._full[side]) if space is None else space
        self._sides[side].reduce(np.matmul(a, b, out=product), target)


def _rows(array: Array) -> Array:
    return array.reshape(-1, array.shape[-1])


@cache
def _find_sum(k: int, m: int, n: int, dtype: np.dtype[Any]) -> Callable[[Array, Array, Array], None] | None:
    """Return a function that adds the product of (m, k) and (k, n) to a matrix, if it has the bits of NumPy's product and sum.

    The BLAS cuts products of many samples and adds up the parts, the first one to the matrix. The number of samples from which
    on it does, and other conditions, depend on the build and the CPU, so it is tried: with zeros and underflow, too.
    """
    # Few numbers agree by chance.
    add = sum_of_products(dtype) if m * n >= SMALL else None
    if add is None:
        return None
    draw = np.random.default_rng(0).standard_normal
    tiny = np.finfo(dtype).tiny
    left, right = (draw((2, k, size)).astype(dtype) for size in (m, n))
    # Every fifth factor is so small that the products of two of them, tiny ** 1.1, underflow.
    for side, power in ((left, 0.5), (right, 0.6)):
        side[:, :, ::5] *= tiny**power
        side[:, :, ::7] = 0
    found = np.dot(left[0].T, right[0])
    expected = np.add(found, np.dot(left[1].T, right[1]))
    add(left[1], right[1], found)
    # Bytes, not numbers: -0.0 equals 0.0, and NaN not itself.
    return add if found.tobytes() == expected.tobytes() else None


class TensorDot(Operation):
    """The last `axes` axes of a contracted with the first of b: (..., k1, k2), (k1, k2, ...) give (..., ...) for two axes.

    One matrix product, without copies. Raises ValueError where the contracted axes differ.
    """

    multiplies: ClassVar[bool] = True
    mask_of: ClassVar[MaskOf] = "first"
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, math.inf)

    def __init__(self, axes: int = 1) -> None:
        self.axes = arguments.integer(self, "axes", axes, minimum=1)

    def infer(self, *shapes: Shape) -> Shape:
        a, b = shapes
        if self.axes > min(len(a), len(b)) or a[-self.axes :] != b[: self.axes] or BATCH in b:
            raise ValueError(f"TensorDot: the last {self.axes} axes of shape {a} are not the first of shape {b}")
        return (*a[: -self.axes], *b[self.axes :])

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_leads(shapes[0]) and len(shapes[0]) > self.axes

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        a, b, flat = self._matrices(inputs, out)
        np.matmul(a, b, out=flat)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        a, b, flat = self._matrices(inputs, gradient)
        if wanted[1] is not None:
            np.matmul(a.T, flat, out=wanted[1].reshape(b.shape))
        if wanted[0] is not None:
            np.matmul(flat, b.T, out=wanted[0].reshape(a.shape))

    def _matrices(self, inputs: Sequence[Array], out: Array) -> tuple[Array, Array, Array]:
        a, b = inputs
        # The contracted axes lie together in both arrays, so the reshapes are views of contiguous ones.
        summed = math.prod(b.shape[: self.axes])
        return a.reshape(-1, summed), b.reshape(summed, -1), out.reshape(-1, b.size // summed)
