"""The multilayer perceptron."""

from collections.abc import Sequence
from typing import Any

from nn import arguments
from nn.activation import Activation, Softmax, Tanh
from nn.layer import Dense, Flatten
from nn.model.model import Model
from nn.value import Value


class DNN(Model):
    """Fully connected layers of `units`, each followed by `activation` (Tanh by default), then one probability per class.

    Shapes: x (batch, ...), by default (batch, 784), is flattened to one row per sample; output (batch, classes). Without
    arguments it is the 784-128-128-10 network for MNIST, with 118,282 parameters.

    >>> model = nn.model.DNN(units=[32], input_shape=[-1, 8, 8])
    >>> model.setup(nn.loss.Cross_Entropy())
    >>> model.predict(np.zeros((5, 8, 8))).shape
    (5, 10)
    """

    def __init__(
        self,
        units: Sequence[int] = (128, 128),
        classes: int = 10,
        activation: Activation | None = None,
        input_shape: Sequence[int | None] | None = (-1, 784),
        *,
        seed: int = 0,
        dtype: str = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.units = list(arguments.shape(self, "units", units))
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.activation: Activation = arguments.instance(
            self, "activation", Tanh() if activation is None else activation, Activation
        )

    def call(self, x: Value) -> Value:
        """Return the probabilities of the classes."""
        if len(x.shape) > 2:
            x = Flatten()(x)
        for units in self.units:
            x = Dense(units, activation=self.activation)(x)
        return Dense(self.classes, activation=Softmax())(x)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments that shape the model."""
        return {"units": self.units, "classes": self.classes, "activation": self.activation}
