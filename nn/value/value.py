"""The values a graph is made of: variables, constants and nodes, and the operators that combine them.

`x @ w + b` computes nothing: it builds nodes. A plan (`nn.plan`) computes them for data of a given shape.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, Union
from weakref import WeakSet

import numpy as np

from nn import arguments
from nn.arguments import Configurable
from nn.arrays import Array, Shape, as_array, refuse_masked
from nn.initializer import GlorotUniform, Initializer, InitializerName
from nn.operation.arithmetic import Add, Compare, Divide, Multiply, Power, Subtract
from nn.operation.elementwise import Absolute, Exp, Log, Negative, Sqrt, Square
from nn.operation.index import Entry, Index
from nn.operation.matmul import MatMul
from nn.operation.operation import Operation
from nn.operation.reduction import Max, Mean, Min, Sum
from nn.operation.shape import Concatenate, Reshape, Transpose

ConstraintName: TypeAlias = Literal["max_norm", "min_max_norm", "non_neg", "unit_norm"]
RegularizerName: TypeAlias = Literal["l1", "l1_l2", "l2"]

Operand: TypeAlias = Union["Value", float, Array, Sequence[Any]]
"""Operand of operators and functions: a value, or a number or array that becomes a constant."""
Axes: TypeAlias = int | Sequence[int] | None
Operator: TypeAlias = Callable[["Value", Operand], "Node"]


def _operator(kind: Callable[[], Operation]) -> tuple[Operator, Operator]:
    """Return the methods of an operator that has a value on its left, and of one that has it on its right."""

    def left(value: Value, other: Operand) -> Node:
        # A new operation each time: a node holds its own.
        return value.apply(kind(), as_value(other))

    def right(value: Value, other: Operand) -> Node:
        return as_value(other).apply(kind(), value)

    return left, right


class Value:
    """Value that will be an array when a plan runs: a placeholder, a variable, a constant, or a node.

    Operators and methods have the meaning they have for NumPy's arrays; `x > 0` is a mask of 0 and 1 without gradient. Only
    `==` and `!=` compare values as objects: masks of equality come from `nn.function`, like all that joins several values.
    `shape` has -1 at the axis of the batch.
    """

    mask: Value | None = None
    """Which steps of sequences hold something, (batch, time) of 1 and 0; None: all."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the word here for one of Keras or torch."""
            return arguments.missing_attribute(self, name)

    def apply(self, operation: Operation, *others: Value) -> Node:
        """Return the node that applies `operation` to this value and the others."""
        return Node(operation, (self, *others))

    def reshape(self, *shape: int | Sequence[int]) -> Node:
        """Return the same elements in another shape, given as numbers or as one list of them; one axis may be -1."""
        return self.apply(Reshape(_numbers(shape)))

    def transpose(self, *axes: int | Sequence[int]) -> Node:
        """Return the same elements with the axes in this order, numbers or one list; without axes, in the reverse order."""
        return self.apply(Transpose(_numbers(axes) or None))

    def swapaxes(self, first: int, second: int) -> Node:
        """Return the same elements with two axes exchanged.

        Args:
            first, second: the axes, counted from the end where negative.
        """
        order = list(range(len(self.shape)))
        for axis in (first, second):
            if not -len(order) <= axis < len(order):
                raise ValueError(f"swapaxes: axis {axis} does not exist in shape {self.shape}")
        # Negative axes count from the end of the list as well.
        order[first], order[second] = order[second], order[first]
        return self.apply(Transpose(order))

    @property
    def T(self) -> Node:
        """The same elements with the axes in reverse order."""
        return self.transpose()

    def sum(self, axis: Axes = None, keepdims: bool = False) -> Node:
        """Return the sum over one, several or all axes.

        Args:
            axis: an axis or several, counted from the end where negative; None: all.
            keepdims: whether the axes stay, with length 1.
        """
        return self.apply(Sum(axis, keepdims))

    def mean(self, axis: Axes = None, keepdims: bool = False) -> Node:
        """Return the mean over one, several or all axes.

        Args:
            axis, keepdims: as of `sum`.
        """
        return self.apply(Mean(axis, keepdims))

    def max(self, axis: Axes = None, keepdims: bool = False) -> Node:
        """Return the greatest element over one, several or all axes.

        Args:
            axis, keepdims: as of `sum`.
        """
        return self.apply(Max(axis, keepdims))

    def min(self, axis: Axes = None, keepdims: bool = False) -> Node:
        """Return the least element over one, several or all axes.

        Args:
            axis, keepdims: as of `sum`.
        """
        return self.apply(Min(axis, keepdims))

    def exp(self) -> Node:
        """Return e ** x."""
        return self.apply(Exp())

    def log(self) -> Node:
        """Return the natural logarithm."""
        return self.apply(Log())

    def sqrt(self) -> Node:
        """Return the square root."""
        return self.apply(Sqrt())

    def abs(self) -> Node:
        """Return the absolute value, as `abs(x)` does."""
        return self.apply(Absolute())

    def __getitem__(self, key: Entry | tuple[Entry, ...]) -> Node:
        return self.apply(Index(key))

    __add__, __radd__ = _operator(Add)
    __sub__, __rsub__ = _operator(Subtract)
    __mul__, __rmul__ = _operator(Multiply)
    __truediv__, __rtruediv__ = _operator(Divide)
    _power, __rpow__ = _operator(Power)

    def __pow__(self, other: Operand) -> Node:
        # One product, where a power takes an operation with masks and work space.
        return self.apply(Square()) if isinstance(other, (int, float)) and other == 2 else self._power(other)

    def __matmul__(self, other: Operand) -> Node:
        return _product(self, as_value(other))

    def __rmatmul__(self, other: Operand) -> Node:
        return _product(as_value(other), self)

    def __neg__(self) -> Node:
        return self.apply(Negative())

    def __abs__(self) -> Node:
        return self.abs()

    # For `1 > x` Python asks for `x < 1`, so comparisons need no method for the right side.
    __gt__, _ = _operator(partial(Compare, ">"))
    __ge__, _ = _operator(partial(Compare, ">="))
    __lt__, _ = _operator(partial(Compare, "<"))
    __le__, _ = _operator(partial(Compare, "<="))

    def __bool__(self) -> bool:
        raise TypeError("a value has no truth: it is computed later; choose between values by masks or nn.function.where")

    # without this Python would iterate by asking for x[0], x[1], ... for ever
    __iter__: None = None

    # an array on the left of an operator must not take the value apart element by element
    __array_ufunc__ = None


