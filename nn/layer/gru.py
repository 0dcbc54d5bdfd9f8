"""The layer of gated recurrent units."""

from nn.layer.recurrent import Recurrent
from nn.operation.recurrent import GRUOperation


class GRU(Recurrent):
    """Gated recurrent units (Cho et al., 2014), with the reset gate after the recurrent product as in Keras and torch.

    [z r a] = x_t @ kernel + bias[0],  [z' r' q] = h_(t-1) @ recurrent_kernel + bias[1]
    g = tanh(a + sigmoid(r + r') * q),  h_t = sigmoid(z + z') * h_(t-1) + (1 - sigmoid(z + z')) * g

    Shapes: x (batch, time, features), kernel (features, 3 * units), recurrent_kernel (units, 3 * units), bias (2, 3 * units),
    gates in Keras's order z, r, g (torch has r, z, g); output (batch, units) or, with `return_sequences`, (batch, time, units).

    >>> x = nn.Placeholder([-1, 28, 28])
    >>> nn.layer.GRU(128)(x).shape, nn.layer.GRU(128, return_sequences=True)(x).shape
    ((-1, 128), (-1, 28, 128))
    """

    def operation(self) -> GRUOperation:
        """Return the recurrence."""
        return GRUOperation(self.return_sequences)
