"""What a function names, and whether its names still stand for the same objects."""

from __future__ import annotations

import functools
import types
from collections.abc import Iterable
from typing import Any

from rpc.reach import is_user_module

_MOST_LOOKED_AT = 256  # objects; beyond that changes are not noticed
_NOTHING = object()  # where a name stands for none


class Names:
    """The globals, cells, defaults and fields by which a callable, and the user's functions that it calls, find objects.

    `hold()` tells whether all of them are still the same objects. What is changed in place is not noticed.
    """

    def __init__(self, item: Any) -> None:
        self._entries: list[tuple[dict[str, Any], str, Any]] = []  # (namespace, name, object)
        self._cells: list[tuple[types.CellType, Any]] = []
        self._functions: list[tuple[types.FunctionType, tuple[Any, ...]]] = []
        self._todo: list[Any] = [item]
        seen: dict[int, Any] = {}
        while self._todo and len(seen) < _MOST_LOOKED_AT:
            found = self._todo.pop()
            if id(found) not in seen:
                seen[id(found)] = found
                self._look_at(found)

    def hold(self) -> bool:
        """Whether every name stands for the object that it stood for."""
        for space, name, item in self._entries:
            if space.get(name, _NOTHING) is not item:
                return False
        for cell, item in self._cells:
            if _content(cell) is not item:
                return False
        return all(a is b for function, parts in self._functions for a, b in zip(_parts(function), parts, strict=True))

    def _look_at(self, item: Any) -> None:
        if isinstance(item, types.FunctionType):
            if is_user_module(item.__module__ or ""):
                self._look_at_function(item)
        elif isinstance(item, types.MethodType):
            self._todo += [item.__self__, item.__func__]
        elif isinstance(item, functools.partial):
            self._todo += [item.func, *item.args, *item.keywords.values()]
        elif not isinstance(item, type) and is_user_module(type(item).__module__):
            self._note(getattr(item, "__dict__", {}), list(getattr(item, "__dict__", {})))

    def _look_at_function(self, function: types.FunctionType) -> None:
        self._functions.append((function, _parts(function)))
        self._todo += function.__defaults__ or ()
        codes = [function.__code__]
        while codes:
            code = codes.pop()
            self._note(function.__globals__, code.co_names)
            codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        for cell in function.__closure__ or ():
            self._cells.append((cell, _content(cell)))
            self._todo.append(_content(cell))

    def _note(self, space: dict[str, Any], names: Iterable[str]) -> None:
        for name in names:
            item = space.get(name, _NOTHING)  # a name of none may stand for something later
            self._entries.append((space, name, item))
            if item is not _NOTHING:
                self._todo.append(item)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return _NOTHING


def _parts(function: types.FunctionType) -> tuple[Any, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__
