"""Exceptions as data: the name of the class, its arguments and fields, and the traceback as text. Nothing is unpickled.

The submitter makes the exception again if it has the class: from the function's own class table, or from a module that it has
imported already. No constructor of the user runs, only that of the built-in base.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from network.errors import ProtocolError

from .errors import RemoteError, RemoteTraceback
from .payload import Payload, pack_payload, unpack_payload

TEXT_BYTES = 64 << 10  # of a traceback, its end
_KEYS = {"module", "name", "number", "args", "fields", "message", "text"}


def pack_failure(error: BaseException, classes: Sequence[type] = ()) -> Payload:
    """Describe `error` as data; what cannot travel of its arguments goes as text. Whatever its class does, this succeeds."""
    kind = type(error)
    description = {
        "module": str(kind.__module__),
        "name": kind.__qualname__,
        "number": classes.index(kind) if kind in classes else -1,
        "message": _shown(error, str),
    }
    try:
        return pack_payload(description | _details(error, classes), classes)
    except BaseException as broken:  # noqa: BLE001  a user's class may raise anything, and may pretend to be data
        trace = BaseException.__dict__["__traceback__"].__get__(error)  # past the attributes of its class
        text = "".join(traceback.format_tb(trace))
        why = f"{text}(what it holds cannot be told: {type(broken).__name__})"
        return pack_payload({**description, "args": (), "fields": {}, "text": _clip(why)}, classes)


def _details(error: BaseException, classes: Sequence[type]) -> dict[str, Any]:
    return {
        "args": tuple(_travelling(item, classes) for item in _arguments(error)),
        "fields": {name: _travelling(item, classes) for name, item in vars(error).items() if _is_field(name)},
        "text": _clip("".join(traceback.format_exception(error))),
    }


def _arguments(error: BaseException) -> tuple[Any, ...]:
    """What makes the exception again; those of the system keep their files apart."""
    if isinstance(error, OSError) and len(error.args) == 2 and error.filename is not None:
        files = (error.filename,) if error.filename2 is None else (error.filename, None, error.filename2)
        return (*error.args, *files)
    return error.args


def _is_field(name: str) -> bool:
    return name == "__notes__" or not name.startswith("__")  # those of `add_note` are no code


def _travelling(item: Any, classes: Sequence[type]) -> Any:
    try:
        pack_payload(item, classes)
    except (TypeError, ValueError):
        return _shown(item, repr)
    return item


def _shown(item: Any, how: Callable[[Any], str]) -> str:
    try:
        return _clip(how(item))
    except BaseException as broken:  # noqa: BLE001  a user's __str__ and __repr__ may raise anything
        return f"({type(item).__name__}, which cannot be shown: {type(broken).__name__})"


def _clip(text: str) -> str:
    return text.encode("utf-8", "backslashreplace")[-TEXT_BYTES:].decode("utf-8", "ignore")


def unpack_failure(tree: Any, arrays: Any, classes: Sequence[type], node: int) -> BaseException:
    """The exception that a task raised on `node`, with its traceback there as `__cause__`.

    Raises: ProtocolError for anything that `pack_failure` does not make.
    """
    told = unpack_payload(tree, arrays, classes)
    if type(told) is not dict or told.keys() != _KEYS or type(told["args"]) is not tuple or type(told["fields"]) is not dict:
        raise ProtocolError("The description of an exception is malformed.")
    if not all(type(told[key]) is str for key in ("module", "name", "message", "text")):
        raise ProtocolError("The description of an exception is malformed.")
    cls = _find(told["module"], told["name"], told["number"], classes)
    error = None if cls is None else _make(cls, told["args"], told["fields"])
    if error is None:
        name = f"{told['module']}.{told['name']}"
        error = RemoteError(f"{name}: {told['message']}", name)
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


def _make(cls: type[BaseException], args: tuple[Any, ...], fields: dict[Any, Any]) -> BaseException | None:
    base = next(parent for parent in cls.__mro__ if parent.__module__ == "builtins")
    if not issubclass(base, BaseException):
        return None
    try:
        error: BaseException = base.__new__(cls, *args)
        base.__init__(error, *args)
        for name, item in fields.items():
            if type(name) is str and name.isidentifier() and _is_field(name):
                error.__dict__[name] = item
    except Exception:  # noqa: BLE001  a class with an unusual base or attributes, or arguments that came as text
        return None
    return error
