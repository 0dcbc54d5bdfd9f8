"""A model that is a list of layers."""

from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.layer import Layer
from nn.model.model import Model
from nn.value import Value


class SequentialModel(Model):
    """Layers one after the other.

    >>> model = nn.model.SequentialModel(input_shape=[-1, 784])
    >>> model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    >>> model.setup(nn.loss.Cross_Entropy())
    >>> model.predict(np.zeros((2, 784))).shape
    (2, 10)
    """

    def __init__(
        self,
        input_shape: Sequence[int | None] | None = None,
        layers: Sequence[Layer] = (),
        *,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        given = input_shape if isinstance(input_shape, (list, tuple)) else [input_shape]
        if any(isinstance(part, Layer) or (isinstance(part, type) and issubclass(part, Layer)) for part in given):
            raise TypeError(
                "SequentialModel 'input_shape' must be a list of positive integers that begins with -1, or None, got layers; "
                "these are the second argument: write SequentialModel(layers=[...])"
            )
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.layers: list[Layer] = []
        for layer in layers:
            self.add(layer)

    def add(self, layer: Layer) -> None:
        """Append a layer; raise ValueError once `setup` has built the model."""
        arguments.instance("SequentialModel.add()", "layer", layer, Layer)
        if self.built:
            raise ValueError(f"the model is set up, so {layer.describe()} cannot be added; add layers before setup()")
        self.layers.append(layer)

    def call(self, x: Value) -> Value:
        """Return the output of the last layer."""
        if not self.layers:
            raise ValueError("SequentialModel has no layers; add() at least one")
        for layer in self.layers:
            x = layer(x)
        return x

    def get_config(self) -> dict[str, Any]:
        """Return the layers."""
        return {"layers": list(self.layers)}
