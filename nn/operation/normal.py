"""The tail of the normal distribution, which NumPy does not have, and the error function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.elementwise import Elementwise

FAR = 40.0
"""From here on the tail of the normal distribution is 0 in every digit: larger numbers may stand here, so that nothing
overflows and no infinity meets a 0."""


def magnitude(x: Array, out: Array) -> None:
    """Write |x|, with `FAR` in place of larger numbers."""
    np.abs(x, out=out)
    np.clip(out, 0, FAR, out=out)


def bell(x: Array, out: Array) -> None:
    """Write exp(-x^2 / 2)."""
    np.multiply(x, x, out=out)
    np.multiply(out, -0.5, out=out)
    np.exp(out, out=out)


class Erf(Elementwise):
    """erf(x) = 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x; the derivative is 2 exp(-x^2) / sqrt(pi).

    With a = sqrt(2) |x| it is 1 - 2 P(X > a) for standard normal X, with the sign of x. Where |x| is below 1 that would cancel,
    and x times a polynomial in x^2 stands for it, so the error is that of rounding for small x, too.
    """

    # Forward reads x once more at its end, for the sign.
    in_place: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._first, self._second = (self.scratch.empty(output, dtype) for _ in range(2))
        self._near = self.scratch.empty(output, np.dtype(bool))
        self._series = _NEAR_SINGLE if dtype.itemsize == 4 else _NEAR_DOUBLE

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        scaled, tail = self._first, self._second
        np.multiply(inputs[0], math.sqrt(2), out=scaled)
        magnitude(scaled, scaled)
        tail_ratio(scaled, out, tail)
        bell(scaled, out)
        np.multiply(tail, out, out=out)
        np.multiply(out, -2, out=out)
        np.add(out, 1, out=out)
        np.copysign(out, inputs[0], out=out)
        square, near = self._first, self._second
        np.clip(inputs[0], -1, 1, out=near)
        np.multiply(near, near, out=square)
        np.less(square, 1, out=self._near)
        _powers(square, self._series[1:], near)
        np.add(near, self._series[0], out=near)
        np.multiply(near, inputs[0], out=out, where=self._near)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(x, math.sqrt(2), out=self._first)
        magnitude(self._first, self._first)
        bell(self._first, self._second)
        np.multiply(self._second, 2 / math.sqrt(math.pi), out=self._second)
        np.multiply(gradient, self._second, out=out)


# Interpolation of erf(x) / x at the Chebyshev points of x^2 for 0 <= x^2 <= 1, computed with 50 digits; the relative errors of
# erf, rounding included, are 1.6e-7 and 2.1e-16.
_NEAR_SINGLE = (
    1.1283791658483509, -0.37612626666720334, 0.11283594715160218, -0.026854212010626412, 0.005189087423433974,
    -0.000801686428716587, 7.875875062685488e-05,
)  # fmt: skip
_NEAR_DOUBLE = (
    1.1283791670955126, -0.3761263890318375, 0.11283791670954879, -0.026866170645076792, 0.0052239776248180145,
    -0.000854832698083379, 0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06, -1.6350312701054695e-07,
    1.4659775274047436e-08, -1.1372848856791674e-09, 5.957176147748911e-11,
)  # fmt: skip


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
    # The fit for float64 has more than twice the terms, for digits that float32 does not have.
    fit = _SINGLE if out.dtype.itemsize == 4 else _DOUBLE
    np.add(a, fit.scale, out=t)
    np.divide(fit.scale, t, out=t)
    _powers(t, fit.coefficients, out)


def _powers(x: Array, coefficients: Sequence[float], out: Array) -> None:
    """Write sum_i coefficients[i] x^(i + 1) into `out`, other memory, by Horner's scheme: from the highest power on."""
    *others, last = coefficients
    np.multiply(x, last, out=out)
    for coefficient in reversed(others):
        np.add(out, coefficient, out=out)
        np.multiply(out, x, out=out)
