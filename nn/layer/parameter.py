"""An array of numbers that belongs to the model itself, and is the same for all samples."""

from __future__ import annotations

from collections.abc import Sequence

from nn import arguments
from nn.initializer import GlorotUniform, Initializer, InitializerName
from nn.layer.layer import Layer, chosen
from nn.value.value import Value


class Parameter(Layer, configured=True):
    """A trained array, the same for all samples, such as learned positions: ``x + Parameter([20, 64])(x)``.

    It is called on a value of the model to which it shall belong, whose numbers do not matter. A model file holds it, where a
    `nn.Variable` in an expression belongs to no layer.

    Args:
        shape: numbers of elements along its axes.
        initializer: of its numbers, an object or its word; default: `GlorotUniform`.
        trainable: whether it is made to be trained.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for another shape.

    >>> x = nn.Placeholder([-1, 20, 64])
    >>> (x + nn.layer.Parameter([20, 64])(x)).shape
    (-1, 20, 64)
    """

    def __init__(
        self,
        shape: Sequence[int],
        initializer: Initializer | InitializerName | None = None,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.shape = arguments.shape(self, "shape", shape)
        self.initializer = chosen(self, "initializer", initializer, GlorotUniform())
        self._trains = arguments.flag(self, "trainable", trainable)

    def build(self, input_shape: object) -> None:
        self.value = self.add_variable("value", self.shape, self.initializer, self._trains)

    def call(self, x: Value) -> Value:
        return self.value

    def argument(self, name: str) -> object:
        # `trainable` of a layer tells whether it is frozen now.
        return self._trains if name == "trainable" else super().argument(name)
