"""The memory of recurrent operations that keep samples in columns, and the gradients of their variables."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from nn.arrays import Array, zeros
from nn.operation.recurrent.recurrence import Recurrence
from nn.operation.recurrent.window import Window, windows


class FeatureMajor(Recurrence):
    """A recurrence that computes with transposed matrices, (features, batch), one after the other in time.

    Then each gate of a step is contiguous, and several of them are computed by one pass. `slab` (time + 1, rows, batch) holds
    for each step its x, a row of ones for the bias, the state before the step, and ones for the second bias if there is one.
    `packed` (rows, gates * units) holds what they are multiplied by. As sigmoid(z) = (1 + tanh(z / 2)) / 2, its columns are
    halved for all gates but the third, the one with a tanh: so every gate is a tanh, and none overflows.
    """

    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Make the slab and its parts."""
        features, units, biased = self._features, self._units, min(self._ones, 1)
        rows, columns = features + units + self._ones, self.gates * units
        self._state_rows = slice(features + biased, features + biased + units)
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

        Those of a step are dz, four blocks of `units` rows, that of its state, dh, and what goes straight to the step before.
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
                np.copyto(target, self._total[rows])
        for target in wanted[2:]:
            if target is not None:
                for row, values in zip((self._features, -1), target.reshape(self.biases, -1), strict=False):
                    np.copyto(values, self._total[row])
