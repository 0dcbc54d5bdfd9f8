"""Errors of a task beyond its own exceptions."""

from __future__ import annotations

import functools
from concurrent.futures import BrokenExecutor
from typing import Any


class RemoteError(Exception):
    """Error: a task raised an exception of a class that this process does not have, or cannot make: its name and message.

    It is also an instance of the built-in class that the exception extends, so `except ImportError` catches one of a package.

    Args:
        message: its message.
        type_name: module and name of the class; stays as an attribute.
    """

    def __init__(self, message: str, type_name: str = "") -> None:
        super().__init__(message)
        self.type_name = type_name

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""  # KeyError would show it in quotes

    def __reduce__(self) -> tuple[Any, ...]:
        # of a plain one this is BaseException, of which a plain one is made again
        return remote_error, (str(self), self.type_name, type(self).__mro__[2]), vars(self)


def remote_error(message: str, type_name: str, base: object) -> RemoteError:
    """Make a RemoteError that is also a `base`, where that is a built-in exception that a message alone can make.

    Args:
        message: its text.
        type_name: name of the exception's class at the node.
        base: a class, as the node has named it.
    """
    try:
        return _remote_kind(base)(message, type_name)
    except (TypeError, ValueError):  # UnicodeDecodeError, a group; or no class of an exception at all
        return RemoteError(message, type_name)


@functools.cache  # one class for each base, so that two such errors are of one kind here, too
def _remote_kind(base: Any) -> type[RemoteError]:
    # a KeyboardInterrupt of a node must not end this program
    if base is Exception or not issubclass(base, Exception):
        return RemoteError
    return type("RemoteError", (RemoteError, base), {"__module__": RemoteError.__module__})


class Text(str):
    """Text in place of an argument of an exception that is no data: its `str`, which is shown as the argument was."""

    __slots__ = ("_shown",)
    _shown: str

    @staticmethod
    def of(item: Any, shown: Any) -> Any:
        """Return an item, as a Text if it was shown in a way of its own.

        Args:
            item: the item, as data.
            shown: the text as which the argument was shown; anything else where it was shown as itself.
        """
        if type(item) is not str or type(shown) is not str:
            return item
        made = Text(item)
        made._shown = shown
        return made

    def __repr__(self) -> str:
        return self._shown

    def __reduce__(self) -> tuple[Any, ...]:
        return Text.of, (str(self), self._shown)


class RemoteTraceback(Exception):
    """Cause (`__cause__`) of an exception that a task raised: the traceback on the node. The arguments stay as attributes.

    Args:
        node: id of the node.
        text: the traceback.
    """

    def __init__(self, node: int, text: str) -> None:
        super().__init__(node, text)
        self.node, self.text = node, text

    def __str__(self) -> str:
        return f'on node {self.node}\n"""\n{self.text.rstrip()}\n"""'


class NotData(TypeError):
    """Error: a task returned a value that is no data, so that it cannot come back."""


class ConversionError(Exception):
    """Error: a value could not be made of received data, or turned into data, by no fault of the peer: a function given to
    `register_value` raised, or a requirement of the value (a time zone, SciPy) is missing here.
    """


class NodeLost(BrokenExecutor):
    """Error: a node was lost while it held the task, or every node is lost. The arguments stay as attributes.

    Args:
        message: the text of the error.
        node: id of the node, None when no node is left.
    """

    def __init__(self, message: str, node: int | None = None) -> None:
        super().__init__(message)
        self.node = node


def like(reason: BrokenExecutor) -> BrokenExecutor:
    """Make another error of the same text: one that is raised in several places would gather the tracebacks of all."""
    made = type(reason)(str(reason))
    made.__cause__ = reason.__cause__
    return made
