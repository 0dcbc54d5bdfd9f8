"""Parameters of a job that its codecs can read: found in their code, so that a misspelt one is refused before it is sent."""

from __future__ import annotations

import ast
import dis
import functools
import inspect
import sys
import types
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from network.names import did_you_mean
from rpc import OWN_PACKAGES, is_user_module
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from .interfaces import Codec
from .settings import GlobalSettings

_log = get_logger(SUBMIT_LOGGER)
_GET = GlobalSettings.get_params
_COMPOSITION = "composition"
"""The attribute that holds the parts of a class that `Codec.of` made."""
_OPAQUE = frozenset({"parameters", "eval", "exec", "import_module", "__import__"})
"""Names behind which a user's code may read any parameter."""


@dataclass(frozen=True)
class Reads:
    """Parameters that a class asks for, by their `keys`; `all_known`: whether it can ask for no others."""

    keys: frozenset[Hashable]
    all_known: bool

    def __str__(self) -> str:
        return " and ".join(repr(key) for key in sorted(self.keys, key=str)) or "none"


def check_parameters(given: Mapping[Hashable, Any], kinds: Iterable[type[Any]]) -> None:
    """Refuse a parameter that none of the classes reads, codecs and classes that run beside them, where that can be known.

    Raises: ValueError naming it, the name that may be meant, and the parameters that each codec reads.
    """
    found = {kind: reads(kind) for kind in dict.fromkeys(kinds)} if given else {}
    names = {key for each in found.values() for key in each.keys}
    # SUB-46: keys that no class reads; certain only where the code of all classes is known
    strange = [key for key in given if key not in names]
    if strange and all(each.all_known for each in found.values()):
        told = [f"{kind.__name__} reads {each}" for kind, each in found.items() if each.keys or issubclass(kind, Codec)]
        raise ValueError(
            f"'codec_extra_parameters' must hold what the job's codecs read, got {strange[0]!r}"
            f"{did_you_mean(strange[0], names) or '.'} {', '.join(told)}."
        )


def warn_of_unread(given: Mapping[Hashable, Any], unread: Iterable[Iterable[int]], kinds: Iterable[type[Any]]) -> None:
    """Name, at the end of a job, the parameters that no codec has read; `unread` are their places, as each node tells."""
    # of all nodes: a server's codecs read other parameters than the workers'
    by_all = set.intersection(*map(set, unread))
    # only for the hint, so the code is walked only where there is something to tell
    names = {key for kind in kinds for key in reads(kind).keys} if by_all else set()
    told = [f"{key!r}{did_you_mean(key, names - given.keys())}" for place, key in enumerate(given) if place in by_all]
    if told:
        _log.warning("No codec has read these of 'codec_extra_parameters': %s", ", ".join(told))


def reads(kind: type[Any]) -> Reads:
    """Return the parameters that a class, or any function or class that its code can name, asks `get_params` for."""
    walk = _Walk()
    walk.follow(kind)
    return Reads(frozenset(walk.keys), walk.all_known)


class _Walk:
    """Walk from a class to all code that it can run."""

    def __init__(self) -> None:
        self.keys: set[Hashable] = set()
        self.all_known = True
        self._seen: dict[int, Any] = {}  # the objects stay alive, so that no id is used twice

    def follow(self, root: Any) -> None:
        todo = [root]
        while todo:
            # by identity: objects need not be hashable, nor equal only to themselves
            item = todo.pop()
            # each object once, since functions name each other in circles
            if id(item) not in self._seen:
                self._seen[id(item)] = item
                todo += self._parts(item)

    def _parts(self, item: Any) -> Iterator[Any]:
        # a call through a variable cannot be followed
        if item is _GET or item is GlobalSettings:  # kept somewhere, so anybody may call it with anything
            self.all_known = False
        elif isinstance(item, types.FunctionType):
            if _may_read(item.__module__):
                yield from self._named(item)
        elif isinstance(item, type):
            for base in item.__mro__:
                # bases of other packages read no parameters of ours
                followed = _may_read(base.__module__)
                yield from (part for name, part in vars(base).items() if followed or name == _COMPOSITION)
        elif isinstance(item, (staticmethod, classmethod, types.MethodType)):
            yield item.__func__
        elif isinstance(item, property):
            yield from (item.fget, item.fset, item.fdel)
        elif isinstance(item, functools.partial):
            if item.func is _GET and item.args:
                self.keys.add(item.args[0])
            else:
                yield from (item.func, item.args, item.keywords)
        elif isinstance(item, (list, tuple, set, frozenset)):
            yield from item
        elif isinstance(item, dict):
            yield from item.values()
        elif not isinstance(item, types.ModuleType) and (_is_ours(type(item).__module__) or _may_read(type(item).__module__)):
            yield from (type(item), getattr(item, "__dict__", {}))
        elif callable(getattr(item, "__wrapped__", None)):  # lru_cache and the like
            yield item.__wrapped__

    def _named(self, function: types.FunctionType) -> Iterator[Any]:
        """Give the objects that a function's code names, and those bound to it; note the parameters that it asks for."""
        codes = list(_codes(function.__code__))
        names = {name for code in codes for name in (*code.co_names, *code.co_freevars)}
        space = {**function.__globals__, **_closure(function)}
        # imports within a function bind names that its globals lack
        space.update({name: sys.modules[name] for name in names - space.keys() if name in sys.modules})  # imported within
        if not _is_ours(function.__module__):
            self.all_known &= not (names & _OPAQUE or any(_GET.__name__ in code.co_consts or _imports(code) for code in codes))
        # the source is parsed only where the function names the reader at all
        if _GET.__name__ in names or any(space.get(name) is each for name in names for each in (GlobalSettings, _GET)):
            self._ask(function, space)
        for name in names & space.keys():
            if space[name] is not GlobalSettings and space[name] is not _GET:
                yield space[name]
                yield from _looked_up(space[name], names)
        yield from (function.__defaults__, function.__kwdefaults__, vars(function))

    def _ask(self, function: types.FunctionType, space: Mapping[str, Any]) -> None:
        found = _source(function)
        self.all_known &= bool(found)
        for tree in found:
            questions = _Questions(tree, space)
            self.keys |= questions.keys
            self.all_known &= questions.all_known


