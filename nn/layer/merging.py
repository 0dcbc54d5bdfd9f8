"""Layers of several inputs: combined element by element, or one beside the other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from nn import arguments
from nn.arrays import BATCH
from nn.layer.layer import Layer, direct
from nn.operation.arithmetic import Maximum as MaximumOperation
from nn.operation.arithmetic import Minimum as MinimumOperation
from nn.operation.broadcasting import broadcast_shape
from nn.operation.shape import Concatenate as ConcatenateOperation
from nn.value.value import Value


class _Merging(Layer, ABC):
    """Common part of layers that combine values one after the other; shapes are equal or broadcast as in NumPy.

    The batch is the first axis of all: (batch, f) beside (batch, t, f) is (batch, 1, f).
    """

    several: ClassVar[bool] = True

    def call(self, x: Sequence[Value]) -> Value:
        rank = max(len(value.shape) for value in x)
        total, *others = (_raised(value, rank) for value in x)
        for value in others:
            # Checked here, so that the error names the layer and the shapes that it was given.
            try:
                broadcast_shape(self.describe(), total.shape, value.shape)
            except ValueError:
                given = " and ".join(str(each.shape) for each in x)
                raise ValueError(f"{self.describe()}: shapes {given} do not fit together") from None
            total = self.combine(total, value)
        return total

    @abstractmethod
    def combine(self, a: Value, b: Value) -> Value:
        """Return the result for two values.

        Args:
            a, b: the values.
        """


def _raised(value: Value, rank: int) -> Value:
    """Return a value for each sample with axes of length 1 behind the batch, up to this number of axes."""
    missing = rank - len(value.shape)
    # NumPy would put them in front of the batch, which has no place but the first.
    return value[(slice(None), *(None,) * missing)] if missing and value.shape[:1] == (BATCH,) else value


class Add(_Merging):
    """a + b + ..., as in a residual connection. Shapes are equal or broadcast as in NumPy, behind the batch.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Add()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a + b


class Multiply(_Merging):
    """a * b * ..., as in a gate. Shapes are equal or broadcast as in NumPy, behind the batch.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Multiply()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a * b


class Maximum(_Merging):
    """The greatest of a, b, ... in every place. Shapes are equal or broadcast as in NumPy, behind the batch.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Maximum()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a.apply(MaximumOperation(), b)


class Minimum(_Merging):
    """The least of a, b, ... in every place. Shapes are equal or broadcast as in NumPy, behind the batch.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Minimum()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def combine(self, a: Value, b: Value) -> Value:
        return a.apply(MinimumOperation(), b)


class Subtract(_Merging):
    """a - b, of two values. Shapes are equal or broadcast as in NumPy, behind the batch.

    Raises ValueError naming shapes that do not fit together, and for another number of values.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Subtract()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def call(self, x: Sequence[Value]) -> Value:
        if len(x) != 2:
            raise ValueError(f"expected two values, got {len(x)}")
        return super().call(x)

    def combine(self, a: Value, b: Value) -> Value:
        return a - b


class Average(_Merging):
    """(a + b + ...) / n, of n values. Shapes are equal or broadcast as in NumPy, behind the batch.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Average()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    def call(self, x: Sequence[Value]) -> Value:
        total = super().call(x)
        # One value is its own mean, and needs no operation.
        return total / len(x) if len(x) > 1 else total

    def combine(self, a: Value, b: Value) -> Value:
        return a + b


class Concatenate(Layer, configured=True):
    """Inputs joined along one axis, by default the features: (batch, a), (batch, b) give (batch, a + b).

    The other axes must be equal, and the joined one is not the batch; else ValueError.

    Args:
        axis: the axis, counted from the end where negative.
        name: as of `Layer`.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Concatenate()([x, nn.layer.Dense(10)(x)]).shape
    (-1, 74)
    """

    several: ClassVar[bool] = True

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        # No array of NumPy 1.26 has more than 32 axes.
        self.axis = arguments.integer(self, "axis", axis, minimum=-32)

    def call(self, x: Sequence[Value]) -> Value:
        return direct(ConcatenateOperation(self.axis), *x)


class Dot(Layer, configured=True):
    """Products of two inputs, sample by sample, summed over one axis of each: cosine similarities, or scores of attention.

    Shapes: (batch, n) and (batch, n) to (batch, 1); (batch, t, n) and (batch, s, n) to (batch, t, s); (batch, n) and
    (batch, s, n) to (batch, s). The axes left of the first stand before those left of the second.

    Args:
        axes: axis to sum over, of both or a pair; not the batch. Counted from the end where negative.
        normalize: whether each vector along the axis is divided by its length first, so that the result is the cosine.
        name: name of the layer; default: its class and a number.

    Raises ValueError for another number of values, axes that do not exist, and lengths that differ.

    >>> a, b = nn.Placeholder([-1, 5, 8]), nn.Placeholder([-1, 7, 8])
    >>> nn.layer.Dot(axes=-1)([a, b]).shape
    (-1, 5, 7)
    """

    several: ClassVar[bool] = True

    def __init__(self, axes: int | Sequence[int] = -1, normalize: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        pair = list(axes) if isinstance(axes, (list, tuple)) else [axes, axes]
        if len(pair) != 2:
            raise ValueError(f"Dot 'axes' must be an axis or a pair of axes, got {axes!r}")
        # Counted from the end: behind the batch there are two axes at most.
        first, second = (arguments.integer(self, "axes", axis, minimum=-2) for axis in pair)
        self.axes = (first, second)
        self.normalize = arguments.flag(self, "normalize", normalize)

    def call(self, x: Sequence[Value]) -> Value:
        if len(x) != 2:
            raise ValueError(f"expected two values, got {len(x)}")
        a, b = (self._led(value, axis) for value, axis in zip(x, self.axes, strict=True))
        if a.shape[-1] != b.shape[-1]:
            raise ValueError(f"axes {list(self.axes)} of shapes {x[0].shape} and {x[1].shape} must have one length")
        product = a @ b.swapaxes(-1, -2)
        # Of a vector `_led` has made a matrix of one row, an axis that the result does not have; of two vectors one
        # axis is left.
        left = [value.shape[1] for value, given in zip((a, b), x, strict=True) if len(given.shape) == 3]
        return product.reshape(BATCH, *(left or [1]))

    def _led(self, value: Value, axis: int) -> Value:
        """Return a value as (batch, vectors, n), with the axis to sum over last."""
        rank = len(value.shape)
        if rank not in (2, 3) or axis % rank == 0 or not -rank <= axis < rank:
            raise ValueError(f"expected (batch, n) or (batch, t, n) with an axis {axis} behind the batch, got {value.shape}")
        rows = value.reshape(BATCH, 1, value.shape[1]) if rank == 2 else value
        if rank == 3 and axis % rank == 1:
            rows = rows.swapaxes(1, 2)
        if self.normalize:
            squares = (rows**2).sum(axis=-1, keepdims=True)
            rows = rows / (squares + SMALLEST).sqrt()
        return rows


SMALLEST = 1e-12
"""Added to the square of a length, so that a vector of zeros has a cosine of 0."""
