"""Arguments, results and exceptions on their way: a tree as bytes, and the arrays that it refers to, which are not copied.

The tree is packed here, not by the session, because each function has a class table of its own, and because lists of many
numbers may be longer than a message may be beside its arrays: long bytes travel as an array.
"""

from __future__ import annotations

import builtins
import re
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

import msgpack
import numpy as np

from network.budget import Room, check_sent
from network.errors import ProtocolError
from network.values import Array, decode, encode
from network.wire import Limits, unpack
from rpc.shipping import load_trusted, pack_trusted

from .errors import ConversionError, RemoteTraceback, Text, remote_error
from .values import Conversion, Registered

MOST_BYTES = Limits().message
_SMALL = 200  # bytes that a task costs beside its content, about
_NO_TYPES: Registered = {}
_NO_ARRAYS: list[Array] = []  # of all payloads without; a hundred thousand empty lists are 6 MB


class Payload(NamedTuple):
    """Data ready to travel: a `tree` in msgpack, and its `arrays`."""

    tree: bytes
    arrays: list[Array]

    @property
    def size(self) -> int:
        return size_of_payload(self.tree, self.arrays)


def size_of_payload(tree: bytes, arrays: list[Array]) -> int:
    """Estimate the bytes that the task or the result takes."""
    total = _SMALL + len(tree)
    return total + sum(array.nbytes for array in arrays) if arrays else total


def _within_limit(payload: Payload) -> Payload:
    if payload.size > MOST_BYTES:
        raise ValueError(f"The data of a task may have {MOST_BYTES} bytes, got {payload.size}: cut it into parts.")
    return payload


def pack_payload(
    value: object, classes: Sequence[type] = (), registered: Registered = _NO_TYPES, advice: str | None = None
) -> Payload:
    """Make a value ready to travel. Its arrays must stay unchanged until they have left.

    Args:
        value: the value.
        classes: class table of the function.
        registered: the user's types that it may hold.
        advice: advice of an error; default: that of `values.Conversion`.

    Raises: TypeError naming the type that cannot travel, ValueError for more than 2 GiB, or 64 MiB of objects
    (`network.budget`), ConversionError when a function given to `register_value` fails.
    """
    conversion = Conversion(registered) if advice is None else Conversion(registered, advice=advice)
    tree, arrays = encode(value, classes, conversion)
    try:
        packed: bytes = msgpack.packb(tree)
    except UnicodeEncodeError as error:
        raise TypeError(f"A str that is no valid Unicode cannot travel: {error.reason}.") from None
    # the limit of 2 GiB before that of objects: it names the remedy
    payload = _within_limit(Payload(packed, arrays or _NO_ARRAYS))
    check_sent(packed)
    # only where values of further types are made: plain data were checked above
    if conversion.made:
        try:
            Room(packed, payload.size - len(packed)).check(conversion.made)
        except ProtocolError as error:
            raise ValueError(f"{error}.") from error
    return payload


def unpack_payload(tree: Any, arrays: Any, classes: Sequence[type] = (), registered: Registered = _NO_TYPES) -> Any:
    """Make the value that `pack_payload` was given, with the same tables.

    Args:
        tree: tree of the payload, as it arrived.
        arrays: its arrays.
        classes: those of `pack_payload`.
        registered: types that users have registered.

    Raises: ProtocolError for anything that `pack_payload` does not make; ConversionError when something is missing here, or a
    function given to `register_value` fails.
    """
    _check_parts(tree, arrays)
    return decode(unpack(tree), arrays, classes, Conversion(registered, tree, arrays))


def pack_pickled(value: object, classes: Sequence[type]) -> Payload:
    """Pickle a result for a submitter that trusts the nodes.

    Args:
        value: the result.
        classes: the user's, which came from there and go by their number.

    Raises: TypeError for a value that cannot be pickled, ValueError for more than 2 GiB.
    """
    return _within_limit(Payload(*pack_trusted(value, classes)))


def unpack_pickled(tree: Any, arrays: Any, classes: Sequence[type]) -> Any:
    """Load the value that `pack_pickled` was given. **Runs code that the node has sent.**

    Args:
        tree: tree of the payload, as it arrived.
        arrays: its arrays.
        classes: those of `pack_pickled`.

    Raises: ConversionError for a pickle that cannot be loaded here.
    """
    _check_parts(tree, arrays)
    try:
        return load_trusted(tree, arrays, classes)
    except Exception as error:
        raise ConversionError(f"A result cannot be loaded here: {type(error).__name__}: {error}") from error


