"""Functions of tasks on their way to the nodes: packed once, known by number, packed again when an object that they name
changes.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from network.session import Session
from rpc.code_closure import is_user_module
from rpc.shipping import Bundle, pack

from .values import REGISTRY, Registered

MOST_FUNCTIONS = 256  # remembered while they exist; beyond that the one used longest ago is forgotten, here and on the nodes,
MOST_CODE_BYTES = 64 << 20  # and also beyond that: a function may bring 8 MiB along
_LISTS = (list, tuple, set, frozenset, deque)
_DICTS = (dict, OrderedDict, Counter, defaultdict)
_MOST_LEVELS = 8  # of containers in which classes of arguments are looked for


class Function:
    """Packed function; the processes at the other end of `sessions` have its code.

    `begun` counts its tasks, under the submitter's lock, `ended` those that have ended, in the dispatcher's thread: two
    counters, so that no count is lost between two threads.

    Args:
        number: its number in messages.
        name: its name, for people.
        bundle: its code and objects.
        registered: the user's types that its arguments and results may hold.
        trusted: whether results that are no data come as pickles.
    """

    __slots__ = ("begun", "bundle", "ended", "forgotten", "name", "number", "registered", "sessions", "trusted")

    def __init__(self, number: int, name: str, bundle: Bundle, registered: Registered, trusted: bool) -> None:
        self.number, self.name, self.bundle = number, name, bundle
        self.registered, self.trusted = registered, trusted
        self.begun = self.ended = 0
        self.sessions: set[Session] = set()
        self.forgotten = False

    @property
    def size(self) -> int:
        return len(self.bundle.objects) + len(self.bundle.code)

    @property
    def is_unused(self) -> bool:
        return self.forgotten and self.begun == self.ended

    @property
    def classes(self) -> Sequence[type]:
        return self.bundle.classes


class _Entry:
    """Callable that was packed. `gone` is called with the entry, in any thread and at any moment, when the callable has
    gone.
    """

    __slots__ = ("__weakref__", "classes", "function", "names", "refs", "size")

    def __init__(
        self,
        function: Function,
        item: Callable[..., Any],
        names: References,
        classes: list[type],
        gone: Callable[[_Entry], None],
    ) -> None:
        self.function: Function | None = function
        self.names: References | None = names
        self.classes, self.size = classes, function.size
        # weak: the call-back lives in the entry's own references, and would make a cycle
        own = weakref.ref(self)

        def tell(_: object) -> None:
            entry = own()
            if entry is not None:
                gone(entry)

        # a bound method lives as long as its object and its function, though it is new at each look-up
        parts = (item.__self__, item.__func__) if isinstance(item, types.MethodType) else (item,)
        self.refs = [_referred(part, tell) for part in parts]

    def holds(self, classes: Sequence[type], trusted: bool) -> bool:
        """Tell if the callable is as it was packed, with these classes, and with the registered types of now."""
        function, names = self.function, self.names
        # types registered since would be missing in the packed code
        if function is None or names is None or function.trusted != trusted or function.registered is not REGISTRY.current:
            return False
        return (not classes or all(cls in self.classes for cls in classes)) and names.hold()


def _referred(item: Any, tell: Callable[[object], None]) -> Callable[[], Any]:
    try:
        return weakref.ref(item, tell)
    except TypeError:  # a class with slots, a ufunc: kept until the entry is forgotten for others
        return lambda: item


def _key(item: Callable[..., Any]) -> tuple[int, ...]:
    """Identify a callable while it exists; a bound method is another object each time it is looked up."""
    return (id(item),) if not isinstance(item, types.MethodType) else (id(item.__self__), id(item.__func__))


class Functions:
    """Packer of callables, which remembers them while they exist. Not thread-safe.

    Args:
        on_forget: called with each function that is out of use, in any thread and at any moment: it must not wait.
        most: functions to remember.
        most_bytes: bytes of these in all.
        beside: objects that travel with each, by name.
    """

    def __init__(
        self,
        on_forget: Callable[[Function], None],
        most: int = MOST_FUNCTIONS,
        most_bytes: int = MOST_CODE_BYTES,
        beside: Mapping[str, Any] | None = None,
    ) -> None:
        self._beside = beside or {}
        self._on_forget, self._most, self._most_bytes = on_forget, most, most_bytes
        self._bytes = 0
        self._entries: OrderedDict[tuple[int, ...], _Entry] = OrderedDict()
        self._gone: deque[tuple[tuple[int, ...], _Entry]] = deque()  # still among the entries
        self._numbers = itertools.count()

    def of(self, item: Callable[..., Any], classes: Sequence[type] = (), trusted: bool = False) -> Function:
        """Return the function that `item` is now, able to take instances of `classes`, too.

        Args:
            item: the callable.
            classes: classes of its arguments.
            trusted: whether results that are no data come as pickles.

        Raises: TypeError naming the part that cannot travel, ValueError for an import that cannot be followed or more than 8
        MiB.
        """
        while self._gone:  # before others stand in their places in memory
            self._remove(*self._gone.popleft())
        key = _key(item)
        entry = self._entries.get(key)
        known = [] if entry is None else entry.classes
        if entry is not None and entry.holds(classes, trusted):
            self._entries.move_to_end(key)
            return cast(Function, entry.function)
        wanted = list(dict.fromkeys([*known, *classes]))
        names = References(item)  # before packing: a change meanwhile is noticed the next time
        registered = REGISTRY.current
        more: dict[str, Any] = {"registered": list(registered.values())} if registered else {}
        if trusted:
            more["trusted"] = True
        bundle = packed(item, wanted, {**self._beside, **more})
        function = Function(next(self._numbers), name_of(item), bundle, registered, trusted)
        # only now: packing may have failed, and then the old one still serves
        if entry is not None:
            self._remove(key, entry)
        self._entries[key] = _Entry(function, item, names, wanted, functools.partial(self._forget_gone, key))
        self._bytes += function.size
        # the newest stays, however large it is
        while len(self._entries) > self._most or (self._bytes > self._most_bytes and len(self._entries) > 1):
            self._remove(*next(iter(self._entries.items())))
        return function

    def _remove(self, key: tuple[int, ...], entry: _Entry) -> None:
        if self._entries.get(key) is entry:
            del self._entries[key]
            self._bytes -= entry.size
        self._forget(entry)

    def _forget_gone(self, key: tuple[int, ...], entry: _Entry) -> None:
        """Free the code of a callable; entries, with which other threads may be at work, are removed by the next call of
        `of`.
        """
        # an append is atomic; the entries may be in the hands of another thread
        self._gone.append((key, entry))
        self._forget(entry)

    def _forget(self, entry: _Entry) -> None:
        function, entry.function, entry.names = entry.function, None, None
        # once, though the callable may go and be removed at the same time
        if function is not None:
            function.forgotten = True
            self._on_forget(function)


def packed(item: Callable[..., Any], classes: Sequence[type], beside: Mapping[str, Any]) -> Bundle:
    """Pack a callable with `classes` of its arguments, and the objects `beside` it.

    Raises: TypeError naming the part that cannot travel, ValueError for more than 8 MiB.
    """
    try:
        return pack({"function": item, "classes": list(classes), **beside})
    except TypeError as error:
        # the cause is sought only after a failure: each look packs something
        for kind, converter in REGISTRY.current.items():
            try:
                pack({"converter": converter})
            except TypeError as reason:
                why = reason.__cause__ or reason
                raise TypeError(f"What register_value was given for {kind.__qualname__} cannot travel: {why}") from None
        for name, part in _parts_of(item):
            try:
                pack({"part": part})
            except (TypeError, ValueError):
                why = error.__cause__ or error
                raise TypeError(f"The function {name_of(item)} cannot travel, because of its {name}: {why}") from None
        raise


def _parts_of(item: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a callable, with names for people."""
    if isinstance(item, functools.partial):
        yield from ((f"argument {place}", part) for place, part in enumerate(item.args))
        yield from ((f"argument {name!r}", part) for name, part in item.keywords.items())
        item = item.func
    if isinstance(item, types.MethodType):
        yield from ((f"object's field {name!r}", part) for name, part in getattr(item.__self__, "__dict__", {}).items())
        item = item.__func__
    if isinstance(item, types.FunctionType):
        found = inspect.getclosurevars(item)
        yield from ((f"variable {name!r}", part) for name, part in [*found.nonlocals.items(), *found.globals.items()])
        defaults = [*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values()]
        yield from (("default", part) for part in defaults)
    else:
        yield from ((f"field {name!r}", part) for name, part in getattr(item, "__dict__", {}).items())


