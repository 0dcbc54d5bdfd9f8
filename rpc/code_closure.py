"""Closure of a piece of code: the user's own classes, functions and modules that it can reach, so that all of it travels
together.
"""

from __future__ import annotations

import dis
import functools
import importlib.util
import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import _psgd_packages

OWN_PACKAGES = frozenset({*_psgd_packages.NEEDED, _psgd_packages.__name__})
"""Packages of this project, and the module beside them: every node has them, in the same version."""

_ON_EVERY_NODE = OWN_PACKAGES | sys.stdlib_module_names | {"numpy", "pandas", "msgpack", "tqdm", "cloudpickle"}


def is_user_module(name: str) -> bool:
    """Tell if `name` is code that the nodes do not have: `__main__`, or a file outside the installed packages."""
    if name == "__main__":
        return True
    module = sys.modules.get(name)
    if module is None or name.partition(".")[0] in OWN_PACKAGES:
        return False
    package = sys.modules.get(name.partition(".")[0])
    # part of a package goes with it, wherever it says it is: torch.ops gives "_ops.py"
    file = getattr(package, "__file__", None) or getattr(module, "__file__", None)
    if file is None:  # built-in, or made at run time as notebooks do: running code in a module leaves this mark
        return getattr(module, "__spec__", None) is None and "__builtins__" in vars(module)
    return is_user_file(file)


def user_modules() -> list[types.ModuleType]:
    """List all loaded modules of the user but `__main__`, which pickles travel by value in any case."""
    loaded = [(name, module) for name, module in sys.modules.items() if name not in ("__main__", "__mp_main__")]
    return [module for name, module in loaded if isinstance(module, types.ModuleType) and is_user_module(name)]


# by the file: a submission looks twice at each of some 600 modules, which have some 60 files of packages
@functools.lru_cache(maxsize=4096)
def is_user_file(file: str | None) -> bool:
    """Tell if code in that file is neither Python's nor of an installed package."""
    if not file or file in ("built-in", "frozen") or file.startswith("<frozen "):
        return False
    parts = file.split(os.sep)
    # by folder name, as a virtual environment may lie inside the user's project
    return "site-packages" not in parts and "dist-packages" not in parts and not file.startswith(_stdlib_folders())


@functools.cache
def _stdlib_folders() -> tuple[str, ...]:
    folders = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    # with and without links resolved: code objects have either form
    return tuple(folder + os.sep for folder in folders | set(map(os.path.realpath, folders)))


class CodeClosure:
    """Walk from some objects to all user classes, functions and modules that their code can name.

    Attributes: `classes`, of which instances in messages may be: those that the code names, then other classes of the same
    modules, which annotations or `getattr` may name; `names`, all names that the code looks up, also in modules; `codes`, the
    code of every function, with the globals of its module.

    Raises: ValueError when a function body imports a user module, which cannot be followed to the nodes.
    """

    def __init__(self, roots: list[Any]) -> None:
        walk = _Walk()
        walk.follow(roots)
        needed = walk.foreign | _ON_EVERY_NODE
        for neighbour in walk.neighbours():
            trial = walk.copy()
            try:
                trial.follow([neighbour])
            except ValueError:  # the user did not ask for it, so it may not stop the job
                continue
            if trial.foreign <= needed:  # nor may it ask the nodes for packages that the job can do without
                walk = trial
        self.classes: list[type] = list(walk.classes)
        self.names = walk.names
        self.codes = walk.codes


