"""Every statement of the contracts is asserted by a test that says so, or stands here with the reason why it is not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from .statements import STATEMENTS, covers

TESTS = Path(__file__).parent
_LATER = "not built yet"
EXEMPT: dict[str, str] = {
    "RUN-1": _LATER,
    "RUN-2": _LATER,
    "RUN-3": _LATER,
    "RUN-4": _LATER,
    "RUN-5": _LATER,
    "RUN-6": _LATER,
    "RUN-7": _LATER,
    "RUN-8": _LATER,
    "RUN-9": _LATER,
    "RUN-10": _LATER,
    "RUN-11": _LATER,
    "RUN-12": _LATER,
    "DAT-9": _LATER,
    "DAT-10": _LATER,
    "DAT-11": _LATER,
    "SIM-1": _LATER,
    "SIM-2": _LATER,
    "SIM-3": _LATER,
    "SIM-4": _LATER,
    "SIM-5": _LATER,
    "SIM-6": _LATER,
    "SIM-7": _LATER,
    "SIM-10": _LATER,
    "SIM-11": _LATER,
    "SIM-12": _LATER,
    "SIM-13": _LATER,
    "SIM-14": _LATER,
    "SIM-15": _LATER,
    "SIM-16": _LATER,
    "SIM-20": _LATER,
    "SIM-21": _LATER,
    "SIM-30": _LATER,
    "SIM-31": _LATER,
    "SIM-32": _LATER,
    "SIM-33": _LATER,
    "SIM-34": _LATER,
    "RES-1": _LATER,
    "RES-2": _LATER,
    "RES-3": _LATER,
    "RES-4": _LATER,
    "RES-5": _LATER,
    "RES-6": _LATER,
    "RES-7": _LATER,
    "RES-8": _LATER,
    "RES-9": _LATER,
    "RES-10": _LATER,
    "RES-11": _LATER,
}
_ID = re.compile(rf"\b(?:{'|'.join(STATEMENTS)})-\d+\b")


def _tests() -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    for path in sorted(TESTS.rglob("test_*.py")):
        if path != Path(__file__):
            for test in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(test, ast.ClassDef) or (isinstance(test, ast.FunctionDef) and test.name.startswith("test")):
                    yield f"{path.relative_to(TESTS)}::{test.name}", test


@cache
def covered() -> dict[str, set[str]]:
    """Statement: the tests that carry it."""
    found: dict[str, set[str]] = {}
    for name, test in _tests():
        for mark in test.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == covers.__name__:
                for statement in map(ast.literal_eval, mark.args):
                    found.setdefault(statement, set()).add(name)
    return found


@pytest.mark.parametrize("kind", STATEMENTS)
def test_every_statement_is_covered(kind: str) -> None:
    lacking = [f"{kind}-{number}" for number in STATEMENTS[kind] if f"{kind}-{number}" not in covered()]
    assert [statement for statement in lacking if statement not in EXEMPT] == []


def test_no_exemption_is_out_of_date() -> None:
    assert [statement for statement in EXEMPT if statement in covered()] == []


def test_docstrings_do_not_begin_with_statements() -> None:
    """They stand in the mark, which is checked."""
    assert [name for name, test in _tests() if _ID.match(ast.get_docstring(test) or "")] == []


@pytest.mark.parametrize("statement", ["SUB-0", "SUB-49", "SIM-8", "SUB", "XYZ-1", "sub-1", ""])
def test_a_statement_that_there_is_not_cannot_be_covered(statement: str) -> None:
    with pytest.raises(ValueError, match="There is no statement"):
        covers(statement)
