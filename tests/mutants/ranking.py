"""Which tests are likely to see a mutant: those that import its file, name its class or function, or stand beside it."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.mutants.places import Place
from tests.sources import ROOT

# they read the source itself, or build a wheel of it
_NO_JUDGES = ("tests/mutants/", "tests/house/", "tests/test_wheel.py", "tests/test_statements.py", "tests/test_static_gate.py")


_STARTING, _MARK = "tests/processes/", "mark.processes"
_WORD = re.compile(r"[a-z]{5,}")


@cache
def _files() -> dict[str, str]:
    """Every test file of the gate, with its text."""
    paths = {path: path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    return {name: path.read_text("utf-8") for path, name in paths.items() if not name.startswith(_NO_JUDGES)}


def ranked(place: Place, processes: bool) -> list[str]:
    """The test files that have tests that start processes, or those that have others, the likely ones first; some have both."""
    wanted = [
        name
        for name, text in _files().items()
        if (name.startswith(_STARTING) or _MARK in text if processes else not name.startswith(_STARTING))
    ]
    return sorted(wanted, key=lambda name: (-_likely(place, name, _files()[name]), name))


def _likely(place: Place, name: str, text: str) -> float:
    module = place.module.removesuffix(".py").removesuffix("/__init__")
    owner, _, method = place.name.rpartition(".")
    score = 12.0 * (module.replace("/", ".") in text)
    score += 6.0 * _named(owner.partition(".")[0] or method, text) + 2.0 * (bool(owner) and _named(method, text))
    score += 3.0 * (place.package == Path(name).parts[1]) + 2.0 * (f"/{place.package}/" in name)
    score += 4.0 * (Path(module).name.strip("_") in name) + 2.0 * len(set(Path(module).parts) & set(Path(name).parts))
    score += 4.0 * name.startswith(_STARTING)
    score += 3.0 * any(word in Path(name).stem for word in _WORD.findall(place.name.lower()))
    return score


def _named(word: str, text: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", text) is not None
