"""Exceptions as data: the name of the class, its arguments and fields, and the traceback as text. Nothing is unpickled.

The submitter makes the exception again if it has the class: from the function's own class table, or from a module that it has
imported already. No constructor of the user runs, only that of the built-in base. What was made is kept if it prints what the
exception printed where it was raised; otherwise a `RemoteError` says that. The parts of a group are made one by one.
"""

from __future__ import annotations

import builtins
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, cast

from network.errors import ProtocolError

from .errors import RemoteTraceback, Text, remote_error
from .payload import Payload, pack_payload, unpack_payload

TEXT_BYTES = 64 << 10  # of a traceback, its end; the parts of a group share as much
MOST_PARTS = 1000  # exceptions in a group, at all levels; a larger group comes as text
MOST_LEVELS = 16  # of groups in groups
_KEYS = {"module", "name", "number", "base", "args", "fields", "shown", "parts", "message", "printed", "text"}
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made by a class statement
_GROUP: Any = getattr(builtins, "BaseExceptionGroup", ())  # Python 3.10 has none

# past what a class may define in their place
_args_of = cast(Any, vars(BaseException)["args"]).__get__
_dict_of = cast(Any, vars(BaseException)["__dict__"]).__get__
_trace_of = cast(Any, vars(BaseException)["__traceback__"]).__get__


# ---- where it was raised


def pack_failure(error: BaseException, classes: Sequence[type] = ()) -> Payload:
    """Describe `error` as data; what cannot travel of its arguments goes as text. Whatever its class does, this succeeds."""
    count = sum(1 for _ in islice(_members(error), MOST_PARTS + 1))
    room = TEXT_BYTES // max(1, count - 1) if count <= MOST_PARTS else 0
    try:
        return pack_payload(_described(error, classes, TEXT_BYTES, room), classes)
    except Exception as broken:  # noqa: BLE001  all of it together may be more than a message may hold
        return pack_payload(_outline(error, classes, f"(what it holds cannot be told: {type(broken).__name__})"), classes)


def _members(error: BaseException, level: int = 0) -> Iterator[BaseException]:
    """An exception and what is in it, if it is a group; more than `MOST_PARTS` of it where levels are too many."""
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
    """The description of `error`, with `size` bytes of traceback, and `room` bytes for each part."""
    told = _outline(error, classes, "")
    args, fields = _arguments(error), dict(_fields(error))
    parts = [_described(part, classes, room, room) for part in _parts_of(error)] if room and isinstance(error, _GROUP) else []
    if isinstance(error, _GROUP):
        args = (_GROUP.message.__get__(error),)
    sent: dict[int | str, Any] = {}
    held: list[tuple[int | str, Any]] = [*enumerate(args), *fields.items()]
    for key, item in held:
        sent[key] = _travelling(item, classes)
        if sent[key] is not item:
            told["shown"][key] = _shown(item, repr)
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
        "shown": {},  # by place or name: what arguments and fields that come as text look like
        "parts": [],
        "message": message,
        "printed": printed,
        "text": text,
    }


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """What makes the exception again; those of the system keep their files apart."""
    args: tuple[Any, ...] = _args_of(error)
    if isinstance(error, OSError) and len(args) == 2 and error.filename is not None:
        files = (error.filename,) if error.filename2 is None else (error.filename, None, error.filename2)
        return (*args, *files)
    return args


def _fields(error: BaseException) -> Iterator[tuple[str, Any]]:
    """What is in its `__dict__` and in the slots of its classes."""
    for name, item in _dict_of(error).items():
        if _is_field(name):
            yield name, item
    for name, slot in _slots(type(error)).items():
        if _is_field(name):
            try:
                yield name, slot.__get__(error)
            except AttributeError:  # an empty slot
                continue


def _slots(cls: type) -> dict[str, types.MemberDescriptorType]:
    """Those of class statements; the members of built-in exceptions are made by their constructors."""
    bases = [base for base in reversed(cls.__mro__) if base.__flags__ & _HEAP_TYPE]
    return {n: d for base in bases for n, d in vars(base).items() if isinstance(d, types.MemberDescriptorType)}


