"""What a layer is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from nn.activation import Linear
from nn.arrays import Shape
from nn.configurable import Configurable
from nn.initializer import Initializer
from nn.value import Node, Value, Variable


class Layer(Configurable, ABC):
    """A piece of a model with variables of its own.

    A subclass makes its variables in `build`, once, when the shape of its input is known, and combines values in `call`.
    Calling a layer twice uses the same variables twice. `name` is given or, in a model, made of class and number.
    """

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

    def build(self, input_shape: Shape) -> None:
        """Make the variables for inputs of this shape, whose first axis is -1, the batch."""

    @abstractmethod
    def call(self, x: Value) -> Value:
        """Return the output for the input `x`."""

    def __call__(self, x: Value) -> Node:
        """Build the layer if it is not, and return its output for `x`."""
        if not isinstance(x, Value):
            raise TypeError(f"{self.describe()} is called on a value of a graph, got {type(x).__name__}")
        try:
            if not self.built:
                self.build(x.shape)
                self.built = True
            output = self.call(x)
        except ValueError as error:
            message = str(error)
            if message.startswith(self.describe()):
                raise
            raise ValueError(f"{self.describe()}: {message}") from error
        if output is x or not isinstance(output, Node):
            output = output.apply(Linear())
        output.layers += (self,)
        return output

    def add_variable(self, name: str, shape: Shape, initializer: Initializer | None = None, trainable: bool = True) -> Variable:
        """Make a variable of this layer. The order of the calls is the order of the ids."""
        variable = Variable(shape, initializer, name, trainable)
        variable.owner = self
        self.variables.append(variable)
        return variable

    def describe(self) -> str:
        """Return class and name for messages."""
        return f"{type(self).__name__} '{self.given_name}'" if self.given_name else type(self).__name__
