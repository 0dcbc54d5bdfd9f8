"""The Gaussian error linear unit, and the tail of the normal distribution, which NumPy does not have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nn import arguments
from nn.activation.activation import Activation
from nn.arrays import Array, Shape

_DENSITY = 1 / math.sqrt(2 * math.pi)
_RATE = math.sqrt(2 / math.pi)
_CUBIC = 0.044715
_FAR, _FAR_TANH = 40.0, 8.0
"""From here on the tail of the normal distribution is 0, and the tanh of its approximation 1, in every digit: larger numbers
may stand here, so that nothing overflows and no infinity meets a 0."""


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
        _size(x, size)
        tail_ratio(size, first, second)
        _bell(size, first)
        np.multiply(second, first, out=second)
        np.multiply(second, size, out=second)
        # NumPy compares with an array three times faster than with a number
        first.fill(0)
        np.maximum(x, first, out=out)
        np.subtract(out, second, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        if self.approximate:
            _tanh_slope(x, self._first, self._second, self._third)
        else:
            _slope(x, self._first, self._second, self._third, self._right)
        np.multiply(gradient, self._third, out=out)


def _size(x: Array, out: Array) -> None:
    """Write |x|, with `_FAR` in place of larger numbers."""
    np.abs(x, out=out)
    np.clip(out, 0, _FAR, out=out)


def _bell(x: Array, out: Array) -> None:
    """Write exp(-x^2 / 2)."""
    np.multiply(x, x, out=out)
    np.multiply(out, -0.5, out=out)
    np.exp(out, out=out)


def _slope(x: Array, size: Array, ratio: Array, out: Array, right: Array) -> None:
    """Write f'(x) = r for x < 0 and 1 - r otherwise, with r = P(X > |x|) - |x| exp(-x^2 / 2) / sqrt(2 pi)."""
    _size(x, size)
    tail_ratio(size, out, ratio)
    _bell(size, out)
    np.multiply(size, _DENSITY, out=size)
    np.subtract(ratio, size, out=ratio)
    np.multiply(ratio, out, out=ratio)
    np.multiply(ratio, -2, out=size)
    np.add(size, 1, out=size)
    # x >= 0 takes (1 - 2 r) + r, the others 0 + r.
    np.greater_equal(x, 0, out=right)
    np.multiply(size, right, out=size)
    np.add(size, ratio, out=out)


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


class _Fit(NamedTuple):
    """sum_i coefficients[i] t^(i + 1) with t = scale / (a + scale)."""

    scale: float
    coefficients: tuple[float, ...]


# Interpolation at the Chebyshev points of t for 0 <= a <= 14.5 and 38.6, beyond which exp(-a^2 / 2) is 0, computed with
# 50 digits; the relative errors, rounding included, are 3.3e-7 and 9e-16.
_SINGLE = _Fit(
    3.0,
    (
        0.1329484065, 0.1337044221, 0.1113564703, 0.1246047437, -0.06560384185, 0.2383471694, -0.2896100703,
        0.1390865859, -0.02483388648,
    ),
)  # fmt: skip
_DOUBLE = _Fit(
    5.0,
    (
        0.07978845604646642, 0.07978845814507987, 0.07659685992392917, 0.070214833388966, 0.06101057288368251,
        0.049887385458959474, 0.036942632479392425, 0.028828832021233403, 0.002625287791041838, 0.04549045344299818,
        -0.09301364219803947, 0.1814008673831841, -0.2777997701704991, 0.31659389065916244, -0.2675992295585986,
        0.14829559297109748, -0.03600527323274967, -0.012288273401059698, 0.01280755818557985, -0.004049182771793658,
        0.00048369055196716273,
    ),
)  # fmt: skip


def tail_ratio(a: Array, t: Array, out: Array) -> None:
    """Write exp(a^2 / 2) P(X > a) into `out` for standard normal X and a >= 0; `t` is work space of the same shape.

    The ratio falls smoothly from 1/2 like 1 / (a sqrt(2 pi)), so a polynomial in scale / (a + scale) gives it for all a:
    the idea of Shepherd and Laframboise, Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < infinity,
    Mathematics of Computation 36, 1981. Precision is that of the type of `out`, float32 or float64.
    """
    # A fit for float64 would take twice the terms for digits that float32 does not have.
    fit = _SINGLE if out.dtype.itemsize == 4 else _DOUBLE
    np.add(a, fit.scale, out=t)
    np.divide(fit.scale, t, out=t)
    # Horner's scheme, from the highest power on.
    *others, last = fit.coefficients
    np.multiply(t, last, out=out)
    for coefficient in reversed(others):
        np.add(out, coefficient, out=out)
        np.multiply(out, t, out=out)
