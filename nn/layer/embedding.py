"""Vectors for numbered things."""

from typing import Any

from nn import arguments
from nn.initializer import Initializer, Uniform
from nn.layer.layer import Layer
from nn.operation.lookup import Lookup
from nn.value import Value


class Embedding(Layer):
    """A trained vector for each of `input_dim` numbered things, such as words or characters.

    Shapes: ids (batch, ...) from 0 to input_dim - 1, embeddings (input_dim, output_dim), output (batch, ..., output_dim). The
    ids come as numbers of the model's type, so float32 models tell up to 2**24 things apart. Vectors start uniform in
    [-0.05, 0.05], as in Keras. Raises ValueError for an id out of range, naming layer, id, and limit.
    """

    def __init__(
        self, input_dim: int, output_dim: int, initializer: Initializer | None = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.input_dim = arguments.integer(self, "input_dim", input_dim, minimum=1)
        self.output_dim = arguments.integer(self, "output_dim", output_dim, minimum=1)
        self.initializer: Initializer = arguments.instance(
            self, "initializer", initializer or Uniform(-0.05, 0.05), Initializer
        )

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
