"""Which module of the product imports which, read from their text.

A module is a node, a package's `__init__` too. `from a.b import c` is an edge to the module `a.b.c` where there is one, else to
`a.b`: who takes a name from a package depends on its `__init__`, and by it on all that this imports. That Python runs the
`__init__` of every package above a module as well is no edge.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.sources import ROOT, is_public, library_files, nodes, parse

ENTRANCES = ("worker", "job_submit")  # programs beside the packages
Graph = dict[str, frozenset[str]]
_DOTTED = re.compile(r"\w+(?:\.\w+)+")


class Import(NamedTuple):
    """What one statement asks for: a module, or a name of one, and whether that happens when the module is loaded."""

    module: str
    name: str | None
    when_loaded: bool


def module_name(path: Path) -> str:
    """`nn/layer/__init__.py` is `nn.layer`."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> dict[str, Path]:
    """All modules of the product."""
    return {module_name(path): path for path in library_files()}


def imports(path: Path) -> Iterator[Import]:
    """All imports of a file, with relative ones made absolute; those in functions and for type checkers are marked."""
    package = module_name(path).split(".")
    if path.name != "__init__.py":
        package.pop()
    for node, when_loaded in _statements(parse(path), True):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None, when_loaded) for alias in node.names)
        else:
            above = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (Import(module, alias.name, when_loaded) for alias in node.names)


def _statements(node: ast.AST, when_loaded: bool) -> Iterator[tuple[ast.Import | ast.ImportFrom, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # a great part of all nodes
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            yield child, when_loaded
        later = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        types_only = isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")
        yield from _statements(child, when_loaded and not later and not types_only)


def target(found: Import) -> str | None:
    """The module of the product that an import leads to."""
    for name in (f"{found.module}.{found.name}", found.module):
        if name in modules():
            return name
    return None


@functools.cache
def graph(when_loaded: bool) -> Graph:
    """Module: those that it imports when it is loaded, or else all that it names, type imports and functions included."""
    edges: Graph = {}
    for name, path in modules().items():
        found = {target(each) for each in imports(path) if each.when_loaded or not when_loaded}
        edges[name] = frozenset(other for other in found if other is not None and other != name)
    return edges


def components(edges: Graph) -> list[list[str]]:
    """Groups of modules that import each other, those of one module included; a group comes after all that it imports."""
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    found: list[list[str]] = []
    open_ones: list[str] = []

    def visit(module: str) -> None:
        order[module] = lowest[module] = len(order)
        open_ones.append(module)
        for other in sorted(edges[module]):
            if other not in order:
                visit(other)
            if other in open_ones:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == order[module]:
            place = open_ones.index(module)
            found.append(open_ones[place:])
            del open_ones[place:]

    for module in edges:
        if module not in order:
            visit(module)
    return found


def cycles() -> list[list[str]]:
    """Groups of more than one module that name each other, `TYPE_CHECKING` and functions counted."""
    return [sorted(group) for group in components(graph(False)) if len(group) > 1]


def longest_chain(package: str = "") -> list[str]:
    """Modules of which each imports the next when it is loaded; a cycle counts as one module, for it has its own budget.

    With a `package`, of its modules alone: its levels of imports.
    """
    inside = {name for name in modules() if not package or name.split(".")[0] == package}
    edges = {name: others & inside for name, others in graph(True).items() if name in inside}
    groups = components(edges)
    group_of = {module: number for number, group in enumerate(groups) for module in group}
    below: list[list[str]] = []
    for number, group in enumerate(groups):
        others = {group_of[other] for module in group for other in edges[module]} - {number}
        longest = max((below[other] for other in others), key=len, default=[])
        below.append([" = ".join(sorted(group)), *longest])
    return max(below, key=len)


def never_imported() -> list[str]:
    """Modules that no program leads to.

    Programs are the scripts beside the packages, every `__main__`, and a user's, who imports what has an `__all__`. From there
    all imports count, those in functions and for type checkers too, and so does the name of a module in a text
    (`import_module("psgd.runs")`, `python -c "from rpc.job.process import main"`) that is no docstring. A package that
    loads its modules by a part of their name imports them for type checkers as well.
    """
    edges = graph(False)
    scripts = [ROOT / f"{name}.py" for name in ENTRANCES]
    reached: set[str] = set()
    waiting = [name for name, path in modules().items() if name.endswith(".__main__") or is_public(path)]
    for path in scripts:
        waiting += [other for each in imports(path) if (other := target(each))] + sorted(_named_in(path))
    while waiting:
        module = waiting.pop()
        if module not in reached:
            reached.add(module)
            waiting += edges[module] | _named_in(modules()[module])
    return sorted(modules().keys() - reached - _packages_above(reached))


def _packages_above(names: Iterable[str]) -> set[str]:
    return {name.rsplit(".", depth)[0] for name in names for depth in range(1, name.count(".") + 1)}


def _named_in(path: Path) -> set[str]:
    docstrings = {id(node.value) for node in nodes(path) if isinstance(node, ast.Expr)}
    texts = (
        node.value
        for node in nodes(path)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    )
    return {name for text in texts for name in _DOTTED.findall(text)} & modules().keys()


def face(importer: str, package: str) -> set[str]:
    """The modules of `package` that modules of `importer` name, type imports and functions counted."""
    edges = graph(False)
    return {
        other
        for module, others in edges.items()
        if module.split(".")[0] == importer
        for other in others
        if other.split(".")[0] == package
    }
