"""Models that are a list of layers: one's own, and the multilayer perceptron."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from nn import arguments
from nn.activation import ActivationName
from nn.activation.activation import Activation
from nn.activation.sigmoids import Softmax, Tanh
from nn.arrays import DType
from nn.extension import checked_call
from nn.layer.core import Dense, Flatten
from nn.layer.layer import Layer, chosen
from nn.model.model import Model
from nn.value.graph import Placeholder
from nn.value.value import Value

Part: TypeAlias = Layer | Model
"""A layer, or a model of one input and one output, which stands for its layers."""


class _BuiltLayers(tuple[Part, ...]):
    """The layers of a model that is built: changes that a list allows are refused with the remedy."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        # Asked only for names that a tuple lacks.
        if hasattr(list, name):
            raise AttributeError(
                f"'layers' cannot be changed after setup(), so there is no {name}(): the graph was built from them; build "
                "another model, and move the weights by set_weights(get_weights())"
            )
        raise AttributeError(f"'layers' is a tuple after setup() and has no attribute {name!r}")


class SequentialModel(Model, configured=True):
    """Layers one after the other.

    A model may stand among them, such as one that was trained before: its layers are those of this one, too, with the same
    variables, and its `trainable` freezes them.

    Args:
        input_shape: of a batch, the first axis -1 or None; default: that of the first batch.
        layers: the layers in their order; `add` appends more.
        seed: of the first weights and of the draws of training.
        dtype: type of the weights and of all that is computed.

    >>> model = nn.model.SequentialModel(input_shape=[-1, 784])
    >>> model.add(nn.layer.Dense(10, activation=nn.activation.Softmax()))
    >>> model.setup(nn.loss.Cross_Entropy())
    >>> model.predict(np.zeros((2, 784))).shape
    (2, 10)
    """

    def __init__(
        self,
        input_shape: Sequence[int | None] | None = None,
        layers: Sequence[Part] = (),
        *,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        # Keras takes the layers first, so this mistake deserves its own words.
        given = input_shape if isinstance(input_shape, (list, tuple)) else [input_shape]
        if any(isinstance(part, Layer) or (isinstance(part, type) and issubclass(part, Layer)) for part in given):
            raise TypeError(
                "SequentialModel 'input_shape' must be a list of positive integers that begins with -1, or None, got layers; "
                "these are the second argument: write SequentialModel(layers=[...])"
            )
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self._layers: list[Part] = []
        for layer in arguments.sequence(self, "layers", layers, "layers"):
            self.add(layer)

    @property
    def layers(self) -> list[Part] | Any:  # Any: the tuple, and what a layer of a class of its own has
        """The layers: before `setup` a list, which may be changed, afterwards a tuple, as the model stays as it was built."""
        return _BuiltLayers(self._layers) if self.built else self._layers

    @checked_call
    def add(self, layer: Part) -> None:
        """Append a layer, or a model of one input and one output; raise ValueError once `setup` has built this model."""
        if isinstance(layer, Placeholder):
            raise TypeError(
                "SequentialModel.add() 'layer' must be a layer, got an Input; the shape is an argument of the model: "
                f"SequentialModel({list(layer.shape)}, layers)"
            )
        if not isinstance(layer, Model):
            arguments.instance("SequentialModel.add()", "layer", layer, Layer)
        if self.built:
            called = layer.describe() if isinstance(layer, Layer) else type(layer).__name__
            raise ValueError(f"the model is set up, so {called} cannot be added; add layers before setup()")
        self._layers.append(layer)

    def call(self, x: Value) -> Value:
        if not self.layers:
            raise ValueError("SequentialModel has no layers; add() at least one")
        for layer in self.layers:
            x = layer(x)
        return x


class DNN(Model, configured=True):
    """Fully connected layers of `units`, each followed by `activation` (Tanh by default), then one probability per class.

    Shapes: x (batch, ...), by default (batch, 784), is flattened to one row per sample; output (batch, classes). Without
    arguments it is the 784-128-128-10 network for MNIST, with 118,282 parameters.

    Args:
        units: of each hidden layer.
        classes: number of classes.
        activation: an object or its word; default: tanh.
        input_shape: of a batch, the first axis -1 or None; None: that of the first batch.
        seed: of the first weights and of the draws of training.
        dtype: type of the weights and of all that is computed.

    >>> model = nn.model.DNN(units=[32], input_shape=[-1, 8, 8])
    >>> model.setup(nn.loss.Cross_Entropy())
    >>> model.predict(np.zeros((5, 8, 8))).shape
    (5, 10)
    """

    def __init__(
        self,
        units: Sequence[int] = (128, 128),
        classes: int = 10,
        activation: Activation | ActivationName | None = None,
        input_shape: Sequence[int | None] | None = (-1, 784),
        *,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        super().__init__(input_shape, seed=seed, dtype=dtype)
        self.units = arguments.shape(self, "units", units)
        self.classes = arguments.integer(self, "classes", classes, minimum=1)
        self.activation: Activation = chosen(self, "activation", activation, Tanh())

    def call(self, x: Value) -> Value:
        if len(x.shape) > 2:
            x = Flatten()(x)
        for units in self.units:
            x = Dense(units, activation=self.activation)(x)
        return Dense(self.classes, activation=Softmax())(x)
