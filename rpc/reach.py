"""Which of the user's own classes and modules a piece of code can reach, so that all of it travels together."""

from __future__ import annotations

import dis
import importlib.util
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any

OWN_PACKAGES = frozenset({"nn", "network", "rpc", "parallel_sgd", "executor"})
"""Packages of this project: every node has them, in the same version."""


def is_user_module(name: str) -> bool:
    """Whether `name` is code that the nodes do not have: `__main__`, or a file outside the installed packages."""
    if name == "__main__":
        return True
    if name.partition(".")[0] in OWN_PACKAGES:
        return False
    module = sys.modules.get(name)
    return module is not None and _is_user_file(getattr(module, "__file__", None))


def _is_user_file(file: str | None) -> bool:
    if not file or file in ("built-in", "frozen"):
        return False
    paths = sysconfig.get_paths()
    installed = tuple(os.path.realpath(paths[k]) + os.sep for k in ("stdlib", "platstdlib", "purelib", "platlib"))
    return not os.path.realpath(file).startswith(installed)


class Reach:
    """Walks from some objects to all user classes, functions and modules that they can name.

    `classes` is what instances in messages may be of: {(module, qualified name): class}; `modules` travel by value.
    Raises: ValueError when a function body imports a user module, which cannot be followed to the nodes.
    """

    def __init__(self, roots: list[Any]) -> None:
        self.classes: dict[tuple[str, str], type] = {}
        self.modules: set[str] = set()
        self._seen: set[int] = set()
        self._todo = list(roots)
        while self._todo:
            self._visit(self._todo.pop())

    def _visit(self, item: Any) -> None:
        if id(item) in self._seen:
            return
        self._seen.add(id(item))
        if isinstance(item, (staticmethod, classmethod, types.MethodType)):
            self._todo.append(item.__func__)
        elif isinstance(item, property):
            self._todo += [f for f in (item.fget, item.fset, item.fdel) if f]
        elif isinstance(item, types.FunctionType):
            self._visit_function(item)
        elif isinstance(item, type):
            self._visit_class(item)
        elif isinstance(item, types.ModuleType):
            if is_user_module(item.__name__):
                self.modules.add(item.__name__)
        elif isinstance(item, (list, tuple, set, frozenset)):
            self._todo += item
        elif isinstance(item, dict):
            self._todo += item.values()
        elif is_user_module(type(item).__module__):
            self._todo += [type(item), *getattr(item, "__dict__", {}).values()]

    def _visit_class(self, cls: type) -> None:
        if not is_user_module(cls.__module__):
            return
        self.classes[cls.__module__, cls.__qualname__] = cls
        self.modules.add(cls.__module__)
        self._todo += [*cls.__bases__, *vars(cls).values()]
        # neighbours in the same module too: they may be reached by annotation or getattr alone
        neighbours = vars(sys.modules[cls.__module__]).values()
        self._todo += [n for n in neighbours if isinstance(n, type) and n.__module__ == cls.__module__]

    def _visit_function(self, function: types.FunctionType) -> None:
        if not is_user_module(function.__module__ or ""):
            return
        self.modules.add(function.__module__)
        names: set[str] = set()
        for code in _codes(function.__code__):
            names.update(code.co_names)
            for imported in _imports(code):
                if _is_user_import(imported):
                    raise ValueError(
                        f"{function.__qualname__} imports {imported} inside its body, and {imported} is not installed on the "
                        f"nodes: import it at the top of {function.__module__}, so that it travels with the job."
                    )
        space = function.__globals__
        self._todo += [space[name] for name in names if name in space]
        for name in names:
            module = space.get(name)
            if isinstance(module, types.ModuleType) and is_user_module(module.__name__):
                self._todo += [vars(module)[n] for n in names if n in vars(module)]
        self._todo += [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imports(code: types.CodeType) -> Iterator[str]:
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IMPORT_NAME":
            yield str(instruction.argval).partition(".")[0]


def _is_user_import(name: str) -> bool:
    if not name or name in OWN_PACKAGES or name in sys.builtin_module_names:
        return False
    if name in sys.modules:
        return is_user_module(name)
    spec = importlib.util.find_spec(name)
    return spec is not None and _is_user_file(spec.origin)


def _filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
