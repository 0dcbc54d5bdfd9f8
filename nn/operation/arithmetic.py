"""Arithmetic of two arrays, element by element."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.broadcasting import Broadcasting


class Arithmetic(Broadcasting):
    """What one universal function of NumPy computes from two arrays."""

    function: ClassVar[np.ufunc]

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self.function(inputs[0], inputs[1], out=out)


class Add(Arithmetic):
    """a + b."""

    function: ClassVar[np.ufunc] = np.add
    reads_inputs: ClassVar[bool] = False
    computes: ClassVar[bool] = False

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return gradient


class Subtract(Arithmetic):
    """a - b."""

    function: ClassVar[np.ufunc] = np.subtract
    reads_inputs: ClassVar[bool] = False

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return gradient if side == 0 else np.negative(gradient, out=out)


class Multiply(Arithmetic):
    """a * b."""

    function: ClassVar[np.ufunc] = np.multiply

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return np.multiply(gradient, inputs[1 - side], out=out)


class Divide(Arithmetic):
    """a / b."""

    function: ClassVar[np.ufunc] = np.divide
    reads_output: ClassVar[bool] = True

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        if side == 0:
            return np.divide(gradient, inputs[1], out=out)
        np.multiply(gradient, output, out=out)
        np.divide(out, inputs[1], out=out)
        return np.negative(out, out=out)


class Power(Arithmetic):
    """a ** b; a gradient of the exponent exists for a >= 0 only.

    At the border the gradients are those of torch: for a it is 0 where b is 0, for b it is 0 where a is 0 and b >= 0.
    """

    function: ClassVar[np.ufunc] = np.power
    reads_output: ClassVar[bool] = True

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._factor = self.scratch.empty(output, dtype)
        self._constant = self.scratch.empty(shapes[1], np.dtype(bool))
        self._nothing = self.scratch.empty(shapes[0], np.dtype(bool))
        self._border = self.scratch.empty(output, np.dtype(bool))

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        base, exponent = inputs
        if side == 0:
            np.subtract(exponent, 1, out=self._factor)
            np.equal(exponent, 0, out=self._constant)
            if self._constant.any():
                np.copyto(self._factor, 0, where=self._constant)
            np.power(base, self._factor, out=self._factor)
            np.multiply(self._factor, exponent, out=self._factor)
        else:
            np.copyto(self._factor, base)
            np.equal(base, 0, out=self._nothing)
            if self._nothing.any():
                np.greater_equal(exponent, 0, out=self._constant)
                np.logical_and(self._nothing, self._constant, out=self._border)
                np.copyto(self._factor, 1, where=self._border)
            np.log(self._factor, out=self._factor)
            np.multiply(self._factor, output, out=self._factor)
        return np.multiply(gradient, self._factor, out=out)