def name_of(item: Any) -> str:
    """Return the name of a callable for messages; one that represents others has a `task_name`."""
    if isinstance(item, functools.partial):
        return name_of(item.func)
    return str(getattr(item, "__qualname__", None) or getattr(item, "task_name", None) or type(item).__qualname__)


def user_classes(value: Any, level: int = 0) -> list[type]:
    kind = type(value)
    if level > _MOST_LEVELS or (kind.__module__ == "builtins" and kind not in (*_LISTS, *_DICTS)):
        return []
    if kind in _LISTS:
        parts = list(value)
    elif kind in _DICTS:
        parts = [*value.keys(), *value.values()]
    elif is_user_module(kind.__module__):
        # a named tuple has no `__dict__`
        parts = list(value) if isinstance(value, tuple) else list(getattr(value, "__dict__", {}).values())
    else:
        return []
    own = [kind] if kind not in (*_LISTS, *_DICTS) else []
    return list(dict.fromkeys([*own, *(cls for part in parts for cls in user_classes(part, level + 1))]))


_MOST_LOOKED_AT = 256  # objects; beyond that changes are not noticed
_NOTHING = object()  # where a name stands for none


class _Weak(weakref.ref[Any]):
    """Reference to an object that is compared without being kept; a type of its own, as a name may stand for a weak
    reference.
    """

    __slots__ = ()


