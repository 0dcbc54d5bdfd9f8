"""The fully connected layer."""

from typing import Any

from nn import arguments
from nn.activation import Activation, Linear
from nn.arrays import BATCH, Shape
from nn.initializer import GlorotUniform, Initializer, Zeros
from nn.layer.chosen import chosen
from nn.layer.layer import Layer
from nn.value import Value


class Dense(Layer):
    """activation(x @ kernel + bias).

    Shapes: x (batch, ..., in), kernel (in, units), bias (units,), output (batch, ..., units).

    >>> nn.layer.Dense(128, activation=nn.activation.Tanh())(nn.Placeholder([-1, 784])).shape
    (-1, 128)
    """

    def __init__(
        self,
        units: int,
        activation: Activation | None = None,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.units = arguments.integer(self, "units", units, minimum=1)
        self.activation = chosen(self, "activation", activation, Linear())
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())

    def build(self, input_shape: Shape) -> None:
        """Make kernel and bias."""
        if len(input_shape) < 2 or input_shape[-1] == BATCH:
            raise ValueError(f"expected inputs of shape (batch, ..., features), got {input_shape}")
        self.kernel = self.add_variable("kernel", (input_shape[-1], self.units), self.kernel_initializer)
        if self.use_bias:
            self.bias = self.add_variable("bias", (self.units,), self.bias_initializer)

    def call(self, x: Value) -> Value:
        """Return activation(x @ kernel + bias)."""
        if x.shape[-1] != self.kernel.shape[0]:
            raise ValueError(f"expected inputs with {self.kernel.shape[0]} features, got shape {x.shape}")
        score = x @ self.kernel
        return self.activation(score + self.bias if self.use_bias else score)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "units": self.units,
            "activation": self.activation,
            "use_bias": self.use_bias,
            "kernel_initializer": self.kernel_initializer,
            "bias_initializer": self.bias_initializer,
            "name": self.given_name or None,
        }