def _is_field(name: Any) -> bool:
    if type(name) is not str:
        return False
    return name == "__notes__" or (name.isidentifier() and not name.startswith("__"))  # those of `add_note` are no code


def _travelling(item: Any, classes: Sequence[type]) -> Any:
    try:
        pack_payload(item, classes)
    except BaseException:  # noqa: BLE001  a user's class may raise anything, and may pretend to be data
        return _shown(item, str)
    return item


def _shown(item: Any, how: Callable[[Any], str]) -> str:
    return _printed(item, how)[0]


def _printed(item: Any, how: Callable[[Any], str]) -> tuple[str, bool]:
    """How an object is shown, and whether it could be."""
    try:
        return _clip(how(item)), True
    except BaseException as broken:  # noqa: BLE001  a user's __str__ and __repr__ may raise anything
        return f"({type(item).__name__}, which cannot be shown: {type(broken).__name__})", False


def _clip(text: str, size: int = TEXT_BYTES) -> str:
    return text.encode("utf-8", "backslashreplace")[-size:].decode("utf-8", "ignore")


# ---- where it arrives


def unpack_failure(tree: Any, arrays: Any, classes: Sequence[type], node: int) -> BaseException:
    """The exception that a task raised on `node`, with its traceback there as `__cause__`.

    Raises: ProtocolError for anything that `pack_failure` does not make.
    """
    return _restored(unpack_payload(tree, arrays, classes), classes, node)


def _restored(told: Any, classes: Sequence[type], node: int) -> BaseException:
    if type(told) is not dict or told.keys() != _KEYS:
        raise ProtocolError("The description of an exception is malformed.")
    kinds = {"args": tuple, "fields": dict, "shown": dict, "parts": list, "printed": bool}
    if not all(type(told[key]) is kinds.get(key, str) for key in _KEYS - {"number"}):
        raise ProtocolError("The description of an exception is malformed.")
    parts = [_restored(part, classes, node) for part in told["parts"]]
    cls = _find(told["module"], told["name"], told["number"], classes)
    error = None if cls is None else _made(cls, told, parts)
    if error is None:
        name = f"{told['module']}.{told['name']}"
        error = remote_error(f"{name}: {told['message']}", name, vars(builtins).get(told["base"]))
    BaseException.__setattr__(error, "__cause__", RemoteTraceback(node, told["text"]))  # its class may be frozen
    return error


def _find(module: str, name: str, number: Any, classes: Sequence[type]) -> type[BaseException] | None:
    if type(number) is int and 0 <= number < len(classes):
        found: Any = classes[number]
    else:
        found = sys.modules.get(module)
        for part in name.split("."):
            found = None if part.startswith("__") else getattr(found, part, None)
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


def _made(cls: type[BaseException], told: dict[str, Any], parts: list[BaseException]) -> BaseException | None:
    """The exception again, if it prints what it printed where it was raised."""
    shown: dict[Any, Any] = told["shown"]
    args = [Text.of(item, shown.get(place)) for place, item in enumerate(told["args"])]
    if parts:
        args = [*args[:1], parts]
    base = _base_of(cls)
    try:
        error: BaseException = base.__new__(cls, *args)
        base.__init__(error, *args)
        slots = _slots(cls)
        for name, item in told["fields"].items():
            if not _is_field(name):
                continue
            value = Text.of(item, shown.get(name))
            if name in slots:
                slots[name].__set__(error, value)
            else:
                _dict_of(error)[name] = value
    except Exception:  # noqa: BLE001  a class with an unusual base or attributes, or arguments that came as text
        return None
    message, printed = _printed(error, str)
    return error if message == told["message"] or (printed and not told["printed"]) else None


def _base_of(cls: type[BaseException]) -> type[BaseException]:
    """The built-in class that `cls` is, or extends."""
    built_in = vars(builtins)
    found: type[BaseException] = next(base for base in cls.__mro__ if built_in.get(base.__name__) is base)
    return found if issubclass(found, BaseException) else BaseException