class _Walk:
    """State of a walk, in a fixed order; `foreign` are the packages that loading the code imports."""

    def __init__(self) -> None:
        self.classes: dict[type, None] = {}
        self.modules: dict[str, None] = {}
        self.foreign: set[str] = set()
        self.names: set[str] = set()
        self.codes: list[tuple[types.CodeType, dict[str, Any]]] = []
        self._seen: dict[int, Any] = {}  # the objects stay alive, so that no id is used twice
        self._todo: list[Any] = []

    def copy(self) -> _Walk:
        other = _Walk()
        other.classes, other.modules = dict(self.classes), dict(self.modules)
        other.foreign, other.names, other._seen = set(self.foreign), set(self.names), dict(self._seen)
        other.codes = list(self.codes)
        return other

    def neighbours(self) -> list[type]:
        """List classes of the same modules that were not reached."""
        found: dict[type, None] = {}
        for module in self.modules:
            for item in vars(sys.modules[module]).values():
                if isinstance(item, type) and item.__module__ == module and item not in self.classes:
                    found[item] = None
        return list(found)

    def follow(self, roots: list[Any]) -> None:
        # a stack: depth first, in the order in which the roots were given
        self._todo = list(reversed(roots))
        while self._todo:
            item = self._todo.pop()
            # by identity: user objects need not hash, and may be equal without being the same
            if id(item) not in self._seen:
                self._seen[id(item)] = item
                self._visit(item)

    def _visit(self, item: Any) -> None:
        if isinstance(item, (staticmethod, classmethod, types.MethodType)):
            self._todo.append(item.__func__)
        elif isinstance(item, property):
            self._todo += [item.fget, item.fset, item.fdel]
        elif isinstance(item, functools.partial):
            self._todo += [item.func, item.args, item.keywords]
        elif isinstance(item, types.FunctionType):
            self._visit_function(item)
        elif isinstance(item, type):
            self._visit_class(item)
        elif isinstance(item, types.ModuleType):
            if not is_user_module(item.__name__):
                self._note_foreign(item.__name__)
        elif isinstance(item, (list, tuple, set, frozenset)):
            self._todo += item
        elif isinstance(item, dict):
            self._todo += item.values()
        elif is_user_module(type(item).__module__):
            self._todo += [type(item), getattr(item, "__dict__", {})]
        elif callable(getattr(item, "__wrapped__", None)):  # lru_cache and the like
            self._todo.append(item.__wrapped__)

    def _note_foreign(self, module: str | None) -> None:
        self.foreign.add((module or "builtins").partition(".")[0])

    def _visit_class(self, cls: type) -> None:
        if not is_user_module(cls.__module__):
            self._note_foreign(cls.__module__)
            return
        self.classes[cls] = None
        self.modules[cls.__module__] = None
        # the metaclass, too: it makes the class again at the other end
        self._todo += [type(cls), *cls.__bases__, *vars(cls).values()]

    def _visit_function(self, function: types.FunctionType) -> None:
        if not is_user_module(function.__module__ or ""):
            self._note_foreign(function.__module__)
            return
        self.modules[function.__module__] = None
        space, names = function.__globals__, dict[str, None]()
        self.codes.append((function.__code__, space))
        for code in _codes(function.__code__):
            self.names.update(code.co_names)
            self._check_imports(function, code)
            names.update(dict.fromkeys(_names_in(code).globals))
        for name in names:
            if name in space:
                self._todo.append(space[name])
                self._follow_module(space[name])
        # all that pickling the function would take along; since Python 3.14 a function makes annotations when they are read,
        # and fails where one names what exists for type checkers only
        annotations = getattr(function, "__annotate__", None) or function.__annotations__
        self._todo += [function.__defaults__, function.__kwdefaults__, annotations, vars(function)]
        self._todo += [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]

    def _follow_module(self, module: Any, within: tuple[Any, ...] = ()) -> None:
        """Go on to the objects that the code may look up in a user's module, and in modules there."""
        if isinstance(module, types.ModuleType) and is_user_module(module.__name__) and module not in within:
            # by all names looked up anywhere, as an attribute of a module is only a name in the code
            for name in sorted(self.names & vars(module).keys()):
                self._todo.append(vars(module)[name])
                self._follow_module(vars(module)[name], (*within, module))

    @staticmethod
    def _check_imports(function: types.FunctionType, code: types.CodeType) -> None:
        for imported in _names_in(code).imports:
            if imported.startswith(".") or _is_user_import(imported):
                raise ValueError(
                    f"{function.__qualname__} imports {imported} inside its body, and {imported} is not installed on the "
                    f"nodes: import it at the top of {function.__module__}, so that it travels with the job."
                )


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


class _Names(NamedTuple):
    """Names in a piece of code: globals, and top-level names of packages that it imports, relative ones with their dots."""

    globals: tuple[str, ...]
    imports: tuple[str, ...]


@functools.lru_cache(maxsize=4096)
def _names_in(code: types.CodeType) -> _Names:
    """List the names in `code`, once: disassembling is half the cost of packing a function, and functions name the same
    helpers often.
    """
    found: list[str] = []
    imported: list[str] = []
    # EXTENDED_ARG would shift the places that are counted back below
    instructions = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    for position, instruction in enumerate(instructions):
        if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            found.append(str(instruction.argval))
        elif instruction.opname == "IMPORT_NAME":
            level = instructions[position - 2].argval  # before the name come its level and the list after `from`
            name = str(instruction.argval)
            imported.append("." * level + name if level else name.partition(".")[0])
    return _Names(tuple(found), tuple(imported))


def _is_user_import(name: str) -> bool:
    if name in OWN_PACKAGES or name in sys.stdlib_module_names:
        return False
    if name in sys.modules:
        return is_user_module(name)
    # finds without importing: the user's module may do work when it is loaded
    spec = importlib.util.find_spec(name)
    if spec is None:  # not here, but perhaps on the nodes
        return False
    folders = spec.submodule_search_locations or []
    return is_user_file(spec.origin) or any(is_user_file(folder) for folder in folders)


def _is_filled(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False
