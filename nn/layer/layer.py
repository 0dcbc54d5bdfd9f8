"""Base class of layers, names for layers without one, and functions that authors of layers share."""

from __future__ import annotations

import itertools
import logging
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar, Token
from typing import Any, ClassVar, NoReturn, TypeAlias, TypeVar

from nn import arguments
from nn.activation.activation import Activation, Linear
from nn.arguments import Configurable, part
from nn.arrays import Shape
from nn.extension import Extension, check_object, checked_call, is_ours, remedy_of, shown, signature_of
from nn.initializer import Initializer, InitializerName
from nn.operation.operation import Operation
from nn.value.store import Buffer
from nn.value.value import Constraint, ConstraintName, Node, Owner, Regularizer, RegularizerName, Value, Variable

Inputs: TypeAlias = Value | Sequence[Value]
_LOG = logging.getLogger(__name__)
Made = TypeVar("Made")


class _Callable(Extension):
    """Lets a class be called with its inputs: `Dense(inputs=x, units=64)` is `Dense(units=64)(x)`."""

    def __call__(cls: type[Made], *args: Any, inputs: Inputs | None = None, **keywords: Any) -> Made:
        layer: Any = super().__call__(*args, **keywords)  # type: ignore[misc]
        made: Made = layer if inputs is None else layer(inputs)
        return made


