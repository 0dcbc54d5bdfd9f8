"""The names of a package that imports on demand: `__all__`, the imports for type checkers and what `lazily` finds agree."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from .house.graph import module_name
from .sources import ROOT, library_files, parse


class Stated(NamedTuple):
    """The names of a package as a file states them, each with the module below the package that it comes from, else "".

    Attributes:
        checked: By the imports under `TYPE_CHECKING`; a star stands for the `__all__` of that module.
        found: By the mappings of `lazily`.
        imported: Names that the file defines or imports itself.
    """

    checked: dict[str, str]
    found: dict[str, str]
    imported: set[str]


def lazy_packages() -> Iterator[Path]:
    """Yield the files that call `lazily`."""
    for path in library_files():
        if any(isinstance(node, ast.Expr) and _is_lazily(node.value) for node in parse(path).body):
            yield path


def _is_lazily(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazily"


def stated(path: Path) -> Stated:
    """Read the names of a package."""
    package = module_name(path)
    loaded = import_module(package)
    checked, found, imported = dict[str, str](), dict[str, str](), set[str]()
    for node in parse(path).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in node.body:
                if isinstance(each, ast.ImportFrom):
                    checked |= dict(_names(package, each))
        elif isinstance(node, (ast.ImportFrom, ast.Import)):
            imported |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            imported.add(node.name)
        elif isinstance(node, ast.Expr) and _is_lazily(node.value):
            assert isinstance(node.value, ast.Call)
            for mapping in node.value.args[1:]:
                homes = eval(compile(ast.Expression(mapping), str(path), "eval"), vars(loaded))
                # a home without names is given as a module itself
                found |= {name: home for home, names in homes.items() for name in names.split() or [home]}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            imported |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return Stated(checked, found, imported)


def _names(package: str, node: ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names of an import, with the module below the package from which they come, "" for one elsewhere."""
    module = node.module or ""
    elsewhere = node.level > 1 or (node.level == 0 and not f"{module}.".startswith(f"{package}."))
    if node.level == 0:
        module = module.removeprefix(package).removeprefix(".")
    for alias in node.names:
        if alias.name == "*":
            yield from ((name, module) for name in import_module(f"{package}.{module}").__all__)
        else:
            yield alias.asname or alias.name, "" if elsewhere else module or alias.name


def disagreements(names: Stated, public: set[str]) -> list[str]:
    """Return the names that are not stated alike, each with what is wrong."""
    wrong = [f"{name} is in __all__ alone" for name in public - names.checked.keys() - names.found.keys() - names.imported]
    for name in names.checked.keys() | names.found.keys():
        checked, found = names.checked.get(name), names.found.get(name)
        if checked and found is None and name not in names.imported:
            wrong.append(f"{name} is imported for type checkers and not found by lazily")
        elif checked is None:
            wrong.append(f"{name} is found by lazily and not imported for type checkers")
        elif found is not None and checked and found != checked:
            wrong.append(f"{name} comes from {checked} for type checkers, from {found} by lazily")
    return sorted(wrong)


@pytest.mark.parametrize("path", [*lazy_packages()], ids=module_name)
def test_a_package_states_its_names_alike(path: Path) -> None:
    assert disagreements(stated(path), set(getattr(import_module(module_name(path)), "__all__", ()))) == []


def test_there_are_such_packages() -> None:
    found = {module_name(path) for path in lazy_packages()}
    assert {"nn.layer", "parallel_sgd", "rpc.launch"} <= found and (ROOT / "nn" / "layer").exists()


def test_what_is_not_stated_alike_is_found() -> None:
    names = Stated({"A": "a", "B": "b", "C": "c"}, {"A": "a", "B": "other", "D": "d"}, {"E"})
    assert disagreements(names, {"A", "E", "F"}) == [
        "B comes from b for type checkers, from other by lazily",
        "C is imported for type checkers and not found by lazily",
        "D is found by lazily and not imported for type checkers",
        "F is in __all__ alone",
    ]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "from parallel_sgd import Codec",
            "cannot import name 'Codec' from 'parallel_sgd'; here it is parallel_sgd.codec.Codec",
        ),
        (
            "from parallel_sgd import local_worker",
            "cannot import name 'local_worker' from 'parallel_sgd'; did you mean 'local_workers'?",
        ),
        ("from executor import Pool", "cannot import name 'Pool' from 'executor'; here it is executor.ClusterExecutor"),
        ("from nn.layer import Dence", "cannot import name 'Dence' from 'nn.layer'; did you mean 'Dense'?"),
        ("from nn import Sequential", "cannot import name 'Sequential' from 'nn'; here it is nn.model.SequentialModel"),
        ("from rpc import Zyx", "cannot import name 'Zyx' from 'rpc'"),
    ],
)
def test_a_statement_that_imports_a_name_from_elsewhere_is_told_where_it_is(statement: str, told: str) -> None:
    """Python puts words of its own in place of those of an AttributeError there."""
    with pytest.raises(ImportError) as caught:
        exec(statement)
    assert str(caught.value) == told


def test_asking_for_a_name_in_another_way_is_answered_as_ever() -> None:
    """A module that is loaded, and is no attribute of its package yet, is taken by the statement, as Python has it."""
    assert not hasattr(import_module("parallel_sgd"), "Codec") and not hasattr(import_module("nn"), "Sequential")
    for package in ("parallel_sgd", "nn"):
        module = ModuleType(f"{package}.of_the_test")
        module.__spec__ = ModuleSpec(module.__name__, None)
        sys.modules[module.__name__] = module
        try:
            found: dict[str, object] = {}
            exec(f"from {package} import of_the_test", found)
            assert found["of_the_test"] is module
        finally:
            del sys.modules[module.__name__]
