"""The logistic function, the hyperbolic tangent, and activations made of them; probabilities from scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape

SURE = 80.0
"""From here on the result is 1 in every digit. exp(x) overflows beyond 88 in float32."""


class Sigmoid(Activation):
    """f(x) = 1 / (1 + exp(-x)), to a few units in the last place also where it is close to 0; f'(x) = f(x) (1 - f(x)).

    Before the loss `Binary_Cross_Entropy` neither is computed: the loss takes the scores themselves.

    >>> nn.layer.Dense(10, activation=nn.activation.Sigmoid()).activation
    Sigmoid()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        logistic(inputs[0], self._work, out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope = self._work
        np.subtract(1, output, out=slope)
        np.multiply(slope, output, out=slope)
        np.multiply(gradient, slope, out=out)


def logistic(x: Array, work: Array, out: Array) -> None:
    """Write 1 / (1 + exp(-x)) into `out`, which may be the memory of `x`; `work` is other memory of the same shape."""
    # NumPy finds the place of a maximum several times faster than a maximum; written so that NaN counts as too far
    if not x.item(x.argmax()) < SURE:
        x = np.minimum(x, SURE, out=out)
    bounded_logistic(x, work, out)


def bounded_logistic(x: Array, work: Array, out: Array) -> None:
    """Write exp(x) / (1 + exp(x)) into `out` and 1 + exp(x) into `work`, for x up to `SURE`.

    (1 + tanh(x / 2)) / 2 cancels to the left: in float32 no digit is left of it at -20.
    """
    np.exp(x, out=out)
    np.add(out, 1, out=work)
    np.divide(out, work, out=out)


_FAR = 1000.0
"""From here on s(-x) is 0 in every digit: larger numbers may stand here, so that no infinity meets a 0."""


class SiLU(Activation):
    """f(x) = x s(x) with the logistic function s, also called swish; f'(x) = s(x) (1 + x (1 - s(x))).

    Elfwing, Uchibe and Doya, Sigmoid-weighted linear units for neural network function approximation in reinforcement
    learning, Neural Networks 107, 2018.

    >>> nn.layer.Dense(10, activation=nn.activation.SiLU()).activation
    SiLU()
    """

    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-0.28, math.inf)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._logistic, self._slope, self._near = (self.scratch.empty(output, dtype) for _ in range(3))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        near = inputs[0]
        if not near.item(near.argmin()) > -_FAR:
            near = np.clip(near, -_FAR, np.inf, out=self._near)
        logistic(near, self._slope, self._logistic)
        np.multiply(near, self._logistic, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope, near = self._slope, x
        if not (x.item(x.argmin()) > -_FAR and x.item(x.argmax()) < SURE):
            near = np.clip(x, -_FAR, SURE, out=self._near)
        bounded_logistic(near, slope, self._logistic)
        # 1 - s(x) = 1 / (1 + exp(x)), which does not cancel
        np.divide(near, slope, out=slope)
        np.add(slope, 1, out=slope)
        np.multiply(slope, self._logistic, out=slope)
        np.multiply(gradient, slope, out=out)


class Tanh(Activation):
    """f(x) = tanh(x), f'(x) = 1 - f(x)^2.

    >>> nn.layer.Dense(10, activation=nn.activation.Tanh()).activation
    Tanh()
    """

    bounds: ClassVar[tuple[float, float] | None] = (-1, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._slope = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.tanh(inputs[0], out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope = self._slope
        np.multiply(output, output, out=slope)
        np.subtract(1, slope, out=slope)
        np.multiply(gradient, slope, out=out)


class HTanh(Activation):
    """f(x) = max(-1, min(x, 1)); f'(x) = 1 for -1 < x < 1, else 0.

    Collobert, Large scale machine learning, thesis, Universite Paris VI, 2004.

    >>> nn.layer.Dense(10, activation=nn.activation.HTanh()).activation
    HTanh()
    """

    bounds: ClassVar[tuple[float, float] | None] = (-1, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work = self.scratch.empty(output, dtype)
        self._within = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        bound = self._work
        # NumPy compares with an array three times faster than with a number
        bound.fill(1)
        np.minimum(inputs[0], bound, out=out)
        bound.fill(-1)
        np.maximum(out, bound, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.abs(output, out=self._work)
        np.less(self._work, 1, out=self._within)
        np.multiply(gradient, self._within, out=out)


class Softmax(Activation):
    """f(x)_i = exp(x_i) / sum_j exp(x_j) over the last axis, shifted by the maximum so that it never overflows.

    The gradient is the product with the true Jacobian: f_i (g_i - sum_j g_j f_j). Before the loss
    `Cross_Entropy_With_Softmax` neither is computed: the loss takes the scores themselves.

    >>> nn.layer.Dense(10, activation=nn.activation.Softmax()).activation
    Softmax()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._row = self.scratch.empty((*output[:-1], 1), dtype)
        self._product = self.scratch.empty(output, dtype)
        self._ones = np.ones((output[-1], 1), dtype)
        self._firsts = np.arange(0, math.prod(output), output[-1])

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        row, x = self._row, inputs[0]
        if self._firsts.size == 1:
            np.subtract(x, x.item(x.argmax()), out)
        elif x.flags.c_contiguous:
            # NumPy finds the place of a maximum several times faster than a maximum, and BLAS sums faster than NumPy
            places = x.reshape(-1, x.shape[-1]).argmax(axis=1)
            np.add(places, self._firsts, out=places)
            x.take(places, out=row.reshape(-1), mode="clip")
            np.subtract(x, row, out)
        else:
            np.maximum.reduce(x, axis=-1, keepdims=True, out=row)
            np.subtract(x, row, out)
        np.exp(out, out)
        np.matmul(out, self._ones, row)
        np.divide(out, row, out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, output, out=self._product)
        np.matmul(self._product, self._ones, self._row)
        np.subtract(gradient, self._row, out=out)
        np.multiply(out, output, out=out)