class Layer(
    Configurable,
    metaclass=_Callable,
    fixed=("given_name", "_own_variables", "built", "_trainable", "_used", "_fixed"),
    internal=("describe", "fix"),
):
    """A piece of a model with variables of its own.

    A subclass makes its variables in `build`, once, when the shape of its input is known, and combines values in `call`.
    Calling a layer twice uses the same variables twice. `name` is given or, in a model, made of class and number.

    A value may have a `mask`, which tells steps of sequences from padding. Functions of single steps hand it on; `call` may use
    it, or set that of its result. Where it does neither, a warning tells that padding is read as if it were data from there on.

    `layer.trainable = False` freezes all variables that the layer uses, those of layers within it, too, from the next
    `setup` or `compile` of a model on; a model file keeps that. `fit` of a model that was set up before refuses until then.
    Buffers, which training changes without a gradient, move all the same; a frozen `BatchNorm` leaves its own unless told
    otherwise.

    To add one: a class in the file of its kin, its name in `nn/layer/__init__.py` and in the table of nn/README.md, and a row
    in `tests/contract/nn_rows/layers.py`, which a test demands. A constructor keeps each argument as an attribute of the same
    name: so the layer stands in model files.

    >>> class Scale(nn.layer.Layer):
    ...     def build(self, input_shape):
    ...         self.factor = self.add_variable("factor", input_shape[-1:], nn.initializer.Constant(1.0))
    ...     def call(self, x):
    ...         return x * self.factor
    >>> Scale()(nn.Placeholder([-1, 4])).shape
    (-1, 4)
    """

    _one_everywhere: ClassVar[bool] = True
    several: ClassVar[bool] = False
    """Whether it combines several values. It is then called on a list of them (or on one), and `build` and `call` get lists."""

    #: Whether it may be called on values beside its first one, `build` and `call` getting a list then.
    _further: ClassVar[bool] = False

    given_name: str
    variables: list[Variable] = shown("_own_variables")
    """Variables and buffers, in the order in which the layer made them."""

    _own_variables: list[Variable]
    built: bool
    _trainable: bool
    _used: list[Variable]
    _fixed: bool

    def __init__(self, name: str | None = None) -> None:
        # A slash stands between the name of a layer and those of its variables.
        self.given_name = arguments.part_name(self, name)
        self._own_variables = []
        self.built = False
        self._trainable = True
        self._used = []
        self._fixed = False
        self._numbered = False
        self._named_for = ""

    @property
    def name(self) -> str:
        """The name; the class in lower case as long as no model has named the layer."""
        return self.given_name or type(self).__name__.lower()

    @name.setter
    def name(self, name: str) -> None:
        arguments.part_name(self, name, empty=True)
        if self._fixed:
            raise ValueError(
                f"{self.describe()} is part of a model that is set up, whose variables bear its name: it cannot be {name!r}; "
                "name layers before setup()"
            )
        self._keep(given_name=name)

    @property
    def trainable(self) -> bool:
        """Whether training changes the variables of this layer, or some of them."""
        # of a model that was loaded, or frozen as a whole, the variables tell
        made = [variable for variable in self._used if variable.made_trainable]
        return any(variable.trainable for variable in made) if made else self._trainable

    @trainable.setter
    def trainable(self, trainable: bool) -> None:
        arguments.instance(self, "trainable", trainable, bool)
        self._trainable = trainable
        self._freeze(self._used)

    def build(self, input_shape: Any) -> None:
        """Make the variables for inputs of this shape; its first axis is -1, the batch."""

    @abstractmethod
    def call(self, x: Any) -> Value:
        """Return the output for the input `x`."""

    @checked_call
    def __call__(self, x: Inputs, *others: NoReturn, **settings: NoReturn) -> Node:
        """Build the layer if it is not, and return its output for `x`, a value, or a list of values where it takes several."""
        if settings:
            hint = next(filter(None, (remedy_of("layer()", "", name) for name in settings)), "")
            raise TypeError(f"{self.describe()} is called without named arguments, got {', '.join(settings)}{hint}")
        if others:
            raise TypeError(
                f"{self.describe()} is called on a list of values, layer([a, b]), got {1 + len(others)} arguments"
                if self.several
                else f"{self.describe()} is called on one value, got {1 + len(others)} arguments"
            )
        # Before anything can fail, so that errors bear the name that the layer will get.
        note_call(self)
        values: list[Any] = list(x) if isinstance(x, (list, tuple)) else [x]
        for value in values:
            if not isinstance(value, Value):
                raise TypeError(f"{self.describe()} is called on a value of a graph, got {type(value).__name__}")
        if not values or (len(values) > 1 and not (self.several or self._further)):
            raise ValueError(f"{self.describe()}: expected {'values' if self.several else 'one value'}, got {len(values)}")
        try:
            self._made = False  # `build` and `call` may set what they like: they are the second half of the constructor
            if not self.built:
                shapes = [value.shape for value in values]
                self.build(shapes if self.several or len(values) > 1 else shapes[0])
                check_object(self)  # its variables may hide what `call` needs
                self.built = True
            output = self.call(values if self.several or len(values) > 1 else values[0])
        except TypeError as error:
            # NumPy calls a method of the value where it has one of that name, with arguments for arrays
            if "__array_ufunc__" not in str(error) and not re.match(
                r"(Value|Node)\.\w+\(\) got an unexpected key.*'out'", str(error)
            ):
                raise
            raise TypeError(
                f"{self.describe()}: a function of NumPy takes arrays, and got a value of the graph; nn.function has those of "
                "values"
            ) from error
        except ValueError as error:
            message = str(error)
            if message.startswith(self.describe()):
                raise
            raise ValueError(f"{self.describe()}: {message}") from error
        finally:
            self._made = True
        if not isinstance(output, Value):
            hint = "; is a 'return' missing?" if output is None else ""
            raise TypeError(f"{self.describe()}: call() must return a value of the graph, got {type(output).__name__}{hint}")
        # A layer that hands its input on still needs a node of its own to be the layer's result.
        if any(output is value for value in values) or not isinstance(output, Node):
            output = output.apply(Linear())
        output.layers += (self,)
        output.given = tuple(values)
        between = list(_between(output, values))
        found = [each for each in between if isinstance(each, Variable) and each not in self._used]
        self._used += found
        masks = [value.mask for value in values if value.mask is not None]
        if masks and output.mask is None and not any(each in between for each in masks):
            _LOG.warning(
                "%s neither uses nor hands on the mask of its input: from here on padding is read as data", self.describe()
            )
        if not self._trainable:
            self._freeze(found)
        return output

    def add_variable(
        self, name: str, shape: Shape, initializer: Initializer | InitializerName | None = None, trainable: bool = True
    ) -> Variable:
        """Make a variable of this layer. The order of the calls is the order of the ids.

        Attributes `<name>_regularizer` and `<name>_constraint` of the layer, such as `kernel_regularizer`, hold for it.

        Args:
            name: its name within the layer.
            shape: its shape.
            initializer: draws its first values, by a word or an object; None for `GlorotUniform`.
            trainable: whether training changes it.
        """
        try:
            variable = Variable(shape, initializer, name, trainable)
        except TypeError as error:
            # as errors of values do, which get it behind `build`
            raise TypeError(f"{self.describe()}: {error}") from error
        variable.owner = self
        variable.regularizer = getattr(self, f"{name}_regularizer", None)
        variable.constraint = getattr(self, f"{name}_constraint", None)
        self._own_variables.append(variable)
        return variable

    def add_buffer(self, name: str, shape: Shape, initializer: Initializer | None = None) -> Buffer:
        """Make a statistic of this layer.

        Args:
            name: its name within the layer.
            shape: its shape.
            initializer: makes its first values; None for zeros.
        """
        buffer = Buffer(shape, initializer, name)
        buffer.owner = self
        self._own_variables.append(buffer)
        return buffer

    def get_config(self) -> dict[str, Any]:
        found = super().get_config()
        # also of a class that keeps no arguments: a model that is loaded names its layers as it did
        if self.given_name and "name" not in found and "name" in signature_of(type(self)).parameters:
            found["name"] = self.given_name
        return found

    def argument(self, name: str) -> Any:
        return self.given_name or None if name == "name" else super().argument(name)

    def fix(self) -> None:
        """Take note that a model with this layer is set up."""
        self._fixed = True

    def _take(self, name: str, value: Any) -> bool:
        """Take an argument before `build`, as the constructor would have."""
        if self.built or not is_ours(type(self)) or name not in signature_of(type(self)).parameters:
            return False
        # Made anew, so that the checks of the constructor hold for a change as well.
        other = type(self)(**{**self.get_config(), name: value})
        # What is no argument stays: whether the layer is frozen, and the variables that it has used.
        vars(self).update((each, kept) for each, kept in vars(other).items() if each not in ("_trainable", "_used"))
        return True

    def _built_from(self, name: str) -> bool:
        return self.built and bool(parts_within(vars(self).get(name)))

    def describe(self) -> str:
        """Return class and name for messages."""
        return f"{type(self).__name__} '{self.given_name}'" if self.given_name else type(self).__name__

    def _freeze(self, variables: Iterable[Variable]) -> None:
        """Let the layer's `trainable` hold for variables that were made to be trained."""
        for variable in variables:
            if variable.made_trainable:
                variable.trainable = self._trainable


