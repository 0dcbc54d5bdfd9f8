"""Finds every public kind of something, so that a new one without a row in its contract table fails a test."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable
from types import ModuleType


def public_kinds(base: type, package: ModuleType) -> set[type]:
    """The concrete public subclasses of `base` that are defined anywhere in `package`."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    for name in getattr(package, "__all__", ()):  # what is made when it is first asked for
        getattr(package, name)
    todo, found = [base], set()
    while todo:
        for kind in todo.pop().__subclasses__():
            todo.append(kind)
            inside = kind.__module__ == package.__name__ or kind.__module__.startswith(f"{package.__name__}.")
            if inside and not kind.__name__.startswith("_") and not inspect.isabstract(kind):
                found.add(kind)
    return found


def row_faults(kinds: Iterable[type], rows: Iterable[type], place: str) -> str:
    """Return what to do about kinds without a row and rows of no kind, "" where there are none.

    Args:
        kinds: all kinds that need a row.
        rows: the kinds that have one.
        place: the table of the rows, such as `ROWS in tests/contract/test_codecs.py`.
    """
    kinds, rows = set(kinds), set(rows)
    lacking, gone = (", ".join(sorted(kind.__name__ for kind in some)) for some in (kinds - rows, rows - kinds))
    told = (
        [f"add a row for {lacking} to {place}: CONTRIBUTING.md, 'Add a part', lists all that a kind needs"] if lacking else []
    )
    return "; ".join([*told, *([f"{gone} in {place} is no public kind: is its name missing in __all__?"] if gone else [])])
