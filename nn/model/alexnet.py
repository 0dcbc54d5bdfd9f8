"""AlexNet for images of 32x32."""

from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.activation import ReLU, Softmax
from nn.initializer import HeUniform
from nn.layer import Conv2D, Dense, Dropout, Flatten, MaxPool
from nn.model.model import Model
from nn.value import Value


class AlexNet(Model):
    """Five convolutions with rectifiers and three poolings (Krizhevsky, Sutskever and Hinton, "ImageNet Classification with
    Deep Convolutional Neural Networks", 2012), in the version for 32x32 that is compared on CIFAR.

    64 maps of 11x11 with stride 4, pool, 192 of 5x5, pool, 384, 256 and 256 of 3x3, pool, then one layer of scores on the 256
    features that are left (W. Yang's CIFAR models; the paper's two layers of 4,096 units make sense for ImageNet only).
    Dropout in front of the scores, as in the paper, has the rate `dropout`.

    Shapes: x (batch, height, width, channels), by default (batch, 32, 32, 3), output (batch, classes). With three channels and
    10 classes it has 2,472,266 parameters.

    >>> nn.model.AlexNet(classes=100).call(nn.Placeholder([-1, 32, 32, 3])).shape
    (-1, 100)
    """

    def __init__(
        self,
        classes: int = 10,
        dropout: float = 0.5,
        input_shape: Sequence[int | None] | None = (-1, 32, 32, 3),
        *,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.dropout = arguments.number(self, "dropout", dropout, 0, 1)

    def call(self, x: Value) -> Value:
        """Return the probabilities of the classes."""
        x = MaxPool(2)(_convolve(x, 64, 11, stride=4))
        x = MaxPool(2)(_convolve(x, 192, 5))
        x = _convolve(x, 384, 3)
        x = _convolve(x, 256, 3)
        x = MaxPool(2)(_convolve(x, 256, 3))
        x = Flatten()(x)
        if self.dropout:
            x = Dropout(self.dropout)(x)
        return Dense(self.classes, activation=Softmax())(x)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments that shape the model."""
        return {"classes": self.classes, "dropout": self.dropout}


def _convolve(x: Value, filters: int, size: int, stride: int = 1) -> Value:
    layer = Conv2D(filters, size, stride, padding=size // 2, activation=ReLU(), kernel_initializer=HeUniform())
    return layer(x)
