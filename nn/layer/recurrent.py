"""What the recurrent layers have in common."""

from abc import abstractmethod
from typing import Any

from nn import arguments
from nn.arrays import BATCH, Shape
from nn.initializer import GlorotUniform, Initializer, Orthogonal, Zeros
from nn.layer.chosen import chosen
from nn.layer.direct import direct
from nn.layer.layer import Layer
from nn.operation.recurrent import Recurrence
from nn.value import Value


class Recurrent(Layer):
    """A layer that reads a sequence step by step and remembers.

    Shapes: x (batch, time, features), kernel (features, gates * units), recurrent_kernel (units, gates * units), bias
    (gates * units,) or, for GRU, (2, gates * units); output (batch, units), the state after the last step, or with
    `return_sequences` the state after every step (batch, time, units). The state before the first step is 0.

    Raises TypeError or ValueError for arguments that do not fit, ValueError for inputs of another shape.

    >>> class Linear(nn.layer.Recurrent):
    ...     def operation(self):
    ...         return nn.operation.recurrent.SimpleRNNOperation(nn.activation.Linear(), self.return_sequences)
    >>> Linear(8)(nn.Placeholder([-1, 20, 3])).shape
    (-1, 8)
    """

    def __init__(
        self,
        units: int,
        return_sequences: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        recurrent_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.units = arguments.integer(self, "units", units, minimum=1)
        self.return_sequences = bool(arguments.instance(self, "return_sequences", return_sequences, bool))
        self.use_bias = bool(arguments.instance(self, "use_bias", use_bias, bool))
        self.kernel_initializer = chosen(self, "kernel_initializer", kernel_initializer, GlorotUniform())
        self.recurrent_initializer = chosen(self, "recurrent_initializer", recurrent_initializer, Orthogonal())
        self.bias_initializer = chosen(self, "bias_initializer", bias_initializer, Zeros())

    @abstractmethod
    def operation(self) -> Recurrence:
        """Return the operation that this layer applies to x and its variables."""

    def first_bias(self) -> Initializer:
        """Return what draws the first bias."""
        return self.bias_initializer

    def build(self, input_shape: Shape) -> None:
        """Make kernel, recurrent kernel and bias."""
        if len(input_shape) != 3 or BATCH in input_shape[1:]:
            raise ValueError(f"expected inputs of shape (batch, time, features), got {input_shape}")
        kind = self.operation()
        columns = kind.gates * self.units
        self.kernel = self.add_variable("kernel", (input_shape[2], columns), self.kernel_initializer)
        self.recurrent_kernel = self.add_variable("recurrent_kernel", (self.units, columns), self.recurrent_initializer)
        if self.use_bias:
            shape = (columns,) if kind.biases == 1 else (kind.biases, columns)
            self.bias = self.add_variable("bias", shape, self.first_bias())

    def call(self, x: Value) -> Value:
        """Return the last state, or all states."""
        bias = [self.bias] if self.use_bias else []
        return direct(self.operation(), x, self.kernel, self.recurrent_kernel, *bias)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {
            "units": self.units,
            "return_sequences": self.return_sequences,
            "use_bias": self.use_bias,
            "kernel_initializer": self.kernel_initializer,
            "recurrent_initializer": self.recurrent_initializer,
            "bias_initializer": self.bias_initializer,
            "name": self.given_name or None,
        }