def _check_parts(tree: Any, arrays: Any) -> None:
    # by exact type: NumPy would take a subclass as well
    if type(tree) is not bytes or type(arrays) is not list or not all(type(array) is np.ndarray for array in arrays):
        raise ProtocolError("The data of a task is malformed.")


# Exceptions as data: the name of the class, its arguments and fields, and the traceback as text. Nothing is unpickled.
#
# The submitter makes the exception again if it has the class: from the function's own class table, or from a module that it has
# imported already. No constructor of the user runs, only that of the built-in base. It is kept if it prints the same as the
# exception where it was raised; otherwise a `RemoteError` says that. The parts of a group are made one by one.

TEXT_BYTES = 64 << 10  # of a traceback, its end; the parts of a group share as much
MOST_PARTS = 1000  # exceptions in a group, at all levels; a larger group comes as text
MOST_LEVELS = 16  # of groups in groups
_KEYS = {"module", "name", "number", "base", "args", "fields", "shown", "parts", "message", "printed", "text"}
_NUMPY = 1  # shown of an argument that `_form_of` has made data of
_DTYPE = re.compile(r"[<>|=][a-zA-Z]\d*(\[\d*\w+\])?")
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())  # Python 3.10 has none

# past methods that a class may define in their place
_args_of = cast(Any, vars(BaseException)["args"]).__get__
_dict_of = cast(Any, vars(BaseException)["__dict__"]).__get__
_trace_of = cast(Any, vars(BaseException)["__traceback__"]).__get__


# ---- where it was raised
def pack_failure(error: BaseException, classes: Sequence[type] = ()) -> Payload:
    """Describe `error` as data; arguments that cannot travel go as text. This succeeds for any class.

    Args:
        error: the exception.
        classes: the user's; their instances travel with their fields.
    """
    # counted up to the bound: a group may hold itself, or millions
    count = sum(1 for _ in islice(_members(error), MOST_PARTS + 1))
    # an equal share for each part, so that the last ones are told as well
    room = TEXT_BYTES // max(1, count - 1) if count <= MOST_PARTS else 0
    try:
        return pack_payload(_described(error, classes, TEXT_BYTES, room), classes)
    except Exception as broken:  # noqa: BLE001  all of it together may be more than a message may hold
        return pack_payload(_outline(error, classes, f"(what it holds cannot be told: {type(broken).__name__})"), classes)


def _members(error: BaseException, level: int = 0) -> Iterator[BaseException]:
    """Yield an exception and the parts of it, if it is a group; more than `MOST_PARTS` of it where levels are too many."""
    yield error
    if isinstance(error, _GROUP):
        if level == MOST_LEVELS:
            yield from [error] * MOST_PARTS
            return
        for part in _parts_of(error):
            yield from _members(part, level + 1)


def _parts_of(group: BaseException) -> tuple[BaseException, ...]:
    parts: tuple[BaseException, ...] = _GROUP.exceptions.__get__(group)
    return parts


def _described(error: BaseException, classes: Sequence[type], size: int, room: int) -> dict[str, Any]:
    """Describe `error`, with `size` bytes of traceback, and `room` bytes for each part."""
    told = _outline(error, classes, "")
    args, fields = _arguments(error), dict(_fields(error))
    parts = [_described(part, classes, room, room) for part in _parts_of(error)] if room and isinstance(error, _GROUP) else []
    if isinstance(error, _GROUP):
        # the parts are described one by one, so they are no arguments here
        args = (_GROUP.message.__get__(error),)
    sent: dict[int | str, Any] = {}
    # arguments by place, fields by name, in one go
    held: list[tuple[int | str, Any]] = [*enumerate(args), *fields.items()]
    for key, item in held:
        if type(error).__module__.partition(".")[0] == "numpy" and (form := _form_of(item)) is not None:
            sent[key], told["shown"][key] = form, _NUMPY
            continue
        sent[key] = _travelling(item, classes)
        # it travels as text, so it must print as it did
        if sent[key] is not item:
            told["shown"][key], _ = _printed(item, repr)
    told["args"] = tuple(sent[place] for place in range(len(args)))
    told["fields"] = {name: sent[name] for name in fields}
    try:
        told["text"] = _clip("".join(traceback.format_exception(error)), size)
    except BaseException as broken:  # noqa: BLE001  a user's class may raise anything
        text = "".join(traceback.format_tb(_trace_of(error)))
        told["text"] = _clip(f"{text}(what it holds cannot be shown: {type(broken).__name__})", size)
    return {**told, "parts": parts}


