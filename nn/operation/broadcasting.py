"""Element-wise operations on arrays with NumPy's broadcasting, and the way back: sums over the repeated axes."""

from __future__ import annotations

import math
import threading
from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from itertools import groupby
from typing import Any, ClassVar, Final

import numpy as np

from nn.arrays import BATCH, Array, Scratch, Shape
from nn.operation.operation import MaskOf, Operation, batch_leads


def broadcast_shape(owner: str, first: Shape, second: Shape) -> Shape:
    """Return the common shape of two arrays; the unknown batch axis fits itself and 1."""
    length = max(len(first), len(second))
    axes = []
    # NumPy aligns shapes at their last axes, so ones are put in front of the shorter one.
    for a, b in zip((1,) * (length - len(first)) + first, (1,) * (length - len(second)) + second, strict=True):
        if a != b and 1 not in (a, b):
            raise ValueError(f"{owner}: shapes {first} and {second} do not fit together")
        axes.append(b if a == 1 else a)
    return tuple(axes)


def batch_stays_aside(shapes: Sequence[Shape], full: Shape) -> bool:
    """Return whether inputs that broadcast to `full` can be cut along its batch axis.

    The batch must be the first axis of the whole and of every input that has it.
    """
    return batch_leads(full) and all(BATCH not in shape or (batch_leads(shape) and len(shape) == len(full)) for shape in shapes)


class Unbroadcast:
    """Sum that brings a gradient of the broadcast shape back to the shape of one operand."""

    def __init__(self, shape: Shape, full: Shape, dtype: np.dtype[Any], scratch: Scratch) -> None:
        self._shape, self._full = shape, full
        padded = (1,) * (len(full) - len(shape)) + shape
        axes = [axis for axis, (a, b) in enumerate(zip(padded, full, strict=True)) if a != b]
        self._sum = Summation(full, axes, dtype, scratch) if axes else None
        self.sums = bool(axes)
        """Whether there is anything to add up."""

    def reduce(self, gradient: Array, wanted: Array) -> None:
        """Write the sum of `gradient` over the repeated axes into `wanted`; nothing where they are the same memory."""
        if self._sum is not None:
            self._sum(gradient, wanted)
        # `partial` has written into `wanted` where nothing is summed; a reshaped view of it needs no copy.
        elif not np.may_share_memory(gradient, wanted):
            np.copyto(wanted, gradient.reshape(self._shape))


class Broadcasting(Operation):
    """An element-wise operation on arrays; a subclass gives its value and its partial derivatives."""

    mask_of: ClassVar[MaskOf] = "all"
    in_place: ClassVar[bool] = True

    computes: ClassVar[bool] = True
    """Whether `partial` computes in the memory it is given; one `in_place` that does not hands the gradient on as it is."""

    def infer(self, *shapes: Shape) -> Shape:
        return reduce(lambda first, second: broadcast_shape(type(self).__name__, first, second), shapes)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        return batch_stays_aside(shapes, self.infer(*shapes))

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._sides = [Unbroadcast(shape, output, dtype, self.scratch) for shape in shapes]
        needed = self.computes and any(side.sums for side in self._sides)
        self._space = self.scratch.empty(output if needed else (0,), dtype)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        # The first input's is written last: in place its memory is that of `gradient`, which the others read.
        for side in reversed(range(len(wanted))):
            target = wanted[side]
            # one that is handed on as it is may be in its place already
            if target is not None and (self.computes or target is not gradient):
                # Without a sum over repeated axes the derivative is computed in its target, else in scratch memory.
                space = self._space if self._sides[side].sums else target.reshape(gradient.shape)
                # `target` may lack leading axes of length 1, which the reshape gives back without a copy.
                self._sides[side].reduce(self.partial(side, inputs, output, gradient, space), target)

    @abstractmethod
    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient * d output / d inputs[side], of the broadcast shape.

        Args:
            side: number of the input.
            inputs: the inputs.
            output: the value of the operation.
            gradient: gradient of the output.
            out: memory to compute it in, if it is computed at all.
        """


_SHORT_BUFFER = 512
"""Elements of NumPy's buffer within `short_buffers`."""
_BUFFER = 8192
"""Elements of NumPy's buffer elsewhere."""
_WORTH = 16_384
"""Elements from which on a pass that repeats numbers saves more than two changes of the buffer take."""


class _Before(threading.local):
    """Sizes of NumPy's buffer in this thread before it was made short, the last one at the end."""

    def __init__(self) -> None:
        self.sizes: list[int] = []


_before = _Before()


class ShortBuffer:
    """Context in which NumPy repeats numbers along rows faster, where a pass gains by it; results have the same bits.

    NumPy copies repeated numbers to its buffer, unless a row is longer than that: with a short buffer, passes over rows of
    1,024 numbers take half the time. Where rows are short they would take up to three times as long, so nothing changes there.

    Args:
        length: elements of a row along which a number repeats, or of a row that repeats.
        size: elements of all rows.
    """

    def __init__(self, length: int, size: int) -> None:
        self.gains: Final = 2 * _SHORT_BUFFER <= length < _BUFFER and size >= _WORTH

    def __enter__(self) -> None:
        if self.gains:
            # of NumPy's buffer each thread has its own size, and threads share this object
            _before.sizes.append(np.setbufsize(_SHORT_BUFFER))

    def __exit__(self, *error: object) -> None:
        if self.gains:
            np.setbufsize(_before.sizes.pop())


