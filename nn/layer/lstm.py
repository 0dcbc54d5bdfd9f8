"""The layer of long short-term memory."""

from typing import Any

import numpy as np

from nn import arguments
from nn.arrays import Array, Shape
from nn.initializer import Initializer
from nn.layer.recurrent import Recurrent
from nn.operation.recurrent import LSTMOperation


class LSTM(Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber, 1997), with a forget gate (Gers et al., 2000).

    [i f g o] = x_t @ kernel + h_(t-1) @ recurrent_kernel + bias
    c_t = sigmoid(f) * c_(t-1) + sigmoid(i) * tanh(g),  h_t = sigmoid(o) * tanh(c_t)

    Shapes: x (batch, time, features), kernel (features, 4 * units), recurrent_kernel (units, 4 * units), bias (4 * units,),
    gates in the order i, f, g, o of Keras and torch; output (batch, units) or, with `return_sequences`, (batch, time, units).
    `unit_forget_bias` adds 1 to the first bias of the forget gate, so that training begins with a long memory (Jozefowicz et
    al., 2015).

    >>> x = nn.Placeholder([-1, 28, 28])
    >>> nn.layer.LSTM(128)(x).shape, nn.layer.LSTM(128, return_sequences=True)(x).shape
    ((-1, 128), (-1, 28, 128))
    """

    def __init__(
        self,
        units: int,
        return_sequences: bool = False,
        use_bias: bool = True,
        unit_forget_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        recurrent_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(units, return_sequences, use_bias, kernel_initializer, recurrent_initializer, bias_initializer, name)
        self.unit_forget_bias = bool(arguments.instance(self, "unit_forget_bias", unit_forget_bias, bool))

    def operation(self) -> LSTMOperation:
        """Return the recurrence."""
        return LSTMOperation(self.return_sequences)

    def first_bias(self) -> Initializer:
        """Return what draws the first bias."""
        return _WithForgetBias(self.bias_initializer) if self.unit_forget_bias else self.bias_initializer

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {**super().get_config(), "unit_forget_bias": self.unit_forget_bias}


class _WithForgetBias(Initializer):
    """What another initialiser draws, plus 1 for the forget gate, the second of four."""

    def __init__(self, others: Initializer) -> None:
        self.others = others

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        """Return the bias of four gates."""
        bias = np.array(self.others(shape, generator))
        units = len(bias) // 4
        bias[units : 2 * units] += 1
        return bias
