"""Regularisers: penalties of the size of a variable, which the loss of a model contains.

The penalty of a layer's variables is added to the loss of every block, in training and in `evaluate`, and its gradient to
theirs: so it is part of the gradient that a codec sends and a rule sees, unlike the weight decay of a rule.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.lazy import unknown
from nn.value.value import Regularizer as Regularizer

__all__ = ["L1", "L1L2", "L2", "Regularizer"]
WORDS: Final[Mapping[str, str]] = MappingProxyType({"l1": "L1", "l1_l2": "L1L2", "l2": "L2"})
"""Words of RegularizerName with the names of their classes, see `nn.names`."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise unknown(__name__, name)


class L1L2(Regularizer, configured=True):
    """l1 * sum |w| + l2 * sum w^2, with the gradient l1 * sign(w) + 2 * l2 * w, as in Keras.

    Args:
        l1: weight of the magnitudes, at least 0.
        l2: weight of the squares, at least 0.

    >>> nn.regularizer.L1L2(l1=0.5, l2=1.0).penalty(np.array([1.0, -2.0]))
    6.5
    """

    def __init__(self, l1: float = 0.0, l2: float = 0.0) -> None:
        self.l1 = arguments.number(self, "l1", l1, 0)
        self.l2 = arguments.number(self, "l2", l2, 0)

    def penalty(self, value: Array) -> float:
        return _penalty(self.l1, self.l2, value)

    def add_gradient(self, value: Array, gradient: Array, work: Array) -> None:
        _add(self.l1, self.l2, value, gradient, work)


class L1(Regularizer, configured=True):
    """l1 * sum |w|, which draws numbers to 0 until they are there.

    >>> nn.layer.Dense(10, kernel_regularizer="l1").kernel_regularizer
    L1(l1=0.01)
    """

    def __init__(self, l1: float = 0.01) -> None:
        self.l1 = arguments.number(self, "l1", l1, 0)

    def penalty(self, value: Array) -> float:
        return _penalty(self.l1, 0, value)

    def add_gradient(self, value: Array, gradient: Array, work: Array) -> None:
        _add(self.l1, 0, value, gradient, work)


class L2(Regularizer, configured=True):
    """l2 * sum w^2, which draws large numbers to 0 most.

    >>> nn.layer.Dense(10, kernel_regularizer=nn.regularizer.L2(1e-4)).kernel_regularizer
    L2(l2=0.0001)
    """

    def __init__(self, l2: float = 0.01) -> None:
        self.l2 = arguments.number(self, "l2", l2, 0)

    def penalty(self, value: Array) -> float:
        return _penalty(0, self.l2, value)

    def add_gradient(self, value: Array, gradient: Array, work: Array) -> None:
        _add(0, self.l2, value, gradient, work)


def _penalty(l1: float, l2: float, value: Array) -> float:
    total = 0.0
    if l1:
        # In float64: the sum of millions of numbers in float32 would lose digits.
        total += l1 * float(np.abs(value).sum(dtype=np.float64))
    if l2:
        total += l2 * float(np.square(value).sum(dtype=np.float64))
    return total


def _add(l1: float, l2: float, value: Array, gradient: Array, work: Array) -> None:
    if l1:
        # 0 at 0, so that a number stays there.
        np.sign(value, out=work)
        np.multiply(work, l1, out=work)
        np.add(gradient, work, out=gradient)
    if l2:
        np.multiply(value, 2 * l2, out=work)
        np.add(gradient, work, out=gradient)
