"""What a layer is."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, TypeAlias

from nn.activation import Linear
from nn.arrays import Shape
from nn.configurable import Configurable
from nn.initializer import Initializer
from nn.value import Buffer, Node, Value, Variable

Inputs: TypeAlias = Value | Sequence[Value]


class _Callable(ABCMeta):
    """Lets a class be called with its inputs: `Dense(inputs=x, units=64)` is `Dense(units=64)(x)`."""

    def __call__(cls, *args: Any, inputs: Inputs | None = None, **keywords: Any) -> Any:
        layer = super().__call__(*args, **keywords)
        return layer if inputs is None else layer(inputs)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's, for `help` and for whoever checks arguments."""
        own = inspect.signature(inspect.getattr_static(cls, "__init__"))
        return own.replace(parameters=list(own.parameters.values())[1:])


class Layer(Configurable, metaclass=_Callable):
    """A piece of a model with variables of its own.

    A subclass makes its variables in `build`, once, when the shape of its input is known, and combines values in `call`.
    Calling a layer twice uses the same variables twice. `name` is given or, in a model, made of class and number.
    """

    several: ClassVar[bool] = False
    """Whether it combines several values. It is then called on a list of them (or on one), and `build` and `call` get lists."""

    def __init__(self, name: str | None = None) -> None:
        if name is not None and (not isinstance(name, str) or not name or "/" in name):
            raise ValueError(f"{type(self).__name__} 'name' must be a non-empty text without '/', got {name!r}")
        self.given_name = name or ""
        self.variables: list[Variable] = []
        self.built = False

    @property
    def name(self) -> str:
        """The name; the class in lower case as long as no model has named the layer."""
        return self.given_name or type(self).__name__.lower()

    @name.setter
    def name(self, name: str) -> None:
        self.given_name = name

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of this shape, whose first axis is -1, the batch."""

    @abstractmethod
    def call(self, x: Any) -> Value:
        """Return the output for the input `x`."""

    def __call__(self, x: Inputs) -> Node:
        """Build the layer if it is not, and return its output for `x`."""
        values: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
        for value in values:
            if not isinstance(value, Value):
                raise TypeError(f"{self.describe()} is called on a value of a graph, got {type(value).__name__}")
        if not values or (len(values) > 1 and not self.several):
            raise ValueError(f"{self.describe()}: expected {'values' if self.several else 'one value'}, got {len(values)}")
        try:
            if not self.built:
                shapes = [value.shape for value in values]
                self.build(shapes if self.several else shapes[0])
                self.built = True
            output = self.call(values if self.several else values[0])
        except ValueError as error:
            message = str(error)
            if message.startswith(self.describe()):
                raise
            raise ValueError(f"{self.describe()}: {message}") from error
        if any(output is value for value in values) or not isinstance(output, Node):
            output = output.apply(Linear())
        output.layers += (self,)
        return output

    def add_variable(self, name: str, shape: Shape, initializer: Initializer | None = None, trainable: bool = True) -> Variable:
        """Make a variable of this layer. The order of the calls is the order of the ids."""
        variable = Variable(shape, initializer, name, trainable)
        variable.owner = self
        self.variables.append(variable)
        return variable

    def add_buffer(self, name: str, shape: Shape, initializer: Initializer | None = None) -> Buffer:
        """Make a statistic of this layer, by default of zeros."""
        buffer = Buffer(shape, initializer, name)
        buffer.owner = self
        self.variables.append(buffer)
        return buffer

    def describe(self) -> str:
        """Return class and name for messages."""
        return f"{type(self).__name__} '{self.given_name}'" if self.given_name else type(self).__name__