def parts_within(value: object) -> tuple[object, ...]:
    """Return the layers and variables that a value is or, within lists and dicts, holds."""
    # most are numbers and texts, and to ask whether these are mappings takes longest
    if value is None or type(value) in (bool, int, float, str):
        return ()
    if isinstance(value, (Layer, Variable)):
        return (value,)
    if isinstance(value, Mapping):
        return parts_within(list(value.values()))
    if isinstance(value, (list, tuple)):
        return tuple(part for each in value for part in parts_within(each))
    return ()


def _between(output: Node, inputs: Sequence[Value]) -> Iterator[Value]:
    """Yield the values between the inputs of a layer and its output, variables and masks that it takes among them."""
    todo: list[Value] = [output]
    # The search ends at the inputs and their masks: what lies before them is not the layer's.
    seen = set(inputs)
    masks = {value.mask for value in inputs}
    while todo:
        value = todo.pop()
        if value in seen:
            continue
        seen.add(value)
        yield value
        if isinstance(value, Node) and value not in masks:
            todo += value.inputs


class Naming:
    """Follows the calls of layers while a model is built, and names them by class and number: dense_1, dense_2.

    As long as the context lasts, a layer without a name bears the one that it is about to get, so that errors can tell
    which of several it is.
    """

    def __init__(self) -> None:
        self._places: dict[Owner, int] = {}
        self._nameless: list[Owner] = []
        self._taken: set[str] = set()
        self._numbers: Counter[str] = Counter()
        self._token: Token[Naming | None] | None = None

    def __enter__(self) -> Naming:
        self._token = _CURRENT.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        if self._token is not None:
            _CURRENT.reset(self._token)
        # `name_layers` names those that are part of the graph; a layer whose result is not used gets no name.
        for layer in self._nameless:
            layer.name = ""

    def meet(self, layer: Owner) -> None:
        """Take note of a call."""
        if layer in self._places:
            # A layer that is used twice keeps its first place.
            return
        self._places[layer] = len(self._places)
        if not layer.given_name:
            layer.name = _free_name(layer, self._numbers, self._taken)
            self._nameless.append(layer)
        self._taken.add(layer.given_name)

    def place(self, layer: Owner) -> int:
        """Return how many layers were called before the first call of this one; those never called come last."""
        return self._places.get(layer, len(self._places))


