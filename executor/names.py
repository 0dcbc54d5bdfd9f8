"""What a function names, and whether its names still stand for the same objects."""

from __future__ import annotations

import functools
import types
import weakref
from collections.abc import Iterable
from typing import Any

from rpc.code_closure import is_user_module

_MOST_LOOKED_AT = 256  # objects; beyond that changes are not noticed
_NOTHING = object()  # where a name stands for none


class _Weak(weakref.ref[Any]):
    """What is compared without being kept; a type of its own, as a name may stand for a weak reference."""

    __slots__ = ()


class Names:
    """The globals, cells, defaults and fields by which a callable, and the user's functions that it calls, find objects.

    `hold()` tells whether all of them are still the same objects. What is changed in place is not noticed. Objects are not
    kept, but for those that cannot be referred to weakly, as lists: another one might take the place of one that is gone.
    """

    def __init__(self, item: Any) -> None:
        self._globals: list[tuple[dict[str, Any], str, Any]] = []  # (namespace, name, object)
        self._weak_globals: list[tuple[dict[str, Any], str, _Weak]] = []
        self._fields: list[tuple[Any, list[tuple[str, Any]]]] = []  # (owner, [(name, object)])
        self._functions: list[tuple[_Weak, tuple[Any, ...], list[Any]]] = []  # (function, parts, contents of its cells)
        self._todo: list[Any] = [item]
        seen: dict[int, Any] = {}
        while self._todo and len(seen) < _MOST_LOOKED_AT:
            found = self._todo.pop()
            if id(found) not in seen:
                seen[id(found)] = found
                self._look_at(found)
        self._todo.clear()

    def hold(self) -> bool:
        """Whether every name stands for the object that it stood for."""
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
    """Whether `item` is what was held; what is gone is nothing any more, not even None."""
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
