"""The logistic function, the hyperbolic tangent, activations that are made of them or take their place, and probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.activation.activation import Activation
from nn.arrays import Array, Shape
from nn.operation.broadcasting import ShortBuffer
from nn.operation.reduction import maximum_of_rows

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


def log_beside_zero(x: Array, out: Array) -> None:
    """Write log(1 + exp(-|x|)) into `out`, other memory: log(1 + exp(x)) without max(x, 0), so that nothing overflows."""
    np.abs(x, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)
    # exp(-|x|) is at most 1; beside 1 a small one would be lost in log(1 + ...).
    np.log1p(out, out=out)


#: From here on s(-x) is 0 in every digit: larger numbers may stand here, so that no infinity meets a 0.
_FAR = 1000.0
#: Greater than all numbers beside which 1 counts, and finite in float32.
_INFINITE = 1e30


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


class HardSigmoid(Activation):
    """f(x) = max(0, min(x / 6 + 1 / 2, 1)), a straight line in place of `Sigmoid`; f'(x) = 1 / 6 for -3 < x < 3, else 0.

    >>> nn.layer.Dense(10, "hard_sigmoid").activation
    HardSigmoid()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._positive, self._below = (self.scratch.empty(output, np.dtype(bool)) for _ in range(2))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.multiply(inputs[0], 1 / 6, out=out)
        np.add(out, 0.5, out=out)
        np.clip(out, 0, 1, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.greater(output, 0, out=self._positive)
        np.less(output, 1, out=self._below)
        np.logical_and(self._positive, self._below, out=self._positive)
        np.multiply(gradient, 1 / 6, out=out)
        np.multiply(out, self._positive, out=out)


class HardSwish(Activation):
    """f(x) = x h(x) with h = `HardSigmoid`, a parabola in place of `SiLU`; f'(x) = 0 for x <= -3, x / 3 + 1 / 2, 1 for x >= 3.

    Howard et al., Searching for MobileNetV3, ICCV 2019.

    >>> nn.layer.Dense(10, "hard_swish").activation
    HardSwish()
    """

    reads_output: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-0.375, math.inf)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        # Backward reads it in place of x, whose memory is free for the output.
        self._cut = (self._lasting if self.training else self.scratch).empty(output, dtype)
        self._slope, self._work = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        cut, near = self._cut, self._work
        np.clip(inputs[0], -3, 3, out=cut)
        # At least -3, so that no infinity meets a 0.
        np.maximum(inputs[0], cut, out=near)
        np.add(cut, 3, out=out)
        np.multiply(out, 1 / 6, out=out)
        np.multiply(near, out, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope, beyond = self._slope, self._work
        np.multiply(self._cut, 1 / 3, out=slope)
        # -1 or 1 where x was cut off, else 0: as numbers, since a copy by a mask takes some times as long.
        np.trunc(slope, out=beyond)
        np.multiply(beyond, 0.5, out=beyond)
        np.subtract(slope, beyond, out=slope)
        np.add(slope, 0.5, out=slope)
        np.multiply(gradient, slope, out=out)


class Mish(Activation):
    """f(x) = x tanh(log(1 + exp(x))).

    With e = exp(x) and n = e (e + 2) it is x n / (n + 2), and f'(x) = n / (n + 2) + 4 x e (1 + e) / (n + 2)^2. Misra, Mish: A
    self regularized non-monotonic activation function, BMVC 2020.

    >>> nn.layer.Dense(10, "mish").activation
    Mish()
    """

    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-0.31, math.inf)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._near, self._power, self._both, self._share = (self.scratch.empty(output, dtype) for _ in range(4))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        self._prepare(inputs[0])
        np.maximum(inputs[0], -_FAR, out=self._near)
        np.multiply(self._near, self._share, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        self._prepare(x)
        slope, power, both = self._near, self._power, self._both
        np.multiply(slope, power, out=slope)
        np.add(power, 1, out=power)
        np.multiply(slope, power, out=slope)
        # Twice: the square of n + 2 would come to 1.7e38 at 22, half of the largest float32.
        np.divide(slope, both, out=slope)
        np.divide(slope, both, out=slope)
        np.multiply(slope, 4, out=slope)
        np.add(slope, self._share, out=slope)
        np.multiply(gradient, slope, out=out)

    def _prepare(self, x: Array) -> None:
        """Compute e, n + 2 and n / (n + 2); from 22 on the last one and the slope are 1 in every digit."""
        np.clip(x, -_FAR, 22, out=self._near)
        np.exp(self._near, out=self._power)
        # n + 2 is the denominator, n = e (e + 2).
        np.add(self._power, 2, out=self._both)
        np.multiply(self._both, self._power, out=self._share)
        np.add(self._share, 2, out=self._both)
        np.divide(self._share, self._both, out=self._share)


class Softsign(Activation):
    """f(x) = x / (1 + |x|), which nears its bounds more slowly than `Tanh`; f'(x) = 1 / (1 + |x|)^2.

    >>> nn.layer.Dense(10, "softsign").activation
    Softsign()
    """

    # From the output, (1 - |f(x)|)^2 would lose the digits that f(x) has no room for: half of them at 1,000 in float32.
    reads_inputs: ClassVar[bool] = True
    reads_output: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-1, 1)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work = self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.abs(inputs[0], out=self._work)
        np.add(self._work, 1, out=self._work)
        # An infinity over itself would be NaN; beyond this the quotient is 1 in every digit.
        np.clip(inputs[0], -_INFINITE, _INFINITE, out=out)
        np.clip(self._work, 1, _INFINITE, out=self._work)
        np.divide(out, self._work, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope = self._work
        np.abs(x, out=slope)
        np.add(slope, 1, out=slope)
        np.reciprocal(slope, out=slope)
        np.multiply(slope, slope, out=slope)
        np.multiply(gradient, slope, out=out)


class LogSigmoid(Activation):
    """f(x) = log(1 / (1 + exp(-x))) = min(x, 0) - log(1 + exp(-|x|)), which never overflows; f'(x) = 1 - exp(f(x)).

    >>> nn.layer.Dense(10, "log_sigmoid").activation
    LogSigmoid()
    """

    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, 0)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work, self._zero = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        rest = self._work
        log_beside_zero(inputs[0], rest)
        # NumPy compares with an array three times faster than with a number
        self._zero.fill(0)
        np.minimum(inputs[0], self._zero, out=out)
        np.subtract(out, rest, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope = self._work
        # Exact for outputs near 0, where 1 - exp(f) would cancel.
        np.expm1(output, out=slope)
        np.negative(slope, out=slope)
        np.multiply(gradient, slope, out=out)


class Exponential(Activation):
    """f(x) = exp(x), for rates and other positive numbers.

    >>> nn.layer.Dense(1, "exponential").activation
    Exponential()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, math.inf)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.exp(inputs[0], out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, output, out=out)


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
        self._buffer = ShortBuffer(output[-1], math.prod(output))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        row, x = self._row, inputs[0]
        with self._buffer:
            if row.size == 1:
                # One row: a number is subtracted faster than an array.
                np.subtract(x, x.item(x.argmax()), out)
            else:
                np.subtract(x, maximum_of_rows(x, row), out)
            np.exp(out, out)
            np.matmul(out, self._ones, row)
            np.divide(out, row, out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, output, out=self._product)
        # A product with ones sums rows faster than a reduction of NumPy over short rows.
        np.matmul(self._product, self._ones, self._row)
        with self._buffer:
            np.subtract(gradient, self._row, out=out)
        np.multiply(out, output, out=out)


class LogSoftmax(Activation):
    """f(x)_i = x_i - log(sum_j exp(x_j)) over the last axis, shifted by the maximum so that it never overflows.

    The gradient is g_i - exp(f_i) sum_j g_j.

    >>> nn.layer.Dense(10, "log_softmax").activation
    LogSoftmax()
    """

    reads_output: ClassVar[bool] = False
    bounds: ClassVar[tuple[float, float] | None] = (-math.inf, 0)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        rows = (*output[:-1], 1)
        # Powers take as long as four other passes, so backward reads those of forward.
        memory = self._lasting if self.training else self.scratch
        self._powers, self._sum = memory.empty(output, dtype), memory.empty(rows, dtype)
        self._row, self._product = self.scratch.empty(rows, dtype), self.scratch.empty(output, dtype)
        self._ones = np.ones((output[-1], 1), dtype)
        self._buffer = ShortBuffer(output[-1], math.prod(output))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        with self._buffer:
            np.subtract(inputs[0], maximum_of_rows(inputs[0], self._row), out=out)
            # At most 1, since the maximum was subtracted: the sum neither overflows nor is 0.
            np.exp(out, out=self._powers)
            np.matmul(self._powers, self._ones, out=self._sum)
            np.log(self._sum, out=self._row)
            np.subtract(out, self._row, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.matmul(gradient, self._ones, out=self._row)
        np.divide(self._row, self._sum, out=self._row)
        with self._buffer:
            np.multiply(self._powers, self._row, out=self._product)
        np.subtract(gradient, self._product, out=out)