class _Questions(ast.NodeVisitor):
    """Keys that one function asks for; `space` holds the values of its names."""

    def __init__(self, tree: ast.AST, space: Mapping[str, Any]) -> None:
        self.keys: set[Hashable] = set()
        self.all_known = True
        nodes = list(ast.walk(tree))
        # names that the function assigns itself hide those of its module
        self._local = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        self._local |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        self._space = {name: value for name, value in space.items() if name not in self._local}
        self._aliases = {name for name, value in self._space.items() if value is _GET}
        self.visit(tree)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Note another name of the function: `get = GlobalSettings.get_params`."""
        if self._gets(node.value) and all(isinstance(target, ast.Name) for target in node.targets):
            self._aliases |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        else:
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not self._gets(node.func):
            self.generic_visit(node)
            return
        # a keyword without a name is `**arguments`, whose key cannot be known
        given = [*node.args[:1], *(each.value for each in node.keywords if each.arg in ("key", None))]
        try:
            self.keys.add(self._value(given[0]))
        # computed keys: the class may ask for anything
        except (ValueError, TypeError, LookupError, AttributeError):
            self.all_known = False
        for further in (*node.args[1:], *node.keywords):
            self.visit(further)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Visit anything of the settings but the function that reads them, which may be called elsewhere then."""
        self.all_known &= node.attr not in (_GET.__name__, GlobalSettings.__name__)
        if isinstance(node.value, ast.Attribute) and node.value.attr == GlobalSettings.__name__:
            self.visit(node.value.value)
        elif not (isinstance(node.value, ast.Name) and self._space.get(node.value.id) is GlobalSettings):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self.all_known &= node.id not in self._aliases and self._space.get(node.id) is not GlobalSettings

    def _gets(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr == _GET.__name__
        return isinstance(node, ast.Name) and node.id in self._aliases

    def _value(self, node: ast.expr) -> Hashable:
        """Return the value of an expression of constants.

        Raises: ValueError, LookupError, AttributeError, TypeError for other expressions.
        """
        value = self._object(node) if isinstance(node, (ast.Name, ast.Attribute)) else ast.literal_eval(node)
        hash(value)
        # a function or class as key would be another object on each node
        if callable(value):
            raise TypeError(f"no key: {value!r}")
        found: Hashable = value
        return found

    def _object(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Attribute):
            owner = self._object(node.value)
            if not isinstance(owner, (type, types.ModuleType)):
                raise TypeError(f"may change: {owner!r}")
            return getattr(owner, node.attr)
        if not isinstance(node, ast.Name):
            raise TypeError(f"no constant: {ast.dump(node)}")
        return self._space[node.id]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in OWN_PACKAGES


def _may_read(name: str) -> bool:
    """Tell whether code of this module may know of parameters: a user's, or one that imports something of this package."""
    if name == GlobalSettings.__module__ or name not in sys.modules:
        return False
    if is_user_module(name):
        return True
    # a copy: to look at a value may import something, and so change the module
    values = list(vars(sys.modules[name]).values())
    if _is_ours(name):
        return any(value is GlobalSettings for value in values)
    package = __name__.partition(".")[0]
    return any(
        str(getattr(value, "__module__", None) or getattr(value, "__name__", "")).startswith(package) for value in values
    )


def _source(function: types.FunctionType) -> list[ast.AST]:
    """Return a function's definition; several that begin on the same line; none where it was typed in, or made by `exec`."""
    try:
        tree = _parsed("".join(inspect.findsource(function)[0]))
    except (OSError, SyntaxError):
        return []
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        # several on one line cannot be told apart by the code object, so all are read
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            if first == function.__code__.co_firstlineno:
                found.append(node)
    return found


@functools.lru_cache(maxsize=64)
def _parsed(source: str) -> ast.Module:
    return ast.parse(source)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    # nested functions and lambdas as well: their code objects are constants of the outer one
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _imports(code: types.CodeType) -> bool:
    found = {str(each.argval) for each in dis.get_instructions(code) if each.opname == "IMPORT_NAME"}
    # modules that are loaded already run no code when they are imported again
    return not found <= sys.modules.keys() | sys.stdlib_module_names


def _closure(function: types.FunctionType) -> dict[str, Any]:
    found = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        # a variable that is bound later, as in recursion
        except ValueError:  # empty so far
            continue
    return found


def _looked_up(module: Any, names: set[str]) -> Iterator[Any]:
    """Give the objects that code may look up in a module, and in modules there."""
    if isinstance(module, types.ModuleType) and (_may_read(module.__name__) or _is_ours(module.__name__)):
        for name in names & vars(module).keys():
            if vars(module)[name] is not module and vars(module)[name] is not GlobalSettings:
                yield vars(module)[name]
                yield from _looked_up(vars(module)[name], names - {name})
