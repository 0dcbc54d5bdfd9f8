"""Setup of an executor's processes before their tasks: globals of the initializer, broadcast values, and the messages that
bring both also to processes that are started later.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, TypeVar

from network.errors import ProtocolError
from rpc.support.files import read_result

from .functions import name_of, packed, user_classes
from .messages import Done
from .payload import Payload, pack_payload, unpack_failure, unpack_payload
from .values import DATA_ONLY, REGISTRY

INITIALIZER = "initializer"  # its name among the objects that travel with a function
_NOTHING = object()


def checked_initargs(initializer: object, initargs: Any) -> list[Any]:
    """Return the arguments of the initializer. Raises: TypeError for a value that is no tuple or list, ValueError for some
    without it.
    """
    # a text is iterable, and its letters are no arguments
    if isinstance(initargs, (str, bytes)) or not isinstance(initargs, Iterable):
        raise TypeError(
            f"ClusterExecutor 'initargs' must be a tuple of arguments, got {initargs!r:.80}: write ({initargs!r:.80},)."
        )
    arguments = list(initargs)
    if initializer is None and arguments:
        raise ValueError(f"ClusterExecutor 'initargs' are the arguments of an 'initializer', got {len(arguments)} without one.")
    return arguments


def initializer_message(initializer: Callable[..., object], initargs: Sequence[Any]) -> list[Any]:
    """Make the message that brings `initializer` and its arguments `initargs` to the nodes.

    Raises: TypeError when it is not callable, or naming the part that cannot travel.
    """
    if not callable(initializer):
        raise TypeError(f"ClusterExecutor 'initializer' must be a callable, got {type(initializer).__qualname__}.")
    registered = REGISTRY.current
    bundle = packed(initializer, user_classes(list(initargs)), {"registered": list(registered.values())} if registered else {})
    try:
        payload = pack_payload(list(initargs), bundle.classes, registered)
    except TypeError as error:
        raise TypeError(f"An argument of the initializer {name_of(initializer)} cannot travel: {error}") from None
    return [INITIALIZER, bundle.objects, bundle.code, payload.tree, payload.arrays]


def initializer_failure(done: Done, node: int, name: str, setup: SetupMessages) -> Exception:
    """Make the error that breaks the executor when the initializer failed on a node.

    Args:
        done: the message of the node.
        node: its id.
        name: its name, for people.
        setup: tells whether there is an initializer.
    """
    if not setup.has(INITIALIZER):
        return ProtocolError("A node says that an initializer failed, and there is none.")
    error = unpack_failure(done.tree, done.arrays, (), node)
    broken = BrokenExecutor(f"The initializer failed on {name}: {type(error).__name__}: {error}")
    broken.__cause__ = error
    return broken


class Initializer:
    """Initializer on a node.

    Args:
        objects: its objects, as they travelled.
        code: its code, as it travelled.
        tree: its arguments, as in `Payload`.
        arrays: those of `tree`.
    """

    def __init__(self, objects: Any, code: Any, tree: Any, arrays: Any) -> None:
        self._code, self._arguments = (bytes(objects), bytes(code)), (tree, arrays)
        self._called = False
        self._set: dict[str, Any] = {}  # globals of its module, by name
        self._space: dict[str, Any] = {}

    def call(self, load: Callable[[bytes, bytes], tuple[Mapping[str, Any], Sequence[type]]]) -> None:
        """Call the initializer, unless it has been called without raising; `load` restores code."""
        if self._called:
            return
        objects, classes = load(*self._code)
        function = objects["function"]
        space = _globals_of(function)
        # a copy, to find out which globals the call sets
        before = dict(space)
        registered = {converter.type: converter for converter in objects.get("registered", ())}
        function(*unpack_payload(*self._arguments, classes, registered))
        # by identity: a value that was set again to the same object needs no copy
        self._set = {name: item for name, item in space.items() if before.get(name, _NOTHING) is not item}
        self._called, self._arguments, self._space = True, (b"", []), space  # freed, as it is not called again

    def share(self, objects: Mapping[str, Any]) -> None:
        """Set the initializer's globals where the code of a function that has just arrived, with its `objects`, finds them."""
        space = _globals_of(objects[INITIALIZER])
        if space is not self._space:  # a function that every node has, has one module
            # a packed function comes with modules of its own, and so with globals of its own
            space.update(self._set)


def _globals_of(item: Any) -> dict[str, Any]:
    """Find the globals of the module of a function or a callable's function; none of its own for one that every node has."""
    if isinstance(item, functools.partial):
        return _globals_of(item.func)
    if isinstance(item, types.MethodType):
        item = item.__func__
    if not isinstance(item, types.FunctionType):
        # of the class, as Python calls no `__call__` of an instance
        item = vars(type(item)).get("__call__")
    return item.__globals__ if isinstance(item, types.FunctionType) else {}


