"""Sizes of files, words in their names, parameters of functions, and what the tests lean on: read from the text alone."""

from __future__ import annotations

import ast
import functools
import io
import re
import subprocess
import tarfile
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.sources import PACKAGES, ROOT, library_files, nodes, parse
from tests.wall import in_the_wall, leans_on_internals

#: Words that say something else elsewhere, or nothing to whom they are not explained. Package: names of modules and folders
#: below it, and of classes.
OLD_WORDS = {
    "network": (
        "bell calls door farewell patterns windows",
        "Bell Calls Door Window",
    ),
    "rpc": (
        "attendant audit calling claim cores crew delivery departure deposit desk entrusting estates evidence following guard "
        "handover heir lines lobby lookout meetings news orders origin orphan patience porter reach recording run runs sealed "
        "seating slot starter submitter_line submitting succession takeover throttle timeline waiting watch watchers will",
        "Attendant Audit AuditLog Beat Calling Charter Claim ClusterWatch Crew Departure Deposit Desk Entrusting Estates "
        "Following Guard Handover Heir HeirGone HeirHere Lines Lobby Lookout Meetings Orders Origin Patience Porter Reach "
        "Runs Slot StartHeir Submitting Succession Throttle Timeline Waiting Watch Watchers Will",
    ),
    "executor": ("desk waiting", "Desk Waiting"),
    "parallel_sgd": (
        "answers attempts climbing conversing crew drive driver estate heir liaison muster news patience recruit redealing "
        "seating turns vault watching ways words",
        "Attempts Charter Climbing Conversing Crew Drive Estate Heir Liaison Muster News Patience Recruit Turns Vault Watching "
        "Ways Words",
    ),
}  # fmt: skip
_DIRECTIVE = re.compile(r"#\s*(noqa|fmt:|type:|ruff:|mypy:|pragma)")
#: a module `driver` of `parallel_sgd` pumped sockets; the driver of a job is another thing.
STANDARD_HERE = {"rpc/elastic/driver.py", "parallel_sgd/driver/__init__.py"}


@functools.cache
def lengths() -> dict[str, int]:
    """Lines of every file of the product."""
    return {path.relative_to(ROOT).as_posix(): _lines(path) for path in library_files()}


@functools.cache
def released() -> dict[str, int]:
    """Lines of every file of the product and the tests in the last release, as git has it; empty where git cannot tell.

    The last release is the commit before the one that has set the present number of the version: each number is begun in one
    commit, right after the release before it (CONTRIBUTING.md).
    """
    begun = _git("log", "-1", "--format=%H", "-G^VERSION = ", "--", "network/__init__.py").decode().strip()
    archive = _git("archive", f"{begun}^", *PACKAGES, "tests") if begun else b""
    if not archive:
        return {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [each for each in tar if each.isfile() and each.name.endswith(".py")]
        return {each.name: len(tar.extractfile(each).read().splitlines()) for each in members}  # type: ignore[union-attr]


def _git(*arguments: str) -> bytes:
    # neither git nor the history need be there: an archive of the sources, a shallow clone
    try:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False).stdout
    except OSError:
        return b""


def loose(package: str) -> list[str]:
    """Modules of a package that stand in none of its rooms."""
    return sorted(path.name for path in (ROOT / package).glob("*.py") if path.name not in ("__init__.py", "__main__.py"))


def _lines(path: Path) -> int:
    return len(path.read_text("utf-8").splitlines())


def old_words() -> list[str]:
    """Files that one of `OLD_WORDS` names, or a class in them, with what is found: `rpc/agent/heir.py heir Heir`."""
    found = []
    for package, (places, classes) in OLD_WORDS.items():
        names, kinds = set(places.split()), set(classes.split())
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT)
            if place.as_posix() not in STANDARD_HERE:
                called = path.parent.name if path.name == "__init__.py" else path.stem
                defined = {node.name for node in nodes(path) if isinstance(node, ast.ClassDef)}
                if words := sorted({called} & names) + sorted(defined & kinds):
                    found.append(" ".join([place.as_posix(), *words]))
    return found


def many_parameters(limit: int) -> dict[str, int]:
    """Functions with more than `limit` parameters, `self` not counted, that are not public API.

    Public are functions and classes in an `__all__`, classes that a public one is made from, and methods of them without an
    underscore before their name.
    """
    public = public_names()
    counts: dict[str, int] = {}
    for path in library_files():
        for outer, function in _functions(parse(path), ()):
            given = function.args
            names = [each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            if outer and names[:1] in (["self"], ["cls"]):
                names = names[1:]
            method_of_public = outer and outer[0] in public and (function.name == "__init__" or function.name[0] != "_")
            if len(names) > limit and not method_of_public and not (not outer and function.name in public):
                counts[".".join([path.relative_to(ROOT).as_posix(), *outer, function.name])] = len(names)
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


@functools.cache
def public_names() -> set[str]:
    """What stands in an `__all__`, and the classes behind."""
    names: set[str] = set()
    bases: dict[str, set[str]] = {}
    for path in library_files():
        for node in nodes(path):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                names |= {
                    each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)
                }
            elif isinstance(node, ast.ClassDef):
                bases.setdefault(node.name, set()).update(ast.unparse(base).split("[")[0] for base in node.bases)
    waiting = list(names)
    while waiting:
        behind = bases.get(waiting.pop(), set()) - names
        names |= behind
        waiting += behind
    return names


Function = ast.FunctionDef | ast.AsyncFunctionDef


def _functions(node: ast.AST, outer: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Function]]:
    """All functions, with the names of the classes around each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # a great part of all nodes
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield outer, child
        yield from _functions(child, (*outer, child.name) if isinstance(child, ast.ClassDef) else outer)


@functools.cache
def test_lines() -> dict[Path, int]:
    """Lines of every Python file below tests/."""
    return {path: _lines(path) for path in sorted((ROOT / "tests").rglob("*.py"))}


def comments() -> float:
    """Comments for each 100 lines of the product, without those that speak to tools."""
    count = sum(
        token.type == tokenize.COMMENT and not _DIRECTIVE.match(token.string)
        for path in library_files()
        for token in tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    )
    return 100 * count / sum(lengths().values())


def wall_share() -> float:
    """The part of the test lines that stands in the outer wall."""
    lines = test_lines()
    return sum(count for path, count in lines.items() if in_the_wall(path)) / sum(lines.values())


def internal_share() -> float:
    """The part of the test lines that stands in files which lean on modules of which no user is told."""
    lines = test_lines()
    return sum(count for path, count in lines.items() if leans_on_internals(path)) / sum(lines.values())
