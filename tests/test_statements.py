"""Every statement of the contracts is named by a test that asserts it, or stands here with the reason why it is not."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
STATEMENTS = {"FD": 21, "EL": 29, "FLT": 28, "INV": 14, "SUB": 48, "SEC": 25}  # how many there are of each kind
EXEMPT: dict[str, str] = {
    "SEC-20": "not built yet: frames between machines are sealed, not encrypted",
}
_ID = re.compile(r"\b(FD|EL|FLT|INV|SUB|SEC)-(\d+)\b")


@cache
def named() -> dict[str, set[str]]:
    """Statement: the tests that name it in their docstring, or that of their class."""
    found: dict[str, set[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if path == Path(__file__):
            continue
        for test in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(test, (ast.FunctionDef, ast.ClassDef)):
                for kind, number in _ID.findall(ast.get_docstring(test) or ""):
                    found.setdefault(f"{kind}-{number}", set()).add(f"{path.relative_to(TESTS)}::{test.name}")
    return found


@pytest.mark.parametrize("kind", STATEMENTS)
def test_every_statement_is_named_by_a_test(kind: str) -> None:
    lacking = [f"{kind}-{number}" for number in range(1, STATEMENTS[kind] + 1) if f"{kind}-{number}" not in named()]
    assert [statement for statement in lacking if statement not in EXEMPT] == []


def test_no_exemption_is_out_of_date() -> None:
    assert [statement for statement in EXEMPT if statement in named()] == []


def test_tests_name_only_statements_that_exist() -> None:
    wrong = [statement for statement in named() if int(statement.partition("-")[2]) > STATEMENTS[statement.partition("-")[0]]]
    assert wrong == []
