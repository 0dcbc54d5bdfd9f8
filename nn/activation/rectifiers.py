"""Rectifiers: activations that pass on positive numbers, and negative ones not or weakly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.activation.activation import Activation
from nn.activation.sigmoids import log_beside_zero
from nn.arrays import Array, Shape, zeros

LONG = 512
"""So many numbers of a sample are compared faster with one sample of zeros for all, which stays in the cache."""
LASTING = 8192
"""Bytes of zeros up to which an activation keeps them."""


class ReLU(Activation):
    """f(x) = max(x, 0); the derivative at 0 is taken as 0.

    Nair and Hinton, Rectified linear units improve restricted Boltzmann machines, ICML 2010.

    >>> nn.layer.Dense(10, activation=nn.activation.ReLU()).activation
    ReLU()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, math.inf)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        shape = output[1:] if math.prod(output[1:]) >= LONG else output
        # of a few numbers its own: in scratch memory others have computed since, and filling it takes as long as comparing
        self._lasts = math.prod(shape) * dtype.itemsize <= LASTING
        self._zero = zeros(shape, dtype) if self._lasts else self.scratch.empty(shape, dtype)
        self._positive = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        # NumPy compares with an array three times faster than with a number
        if not self._lasts:
            self._zero.fill(0)
        np.maximum(inputs[0], self._zero, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        if not self._lasts:
            self._zero.fill(0)
        # The output is positive just where x is, so x may be overwritten.
        np.greater(output, self._zero, out=self._positive)
        np.multiply(gradient, self._positive, out=out)


class LeakReLU(Activation, configured=True):
    """f(x) = x for x > 0, alpha x otherwise, with 0 <= alpha < 1; the derivative at 0 is taken as alpha.

    Maas, Hannun and Ng, Rectifier nonlinearities improve neural network acoustic models, ICML 2013. Raises TypeError or
    ValueError for another alpha.

    >>> nn.layer.Dense(10, activation=nn.activation.LeakReLU(alpha=0.1)).activation
    LeakReLU(alpha=0.1)
    """

    @arguments.also(leak_coefficient="alpha", negative_slope="alpha")
    def __init__(self, alpha: float = 0.01) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, 0, 1)

    @property
    def bounds(self) -> tuple[float, float]:  # type: ignore[override] # of the object, which others have of their class
        """Every number but with alpha 0, where it is `ReLU`."""
        return -math.inf if self.alpha else 0, math.inf

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work = self.scratch.empty(output, dtype)
        self._positive = self.scratch.empty(output, np.dtype(bool))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.multiply(inputs[0], self.alpha, out=self._work)
        # As alpha is below 1, the greater one is x where x is positive, else alpha x.
        np.maximum(inputs[0], self._work, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope, positive = self._work, self._positive
        # As alpha is at least 0, the output is positive just where x is, and x may be overwritten.
        np.greater(output, 0, out=positive)
        slope.fill(self.alpha)
        # 1 is above alpha.
        np.maximum(slope, positive, out=slope)
        np.multiply(gradient, slope, out=out)


class ELU(Activation, configured=True):
    """f(x) = x for x > 0, alpha (exp(x) - 1) otherwise, with alpha >= 0; f'(x) = 1 or f(x) + alpha, at 0 alpha.

    Clevert, Unterthiner and Hochreiter, Fast and accurate deep network learning by exponential linear units, ICLR 2016.
    Raises TypeError or ValueError for another alpha.

    >>> nn.layer.Dense(10, activation=nn.activation.ELU(alpha=0.5)).activation
    ELU(alpha=0.5)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = arguments.number(self, "alpha", alpha, 0)

    @property
    def bounds(self) -> tuple[float, float]:  # type: ignore[override] # as that of `LeakReLU`
        """-alpha and infinity."""
        return -self.alpha, math.inf

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work, self._zero = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        negative, zero = self._work, self._zero
        # NumPy compares with an array three times faster than with a number
        zero.fill(0)
        np.minimum(inputs[0], zero, out=negative)
        # Of min(x, 0): of a large x it would overflow.
        np.expm1(negative, out=negative)
        if self.alpha != 1:
            np.multiply(negative, self.alpha, out=negative)
        # One of both parts is 0 in each place: their sum chooses without a mask.
        np.maximum(inputs[0], zero, out=out)
        np.add(out, negative, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope, zero = self._work, self._zero
        zero.fill(0)
        np.minimum(output, zero, out=slope)
        # Where x > 0 this is alpha, which is right for the usual alpha of 1 alone.
        np.add(slope, self.alpha, out=slope)
        if self.alpha != 1:
            # As numbers: a copy by a mask takes some times as long where signs change from place to place.
            np.less_equal(output, 0, out=zero)
            np.multiply(slope, zero, out=slope)
            np.subtract(1, zero, out=zero)
            np.add(slope, zero, out=slope)
        np.multiply(gradient, slope, out=out)


class SELU(Activation):
    """f(x) = scale x for x > 0, scale alpha (exp(x) - 1) otherwise; f'(x) = scale or f(x) + scale alpha, at 0 the latter.

    With the initialiser `LecunNormal`, scale = 1.0507... and alpha = 1.6733... draw means of layers to 0 and variances to 1
    (Klambauer, Unterthiner, Mayr and Hochreiter, Self-normalizing neural networks, NIPS 2017).

    >>> nn.layer.Dense(10, "selu", kernel_initializer="lecun_normal").activation
    SELU()
    """

    # The least value is -scale alpha.
    bounds: ClassVar[tuple[float, float] | None] = (-1.7580993408473766, math.inf)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work, self._zero = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)
        # Exact, since one is less than twice the other: the sum of it and scale alpha is scale again.
        self._step = dtype.type(_SCALE) - dtype.type(_SCALE * _ALPHA)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        negative, zero = self._work, self._zero
        # NumPy compares with an array three times faster than with a number
        zero.fill(0)
        np.minimum(inputs[0], zero, out=negative)
        np.expm1(negative, out=negative)
        np.multiply(negative, _SCALE * _ALPHA, out=negative)
        np.maximum(inputs[0], zero, out=out)
        np.multiply(out, _SCALE, out=out)
        np.add(out, negative, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope, positive = self._work, self._zero
        positive.fill(0)
        np.minimum(output, positive, out=slope)
        np.add(slope, _SCALE * _ALPHA, out=slope)
        # As numbers: a copy by a mask takes four times as long as all of this where signs change from place to place.
        np.greater(output, 0, out=positive)
        np.multiply(positive, self._step, out=positive)
        np.add(slope, positive, out=slope)
        np.multiply(gradient, slope, out=out)


_SCALE, _ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


class ReLU6(Activation):
    """f(x) = max(0, min(x, 6)); f'(x) = 1 for 0 < x < 6, else 0.

    Krizhevsky, Convolutional deep belief networks on CIFAR-10, 2010; used where numbers are kept in few bits.

    >>> nn.layer.Dense(10, "relu6").activation
    ReLU6()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, 6)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._positive, self._below = (self.scratch.empty(output, np.dtype(bool)) for _ in range(2))

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        np.clip(inputs[0], 0, 6, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.greater(output, 0, out=self._positive)
        np.less(output, 6, out=self._below)
        np.logical_and(self._positive, self._below, out=self._positive)
        np.multiply(gradient, self._positive, out=out)


class Softplus(Activation):
    """f(x) = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), which never overflows; f'(x) = 1 - exp(-f(x)).

    Dugas, Bengio, Belisle, Nadeau and Garcia, Incorporating second-order functional knowledge for better option pricing,
    NIPS 2000.

    >>> nn.layer.Dense(10, activation=nn.activation.Softplus()).activation
    Softplus()
    """

    bounds: ClassVar[tuple[float, float] | None] = (0, math.inf)

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._work, self._zero = self.scratch.empty(output, dtype), self.scratch.empty(output, dtype)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        rest = self._work
        log_beside_zero(inputs[0], rest)
        # NumPy compares with an array three times faster than with a number
        self._zero.fill(0)
        np.maximum(inputs[0], self._zero, out=out)
        np.add(out, rest, out=out)

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        slope = self._work
        np.negative(output, out=slope)
        # Exact for small outputs, where 1 - exp(-f) would cancel.
        np.expm1(slope, out=slope)
        np.negative(slope, out=slope)
        np.multiply(gradient, slope, out=out)
