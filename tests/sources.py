"""The source files of the library, for tests that read code instead of running it."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("nn", "network", "rpc", "parallel_sgd", "executor", "psgd")
SCRIPTS = ("worker.py", "job_submit.py", "_psgd_packages.py")


def library_files() -> list[Path]:
    """Every module of the packages."""
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def script_files() -> list[Path]:
    """Programs that stand beside the packages."""
    beside = [ROOT / name for name in SCRIPTS if (ROOT / name).exists()]
    return beside + sorted((ROOT / "examples").rglob("*.py"))


@functools.cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@functools.cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file: several tests look at each of them."""
    return tuple(ast.walk(parse(path)))


@functools.cache
def is_public(path: Path) -> bool:
    """Whether users may import from it: it has an `__all__`, or is the face of a package."""
    face = path == ROOT / path.parent.name / "__init__.py"
    return face or re.search(r"^__all__\b", path.read_text("utf-8"), re.MULTILINE) is not None


def findings(paths: Iterable[Path], look: Callable[[ast.Module, str], Iterable[str]]) -> list[str]:
    """What `look(tree, name)` finds in each file, with its name before it."""
    names = {path: path.relative_to(ROOT).as_posix() for path in paths}
    return [f"{name} {found}" for path, name in names.items() for found in look(parse(path), name)]
