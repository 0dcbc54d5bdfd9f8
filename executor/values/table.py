"""Table of the values beyond plain data: how each becomes data, and is made again without anything that the sender chooses.

A row is found by the name of a type where a value leaves, by its own name where one arrives. The argument of `from_data` comes
from a peer: it checks all of it, and makes objects of its own type only. The types of users are in a table of their own,
`Registered`, which travels with the function that takes or returns them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from network.budget import Room
from network.errors import ProtocolError
from rpc.code_closure import OWN_PACKAGES

from ..errors import ConversionError
from . import arrays, frames, pandas_arrays, standard
from .standard import Row

T = TypeVar("T")
_ROWS = (*standard.ROWS, *arrays.ROWS, *frames.ROWS, *pandas_arrays.ROWS, *arrays.SPARSE_ROWS)
_BY_NAME = {row.name: row for row in _ROWS}
_BY_TYPE = {kind: row for row in _ROWS for kind in row.types}
_PLAIN = (bool, int, float, str, bytes, list, tuple, dict, type(None))
DATA_ONLY = "a broadcast value is numbers, texts, dates, arrays, DataFrames, or lists, tuples, sets and dicts of these"
_ADVICE = (
    "send numbers, texts, dates, arrays, DataFrames, or lists, tuples, sets and dicts of these; define its class in the module "
    "of the function that the nodes execute; or say how it becomes data by executor.register_value"
)


class Converter(NamedTuple):
    """Conversion of a user's type to data and back; both sides know it by `name`.

    Args:
        name: "=", module and qualified name.
        type: the class.
        to_data: makes data of an instance.
        from_data: makes an instance of data.
    """

    name: str
    type: type
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]


Registered = Mapping[type, Converter]


class Registry:
    """Types that users have registered in this process; a new mapping for each change, so that one can be kept."""

    def __init__(self) -> None:
        self.current: Registered = {}

    def add(self, converter: Converter) -> None:
        """Add a `converter`; another class of the same name (a cell of a notebook was run again) is replaced."""
        # never in place: functions that are packed tell by its identity that types were registered since
        others = {kind: known for kind, known in self.current.items() if known.name != converter.name}
        self.current = {**others, converter.type: converter}


REGISTRY = Registry()


def register_value(type: type[T], to_data: Callable[[T], Any], from_data: Callable[[Any], T]) -> None:
    """Let instances of `type` travel as arguments and results of tasks, within other values, too, and as keys.

    Register where tasks are submitted, before that: the three travel with every function, so that they may be defined anywhere,
    in a notebook, too, and nodes need no registration of their own. Registering a class again replaces the old functions.

    Args:
        type: a class; instances of its subclasses are not meant.
        to_data: gives a value that may travel, of built-in or other registered types, for an instance.
        from_data: makes an instance of that. It runs where tasks are submitted, on data that a node has sent: it must not trust
            them.

    Raises: TypeError for a `type` that is no class or a function that cannot be called, ValueError for a type that travels as
    it is.

    >>> import array
    >>> register_value(array.array, lambda a: (a.typecode, a.tobytes()), lambda data: array.array(*data))
    """
    if not inspect.isclass(type):
        raise TypeError(f"register_value 'type' must be a class, got {type!r}.")
    if type in _PLAIN or _row_of(type) is not None or type.__module__.partition(".")[0] in OWN_PACKAGES:
        raise ValueError(f"register_value 'type' must be one that does not travel by itself, got {type.__qualname__}.")
    for name, function in (("to_data", to_data), ("from_data", from_data)):
        if not callable(function):
            raise TypeError(f"register_value '{name}' must be callable, got {function!r}.")
    REGISTRY.add(Converter(f"={type.__module__}.{type.__qualname__}", type, to_data, from_data))


class Conversion:
    """Conversion of one message for `network.values`. `made` is the number of bytes of objects that the rows make, about; more
    than there is room for are refused.

    Args:
        registered: the user's types.
        tree: the message as it arrived, which bounds the room.
        arrays: those of `tree`.
        advice: advice about a type that is in no table.
    """

    __slots__ = ("_advice", "_arrays", "_registered", "_room", "_tree", "made")

    def __init__(self, registered: Registered, tree: bytes = b"", arrays: Sequence[Any] = (), advice: str = _ADVICE) -> None:
        self._registered, self._tree, self._arrays, self._advice = registered, tree, arrays, advice
        self._room: Room | None = None
        self.made = 0

    def advice(self) -> str:
        return self._advice

    def has(self, kind: type) -> bool:
        """Tell if the user has registered a converter for `kind`."""
        return kind in self._registered

    def to_data(self, value: Any) -> tuple[str, Any] | None:
        """Return (name, data), or None for a type that is not in the tables.

        Raises: TypeError for a value that cannot travel, ConversionError when the user's function fails.
        """
        kind = type(value)
        if kind in self._registered:
            converter = self._registered[kind]
            return converter.name, _called(converter.to_data, value, kind, "to_data")
        row = _row_of(kind)
        if row is None:
            if isinstance(value, Future):
                raise TypeError("A Future cannot travel: pass its result, future.result().")
            return None
        data = row.to_data(value)
        self.made += row.weight(data)
        return row.name, data

    def from_data(self, name: str, data: Any) -> Any:
        """Make the value again.

        Args:
            name: name of its converter.
            data: the data that `to_data` gave.

        Raises: ProtocolError for a name or data that `to_data` does not give; ConversionError where something is missing here,
        or when the user's function fails.
        """
        if name.startswith("="):  # a converter of the user; no row of ours begins so
            return self._made_by_user(name, data)
        row = _BY_NAME.get(name)
        if row is None:
            raise ProtocolError(f"A received value is of the unknown kind {name!r:.80}.")
        try:
            self.made += row.weight(data)  # before the objects are made, which may be many for few bytes
            # only once a row is used: most messages are plain data
            if self._room is None:
                self._room = Room(self._tree, sum(array.nbytes for array in self._arrays))
            self._room.check(self.made)
            return row.from_data(data)
        except (ProtocolError, ConversionError):  # they name the fault better than the text below
            raise
        except Exception as error:
            raise ProtocolError(f"A received {name} is malformed: {type(error).__name__}: {error!s:.200}.") from error

    def _made_by_user(self, name: str, data: Any) -> Any:
        for converter in self._registered.values():
            if converter.name == name:
                value = _called(converter.from_data, data, converter.type, "from_data")
                if not isinstance(value, converter.type):
                    raise ConversionError(f"'from_data' of {name[1:]} gave a {type(value).__qualname__}.")
                return value
        raise ProtocolError(f"A received value is of the class {name[1:]!r:.80}, which is not registered.")


def _row_of(kind: type) -> Row | None:
    # by package and name: modules within a package move from release to release, and nothing is imported for a look
    return _BY_TYPE.get(f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}")


def _called(function: Callable[[Any], Any], value: Any, kind: type, what: str) -> Any:
    """Call a function of the user. Raises: ConversionError, so that its mistake is not taken for a hostile peer."""
    try:
        return function(value)
    except Exception as error:
        raise ConversionError(f"'{what}' of {kind.__qualname__} raised {type(error).__name__}: {error}") from error
