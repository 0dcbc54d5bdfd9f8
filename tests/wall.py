"""The outer wall: tests of what users see. A change of how the product is made changes nothing that they assert."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.sources import PACKAGES, ROOT, is_public

TESTS = Path(__file__).parent
WALL = (
    "contract",  # one suite of behaviour for every layer, loss, codec, sync type, assignment
    "equivalence",  # n workers = one worker, to the bit
    "faults",  # the grid of faults
    "processes",  # real agents and jobs
    "test_cli.py",  # the programs, as a shell meets them
    "test_docs.py",  # programs in the guides run
    "test_examples.py",
    "test_readme_programs.py",
)
_IMPORT = re.compile(
    r"^[ \t]*(?:from|import)[ ]+(?P<module>[\w.]+)(?:[ ]+import[ ]+(?P<names>\([^)]*\)|.*))?",
    re.MULTILINE,
)


@functools.cache
def in_the_wall(path: Path) -> bool:
    """Whether a file of tests belongs to the outer wall.

    It does as one of the folders or files above, or when it tests a package by what users may import alone: neither it nor a
    helper that it imports names a module without `__all__`.
    """
    if any(path.is_relative_to(TESTS / part) for part in WALL):
        return True
    return path.relative_to(TESTS).parts[0] in PACKAGES and not leans_on_internals(path)


@functools.cache
def leans_on_internals(path: Path) -> bool:
    """Whether it, or a helper of the tests that it imports, imports a module of which no user is told."""
    seen, waiting = {path}, [path]
    while waiting:
        for module in _imported(waiting.pop()):
            if module.is_relative_to(TESTS):
                if module not in seen:
                    seen.add(module)
                    waiting.append(module)
            elif not is_public(module):
                return True
    return False


def _imported(path: Path) -> Iterator[Path]:
    """The files of the product and of the tests that a file imports; by its text, because to parse all tests takes long."""
    for found in _IMPORT.finditer(path.read_text("utf-8")):
        if found["module"].split(".")[0] in (*PACKAGES, "tests"):
            for name in re.findall(r"\w+", found["names"] or "") or [""]:
                file = _file(f"{found['module']}.{name}") or _file(found["module"])
                if file:
                    yield file


@functools.cache
def _file(module: str) -> Path | None:
    place = ROOT.joinpath(*module.strip(".").split("."))
    return next((file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()), None)
