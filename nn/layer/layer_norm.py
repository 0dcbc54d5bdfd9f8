"""Layer normalisation."""

from typing import Any

from nn import arguments
from nn.arrays import BATCH, Shape
from nn.initializer import Constant, Zeros
from nn.layer.layer import Layer
from nn.operation.layer_normalize import LayerNormalize
from nn.value import Value


class LayerNorm(Layer):
    """gamma * (x - mean) / sqrt(variance + epsilon) + beta, with mean and variance over the last axis of each position.

    Shapes: x (batch, ..., features), gamma and beta (features,), output as x. Samples do not mix, and training and prediction
    compute the same (Ba, Kiros and Hinton, "Layer Normalization", 2016).
    Raises ValueError for inputs without a feature axis or with another number of features.

    >>> nn.layer.LayerNorm()(nn.Placeholder([-1, 20, 64])).shape
    (-1, 20, 64)
    """

    def __init__(self, epsilon: float = 1e-3, name: str | None = None) -> None:
        super().__init__(name)
        self.epsilon = arguments.number(self, "epsilon", epsilon, 0, open_low=True)

    def build(self, input_shape: Shape) -> None:
        """Make gamma and beta."""
        if len(input_shape) < 2 or input_shape[-1] == BATCH:
            raise ValueError(f"expected inputs of shape (batch, ..., features), got {input_shape}")
        self.gamma = self.add_variable("gamma", input_shape[-1:], Constant(1.0))
        self.beta = self.add_variable("beta", input_shape[-1:], Zeros())

    def call(self, x: Value) -> Value:
        """Return the normalised values."""
        if x.shape[-1:] != self.gamma.shape:
            raise ValueError(f"expected inputs with {self.gamma.shape[0]} features on the last axis, got shape {x.shape}")
        return x.apply(LayerNormalize(self.epsilon), self.gamma, self.beta)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"epsilon": self.epsilon, "name": self.given_name or None}
