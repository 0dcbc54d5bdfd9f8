"""Vectors for numbered things."""

from typing import Any

from nn import arguments
from nn.initializer import Initializer, Uniform
from nn.layer.chosen import chosen
from nn.layer.layer import Layer
from nn.operation.lookup import Lookup
from nn.value import Value


class Embedding(Layer):
    """A trained vector for each of `input_dim` numbered things, such as words or characters.

    Shapes: ids (batch, ...) from 0 to input_dim - 1, embeddings (input_dim, output_dim), output (batch, ..., output_dim).
    Vectors start uniform in [-0.05, 0.05], as in Keras. Raises ValueError for an id that is no whole number or out of range,
    naming layer, id, and limit. The ids come as numbers of the model's type: a float32 model refuses, when it is first run,
    an `input_dim` above 2**24, up to which it tells all whole numbers apart.

    >>> nn.layer.Embedding(1000, 32)(nn.Placeholder([-1, 20])).shape
    (-1, 20, 32)
    """

    def __init__(
        self, input_dim: int, output_dim: int, initializer: Initializer | None = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.input_dim = arguments.integer(self, "input_dim", input_dim, minimum=1)
        self.output_dim = arguments.integer(self, "output_dim", output_dim, minimum=1)
        self.initializer = chosen(self, "initializer", initializer, Uniform(-0.05, 0.05))

    def build(self, input_shape: Any) -> None:
        """Make the table."""
        self.embeddings = self.add_variable("embeddings", (self.input_dim, self.output_dim), self.initializer)

    def call(self, x: Value) -> Value:
        """Return the vectors of the ids."""
        return x.apply(Lookup(self.describe), self.embeddings)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "input_dim": self.input_dim,
            "output_dim": self.output_dim,
            "initializer": self.initializer,
            "name": self.given_name or None,
        }
