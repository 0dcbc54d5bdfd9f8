"""Dropout."""

from nn import arguments
from nn.layer.layer import Layer
from nn.operation.elementwise import DropoutOperation
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
