"""What all recurrent operations have in common: their inputs, and which of their outputs are wanted."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn.arrays import BATCH, Array, Shape
from nn.operation.operation import Operation


class Recurrence(Operation, ABC):
    """Computes a state h_t (batch, units) from x_t and h_(t-1) for each step of time; h before the first step is 0.

    Inputs: x (batch, time, features), kernel (features, gates * units), recurrent kernel (units, gates * units), and a bias
    or none. Output: the last state (batch, units), or with `return_sequences` all of them (batch, time, units).
    """

    multiplies: ClassVar[bool] = True

    gates: ClassVar[int] = 1
    """Blocks of `units` columns in the kernels."""

    biases: ClassVar[int] = 1
    """1 for a bias (gates * units,); 2 for (2, gates * units), of which the second is added to the recurrent part."""

    training: bool = True
    """Whether backward will be run. If not, `allocate` makes no room for it."""

    def __init__(self, return_sequences: bool = False) -> None:
        self.return_sequences = return_sequences

    def infer(self, *shapes: Shape) -> Shape:
        """Return (batch, units) or (batch, time, units)."""
        x, kernel, recurrent, *_ = shapes
        if len(x) != 3 or BATCH in x[1:]:
            raise ValueError(f"{type(self).__name__}: expected inputs of shape (batch, time, features), got {x}")
        units, columns = recurrent[0], self.gates * recurrent[0]
        if x[2] != kernel[0]:
            raise ValueError(f"{type(self).__name__}: expected inputs with {kernel[0]} features on axis 2, got shape {x}")
        fitting = ((kernel[0], columns), (units, columns), (columns,) if self.biases == 1 else (2, columns))
        for name, found, expected in zip(("kernel", "recurrent kernel", "bias"), shapes[1:], fitting, strict=False):
            if found != expected:
                raise ValueError(f"{type(self).__name__}: the {name} must have shape {expected}, got {found}")
        return (x[0], x[1], units) if self.return_sequences else (x[0], units)

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch is the first axis of x and no axis of a variable: samples do not see each other."""
        return shapes[0][0] == BATCH and all(BATCH not in shape for shape in shapes[1:])

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        """Note the sizes, then prepare work space."""
        self._batch, self._time, self._features = shapes[0]
        self._units = shapes[2][0]
        self._ones = self.biases if len(shapes) > 3 else 0
        self.prepare(dtype)

    @abstractmethod
    def prepare(self, dtype: np.dtype[Any]) -> None:
        """Allocate what the steps need."""

    def incoming(self, gradient: Array, step: int) -> Array | None:
        """Return the gradient (batch, units) that reaches the state of a step from outside, None where there is none."""
        if self.return_sequences:
            part: Array = gradient[:, step]
            return part
        return gradient if step == self._time - 1 else None
