"""Trigonometric and hyperbolic functions and their inverses, of single elements.

Each is NumPy's function and not a formula of exponentials, which would lose the digits of small results and overflow too early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import Array, Shape
from nn.operation.elementwise import Sloped


class Sin(Sloped):
    """sin(a), of an angle in radians; the derivative is cos(a)."""

    function: ClassVar[np.ufunc] = np.sin

    def slope(self, x: Array, out: Array) -> None:
        np.cos(x, out=out)


class Cos(Sloped):
    """cos(a), of an angle in radians; the derivative is -sin(a)."""

    function: ClassVar[np.ufunc] = np.cos

    def slope(self, x: Array, out: Array) -> None:
        np.sin(x, out=out)
        np.negative(out, out=out)


class Tan(Sloped):
    """tan(a), of an angle in radians; the derivative is 1 / cos(a)^2."""

    function: ClassVar[np.ufunc] = np.tan

    def slope(self, x: Array, out: Array) -> None:
        np.cos(x, out=out)
        np.multiply(out, out, out=out)
        np.reciprocal(out, out=out)


class _Factored(Sloped):
    """A function whose derivative is computed from two factors, where a square would cancel or overflow."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        super().allocate(shapes, output, dtype)
        self._factor = self.scratch.empty(output, dtype)

    def rest(self, x: Array, out: Array) -> None:
        """Write 1 - x^2 as (1 - |x|) (1 + |x|), which keeps its digits towards the ends."""
        np.abs(x, out=out)
        np.add(out, 1, out=self._factor)
        np.subtract(1, out, out=out)
        np.multiply(out, self._factor, out=out)


class Arcsin(_Factored):
    """arcsin(a), an angle in radians, for a between -1 and 1; the derivative is 1 / sqrt(1 - a^2), infinite at both ends."""

    function: ClassVar[np.ufunc] = np.arcsin

    def slope(self, x: Array, out: Array) -> None:
        self.rest(x, out)
        np.sqrt(out, out=out)
        np.reciprocal(out, out=out)


class Arccos(Arcsin):
    """arccos(a), an angle in radians between 0 and pi, for a between -1 and 1; the derivative is -1 / sqrt(1 - a^2)."""

    function: ClassVar[np.ufunc] = np.arccos

    def slope(self, x: Array, out: Array) -> None:
        super().slope(x, out)
        np.negative(out, out=out)


class Arctan(Sloped):
    """arctan(a), an angle in radians between -pi / 2 and pi / 2; the derivative is 1 / (1 + a^2)."""

    function: ClassVar[np.ufunc] = np.arctan

    def slope(self, x: Array, out: Array) -> None:
        np.multiply(x, x, out=out)
        np.add(out, 1, out=out)
        np.reciprocal(out, out=out)


class Sinh(Sloped):
    """sinh(a) = (exp(a) - exp(-a)) / 2; the derivative is cosh(a)."""

    function: ClassVar[np.ufunc] = np.sinh

    def slope(self, x: Array, out: Array) -> None:
        np.cosh(x, out=out)


class Cosh(Sloped):
    """cosh(a) = (exp(a) + exp(-a)) / 2; the derivative is sinh(a)."""

    function: ClassVar[np.ufunc] = np.cosh

    def slope(self, x: Array, out: Array) -> None:
        np.sinh(x, out=out)


class Arcsinh(Sloped):
    """The number of which a is the hyperbolic sine; the derivative is 1 / sqrt(a^2 + 1)."""

    function: ClassVar[np.ufunc] = np.arcsinh

    def slope(self, x: Array, out: Array) -> None:
        # The square of a overflows from 1.8e19 on in float32, the length of (a, 1) does not.
        np.hypot(x, 1, out=out)
        np.reciprocal(out, out=out)


class Arccosh(_Factored):
    """The number at least 0 of which a is the hyperbolic cosine, for a >= 1; the derivative is 1 / sqrt(a^2 - 1)."""

    function: ClassVar[np.ufunc] = np.arccosh

    def slope(self, x: Array, out: Array) -> None:
        # By two roots: the square of a overflows from 1.8e19 on in float32, and a^2 - 1 cancels near 1.
        np.subtract(x, 1, out=out)
        np.sqrt(out, out=out)
        np.add(x, 1, out=self._factor)
        np.sqrt(self._factor, out=self._factor)
        np.multiply(out, self._factor, out=out)
        np.reciprocal(out, out=out)


class Arctanh(_Factored):
    """The number of which a is the hyperbolic tangent, for a between -1 and 1; the derivative is 1 / (1 - a^2)."""

    function: ClassVar[np.ufunc] = np.arctanh

    def slope(self, x: Array, out: Array) -> None:
        self.rest(x, out)
        np.reciprocal(out, out=out)
