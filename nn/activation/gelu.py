"""The Gaussian error linear unit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.activation.activation import Activation
from nn.arrays import Array, Shape
from nn.operation.normal import bell, magnitude, tail_ratio

_DENSITY = 1 / math.sqrt(2 * math.pi)
_RATE = math.sqrt(2 / math.pi)
# From section 2 of the paper; weights that were trained with it expect it to the digit.
_CUBIC = 0.044715
#: From here on the tanh of the approximation is 1 in every digit.
_FAR_TANH = 8.0


class GELU(Activation, configured=True):
    """f(x) = x P(X <= x) for standard normal X; f'(x) = P(X <= x) + x exp(-x^2 / 2) / sqrt(2 pi).

    With `approximate`, f(x) = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, which differs by at most 5e-4 and takes half
    the time; GPT-2 uses this form. Hendrycks and Gimpel, Gaussian error linear units, arXiv:1606.08415. Raises TypeError
    where `approximate` is no bool.

    >>> nn.layer.Dense(10, activation=nn.activation.GELU(approximate=True)).activation
    GELU(approximate=True)
    """

    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False
    # The least value is -0.16997, at -0.7518.
    bounds: ClassVar[tuple[float, float] | None] = (-0.17, math.inf)

    def __init__(self, approximate: bool = False) -> None:
        self.approximate: bool = arguments.instance(self, "approximate", approximate, bool)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._first, self._second, self._third = (self.scratch.empty(output, dtype) for _ in range(3))
        # A third of all passes of a step, so backward reads what forward has computed.
        memory = self._lasting if self.training and not self.approximate else self.scratch
        self._ratio = memory.empty(output, dtype)
        self._right = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, first, second, size = inputs[0], self._first, self._second, self._third
        if self.approximate:
            _tanh(np.clip(x, -_FAR_TANH, _FAR_TANH, out=size), first, second)
            np.add(second, 1, out=second)
            np.multiply(second, 0.5, out=second)
            np.clip(x, -_FAR_TANH, np.inf, out=size)
            # A large x is not cut off here: the tanh is 1 there and f(x) = x.
            np.multiply(size, second, out=out)
            return
        # f(x) = max(x, 0) - |x| P(X > |x|), exact far to the left too, where 1 - P(X > x) would cancel
        magnitude(x, size)
        tail_ratio(size, first, self._ratio)
        bell(size, first)
        np.multiply(self._ratio, first, out=second)
        np.multiply(second, size, out=second)
        # NumPy compares with an array three times faster than with a number
        first.fill(0)
        np.maximum(x, first, out=out)
        np.subtract(out, second, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        if self.approximate:
            _tanh_slope(x, self._first, self._second, self._third)
        else:
            magnitude(x, self._first)
            _slope(x, self._first, self._ratio, self._second, self._third, self._right)
        np.multiply(gradient, self._third, out=out)


def _slope(x: Array, size: Array, ratio: Array, rest: Array, out: Array, right: Array) -> None:
    """Write f'(x) = r for x < 0 and 1 - r otherwise, with r = P(X > |x|) - |x| exp(-x^2 / 2) / sqrt(2 pi).

    Args:
        x: the input.
        size: |x|, which is overwritten.
        ratio: what `tail_ratio` has written for it.
        rest: work space.
        out: where the slope is written.
        right: work space.
    """
    bell(size, out)
    np.multiply(size, _DENSITY, out=size)
    np.subtract(ratio, size, out=rest)
    np.multiply(rest, out, out=rest)
    np.multiply(rest, -2, out=size)
    np.add(size, 1, out=size)
    # x >= 0 takes (1 - 2 r) + r, the others 0 + r.
    np.greater_equal(x, 0, out=right)
    np.multiply(size, right, out=size)
    np.add(size, rest, out=out)


def _tanh(x: Array, square: Array, out: Array) -> None:
    """Write x^2 and t = tanh(sqrt(2 / pi) (x + 0.044715 x^3))."""
    np.multiply(x, x, out=square)
    np.multiply(square, _RATE * _CUBIC, out=out)
    np.add(out, _RATE, out=out)
    np.multiply(out, x, out=out)
    np.tanh(out, out=out)


def _tanh_slope(x: Array, square: Array, t: Array, out: Array) -> None:
    """Write (1 + t) / 2 + (1 - t^2) x u' / 2 with t = tanh(u), which is (1 + t) (1 + (1 - t) x u') / 2."""
    near = np.clip(x, -_FAR_TANH, _FAR_TANH, out=out)
    _tanh(near, square, t)
    np.multiply(square, 3 * _RATE * _CUBIC, out=square)
    np.add(square, _RATE, out=square)
    np.multiply(square, near, out=square)
    np.subtract(1, t, out=out)
    np.multiply(out, square, out=out)
    np.add(out, 1, out=out)
    np.add(t, 1, out=t)
    np.multiply(out, t, out=out)
    np.multiply(out, 0.5, out=out)
