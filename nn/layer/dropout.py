"""Dropout."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from nn import arguments
from nn.arrays import BATCH, Array, Shape
from nn.layer.layer import Layer
from nn.operation.operation import Mode, Operation
from nn.random import keyed
from nn.value.value import Value


class Dropout(Layer, configured=True):
    """In training, sets a share `rate` of the elements to 0 and divides the others by 1 - rate, so that the mean stays.

    In `evaluate` and `predict` it is the identity. The mask is keyed by seed, epoch, batch, block and the place of the layer,
    so a run can be repeated bit for bit. (Srivastava et al., "Dropout", 2014)

    >>> nn.layer.Dropout(0.5)(nn.Placeholder([-1, 128])).shape
    (-1, 128)
    """

    @arguments.also(drop_out_rate="rate")
    def __init__(self, rate: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.rate = arguments.number(self, "rate", rate, 0, 1)

    def call(self, x: Value) -> Value:
        return x.apply(DropoutOperation(self.rate))


class DropoutOperation(Operation):
    """x * mask, where the mask is 0 with probability `rate`, else 1 / (1 - rate)."""

    in_place: ClassVar[bool] = True
    reads_inputs: ClassVar[bool] = False

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._active = False

    def infer(self, *shapes: Shape) -> Shape:
        return shapes[0]

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Whether the batch axis leads; a mask is drawn for the whole batch, so in training no plan makes use of it."""
        return shapes[0][0] == BATCH

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:
        self._mask = np.empty(output, dtype)
        self._draws = np.empty(output, np.float32)

    def begin(self, mode: Mode, position: int) -> None:
        self._active = mode.training and self.rate > 0
        if self._active:
            seed, *counters = mode.key
            keyed(seed, "dropout", *counters, position).random(dtype=np.float32, out=self._draws)
            np.greater_equal(self._draws, self.rate, out=self._mask)
            np.multiply(self._mask, 1 / (1 - self.rate), out=self._mask)

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        if self._active:
            np.multiply(inputs[0], self._mask, out=out)
        elif not np.may_share_memory(inputs[0], out):
            np.copyto(out, inputs[0])

    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        if wanted[0] is None:
            return
        if self._active:
            np.multiply(gradient, self._mask, out=wanted[0])
        elif not np.may_share_memory(gradient, wanted[0]):
            np.copyto(wanted[0], gradient)
