"""The plain recurrent layer."""

from typing import Any

from nn.activation import Activation, Tanh
from nn.initializer import Initializer
from nn.layer.chosen import chosen
from nn.layer.recurrent import Recurrent
from nn.operation.recurrent import SimpleRNNOperation


class SimpleRNN(Recurrent):
    """h_t = activation(x_t @ kernel + h_(t-1) @ recurrent_kernel + bias) (Elman, "Finding structure in time", 1990).

    Shapes: x (batch, time, features), kernel (features, units), recurrent_kernel (units, units), bias (units,), output
    (batch, units) or, with `return_sequences`, (batch, time, units).

    >>> nn.layer.SimpleRNN(64, activation=nn.activation.ReLU())(nn.Placeholder([-1, 28, 28])).shape
    (-1, 64)
    """

    def __init__(
        self,
        units: int,
        activation: Activation | None = None,
        return_sequences: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        recurrent_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(units, return_sequences, use_bias, kernel_initializer, recurrent_initializer, bias_initializer, name)
        self.activation = chosen(self, "activation", activation, Tanh())

    def operation(self) -> SimpleRNNOperation:
        """Return the recurrence with this layer's activation."""
        return SimpleRNNOperation(self.activation, self.return_sequences)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "activation": self.activation}