def repeated_row(first: Shape, second: Shape) -> int:
    """Return the elements of a row that repeats, or along which a number repeats, where arrays of two shapes are combined."""
    length = max(len(first), len(second))
    first, second = ((1,) * (length - len(shape)) + shape for shape in (first, second))
    pairs = [(a, b) for a, b in zip(first, second, strict=True) if (a, b) != (1, 1)]
    # Neighbouring axes of one kind are one to NumPy: both have them, or one repeats along them.
    kinds = [
        (kind, [max(pair) for pair in group]) for kind, group in groupby(pairs, key=lambda pair: (pair[0] == 1, pair[1] == 1))
    ]
    return math.prod(kinds[-1][1]) if len(kinds) > 1 else 0


LONG = 32_768
"""Rows that one product adds up. In a product with a row of ones the rounding errors of float32 grow with the number of rows:
2e-6 of the sum for these, 1e-5 for four million."""
_PART = 4096


class LongColumns:
    """Sum of the rows of matrices of more than `LONG` rows, in parts of `_PART` rows, then over the parts."""

    def __init__(self, stack: int, rows: int, columns: int, dtype: np.dtype[Any], scratch: Scratch) -> None:
        self._ones = np.ones(_PART, dtype)
        self._parts = scratch.empty((stack, rows // _PART + 1, columns), dtype)

    def __call__(self, matrices: Array, out: Array) -> None:
        """Write the sums of matrices (stack, rows, columns), of as many rows at most, into `out` (stack, columns)."""
        stack, rows, columns = matrices.shape
        whole, rest = divmod(rows, _PART)
        # One part more for the rest.
        parts = self._parts[:, : whole + 1]
        cut = matrices[:, : whole * _PART].reshape(stack, whole, _PART, columns)
        np.matmul(self._ones, cut, out=parts[:, :whole])
        # Without a rest this is a product over no rows, which writes zeros.
        np.matmul(self._ones[:rest], matrices[:, whole * _PART :], out=parts[:, whole])
        np.add.reduce(parts, axis=1, out=out)


class Summation:
    """Sum of the elements of arrays of one shape over some of their axes.

    A run of neighbouring axes is one product: the array is seen as (kept, summed, kept) axes; many rows are several products.
    Several runs are summed one after the other, the last first; the results between them are in scratch memory.
    """

    def __init__(self, shape: Shape, axes: Sequence[int], dtype: np.dtype[Any], scratch: Scratch) -> None:
        self._axes = tuple(axes)
        self._runs: list[tuple[Shape, Array, LongColumns | None]] = []
        left = [(length, axis in axes) for axis, length in enumerate(shape)]
        while any(summed for _, summed in left):
            before, length, after = _last_run(left)
            sizes = (math.prod(size for size, _ in before), length, math.prod(size for size, _ in after))
            # Without kept axes behind the summed ones the product is one of a matrix and a vector, for which the BLAS has its
            # own way.
            view = sizes[:2] if sizes[2] == 1 else sizes
            long = LongColumns(*sizes, dtype, scratch) if len(view) == 3 and length > LONG else None
            self._runs.append((view, np.ones(0 if long else length, dtype), long))
            left = before + after
        counts = [math.prod(view) // view[1] for view, _, _ in self._runs[:-1]]
        self._between = [scratch.empty((count,), dtype) for count in counts]
        self._rows: tuple[Array, Shape] | None = None
        if len(self._runs) == 1 and len(view) == 3 and view[0] == 1 and long is None:
            # leading axes alone, as for a bias: one product without a loop, in nearly every step of small networks
            self._rows = self._runs[0][1], view[1:]

    def __call__(self, array: Array, out: Array) -> None:
        """Write the sums into `out`, a contiguous array; its axes of length 1 do not matter."""
        if self._rows is not None and array.flags.c_contiguous:
            ones, shape = self._rows
            np.dot(ones, array if array.shape == shape else array.reshape(shape), out if out.ndim == 1 else out.reshape(-1))
            return
        # Reshaping a strided array would copy it.
        if not array.flags.c_contiguous:
            np.add.reduce(array, axis=self._axes, out=out.reshape(_without(array.shape, self._axes)))
            return
        if not self._runs:
            np.copyto(out, array.reshape(out.shape))
            return
        # Each run's result is the array of the next run; the last one writes to `out`.
        for (view, ones, long), target in zip(self._runs, [*self._between, out], strict=True):
            if long is not None:
                long(array.reshape(view), target.reshape(view[0], view[2]))
            # `np.dot` where it can be: the same bits, and a third of the time for small arrays
            elif len(view) == 2:
                np.dot(array.reshape(view), ones, target.reshape(view[0]))
            elif view[0] == 1:
                np.dot(ones, array.reshape(view[1:]), target.reshape(view[2]))
            else:
                np.matmul(ones, array.reshape(view), out=target.reshape(view[0], view[2]))
            array = target


def _last_run(axes: list[tuple[int, bool]]) -> tuple[list[tuple[int, bool]], int, list[tuple[int, bool]]]:
    """Return the axes before the last run of summed ones, the length of the run, and the axes after it."""
    runs = [(summed, list(group)) for summed, group in groupby(axes, key=lambda axis: axis[1])]
    place = max(index for index, (summed, _) in enumerate(runs) if summed)
    before = [axis for _, group in runs[:place] for axis in group]
    after = [axis for _, group in runs[place + 1 :] for axis in group]
    return before, math.prod(size for size, _ in runs[place][1]), after


def _without(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(length for axis, length in enumerate(shape) if axis not in axes)