_CURRENT: ContextVar[Naming | None] = ContextVar("the model that is being built", default=None)


def note_call(layer: Owner) -> None:
    """Tell the model that is being built, if there is one, that it calls a layer."""
    naming = _CURRENT.get()
    if naming is not None:
        naming.meet(layer)


def name_layers(layers: Iterable[Owner], *, again: bool = False) -> None:
    """Name every layer that has no name, in this order.

    Args:
        layers: the layers of a model.
        again: whether layers of other models may get other names where two of them bear the same: those that were named by
            their class and a number another number, those that were named by hand a number behind their name.

    Raises ValueError where two layers bear the same name.
    """
    layers = list(layers)
    if again:
        _tell_apart(layers)
    given = Counter(layer.given_name for layer in layers if layer.given_name)
    for name, count in given.items():
        if count > 1:
            raise ValueError(f"{count} layers are named '{name}'; names must differ within a model")
    numbers: Counter[str] = Counter()
    for layer in layers:
        if not layer.given_name:
            name = _free_name(layer, numbers, given)
            if isinstance(layer, Layer):
                layer._keep(given_name=name, _numbered=True)
            else:
                layer.name = name
    for layer in layers:
        # The name by which its own model knows it, however a model around that one renames it later.
        if isinstance(layer, Layer) and not layer._named_for:
            layer._keep(_named_for=layer.given_name)


def _tell_apart(layers: Sequence[Owner]) -> None:
    """Rename layers that models had before where others bear the same name; the first of them keeps it."""
    bearers = Counter(layer.given_name for layer in layers)
    numbered: set[str] = set()
    named = {layer.given_name for layer in layers if not (isinstance(layer, Layer) and layer._named_for)}
    for layer in layers:
        name = layer.given_name
        if not isinstance(layer, Layer) or bearers[name] == 1:
            continue
        if layer._numbered:
            # Also where one that was named by hand bears the same name.
            if name in numbered or any(each.given_name == name and not _is_numbered(each) for each in layers):
                layer._keep(given_name="")
            numbered.add(name)
        elif layer._named_for:
            if name in named:
                number = next(number for number in itertools.count(2) if f"{name}_{number}" not in bearers)
                bearers[f"{name}_{number}"] = 1
                layer._keep(given_name=f"{name}_{number}")
            named.add(name)


def _is_numbered(layer: Owner) -> bool:
    return isinstance(layer, Layer) and layer._numbered


def _free_name(layer: Owner, numbers: Counter[str], taken: Container[str]) -> str:
    kind = type(layer).__name__.lower()
    while True:
        numbers[kind] += 1
        name = f"{kind}_{numbers[kind]}"
        if name not in taken:
            return name


def penalty(owner: object, name: str, given: Regularizer | RegularizerName | None) -> Regularizer | None:
    """Return the regulariser that was given, by itself or by its word, or None; raise as `chosen` does."""
    found: Regularizer | None = None if given is None else part(owner, name, given, Regularizer, "nn.regularizer")
    return found


def bounds(owner: object, name: str, given: Constraint | ConstraintName | None) -> Constraint | None:
    """Return the constraint that was given, by itself or by its word, or None; raise as `chosen` does."""
    found: Constraint | None = None if given is None else part(owner, name, given, Constraint, "nn.constraint")
    return found


_Part = TypeVar("_Part", Activation, Initializer)


def chosen(owner: object, name: str, given: Any, default: _Part) -> _Part:
    """Return the activation or initialiser that was given, by itself or by its word, or the default for None.

    Raises TypeError naming owner and argument for anything that is no `Activation`, or no `Initializer`, like the default;
    ValueError for an unknown word.
    """
    kind, package = (Activation, "nn.activation") if isinstance(default, Activation) else (Initializer, "nn.initializer")
    found: _Part = part(owner, name, default if given is None else given, kind, package)
    return found


def direct(operation: Operation, x: Value, *others: Value) -> Node:
    """Apply the operation of a layer. An error does not name the operation: the layer's name stands in front of it."""
    try:
        return x.apply(operation, *others)
    except ValueError as error:
        raise ValueError(str(error).removeprefix(f"{type(operation).__name__}: ")) from error
