"""Activations as layers: one of those without variables, and those that have some or change the shape."""

from __future__ import annotations

from collections.abc import Sequence

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation as Function
from nn.activation.activation import Linear
from nn.activation.sigmoids import Sigmoid
from nn.arrays import BATCH, Shape
from nn.initializer import Initializer, InitializerName, Zeros
from nn.layer.layer import Layer, chosen
from nn.operation.slopes import ParametricRectify
from nn.value.value import Value


class Activation(Layer, configured=True):
    """An activation as a layer of its own, such as one behind a `BatchNorm`.

    Args:
        activation: the function, an object or its word.
        name: name of the layer; default: its class and a number.

    >>> nn.layer.Activation("relu")(nn.Placeholder([-1, 64])).shape
    (-1, 64)
    """

    def __init__(self, activation: Function | ActivationName, name: str | None = None) -> None:
        super().__init__(name)
        # `chosen` would take None for the default.
        if activation is None:
            raise TypeError("Activation 'activation' must be an instance of Activation or its word, got None")
        self.activation = chosen(self, "activation", activation, Linear())

    def call(self, x: Value) -> Value:
        return self.activation(x)


class PReLU(Layer, configured=True):
    """f(x) = x for x > 0, alpha x otherwise, with alphas that are trained; the gradient at 0 is 0, as in Keras.

    He, Zhang, Ren and Sun, Delving deep into rectifiers, ICCV 2015. Shapes: x (batch, ...), alpha as a sample of x, with length
    1 on shared axes, output as x.

    Args:
        alpha_initializer: of the slopes, an object or its word; default: `Zeros`.
        shared_axes: axes, from 1, along which all elements have one alpha: (1, 2) for one alpha per channel of images.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for axes that do not exist, and for inputs of another shape than the first.

    >>> layer = nn.layer.PReLU(shared_axes=(1, 2))
    >>> layer(nn.Placeholder([-1, 8, 8, 16])).shape, layer.alpha.shape
    ((-1, 8, 8, 16), (1, 1, 16))
    """

    def __init__(
        self,
        alpha_initializer: Initializer | InitializerName | None = None,
        shared_axes: Sequence[int] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.alpha_initializer = chosen(self, "alpha_initializer", alpha_initializer, Zeros())
        self.shared_axes = None if shared_axes is None else arguments.shape(self, "shared_axes", shared_axes)

    def build(self, input_shape: Shape) -> None:
        shared = self.shared_axes or ()
        if len(input_shape) < 2 or BATCH in input_shape[1:]:
            raise ValueError(f"expected inputs of shape (batch, ...), all but the batch known, got {input_shape}")
        if any(axis >= len(input_shape) for axis in shared):
            raise ValueError(f"'shared_axes' must name axes 1 to {len(input_shape) - 1} of {input_shape}, got {shared}")
        shape = tuple(1 if axis in shared else length for axis, length in enumerate(input_shape[1:], start=1))
        # Without the batch: an alpha belongs to a place in the sample.
        self.alpha = self.add_variable("alpha", shape, self.alpha_initializer)

    def call(self, x: Value) -> Value:
        fitting = len(x.shape) == len(self.alpha.shape) + 1
        if not fitting or any(a not in (1, n) for a, n in zip(self.alpha.shape, x.shape[1:], strict=True)):
            raise ValueError(f"expected inputs whose samples fit slopes of shape {self.alpha.shape}, got shape {x.shape}")
        return x.apply(ParametricRectify(), self.alpha)


class GLU(Layer, configured=True):
    """a * sigmoid(b), where a and b are the halves of the input along an axis, by default the features.

    Dauphin, Fan, Auli and Grangier, Language modeling with gated convolutional networks, ICML 2017. Shapes: (batch, ..., 2 n)
    to (batch, ..., n).

    Args:
        axis: the axis to halve, counted from the end where negative; not the batch.
        name: name of the layer; default: its class and a number.

    Raises ValueError for an axis that does not exist, and for an odd length.

    >>> nn.layer.GLU()(nn.Placeholder([-1, 20, 64])).shape
    (-1, 20, 32)
    """

    def __init__(self, axis: int = -1, name: str | None = None) -> None:
        super().__init__(name)
        # No array of NumPy 1.26 has more than 32 axes.
        self.axis = arguments.integer(self, "axis", axis, minimum=-32)

    def call(self, x: Value) -> Value:
        rank = len(x.shape)
        if not -rank <= self.axis < rank or x.shape[self.axis] == BATCH or x.shape[self.axis] % 2:
            raise ValueError(f"'axis' must name an axis of even length other than the batch, got {self.axis} of {x.shape}")
        lead: tuple[slice, ...] = (slice(None),) * (self.axis % rank)
        half = x.shape[self.axis] // 2
        return x[(*lead, slice(half))] * Sigmoid()(x[(*lead, slice(half, None))])
