"""Every statement of the contracts is asserted by a test that says so, or stands here with the reason why it is not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import ROOT

from .statements import SENTENCES, covers, told

TESTS = Path(__file__).parent
_LATER = "not built yet"
EXEMPT: dict[str, str] = {
    "RES-4": _LATER,
    "RES-5": _LATER,
    "RES-6": _LATER,
    "RES-7": _LATER,
    "RES-9": _LATER,
    "RES-10": _LATER,
}
KINDS = sorted({statement.partition("-")[0] for statement in SENTENCES})
_ID = re.compile(rf"\b(?:{'|'.join(KINDS)})-\d+\b")


def _tests() -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Tests and classes of files that name a statement."""
    for path in sorted(TESTS.rglob("test_*.py")):
        text = path.read_text("utf-8")
        if path != Path(__file__) and _ID.search(text):
            top = ast.parse(text).body
            for test in [*top, *(inner for outer in top if isinstance(outer, ast.ClassDef) for inner in outer.body)]:
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


@pytest.mark.parametrize("kind", KINDS)
def test_every_statement_is_covered(kind: str) -> None:
    lacking = [each for each in SENTENCES if each.startswith(f"{kind}-") and each not in covered()]
    assert [statement for statement in lacking if statement not in EXEMPT] == []


def test_no_exemption_is_out_of_date() -> None:
    assert [statement for statement in EXEMPT if statement in covered() or statement not in SENTENCES] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_of_a_kind_have_no_gap(kind: str) -> None:
    """Within a group of ten: those of the simulator are numbered by what they are about."""
    numbers = [int(each.partition("-")[2]) for each in SENTENCES if each.startswith(f"{kind}-")]
    assert numbers == sorted(set(numbers))
    for number in numbers:
        assert number - 1 in numbers or number == 1 or (kind == "SIM" and number % 10 == 0)


_FAILING = """
from tests.statements import covers

@covers("SUB-37")
def test_fails():
    raise ValueError

@covers("SUB-36")
def test_passes():
    pass
"""


def test_a_failing_test_prints_its_sentences(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_runtest_makereport")
    (tmp_path / "test_it.py").write_text(_FAILING)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = covers: statements")
    arguments = ["-p", "no:cacheprovider", "--rootdir", str(tmp_path), "-c", str(tmp_path / "pytest.ini"), str(tmp_path)]
    ran = subprocess.run([sys.executable, "-m", "pytest", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert "1 failed, 1 passed" in ran.stdout and told(("SUB-37",)) in ran.stdout and "SUB-36" not in ran.stdout


def test_docstrings_do_not_begin_with_statements() -> None:
    """They stand in the mark, which is checked."""
    assert [name for name, test in _tests() if _ID.match(ast.get_docstring(test) or "")] == []


@pytest.mark.parametrize("statement", ["SUB-0", "SUB-49", "SIM-8", "SUB", "XYZ-1", "sub-1", ""])
def test_a_statement_that_there_is_not_cannot_be_covered(statement: str) -> None:
    with pytest.raises(ValueError, match="There is no statement"):
        covers(statement)
