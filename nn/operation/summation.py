"""Sums over axes as matrix products with ones, which BLAS does faster than NumPy's reductions."""

import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

from nn.arrays import Array, Shape
from nn.scratch import Scratch


class Summation:
    """Adds up the elements of arrays of one shape over some of their axes.

    A run of neighbouring axes is one product: the array is seen as (kept, summed, kept) axes. Several runs are summed one
    after the other, the last first; what lies between them is scratch memory.
    """

    def __init__(self, shape: Shape, axes: Sequence[int], dtype: np.dtype[Any], scratch: Scratch) -> None:
        self._axes = tuple(axes)
        self._runs: list[tuple[Shape, Array]] = []
        left = [(length, axis in axes) for axis, length in enumerate(shape)]
        while any(summed for _, summed in left):
            before, length, after = _last_run(left)
            sizes = (math.prod(size for size, _ in before), length, math.prod(size for size, _ in after))
            view = sizes[:2] if sizes[2] == 1 else sizes
            self._runs.append((view, np.ones(length, dtype)))
            left = before + after
        counts = [math.prod(view) // ones.size for view, ones in self._runs[:-1]]
        self._between = [scratch.empty((count,), dtype) for count in counts]

    def __call__(self, array: Array, out: Array) -> None:
        """Write the sums into `out`, which is contiguous and whose axes of length 1 do not matter."""
        if not array.flags.c_contiguous:
            np.add.reduce(array, axis=self._axes, out=out.reshape(_without(array.shape, self._axes)))
            return
        if not self._runs:
            np.copyto(out, array.reshape(out.shape))
            return
        for (view, ones), target in zip(self._runs, [*self._between, out], strict=True):
            if len(view) == 2:
                np.matmul(array.reshape(view), ones, out=target.reshape(view[0]))
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
