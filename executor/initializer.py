"""What is called once in each process of an executor, before its first task.

The code of a function travels by itself, so each has a copy of its module's globals. What the initializer sets in its own is
given to every copy: the initializer travels beside each function, and so shares the globals of its module with all code there.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from typing import Any

from network.errors import ProtocolError

from .failure import unpack_failure
from .functions import name_of, packed, user_classes
from .messages import Done
from .payload import pack_payload, unpack_payload
from .standing import StandingOrders
from .values import REGISTRY

INITIALIZER = "initializer"  # its name among the objects that travel with a function
_NOTHING = object()


def checked_initargs(initializer: object, initargs: Any) -> list[Any]:
    """The arguments of the initializer. Raises: TypeError for what is no tuple or list, ValueError for some without it."""
    if isinstance(initargs, (str, bytes)) or not isinstance(initargs, Iterable):
        raise TypeError(
            f"ClusterExecutor 'initargs' must be a tuple of arguments, got {initargs!r:.80}: write ({initargs!r:.80},)."
        )
    arguments = list(initargs)
    if initializer is None and arguments:
        raise ValueError(f"ClusterExecutor 'initargs' are the arguments of an 'initializer', got {len(arguments)} without one.")
    return arguments


def initializer_message(initializer: Callable[..., object], initargs: Sequence[Any]) -> list[Any]:
    """What the nodes are told of it.

    Raises: TypeError when it is not callable, or naming what cannot travel.
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


def initializer_failure(done: Done, node: int, name: str, standing: StandingOrders) -> Exception:
    """What breaks the executor when a node called `name` says that the initializer failed there."""
    if not standing.has(INITIALIZER):
        return ProtocolError("A node says that an initializer failed, and there is none.")
    error = unpack_failure(done.tree, done.arrays, (), node)
    broken = BrokenExecutor(f"The initializer failed on {name}: {type(error).__name__}: {error}")
    broken.__cause__ = error
    return broken


class Initializer:
    """The initializer on a node."""

    def __init__(self, objects: Any, code: Any, tree: Any, arrays: Any) -> None:
        self._code, self._arguments = (bytes(objects), bytes(code)), (tree, arrays)
        self._called = False
        self._set: dict[str, Any] = {}  # globals of its module, by name
        self._space: dict[str, Any] = {}

    def call(self, load: Callable[[bytes, bytes], tuple[Mapping[str, Any], Sequence[type]]]) -> None:
        """Call it, unless it has been called without raising."""
        if self._called:
            return
        objects, classes = load(*self._code)
        function = objects["function"]
        space = _globals_of(function)
        before = dict(space)
        registered = {converter.type: converter for converter in objects.get("registered", ())}
        function(*unpack_payload(*self._arguments, classes, registered))
        self._set = {name: item for name, item in space.items() if before.get(name, _NOTHING) is not item}
        self._called, self._arguments, self._space = True, (b"", []), space

    def share(self, objects: Mapping[str, Any]) -> None:
        """Set what it has set where the code of a function that has just arrived finds it."""
        space = _globals_of(objects[INITIALIZER])
        if space is not self._space:  # a function that every node has, has one module
            space.update(self._set)


def _globals_of(item: Any) -> dict[str, Any]:
    """Those of the module of a function, or of what a callable stands for; none of its own for one that every node has."""
    if isinstance(item, functools.partial):
        return _globals_of(item.func)
    if isinstance(item, types.MethodType):
        item = item.__func__
    if not isinstance(item, types.FunctionType):
        item = vars(type(item)).get("__call__")
    return item.__globals__ if isinstance(item, types.FunctionType) else {}
