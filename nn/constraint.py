"""Constraints: sets to which a variable is brought back after each update, the same on every worker."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.lazy import unknown
from nn.value.value import Constraint as Constraint

__all__ = ["Constraint", "MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm"]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {"max_norm": "MaxNorm", "min_max_norm": "MinMaxNorm", "non_neg": "NonNeg", "unit_norm": "UnitNorm"}
)
"""Words of ConstraintName with the names of their classes, see `nn.names`."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        raise unknown(__name__, name)


#: Added to a norm by which is divided, as in Keras, so that zeros stay zeros.
_SMALL = 1e-7


class NonNeg(Constraint):
    """No number below 0: those become 0.

    >>> value = np.array([-1.0, 2.0])
    >>> nn.constraint.NonNeg().project(value)
    >>> value.tolist()
    [0.0, 2.0]
    """

    def project(self, value: Array) -> None:
        np.maximum(value, 0, out=value)


class _Norm(Constraint):
    """Common part of constraints of the Euclidean norms along some axes."""

    axis: int | list[int]

    def _settle(self, axis: int | Sequence[int]) -> int | list[int]:
        if isinstance(axis, (list, tuple)):
            return [arguments.integer(self, "axis", each, minimum=-32) for each in axis]
        return arguments.integer(self, "axis", axis, minimum=-32)

    def _norms(self, value: Array) -> Array:
        axes = (self.axis,) if isinstance(self.axis, int) else tuple(self.axis)
        if any(not -value.ndim <= axis < value.ndim for axis in axes):
            raise ValueError(f"{type(self).__name__} 'axis' must name axes of shape {value.shape}, got {self.axis}")
        norms: Array = np.sqrt(np.square(value).sum(axis=axes, keepdims=True))
        return norms


class MaxNorm(_Norm, configured=True):
    """Norms of at most `max_value`: larger ones are made that large (Srivastava et al., 2014).

    Args:
        max_value: the greatest norm, at least 0.
        axis: axes along which the norm is taken: 0 for the weights of each unit of a `Dense`, (0, 1, 2) for each filter of a
            `Conv2D`.

    >>> value = np.array([[3.0], [4.0]])
    >>> nn.constraint.MaxNorm(1.0).project(value)
    >>> value.round(3).tolist()
    [[0.6], [0.8]]
    """

    def __init__(self, max_value: float = 2.0, axis: int | Sequence[int] = 0) -> None:
        self.max_value = arguments.number(self, "max_value", max_value, 0)
        self.axis = self._settle(axis)

    def project(self, value: Array) -> None:
        norms = self._norms(value)
        # Shorter vectors keep their length but for the small number below.
        np.multiply(value, np.minimum(norms, self.max_value) / (norms + _SMALL), out=value)


class UnitNorm(_Norm, configured=True):
    """Norms of 1 along `axis`, which is as that of `MaxNorm`.

    >>> value = np.array([[3.0], [4.0]])
    >>> nn.constraint.UnitNorm().project(value)
    >>> value.round(3).tolist()
    [[0.6], [0.8]]
    """

    def __init__(self, axis: int | Sequence[int] = 0) -> None:
        self.axis = self._settle(axis)

    def project(self, value: Array) -> None:
        np.divide(value, self._norms(value) + _SMALL, out=value)


class MinMaxNorm(_Norm, configured=True):
    """Norms from `min_value` to `max_value`; `rate` of the way to the nearest bound is gone at each update.

    Args:
        min_value: the least norm, at least 0.
        max_value: the greatest norm, at least `min_value`.
        rate: share of the way, above 0, at most 1.
        axis: as that of `MaxNorm`.

    >>> value = np.array([[0.3], [0.4]])
    >>> nn.constraint.MinMaxNorm(1.0, 2.0).project(value)
    >>> value.round(3).tolist()
    [[0.6], [0.8]]
    """

    def __init__(
        self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: int | Sequence[int] = 0
    ) -> None:
        self.min_value = arguments.number(self, "min_value", min_value, 0)
        self.max_value = arguments.number(self, "max_value", max_value, self.min_value)
        # The upper bound of `number` is the first value beyond the range, and 1 is allowed.
        self.rate = arguments.number(self, "rate", rate, 0, math.nextafter(1, 2), open_low=True)
        self.axis = self._settle(axis)

    def project(self, value: Array) -> None:
        norms = self._norms(value)
        wanted = self.rate * np.clip(norms, self.min_value, self.max_value) + (1 - self.rate) * norms
        np.multiply(value, wanted / (norms + _SMALL), out=value)
