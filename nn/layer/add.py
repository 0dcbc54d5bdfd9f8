"""The sum of several inputs."""

from collections.abc import Sequence
from typing import Any, ClassVar

from nn.layer.layer import Layer
from nn.operation.broadcasting import broadcast_shape
from nn.value import Value


class Add(Layer):
    """a + b + ..., as in a residual connection: `Add()([x, branch])`. Shapes are equal or broadcast as in NumPy.

    Raises ValueError naming shapes that do not fit together.

    >>> x = nn.Placeholder([-1, 64])
    >>> nn.layer.Add()([x, nn.layer.Dense(64)(x)]).shape
    (-1, 64)
    """

    several: ClassVar[bool] = True

    def call(self, x: Sequence[Value]) -> Value:
        """Return the sum."""
        total = x[0]
        for value in x[1:]:
            broadcast_shape(self.describe(), total.shape, value.shape)
            total = total + value
        return total

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"name": self.given_name or None}