def _outline(error: BaseException, classes: Sequence[type], text: str) -> dict[str, Any]:
    kind = type(error)
    message, printed = _printed(error, str)
    return {
        "module": str(kind.__module__),
        "name": kind.__qualname__,
        "number": classes.index(kind) if kind in classes else -1,
        "base": _base_of(kind).__name__,
        "args": (),
        "fields": {},
        "shown": {},  # by place or name: the text of arguments and fields that come as text
        "parts": [],
        "message": message,
        "printed": printed,
        "text": text,
    }


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """Return the arguments that make the exception again; those of the system keep their files apart."""
    args: tuple[Any, ...] = _args_of(error)
    # without them the text of the error would lack the file
    if isinstance(error, OSError) and len(args) == 2 and error.filename is not None:
        files = (error.filename,) if error.filename2 is None else (error.filename, None, error.filename2)
        return (*args, *files)  # in the place between is Windows' own error code
    return args


def _fields(error: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield the fields in its `__dict__` and in the slots of its classes."""
    for name, item in _dict_of(error).items():
        if _is_field(name):
            yield name, item
    for name, slot in _heap_slots(type(error)).items():
        if _is_field(name):
            try:
                yield name, slot.__get__(error)
            except AttributeError:  # an empty slot
                continue


def _heap_slots(cls: type) -> dict[str, types.MemberDescriptorType]:
    """List the slots of class statements; the members of built-in exceptions are made by their constructors."""
    bases = [base for base in reversed(cls.__mro__) if base.__flags__ & _HEAP_TYPE]
    return {n: d for base in bases for n, d in vars(base).items() if isinstance(d, types.MemberDescriptorType)}


def _is_field(name: Any) -> bool:
    if type(name) is not str:
        return False
    return name == "__notes__" or (name.isidentifier() and not name.startswith("__"))  # those of `add_note` are no code


def _form_of(item: Any) -> list[Any] | None:
    """Return as data the arguments by which NumPy's own exceptions print themselves: types, functions, tuples; None for
    others.
    """
    if isinstance(item, np.dtype):
        return ["dtype", item.str] if item.isbuiltin == 1 or item.kind in "SUV" else None
    if isinstance(item, np.ufunc):
        name = str(item.__name__)
        return ["ufunc", name] if getattr(np, name, None) is item else None
    if type(item) is tuple:
        forms = [_form_of(each) for each in item]
        return None if None in forms else ["tuple", *forms]
    return ["value", item] if item is None or type(item) in (bool, int, str) else None


def _of_form(form: Any) -> Any:
    """Make the argument that `_form_of` was given. Raises: ValueError, TypeError for anything else; nothing but NumPy's own
    is made.
    """
    if type(form) is not list or not form or type(form[0]) is not str:
        raise ValueError(f"no form of NumPy's: {form!r:.80}")
    kind, *parts = form
    if kind == "tuple":
        return tuple(map(_of_form, parts))
    (part,) = parts
    if kind == "dtype" and type(part) is str and _DTYPE.fullmatch(part):
        return np.dtype(part)
    found = getattr(np, part, None) if kind == "ufunc" and type(part) is str else None
    if isinstance(found, np.ufunc):
        return found
    if kind == "value" and (part is None or type(part) in (bool, int, str)):
        return part
    raise ValueError(f"no form of NumPy's: {form!r:.80}")


def _travelling(item: Any, classes: Sequence[type]) -> Any:
    try:
        # tried, as a class may pretend to be data and fail only when it is packed
        pack_payload(item, classes)
    except BaseException:  # noqa: BLE001  a user's class may raise anything, and may pretend to be data
        return _printed(item, str)[0]
    return item


def _printed(item: Any, how: Callable[[Any], str]) -> tuple[str, bool]:
    """Show an object; also return whether that was possible."""
    try:
        return _clip(how(item)), True
    except BaseException as broken:  # noqa: BLE001  a user's __str__ and __repr__ may raise anything
        return f"({type(item).__name__}, which cannot be shown: {type(broken).__name__})", False


def _clip(text: str, size: int = TEXT_BYTES) -> str:
    # by bytes, from the end: there the innermost call stands
    return text.encode("utf-8", "backslashreplace")[-size:].decode("utf-8", "ignore")


# ---- where it arrives
def unpack_failure(tree: Any, arrays: Any, classes: Sequence[type], node: int) -> BaseException:
    """Make the exception that a task raised on `node`, with its traceback there as `__cause__`.

    Args:
        tree: tree of the payload, as it arrived.
        arrays: its arrays.
        classes: those of `pack_failure`.
        node: the node of the task.

    Raises: ProtocolError for anything that `pack_failure` does not make.
    """
    return _restored(unpack_payload(tree, arrays, classes), classes, node)


def _restored(told: Any, classes: Sequence[type], node: int) -> BaseException:
    if type(told) is not dict or told.keys() != _KEYS:
        raise ProtocolError("The description of an exception is malformed.")
    kinds = {"args": tuple, "fields": dict, "shown": dict, "parts": list, "printed": bool}
    # the word of a node: checked before any of it is used
    if not all(type(told[key]) is kinds.get(key, str) for key in _KEYS - {"number"}):
        raise ProtocolError("The description of an exception is malformed.")
    parts = [_restored(part, classes, node) for part in told["parts"]]
    cls = _find(told["module"], told["name"], told["number"], classes)
    error = None if cls is None else _made(cls, told, parts)
    if error is None:
        name = f"{told['module']}.{told['name']}"
        # a name that is not built in gives None, for which a plain RemoteError is made
        error = remote_error(f"{name}: {told['message']}", name, vars(builtins).get(told["base"]))
    BaseException.__setattr__(error, "__cause__", RemoteTraceback(node, told["text"]))  # its class may be frozen
    return error


def _find(module: str, name: str, number: Any, classes: Sequence[type]) -> type[BaseException] | None:
    # the function's own class first: a module here of the same name may hold another one
    if type(number) is int and 0 <= number < len(classes):
        found: Any = classes[number]
    else:
        # never imported: a node must not choose code to run here
        found = sys.modules.get(module)
        for part in name.split("."):
            # no way to `__class__` and the like
            found = None if part.startswith("__") else getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _item(item: Any, shown: Any) -> Any:
    """Return an argument or field: as it came, as a text that is shown as it was, or a type or function of NumPy."""
    return _of_form(item) if type(shown) is int and shown == _NUMPY else Text.of(item, shown)


def _made(cls: type[BaseException], told: dict[str, Any], parts: list[BaseException]) -> BaseException | None:
    """Make the exception again, if it prints the text that it printed where it was raised."""
    shown: dict[Any, Any] = told["shown"]
    args = [_item(item, shown.get(place)) for place, item in enumerate(told["args"])]
    if parts:
        args = [*args[:1], parts]  # the constructor of a group takes both
    base = _base_of(cls)
    try:
        # no code of the class: only its built-in base is made and initialised
        error: BaseException = base.__new__(cls, *args)
        base.__init__(error, *args)
        slots = _heap_slots(cls)
        for name, item in told["fields"].items():
            if not _is_field(name):
                continue
            value = _item(item, shown.get(name))
            if name in slots:
                slots[name].__set__(error, value)
            else:
                _dict_of(error)[name] = value
    except Exception:  # noqa: BLE001  a class with an unusual base or attributes, or arguments that came as text
        return None
    message, printed = _printed(error, str)
    # an exception that prints something else would mislead; RemoteError says what was raised
    # one that could not be shown there may print anything here
    return error if message == told["message"] or (printed and not told["printed"]) else None


def _base_of(cls: type[BaseException]) -> type[BaseException]:
    """Find the built-in class that `cls` is, or extends."""
    built_in = vars(builtins)
    # by identity: a user's class may have the name of a built-in one
    found: type[BaseException] = next(base for base in cls.__mro__ if built_in.get(base.__name__) is base)
    return found if issubclass(found, BaseException) else BaseException
