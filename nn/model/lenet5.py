"""LeNet-5."""

from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.activation import Activation, Softmax, Tanh
from nn.layer import AveragePool, Conv2D, Dense, Flatten, MaxPool
from nn.model.model import Model
from nn.value import Value

SIDE = 32
"""Height and width of the images that LeNet-5 was made for."""


class LeNet5(Model):
    """Two convolutions with pooling, three fully connected layers (LeCun, Bottou, Bengio and Haffner, "Gradient-Based Learning
    Applied to Document Recognition", 1998): 6 maps of 5x5, pool, 16 maps of 5x5, pool, 120, 84, classes.

    `activation` is Tanh by default and pooling takes the average, as in the paper; `max_pool` and ReLU make it a network of
    today. As everybody's LeNet-5 it differs from the paper's in three things: pooling has no weights of its own, every map of
    the second convolution sees all six of the first, and the outputs are probabilities.

    Shapes: x (batch, height, width, channels), by default (batch, 28, 28, 1); images smaller than 32x32 are framed with zeros
    up to that, as the paper does with MNIST. Output (batch, classes). With one channel and 10 classes it has 61,706
    parameters. Raises ValueError for larger images.

    >>> model = nn.model.LeNet5(activation=nn.activation.ReLU(), max_pool=True)
    >>> model.call(nn.Placeholder([-1, 28, 28, 1])).shape
    (-1, 10)
    """

    def __init__(
        self,
        classes: int = 10,
        activation: Activation | None = None,
        max_pool: bool = False,
        input_shape: Sequence[int | None] | None = (-1, 28, 28, 1),
        *,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.activation: Activation = arguments.instance(
            self, "activation", Tanh() if activation is None else activation, Activation
        )
        self.max_pool = bool(arguments.instance(self, "max_pool", max_pool, bool))

    def call(self, x: Value) -> Value:
        """Return the probabilities of the classes."""
        pool = MaxPool if self.max_pool else AveragePool
        x = Conv2D(6, 5, padding=_frame(x), activation=self.activation)(x)
        x = pool(2)(x)
        x = Conv2D(16, 5, activation=self.activation)(x)
        x = pool(2)(x)
        x = Flatten()(x)
        x = Dense(120, activation=self.activation)(x)
        x = Dense(84, activation=self.activation)(x)
        return Dense(self.classes, activation=Softmax())(x)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments that shape the model."""
        return {"classes": self.classes, "activation": self.activation, "max_pool": self.max_pool}


def _frame(x: Value) -> int:
    """Return how many zeros each side of the images needs."""
    if len(x.shape) != 4 or x.shape[1] != x.shape[2] or x.shape[1] > SIDE or x.shape[1] % 2:
        raise ValueError(
            f"LeNet5 takes square images (batch, side, side, channels) with an even side of at most {SIDE}, got {x.shape}"
        )
    return (SIDE - x.shape[1]) // 2
