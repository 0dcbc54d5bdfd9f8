"""Layers that regularize training: dropout."""

from __future__ import annotations

from nn import arguments
from nn.layer.layer import Layer
from nn.operation.elementwise import DropoutOperation
from nn.value.value import Value


class Dropout(Layer, configured=True):
    """Dropout: in training, a share `rate` of the elements becomes 0 and the others are divided by 1 - rate: the mean stays.

    In `evaluate` and `predict` it is the identity. The mask is keyed by seed, epoch, batch, block and the place of the layer,
    so a run can be repeated bit for bit. (Srivastava et al., "Dropout", 2014)

    Args:
        rate: share of the elements, from 0 to below 1; `drop_out_rate` is its older name.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.Dropout(0.5)(nn.Placeholder([-1, 128])).shape
    (-1, 128)
    """

    @arguments.also(drop_out_rate="rate")
    def __init__(self, rate: float = 0.5, name: str | None = None) -> None:
        super().__init__(name)
        self.rate = arguments.number(self, "rate", rate, 0, 1)

    def call(self, x: Value) -> Value:
        return x.apply(DropoutOperation(self.rate))
