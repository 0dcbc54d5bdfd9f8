"""Where a change is made: a statement of a function, found by names and text, so that code may move between files."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutants.changes import changeable, head
from tests.sources import ROOT, parse


class Place(NamedTuple):
    """One statement that can be changed: its text stands once in the function, whose name stands once in the package."""

    package: str
    name: str  # such as `Session.close` or `pack`
    statement: str
    path: Path
    node: ast.stmt
    root: Path = ROOT

    @property
    def module(self) -> str:
        """The path from the root, as in `rpc/support/logs.py`."""
        return self.path.relative_to(self.root).as_posix()


class PlaceError(Exception):
    """A stored mutant no longer finds its statement."""


Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def functions(package: str, root: Path = ROOT) -> dict[str, tuple[Path, Function]]:
    """The functions and methods of a package whose qualified name stands there once, in the order of names."""
    found = [
        (name, path, function)
        for path in sorted((root / package).rglob("*.py"))
        for name, function in functions_of(parse(path))
    ]
    often = Counter(name for name, _, _ in found)
    return {name: (path, function) for name, path, function in sorted(found, key=lambda f: f[0]) if often[name] == 1}


@cache
def places_in(package: str, name: str, root: Path = ROOT) -> tuple[Place, ...]:
    """The places of one function, in the order of their text."""
    path, function = functions(package, root)[name]
    return tuple(
        Place(package, name, text, path, node, root) for text, node in sorted(statements_of(function), key=lambda s: s[0])
    )


def functions_of(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Functions and methods with their qualified names; functions inside functions belong to the outer one."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")


def statements_of(function: Function) -> Iterator[tuple[str, ast.stmt]]:
    """The statements of a function that can be changed and whose text stands there once."""
    every = [node for part in function.body for node in ast.walk(part) if isinstance(node, ast.stmt)]
    texts = [head(node) if changeable(node) is not None else "" for node in every]
    often = Counter(texts)
    yield from ((text, node) for text, node in zip(texts, every, strict=True) if text and often[text] == 1)


def find(package: str, name: str, statement: str, root: Path = ROOT) -> Place:
    """The one place with these names and this text, in the checkout at `root`."""
    if name not in functions(package, root):
        raise PlaceError(f"{package} has no function {name}, or more than one")
    here = _spelled_here(statement)
    for place in places_in(package, name, root):
        if place.statement == here:
            return place
    raise PlaceError(f"{package} {name} has not once {statement!r}")


def _spelled_here(statement: str) -> str:
    """A stored statement as this version of Python writes it: quotes in f-strings differ."""
    return head(ast.parse(f"{statement}\n    pass" if statement.endswith(":") else statement).body[0])


def apply(place: Place, becomes: str, source: str) -> str:
    """The source of the place's file with the statement changed; every other line stays as it is."""
    where = changeable(place.node)
    if where:
        node = getattr(place.node, where)
        changed = getattr(ast.parse(f"{becomes}\n    pass").body[0], where)
        return _splice(source, node, f"({ast.unparse(changed)})")
    return _splice(source, place.node, becomes)


def _splice(source: str, node: ast.expr | ast.stmt, text: str) -> str:
    """Columns of the syntax tree count bytes of UTF-8."""
    assert node.end_lineno is not None and node.end_col_offset is not None
    lines = source.encode().splitlines(keepends=True)
    before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
    after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(lines[node.end_lineno :])
    blank = b"\n" * (node.end_lineno - node.lineno - text.count("\n"))  # what comes later keeps its line number
    first, newline, rest = after.partition(b"\n")
    return (before + text.encode() + first + blank + newline + rest).decode()
