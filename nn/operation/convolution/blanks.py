"""Windows that hold nothing but zeros."""

from __future__ import annotations

import numpy as np

from nn.arrays import Array
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.window import Window
from nn.scratch import Scratch


class Blanks:
    """Finds outputs whose window holds zeros only, and sets them to 0, where a method leaves rounding errors instead.

    A rectifier would take those for positive numbers, and pass gradients on. Of every window one cell lies on a lattice; where
    none of these cells is 0, as in most inputs, there is nothing more to look at.
    """

    def __init__(self, problem: Problem, images: int, scratch: Scratch) -> None:
        self._rows, self._columns, self._groups = problem.rows, problem.columns, problem.groups
        self._lattice = (slice(None), lattice(problem.rows), lattice(problem.columns))
        self._part = problem.channels // problem.groups
        cells = images * problem.rows.length * problem.columns.length
        summed = self._part > 1
        self._sizes = scratch.empty((cells * problem.channels if summed else 0,), problem.dtype)
        self._sums = scratch.empty((cells * problem.groups if summed else 0,), problem.dtype)
        self._ones = np.ones(self._part, problem.dtype)

    def suspects(self, x: Array) -> Array | None:
        """Return for each of the images whether it may have blank windows; None where none has."""
        cells = x[self._lattice]
        blank = np.equal(cells[..., :: self._part], 0)
        # few inputs have cells whose first, middle and last channel are 0, so that few cells need a closer look
        for channel in (self._part // 2, self._part - 1):
            if not blank.any():
                return None
            if channel:
                np.logical_and(blank, np.equal(cells[..., channel :: self._part], 0), out=blank)
        if self._part > 1:
            blank[blank] = ~cells.reshape(*blank.shape, self._part)[blank].any(axis=1)
        suspects: Array = np.logical_or.reduce(blank.reshape(len(x), -1), axis=1)
        return suspects

    def find(self, x: Array) -> Array:
        """Return where windows of the images `x` are blank, (images, rows, columns, groups) of the output."""
        rows, columns = self._rows, self._columns
        shape = (rows.length + rows.before + rows.after, columns.length + columns.before + columns.after)
        blank = np.ones((len(x), *shape, self._groups), bool)
        blank[:, rows.before : rows.before + rows.length, columns.before : columns.before + columns.length] = self._zeros(x)
        return _all_within(_all_within(blank, rows, 1), columns, 2)

    @staticmethod
    def clear(blank: Array, result: Array) -> None:
        """Set these outputs to 0 in `result`, before the bias is added."""
        # the filters of a group as one element, which a mask reaches several times faster than rows of them
        grouped = result.reshape(*blank.shape, -1)
        if grouped.shape[-1] > 1:
            grouped = grouped.view(np.dtype((np.void, grouped.shape[-1] * grouped.itemsize)))
        grouped[..., 0][blank] = np.zeros((), grouped.dtype)

    def _zeros(self, cells: Array) -> Array:
        """Return where all channels of a group are 0, (images, rows, columns, groups)."""
        if self._part == 1:
            return np.equal(cells, 0)
        sizes, sums = self._sizes[: cells.size].reshape(cells.shape), self._sums[: cells.size // self._part]
        np.abs(cells, out=sizes)
        # a sum of sizes is 0 only if all of them are; BLAS is faster than NumPy's reductions over short axes
        with np.errstate(over="ignore"):
            np.matmul(sizes.reshape(-1, self._part), self._ones, out=sums)
        return np.equal(sums, 0).reshape(*cells.shape[:3], self._groups)


def lattice(window: Window) -> slice:
    """Return the widest lattice along an axis that has at least one cell of the axis in every window."""
    for step in range(window.size, 1, -1):
        for start in range(step):
            chosen = range(start, window.length, step)
            if all(_holds(window, position, chosen) for position in range(window.positions)):
                return slice(start, None, step)
    return slice(None)


def _holds(window: Window, position: int, chosen: range) -> bool:
    """Whether a window holds one of the chosen cells."""
    first = position * window.stride - window.before
    return any(cell in chosen for cell in range(first, first + window.size))


def _all_within(mask: Array, window: Window, axis: int) -> Array:
    """Return for each position of a window, which moves by 1, whether `mask` is set in all its cells."""
    before = (slice(None),) * axis
    found = mask[(*before, slice(window.positions))].copy()
    for tap in range(1, window.size):
        np.logical_and(found, mask[(*before, slice(tap, tap + window.positions))], out=found)
    return found
