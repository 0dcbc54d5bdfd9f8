"""Some steps of time side by side, for the products that need no order of time."""

from __future__ import annotations

from typing import Any

import numpy as np

from nn.arrays import Array
from nn.scratch import Scratch

COLUMNS = 512
"""Steps times samples in a window: with this length matrix products run at full speed, and the window stays in the cache."""


class Window:
    """The steps `start` to `stop` in backward: `inputs` (rows, time * batch) of the steps and `gradients` of what they gave.

    The gradient of a kernel is a sum over steps and samples, so for a window it is one product of two matrices.
    """

    def __init__(self, start: int, stop: int, batch: int, inputs: Array, gradients: Array) -> None:
        self.start, self.stop = start, stop
        self.columns = (stop - start) * batch
        self.inputs = _narrow(inputs, self.columns)
        self.gradients = _narrow(gradients, self.columns)
        self._by_step = self.inputs.reshape(len(inputs), stop - start, batch).swapaxes(0, 1)
        self._steps = list(self.gradients.reshape(len(gradients), stop - start, batch).swapaxes(0, 1))

    def take_inputs(self, slab: Array) -> None:
        """Copy the inputs of all steps of the window from the whole history (time, rows, batch)."""
        np.copyto(self._by_step, slab[self.start : self.stop])

    def take_gradient(self, step: int, gradient: Array) -> None:
        """Copy the gradient (rows, batch) of one step."""
        np.copyto(self._steps[step - self.start], gradient)


def windows(time: int, batch: int, inputs: int, gradients: int, dtype: np.dtype[Any], scratch: Scratch) -> list[Window]:
    """Return the windows that cover all steps, the last in time first; they share their memory."""
    length = min(time, max(1, COLUMNS // batch))
    columns = length * batch
    left, right = scratch.empty((inputs, columns), dtype), scratch.empty((gradients, columns), dtype)
    starts = range(0, time, length)
    return [Window(start, min(start + length, time), batch, left, right) for start in reversed(starts)]


def _narrow(memory: Array, columns: int) -> Array:
    """Return a contiguous matrix of as many rows at the beginning of the same memory."""
    narrow: Array = memory.reshape(-1)[: len(memory) * columns].reshape(len(memory), columns)
    return narrow