class Owner(Protocol):
    """A layer as the graph sees it: it owns variables, and nodes are its results. `nn.layer.Layer` is one."""

    name: str
    given_name: str

    @property
    def _own_variables(self) -> list[Variable]:
        """Its variables, in the order in which it made them."""

    def describe(self) -> str:
        """Return class and name for messages."""


class Constant(Value):
    """A fixed array. Numbers, arrays and lists of numbers in an expression become constants."""

    def __init__(self, array: Array) -> None:
        super().__init__(array.shape)
        self.array = array


class Node(Value):
    """The result of an operation on other values.

    Args:
        operation: the operation.
        inputs: these values.
    """

    def __init__(self, operation: Operation, inputs: Sequence[Value]) -> None:
        super().__init__(operation.infer(*(value.shape for value in inputs)))
        self.operation = operation
        self.inputs = tuple(inputs)
        self.layers: tuple[Owner, ...] = ()
        """The layers that have this as their result, innermost first."""
        self.given: tuple[Value, ...] = self.inputs
        """The values that the outermost of these layers was called on."""
        self.added: tuple[Node, ...] = ()
        """Values that are part of the loss of a model with this one: those that a model which gave it has by `add_loss`."""
        if isinstance(operation, Concatenate) and operation.axis % len(self.shape) == 1:
            self.mask = _mask_in_a_row(self.inputs)
        elif operation.mask_of != "none":
            self.mask = joint_mask(self, self.inputs if operation.mask_of == "all" else self.inputs[:1])
        elif isinstance(operation, Index) and self.inputs[0].mask is not None:
            steps = operation.steps(self.inputs[0].shape)
            mask = self.inputs[0].mask
            self.mask = mask if steps == slice(None) else None if steps is None else mask[:, steps]


def joint_mask(value: Value, sources: Sequence[Value]) -> Value | None:
    """Return the mask of a value with steps that belong to those of others: 1 where all masks are that those have; or None."""
    masks: list[Value] = []
    for source in sources:
        if source.mask is not None and source.mask not in masks and source.shape[:2] == value.shape[:2]:
            masks.append(source.mask)
    if not masks:
        return None
    found = masks[0]
    for other in masks[1:]:
        found = found.apply(Multiply(), other)
    return found