T = TypeVar("T")


def pack_broadcast(value: object) -> Payload:
    """Pack a value to be broadcast, which names no function, so that neither classes nor registered types travel with it.

    Raises: as `pack_payload`.
    """
    return pack_payload(value, advice=DATA_ONLY)


class ReceivedValue:
    """Broadcast value where tasks run: unpacked once, when a task asks for it, for all functions that name it.

    Tasks get it, another thread may drop it.
    """

    def __init__(self, tree: Any, arrays: Any) -> None:
        self._packed: tuple[Any, Any] | None = (tree, arrays)
        self._value: tuple[Any, ...] = ()

    def get(self) -> Any:
        """Return the value.

        Raises: LookupError after `drop`.
        """
        packed = self._packed  # looked up once: another thread may drop it meanwhile
        if packed is not None:
            # the packed form goes at once: never both in memory
            self._value, self._packed = (unpack_payload(*packed),), None
        value = self._value  # again once, for the same reason
        if not value:
            raise LookupError("The broadcast value is not here any more: it was given up.")
        return value[0]

    def drop(self) -> None:
        """Free the memory, though functions that name the value may be kept."""
        self._packed, self._value = None, ()


HELD: ContextVar[Mapping[int, ReceivedValue]] = ContextVar("HELD")
"""Broadcast values of the process that executes tasks for a ClusterExecutor, by number."""


class Broadcast(Generic[T]):
    """Value that tasks name; it is there when a task asks for `value`, which must not be changed.

    Made by `Context.broadcast`, or by `ClusterExecutor.broadcast`.

    Args:
        fetch: returns the value, in the process of a task.
        drop: frees its memory everywhere.
    """

    def __init__(self, fetch: Callable[[], T], drop: Callable[[], None] | None = None) -> None:
        self._fetch = fetch
        self._drop = drop

    @property
    def value(self) -> T:
        """Value itself, in any process that runs a task."""
        return self._fetch()

    def unpersist(self) -> None:
        """Free its memory everywhere; tasks must not ask for it any more. Only where it was made; idempotent."""
        if self._drop is not None:
            self._drop()

    def __reduce__(self) -> tuple[Any, ...]:
        # without `drop`, which is the maker's
        return Broadcast, (self._fetch,)


def from_file(path: str) -> Any:
    """Return the value from a file that `rpc.support.files.write_result` wrote, read once by each process."""
    held = _held_files()
    if path not in held:
        held[path] = unpack_payload(*read_result(Path(path), ()))
    return held[path]


def drop_removed() -> None:
    """Free the values of removed files."""
    # where the file is gone its maker has given the value up
    for path in list(_held_files()):
        if not os.path.exists(path):
            _held_files().pop(path, None)


@functools.cache
def _held_files() -> dict[str, Any]:
    return {}


class Held:
    """Fetcher of a value that the submitter has sent to this process; with the submitter, `value` itself."""

    def __init__(self, number: int, *value: Any) -> None:
        self._number, self._value = number, value
        self._received: ReceivedValue | None = None  # also for threads of a task, whose context is another

    def __call__(self) -> Any:
        """Return the value. Raises: LookupError after `unpersist`."""
        if self._value:
            return self._value[0]
        if self._received is None:
            self._received = HELD.get({}).get(self._number)
        if self._received is None:
            raise LookupError(f"The broadcast value {self._number} is not here: it was given up, or never sent.")
        return self._received.get()

    def __reduce__(self) -> tuple[Any, ...]:
        # the value stays behind: the process has been sent it already
        return Held, (self._number,)


# words of messages (see `messages`), and whether there are many of them, by number
_STANDS = {"room": False, "listen": False, "initializer": False, "hold": True}
_ENDS = {"drop": "hold"}


class SetupMessages:
    """Messages to all nodes that stay in force."""

    def __init__(self) -> None:
        self._messages: dict[tuple[str, Any], list[Any]] = {}

    def note(self, message: list[Any]) -> None:
        """Keep `message`, which all nodes are told, if it stays in force, and drop the one that it ends."""
        word = message[0]
        if word in _STANDS:
            # a later one of the same word replaces it: a process that comes later needs only the last
            self._messages[word, message[1] if _STANDS[word] else None] = message
        elif word in _ENDS:
            for number in message[1]:
                self._messages.pop((_ENDS[word], number), None)

    def has(self, word: str) -> bool:
        """Tell if a message of the kind `word`, of which there is one, is in force."""
        return (word, None) in self._messages

    def all(self) -> list[list[Any]]:
        return list(self._messages.values())
