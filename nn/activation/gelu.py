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
BLOCK = 1 << 16
"""Numbers in hand at a time: the two arrays that most of the passes of forward go over fit into a core's second-level cache."""


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
        size = math.prod(output)
        some = min(size, BLOCK * self.block_factor)
        self._blocks = [slice(start, min(start + some, size)) for start in range(0, size, max(some, 1))]
        self._work = [self.scratch.empty((some,), dtype) for _ in range(3)]
        # A third of all passes of a step, so backward reads what forward has computed.
        self._keeps = self.training and not self.approximate
        self._ratio = self._lasting.empty((size,), dtype) if self._keeps else self.scratch.empty((some,), dtype)
        self._right = self.scratch.empty((some,), np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x, output = inputs[0].reshape(-1), out.reshape(-1)
        for block in self._blocks:
            first, second, size, ratio, _ = self._part(block)
            self._write(x[block], first, second, size, ratio, output[block])

    def _write(self, x: Array, first: Array, second: Array, size: Array, ratio: Array, out: Array) -> None:
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
        tail_ratio(size, first, ratio)
        bell(size, first)
        np.multiply(ratio, first, out=second)
        np.multiply(second, size, out=second)
        # NumPy compares with an array three times faster than with a number
        first.fill(0)
        np.maximum(x, first, out=out)
        np.subtract(out, second, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        given, gradients, target = x.reshape(-1), gradient.reshape(-1), out.reshape(-1)
        for block in self._blocks:
            first, second, slope, ratio, right = self._part(block)
            if self.approximate:
                _tanh_slope(given[block], first, second, slope)
            else:
                magnitude(given[block], first)
                _slope(given[block], first, ratio, second, slope, right)
            np.multiply(gradients[block], slope, out=target[block])

    def _part(self, block: slice) -> tuple[Array, ...]:
        """Return work space for a block, the ratio of its tail, and a mask."""
        count = block.stop - block.start
        ratio = self._ratio[block] if self._keeps else self._ratio[:count]
        return *[work[:count] for work in self._work], ratio, self._right[:count]


def _slope(x: Array, size: Array, ratio: Array, rest: Array, out: Array, right: Array) -> None:
    """Write f'(x) = r for x < 0 and 1 - r otherwise, with r = P(X > |x|) - |x| exp(-x^2 / 2) / sqrt(2 pi).

    Args:
        x: the input.
        size: |x|, which is overwritten.
        ratio: result of `tail_ratio` for it.
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
