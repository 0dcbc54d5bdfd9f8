"""Common parts of recurrent operations: their inputs, which outputs are wanted, and products over many steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Scratch, Shape, zeros
from nn.operation.operation import Operation


class Recurrence(Operation, ABC):
    """State h_t (batch, units), computed from x_t and h_(t-1) for each step of time; h before the first step is 0.

    Inputs: x (batch, time, features), kernel (features, gates * units), recurrent kernel (units, gates * units), and a bias
    or none. Output: the last state (batch, units), or with `return_sequences` all of them (batch, time, units).
    """

    multiplies: ClassVar[bool] = True

    gates: ClassVar[int] = 1
    """Blocks of `units` columns in the kernels."""

    biases: ClassVar[int] = 1
    """1 for a bias (gates * units,); 2 for (2, gates * units), of which the second is added to the recurrent part."""

    training: bool = True
    """Whether backward will be run. If not, `allocate` makes no room for it."""

    def __init__(self, return_sequences: bool = False) -> None:
        self.return_sequences = return_sequences

    def infer(self, *shapes: Shape) -> Shape:
        x, kernel, recurrent, *_ = shapes
        if len(x) != 3 or BATCH in x[1:]:
            raise ValueError(f"{type(self).__name__}: expected inputs of shape (batch, time, features), got {x}")
        units, columns = recurrent[0], self.gates * recurrent[0]
        if x[2] != kernel[0]:
            raise ValueError(f"{type(self).__name__}: expected inputs with {kernel[0]} features on axis 2, got shape {x}")
        fitting = ((kernel[0], columns), (units, columns), (columns,) if self.biases == 1 else (2, columns))
        for name, found, expected in zip(("kernel", "recurrent kernel", "bias"), shapes[1:], fitting, strict=False):
            if found != expected:
                raise ValueError(f"{type(self).__name__}: the {name} must have shape {expected}, got {found}")
        return (x[0], x[1], units) if self.return_sequences else (x[0], units)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether the batch is the first axis of x and no axis of a variable: samples do not see each other."""
        return shapes[0][0] == BATCH and all(BATCH not in shape for shape in shapes[1:])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._batch, self._time, self._features = shapes[0]
        self._units = shapes[2][0]
        self._ones = self.biases if len(shapes) > 3 else 0
        self.prepare(dtype)

    @abstractmethod
    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Allocate the arrays that the steps need, of this `dtype`."""

    def incoming(self, gradient: Array, step: int) -> Array | None:
        """Return the gradient (batch, units) that reaches the state of a step from outside, None where there is none."""
        if self.return_sequences:
            part: Array = gradient[:, step]
            return part
        return gradient if step == self._time - 1 else None


class FeatureMajor(Recurrence):
    """A recurrence that computes with transposed matrices, (features, batch), one after the other in time.

    Then each gate of a step is contiguous, and several of them are computed by one pass. `slab` (time + 1, rows, batch) holds
    for each step its x, a row of ones for the bias, the state before the step, and ones for the second bias if there is one.
    `packed` (rows, gates * units) holds the factors of these. As sigmoid(z) = (1 + tanh(z / 2)) / 2, its columns are
    halved for all gates but the third, the one with a tanh: so every gate is a tanh, and none overflows.
    """

    def prepare(self, dtype: np.dtype[Any]) -> None:
        features, units, biased = self._features, self._units, min(self._ones, 1)
        rows, columns = features + units + self._ones, self.gates * units
        self._state_rows = slice(features + biased, features + biased + units)
        # One step more: `h` of a step is written where the next one reads it.
        self._slab = zeros((self._time + 1, rows, self._batch), dtype)
        if self._ones:
            self._slab[:, features] = 1
        if self._ones == 2:
            self._slab[:, -1] = 1
        self._x_slab = self._slab[:-1, :features].transpose(2, 0, 1)
        self._states = list(self._slab[:, self._state_rows])
        self._state_slab = self._slab[1:, self._state_rows].transpose(2, 0, 1)
        self._half = np.asarray(0.5, dtype)
        self._scale = np.full(columns, 0.5, dtype)
        self._scale[2 * units : 3 * units] = 1
        self._packed = self.scratch.empty((rows, columns), dtype)
        if self.training:
            self._prepare_backward(rows, dtype)

    def _prepare_backward(self, rows: int, dtype: np.dtype[Any]) -> None:
        """Make room for the gradients of a step and of the variables and, for some steps, for those of x.

        Those of a step are dz, four blocks of `units` rows, that of its state, dh, and the part that goes straight to the step
        before.
        """
        gradients = 4 * self._units
        self._dh, self._carry = (self.scratch.empty((self._units, self._batch), dtype) for _ in range(2))
        self._dz = self.scratch.empty((gradients, self._batch), dtype)
        self._total, self._part = (self.scratch.empty(self._packed.shape, dtype) for _ in range(2))
        self._windows = windows(self._time, self._batch, rows, gradients, dtype, self.scratch)
        self._x_gradient = self.scratch.empty((self._features * self._windows[-1].columns,), dtype)

    def read(self, inputs: Sequence[Array]) -> None:
        """Copy x into the slab and the variables into `packed`."""
        x, kernel, recurrent, *bias = inputs
        np.copyto(self._x_slab, x)
        np.multiply(kernel, self._scale, out=self._packed[: self._features])
        np.multiply(recurrent, self._scale, out=self._packed[self._state_rows])
        # The second bias, if there is one, has the last row.
        for row, values in zip((self._features, -1), bias[0].reshape(self.biases, -1) if bias else (), strict=False):
            np.multiply(values, self._scale, out=self._packed[row])

    def write_states(self, out: Array) -> None:
        """Write the last state or all of them into the output."""
        np.copyto(out, self._state_slab if self.return_sequences else self._states[-1].T)

    def add_incoming(self, gradient: Array, step: int, total: Array) -> None:
        """Add the gradient that reaches the state of a step from outside."""
        incoming = self.incoming(gradient, step)
        if incoming is not None:
            np.add(total, incoming.T, out=total)

    def accumulate(self, window: Window, rows: slice, gradients: Array) -> None:
        """Add inputs @ gradients^T of a window to the gradient of some rows of `packed`; the first window overwrites it."""
        # The windows come last in time first.
        first = window is self._windows[0]
        total, part = self._total[rows], self._part[rows]
        np.matmul(window.inputs[rows], gradients.T, out=total if first else part)
        if not first:
            np.add(total, part, out=total)

    def write_x_gradient(self, kernel: Array, gradients: Array, window: Window, target: Array) -> None:
        """Write kernel @ gradients, (features, time * batch), for the steps of a window into the gradient of x."""
        found = self._x_gradient[: self._features * window.columns].reshape(self._features, -1)
        np.matmul(kernel, gradients, out=found)
        part = target[:, window.start : window.stop].transpose(2, 1, 0)
        np.copyto(part, found.reshape(self._features, -1, self._batch))

    def write_variables(self, wanted: Sequence[Array | None]) -> None:
        """Write the gradients of those variables that need one."""
        for target, rows in zip(wanted, (slice(self._features), self._state_rows), strict=False):
            if target is not None:
                # Not scaled: the gradients of a step are those of the pre-activations, before the columns were halved.
                np.copyto(target, self._total[rows])
        for target in wanted[2:]:
            if target is not None:
                for row, values in zip((self._features, -1), target.reshape(self.biases, -1), strict=False):
                    np.copyto(values, self._total[row])


COLUMNS = 512
"""Steps times samples in a window: with this length matrix products run at full speed, and the window stays in the cache."""


class Window:
    """The steps `start` to `stop` in backward: `inputs` (rows, time * batch) of the steps and `gradients` of their results.

    The gradient of a kernel is a sum over steps and samples, so for a window it is one product of two matrices.
    """

    def __init__(self, start: int, stop: int, batch: int, inputs: Array, gradients: Array) -> None:
        self.start, self.stop = start, stop
        self.columns = (stop - start) * batch
        # Windows share their memory; the earliest one may be shorter.
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
    # Backward goes from the last step to the first.
    return [Window(start, min(start + length, time), batch, left, right) for start in reversed(starts)]


def _narrow(memory: Array, columns: int) -> Array:
    """Return a contiguous matrix of as many rows at the beginning of the same memory."""
    narrow: Array = memory.reshape(-1)[: len(memory) * columns].reshape(len(memory), columns)
    return narrow