def _mask_in_a_row(sources: Sequence[Value]) -> Value | None:
    """Return the mask of sequences that follow each other, 1 at each step of those without one; None where none has one."""
    if all(source.mask is None for source in sources):
        return None
    masks = []
    for source in sources:
        found = source.mask
        if found is None:
            place: tuple[int | slice, ...] = (slice(None), slice(None), *(0 for _ in source.shape[2:]))
            first = source[place]
            # Nothing is greater than itself.
            found = (first > first).apply(Compare("=="), Constant(np.asarray(0.0)))
        masks.append(found)
    return masks[0].apply(Concatenate(1), *masks[1:])


def as_value(operand: Operand) -> Value:
    """Return a value for an operand that stands beside one in an expression, such as a number or an array.

    Raises TypeError for an operand of another type.
    """
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, (Real, np.ndarray, list, tuple)):
        refuse_masked("an array in an expression", operand)
        try:
            array = np.asarray(operand)
        except ValueError as error:
            raise TypeError(f"an expression takes lists that are arrays, got {operand!r}: {error}") from error
        if array.dtype.kind in "iufb":
            return Constant(array)
    raise TypeError(f"an expression takes values, numbers and numeric arrays, got {type(operand).__name__} {operand!r}")


def _numbers(given: Sequence[Any]) -> Sequence[int]:
    return given[0] if len(given) == 1 and isinstance(given[0], (list, tuple)) else given


def _product(a: Value, b: Value) -> Node:
    """Return a @ b, where a vector on the left is one row, on the right one column: an axis that the result does not have."""
    row, column = len(a.shape) == 1, len(b.shape) == 1
    matrix = a.reshape(1, *a.shape) if row else a
    product = matrix.apply(MatMul(), b.reshape(*b.shape, 1) if column else b)
    if not row and not column:
        return product
    shape = list(product.shape)
    # The rows first: without the columns their place, counted from the end, would be another one.
    if row:
        del shape[-2]
    if column:
        del shape[-1]
    return product.reshape(shape)


class Memory:
    """Vectors in which variables lie side by side, and the stores that show parts of them.

    Args:
        values: of the variables.
        gradients: of their gradients, or changes; None for variables without any.
    """

    def __init__(self, values: Array, gradients: Array | None) -> None:
        self.values, self.gradients = values, gradients


_NOT_COPIED = ("_value", "_gradient", "_memory", "_start", "_stores")


class Regularizer(Configurable, ABC):
    """A penalty of the numbers of a variable.

    >>> class Cubes(nn.regularizer.Regularizer):
    ...     def penalty(self, value):
    ...         return 0.01 * float((np.abs(value) ** 3).sum())
    ...     def add_gradient(self, value, gradient, work):
    ...         gradient += 0.03 * np.abs(value) * value
    >>> layer = nn.layer.Dense(10, kernel_regularizer=Cubes())
    """

    @abstractmethod
    def penalty(self, value: Array) -> float:
        """Return the penalty of a variable with this value."""

    @abstractmethod
    def add_gradient(self, value: Array, gradient: Array, work: Array) -> None:
        """Add the gradient of the penalty.

        Args:
            value: the variable's value.
            gradient: gradient of the loss for it, to which that of the penalty is added.
            work: other memory of the same shape, to compute in.
        """


class Constraint(Configurable, ABC):
    """A set to which the value of a variable is brought back after each update of the model.

    >>> class Bounded(nn.constraint.Constraint):
    ...     def project(self, value):
    ...         np.clip(value, -1, 1, out=value)
    >>> layer = nn.layer.Dense(10, kernel_constraint=Bounded())
    """

    @abstractmethod
    def project(self, value: Array) -> None:
        """Change the value, in place, to one of the set."""


