"""Element-wise operations on arrays with NumPy's broadcasting, and the way back: sums over the repeated axes."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.batch_axis import batch_leads
from nn.operation.operation import Operation
from nn.operation.summation import Summation
from nn.scratch import Scratch


def broadcast_shape(owner: str, first: Shape, second: Shape) -> Shape:
    """Return the common shape of two arrays; the unknown batch axis fits itself and 1."""
    length = max(len(first), len(second))
    axes = []
    for a, b in zip((1,) * (length - len(first)) + first, (1,) * (length - len(second)) + second, strict=True):
        if a != b and 1 not in (a, b):
            raise ValueError(f"{owner}: shapes {first} and {second} do not fit together")
        axes.append(b if a == 1 else a)
    return tuple(axes)


def batch_stays_aside(shapes: Sequence[Shape], full: Shape) -> bool:
    """Whether inputs that broadcast to `full` can be cut along its batch axis.

    The batch must be the first axis of the whole and of every input that has it.
    """
    return batch_leads(full) and all(BATCH not in shape or (batch_leads(shape) and len(shape) == len(full)) for shape in shapes)


class Unbroadcast:
    """Brings a gradient of the broadcast shape back to the shape of one operand."""

    def __init__(self, shape: Shape, full: Shape, dtype: np.dtype[Any], scratch: Scratch) -> None:
        self._shape, self._full = shape, full
        padded = (1,) * (len(full) - len(shape)) + shape
        axes = [axis for axis, (a, b) in enumerate(zip(padded, full, strict=True)) if a != b]
        self._sum = Summation(full, axes, dtype, scratch) if axes else None

    @property
    def sums(self) -> bool:
        """Whether there is anything to add up."""
        return self._sum is not None

    def reduce(self, gradient: Array, wanted: Array) -> None:
        """Write the sum of `gradient` over the repeated axes into `wanted`; nothing where they are the same memory."""
        if self._sum is not None:
            self._sum(gradient, wanted)
        elif not np.may_share_memory(gradient, wanted):
            np.copyto(wanted, gradient.reshape(self._shape))


class Broadcasting(Operation):
    """An element-wise operation on arrays; a subclass gives its value and its partial derivatives."""

    in_place: ClassVar[bool] = True

    computes: ClassVar[bool] = True
    """Whether `partial` computes in the memory it is given."""

    def infer(self, *shapes: Shape) -> Shape:
        """Return the broadcast shape."""
        return reduce(lambda first, second: broadcast_shape(type(self).__name__, first, second), shapes)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis of the output and of every input that has it."""
        return batch_stays_aside(shapes, self.infer(*shapes))

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Plan the sums over repeated axes."""
        self._sides = [Unbroadcast(shape, output, dtype, self.scratch) for shape in shapes]
        needed = self.computes and any(side.sums for side in self._sides)
        self._space = self.scratch.empty(output if needed else (0,), dtype)

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Compute each wanted partial product and sum it over the repeated axes; that of the first input last."""
        for side in reversed(range(len(wanted))):
            target = wanted[side]
            if target is not None:
                space = self._space if self._sides[side].sums else target.reshape(gradient.shape)
                self._sides[side].reduce(self.partial(side, inputs, output, gradient, space), target)

    @abstractmethod
    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        """Return gradient * d output / d inputs[side], of the broadcast shape, computed in `out` if at all."""
