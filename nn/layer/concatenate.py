"""Several inputs side by side."""

from collections.abc import Sequence
from typing import Any, ClassVar

from nn import arguments
from nn.layer.direct import direct
from nn.layer.layer import Layer
from nn.operation import Concatenate as ConcatenateOperation
from nn.value import Value


class Concatenate(Layer):
    """Inputs joined along one axis, by default the features: (batch, a), (batch, b) give (batch, a + b).

    Other axes than `axis` must be equal, and `axis` is not the batch; else ValueError.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Concatenate()([x, nn.layer.Dense(10)(x)]).shape
    (-1, 74)
    """

    several: ClassVar[bool] = True

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        self.axis = arguments.integer(self, "axis", axis, minimum=-32)

    def call(self, x: Sequence[Value]) -> Value:
        """Return the joined inputs."""
        return direct(ConcatenateOperation(self.axis), *x)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"axis": self.axis, "name": self.given_name or None}
