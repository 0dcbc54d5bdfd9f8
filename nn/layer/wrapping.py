"""Layers around other layers, and around a function."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, ClassVar, Literal

from nn import arguments
from nn.arrays import BATCH, LENGTH, Shape
from nn.extension import signature_of
from nn.function import concatenate
from nn.layer.layer import Layer
from nn.layer.recurrent import Recurrent
from nn.operation.shape import SplitSteps
from nn.value.value import Node, Value


class TimeDistributed(Layer, configured=True):
    """A layer that is applied to each step of a sequence, with the same variables.

    Shapes: (batch, time, ...) to (batch, time, ...), where the layer gets (batch * time, ...); time may be None. `Dense` and
    others that work on the last axis do so without it.

    Args:
        layer: the layer for each step.
        name: name of the layer; default: its class and a number.

    Raises ValueError for inputs without steps, and every error of the layer.

    >>> frames = nn.Placeholder([-1, 10, 32, 32, 3])
    >>> nn.layer.TimeDistributed(nn.layer.Conv2D(8))(frames).shape
    (-1, 10, 30, 30, 8)
    """

    def __init__(self, layer: Layer, name: str | None = None) -> None:
        super().__init__(name)
        self.layer: Layer = arguments.instance(self, "layer", layer, Layer)
        if isinstance(layer, Recurrent) and layer.stateful:
            raise ValueError("TimeDistributed 'layer' must carry no states, as steps become samples, got one with stateful")

    def build(self, input_shape: Shape) -> None:
        if len(input_shape) < 3 or BATCH in input_shape[1:] or LENGTH in input_shape[2:]:
            raise ValueError(f"expected inputs of shape (batch, time, ...), all but batch and time known, got {input_shape}")

    def call(self, x: Value) -> Value:
        # Steps become samples: the layer sees no time.
        steps = self.layer(x.reshape(BATCH, *x.shape[2:]))
        if x.shape[1] == LENGTH:
            made = steps.apply(SplitSteps(), x)
        else:
            made = steps.reshape(BATCH, x.shape[1], *steps.shape[1:])
        made.mask = x.mask
        return made


class Bidirectional(Layer, configured=True):
    """Two recurrent layers that read a sequence from both ends; step i of the results belongs to step i of the sequence.

    Schuster and Paliwal, Bidirectional recurrent neural networks, 1997. Shapes: (batch, time, features) to (batch, 2 * units)
    or, if the layer returns sequences, (batch, time, 2 * units); units instead of 2 * units where `merge_mode` is not 'concat'.
    The variables of the layer that begins at the front come first.

    Args:
        layer: the layer that reads from the front.
        merge_mode: how both results become one: 'concat', 'sum', 'mul' or 'ave'.
        backward_layer: the layer that reads from the end; default: another one with the arguments of `layer`.
        name: name of the layer; default: its class and a number.

    Raises TypeError or ValueError for other arguments, and for two layers of which one alone returns sequences.

    >>> nn.layer.Bidirectional(nn.layer.LSTM(32, return_sequences=True))(nn.Placeholder([-1, 20, 8])).shape
    (-1, 20, 64)
    """

    def __init__(
        self,
        layer: Recurrent,
        merge_mode: Literal["concat", "sum", "mul", "ave"] = "concat",
        backward_layer: Recurrent | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.layer: Recurrent = arguments.instance(self, "layer", layer, Recurrent)
        self.merge_mode = arguments.one_of(self, "merge_mode", merge_mode, ("concat", "sum", "mul", "ave"))
        self.backward_layer: Recurrent | None = None
        if backward_layer is not None:
            self.backward_layer = arguments.instance(self, "backward_layer", backward_layer, Recurrent)
        # Equal arguments, not a copy: the variables are its own, and so are its draws.
        self._back = self.backward_layer or type(layer)(**{**layer.get_config(), "name": None})
        if self._back is layer:
            raise ValueError("Bidirectional 'backward_layer' must be another layer than 'layer', got the same one")
        if layer.return_state or self._back.return_state:
            raise ValueError("Bidirectional takes layers without return_state, got one with it; call both layers apart")
        if self._back.return_sequences != layer.return_sequences:
            raise ValueError(
                "Bidirectional 'backward_layer' must return sequences if, and only if, 'layer' does, got "
                f"return_sequences={self._back.return_sequences} and {layer.return_sequences}"
            )

    def call(self, x: Value) -> Value:
        forward, backward = self.layer(x), self._back(x[:, ::-1])
        if self.layer.return_sequences:
            # Back in the order of the sequence, so that both results of a step stand side by side.
            backward = backward[:, ::-1]
        made = self._merged(forward, backward)
        if self.layer.return_sequences:
            made.mask = x.mask
        return made

    def reset_states(self) -> None:
        """Begin the next batch with states of 0, where the layers are `stateful`: each carries its own."""
        self.layer.reset_states()
        self._back.reset_states()

    def _merged(self, forward: Value, backward: Value) -> Node:
        if self.merge_mode == "concat":
            return concatenate([forward, backward])
        if self.merge_mode == "mul":
            return forward * backward
        return forward + backward if self.merge_mode == "sum" else (forward + backward) * 0.5


class Lambda(Layer, configured=True):
    """A function of a value, or of a list of values, as a layer without variables, given by name in model files.

    A file holds the name of the function, never its code: `load` finds it among the `custom_objects` that the caller passes, as
    it finds classes; those of `nn.function` are found without. A job sends the function along with the classes of the model.

    Args:
        function: function of a value of the graph, or of the list of values that the layer is called on, that returns another
            one. It has a name of its own, so it is no `lambda`.
        name: name of the layer; default: its class and a number.

    Raises TypeError for anything else.

    >>> def scaled(x):
    ...     return x / 255
    >>> nn.layer.Lambda(scaled)(nn.Placeholder([-1, 28, 28])).shape
    (-1, 28, 28)
    """

    _further: ClassVar[bool] = True

    def __init__(self, function: Callable[..., Any], name: str | None = None) -> None:
        super().__init__(name)
        if not isinstance(function, FunctionType):
            raise TypeError(f"Lambda 'function' must be a function, got {arguments.short(function)}")
        # `<lambda>` is no name that a file could hold.
        if not function.__name__.isidentifier():
            raise TypeError(
                "Lambda 'function' must have a name, by which model files refer to it, got a lambda; write it with def"
            )
        try:
            signature_of(function).bind(None)
        except TypeError as error:
            raise TypeError(
                f"Lambda 'function' must take one value, got {function.__name__}{signature_of(function)}"
            ) from error
        self.function = function

    def call(self, x: Value | list[Value]) -> Value:
        made: Value = self.function(x)
        return made
