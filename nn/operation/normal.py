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

    With a = sqrt(2) |x| it is 1 - 2 P(X > a) for standard normal X, with the sign of x. Its error is that of rounding beside 1,
    6e-8 in float32.
    """

    # Forward reads x once more at its end, for the sign.
    in_place: ClassVar[bool] = False

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._first, self._second = (self.scratch.empty(output, dtype) for _ in range(2))

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

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(x, math.sqrt(2), out=self._first)
        magnitude(self._first, self._first)
        bell(self._first, self._second)
        np.multiply(self._second, 2 / math.sqrt(math.pi), out=self._second)
        np.multiply(gradient, self._second, out=out)


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
    # Horner's scheme, from the highest power on.
    *others, last = fit.coefficients
    np.multiply(t, last, out=out)
    for coefficient in reversed(others):
        np.add(out, coefficient, out=out)
        np.multiply(out, t, out=out)