class Variable(Value):
    """An array with a gradient, held by a model's `VariableStore` from `setup` on.

    `id` is the position in the model's `trainable_variables()`, -1 before that and for a variable that is not trained.
    `name` is `<layer>/<name>` for a layer's variable, for example `dense_1/kernel`. A variable that is copied or pickled apart
    from its model has no memory.

    Args:
        shape: numbers of elements along the axes.
        initializer: draws the first values, an initialiser or its word; default: `GlorotUniform`.
        name: its name; default: that of the attribute of the model.
        trainable: whether the rule of a model updates it.
    """

    # of the class, so that a copy without memory finds them
    _value: Array | None = None
    _gradient: Array | None = None
    _memory: Memory | None = None
    _start: int = 0

    def __init__(
        self,
        shape: Sequence[int],
        initializer: Initializer | InitializerName | None = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__(arguments.shape("Variable", "shape", shape))
        initializer = GlorotUniform() if initializer is None else initializer
        self.initializer: Initializer = arguments.part("Variable", "initializer", initializer, Initializer, "nn.initializer")
        self.local_name = name
        self.made_trainable = bool(arguments.instance("Variable", "trainable", trainable, bool))
        """Whether it is there to be trained, frozen or not."""
        self._trainable = self.made_trainable
        self.owner: Owner | None = None
        self.regularizer: Regularizer | None = None
        """The penalty of its size, which is part of the loss."""
        self.constraint: Constraint | None = None
        """The set to which each update is followed by a way back."""
        self.id = -1
        # Weak, so that a layer does not keep the memory of models that are gone.
        self._stores: WeakSet[Any] = WeakSet()

    @property
    def stores(self) -> WeakSet[Any]:
        """The stores of the models that use it; a copy has none."""
        if "_stores" not in vars(self):
            self._stores = WeakSet()
        return self._stores

    @property
    def name(self) -> str:
        """The name, unique in its model."""
        own = self.local_name or "variable"
        return f"{self.owner.name}/{own}" if self.owner is not None else own

    @property
    def trainable(self) -> bool:
        """Whether models that are set up from now on train it. Models that are set up already go on as they do."""
        return self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        self._trainable = bool(arguments.instance("Variable", "trainable", trainable, bool))

    @property
    def frozen(self) -> bool:
        """Whether it is not trained although it was made for that."""
        return self.made_trainable and not self._trainable

    @property
    def bound(self) -> bool:
        """Whether a model's store holds this variable."""
        return self._value is not None

    @property
    def has_gradient(self) -> bool:
        """Whether a plan computes a gradient for it, or for a buffer its change."""
        return self._gradient is not None

    def bind(self, identity: int, memory: Memory, start: int) -> None:
        """Take memory from a store, instead of the memory that it has where there is one.

        Args:
            identity: its id, -1 for one that is not trained.
            memory: vectors with room for the value, and for a gradient where there is one.
            start: place of its first number in them.
        """
        part = slice(start, start + math.prod(self.shape))
        self.id, self._memory, self._start = identity, memory, start
        self._value = memory.values[part].reshape(self.shape)
        self._gradient = None if memory.gradients is None else memory.gradients[part].reshape(self.shape)

    @property
    def value(self) -> Array:
        """The live value, a view into the store's vector."""
        if self._value is None:
            raise ValueError(f"Variable '{self.name}' has no value yet; call the model's setup() first")
        return self._value

    @property
    def gradient(self) -> Array:
        """The live gradient, a view into the store's vector."""
        if self._gradient is None:
            state = "is not trained" if self.bound else "has no gradient yet; call the model's setup() first"
            raise ValueError(f"Variable '{self.name}' {state}")
        return self._gradient

    def get_value(self) -> Array:
        """Return a copy of the value."""
        return self.value.copy()

    def set_value(self, array: Array) -> None:
        """Copy `array` into the value.

        Args:
            array: real numbers, in the shape of the variable.

        Raises: ValueError for another shape and for masked numbers, TypeError for anything but real numbers.
        """
        # A copy into the store's memory: plans hold views of it.
        given = as_array(f"Variable '{self.name}'", array)
        if given.dtype.kind not in "iufb":
            raise TypeError(f"Variable '{self.name}' must hold numbers, got {given.dtype}")
        if given.shape != self.shape:
            raise ValueError(f"Variable '{self.name}' has shape {self.shape}, got an array of shape {given.shape}")
        np.copyto(self.value, given)

    def get_gradient(self) -> Array:
        """Return a copy of the gradient."""
        return self.gradient.copy()

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to copy: not the memory, which is the store's."""
        return {name: value for name, value in vars(self).items() if name not in _NOT_COPIED}

    def __repr__(self) -> str:
        return f"Variable(name={self.name!r}, shape={self.shape}, id={self.id})"