class References:
    """Globals, cells, defaults and fields by which a callable, and the user's functions that it calls, find objects.

    `hold()` tells whether all of them are still the same objects. Changes in place are not noticed. Objects are not kept, but
    for those that cannot be referred to weakly, as lists: another one might take the place of one that is gone.
    """

    def __init__(self, item: Any) -> None:
        self._globals: list[tuple[dict[str, Any], str, Any]] = []  # (namespace, name, object)
        self._weak_globals: list[tuple[dict[str, Any], str, _Weak]] = []
        self._fields: list[tuple[Any, list[tuple[str, Any]]]] = []  # (owner, [(name, object)])
        self._functions: list[tuple[_Weak, tuple[Any, ...], list[Any]]] = []  # (function, parts, contents of its cells)
        self._todo: list[Any] = [item]
        seen: dict[int, Any] = {}
        # bounded, as a call must not take longer by what the function can reach
        while self._todo and len(seen) < _MOST_LOOKED_AT:
            found = self._todo.pop()
            if id(found) not in seen:
                seen[id(found)] = found  # held, so that its id is not given to another object meanwhile
                self._look_at(found)
        self._todo.clear()  # what lies beyond the bound must not be kept

    def hold(self) -> bool:
        """Tell if every name stands for the object that it stood for."""
        for space, name, item in self._globals:
            if space.get(name, _NOTHING) is not item:
                return False
        for space, name, weak in self._weak_globals:
            item = space.get(name)
            if item is None or weak() is not item:
                return False
        for held, parts, contents in self._functions:
            function = held()
            if function is None or not _is_made_of(function, parts, contents):
                return False
        return all(_has(owner() if type(owner) is _Weak else owner, fields) for owner, fields in self._fields)

    def _look_at(self, item: Any) -> None:
        if isinstance(item, types.FunctionType):
            if is_user_module(item.__module__ or ""):
                self._look_at_function(item)
        elif isinstance(item, types.MethodType):
            self._todo += [item.__self__, item.__func__]
        elif isinstance(item, functools.partial):
            self._todo += [item.func, *item.args, *item.keywords.values()]
        elif not isinstance(item, type) and is_user_module(type(item).__module__):
            fields = dict(getattr(item, "__dict__", {}))
            self._fields.append((_held(item), [(name, _held(part)) for name, part in fields.items()]))
            self._todo += fields.values()

    def _look_at_function(self, function: types.FunctionType) -> None:
        contents = [_content(cell) for cell in function.__closure__ or ()]
        self._functions.append((_Weak(function), _parts(function), [_held(item) for item in contents]))
        self._todo += [*(function.__defaults__ or ()), *contents]
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            # also names of attributes: a global of such a name is watched in vain, which costs at most a new packing
            self._note(function.__globals__, code.co_names)
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]

    def _note(self, space: dict[str, Any], names: Iterable[str]) -> None:
        for name in names:
            item = space.get(name, _NOTHING)  # a name of none may stand for something later
            held = item if isinstance(item, (types.ModuleType, type)) else _held(item)
            if type(held) is _Weak:
                self._weak_globals.append((space, name, held))
            else:
                self._globals.append((space, name, held))
            if item is not _NOTHING:
                self._todo.append(item)


def _held(item: Any) -> Any:
    try:
        return _Weak(item)
    except TypeError:
        return item


def _is(held: Any, item: Any) -> bool:
    """Tell if `item` is the held object; one that is gone equals nothing any more, not even None."""
    if type(held) is _Weak:
        return item is not None and held() is item
    return held is item


def _is_made_of(function: types.FunctionType, parts: tuple[Any, ...], contents: list[Any]) -> bool:
    code, defaults, kwdefaults = parts
    if function.__code__ is not code or function.__defaults__ is not defaults or function.__kwdefaults__ is not kwdefaults:
        return False
    cells = function.__closure__
    return cells is None or all(map(_is, contents, map(_content, cells)))


def _has(owner: Any, fields: list[tuple[str, Any]]) -> bool:
    space: dict[str, Any] = getattr(owner, "__dict__", {})
    return all(_is(item, space.get(name, _NOTHING)) for name, item in fields)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _NOTHING


def _parts(function: types.FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__
