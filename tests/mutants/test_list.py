"""The stored mutants keep their places while code moves, and the list keeps its shares."""

from __future__ import annotations

import ast
import fnmatch
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import Verdict
from tests.mutants.changes import KINDS, changes
from tests.mutants.drawing import SHARES, area_of, areas, files_of, kind_of, lacking, numbers_of
from tests.mutants.listing import MutantList
from tests.mutants.places import Place, PlaceError, apply, find, functions_of, statements_of
from tests.sources import PACKAGES, ROOT, library_files, parse

LISTED = MutantList.read()
REPAIR = (
    "the code of this mutant has changed: `python -m tests.mutants draw` finds another, `make mutants` shows that it is killed"
)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the list has statements as ast.unparse of Python 3.11 writes them")
def test_every_mutant_finds_its_statement_once() -> None:
    gone = []
    for mutant in LISTED.mutants:
        try:
            place = mutant.place
        except PlaceError as error:
            gone.append(f"{mutant.number}: {error}")
            continue
        assert mutant.becomes in {change.becomes for change in changes(place.node) if change.kind == mutant.kind}, mutant
        source = place.path.read_text("utf-8")
        changed = apply(place, mutant.becomes, source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source)), mutant
    assert gone == [], REPAIR


def test_the_list_has_its_shares() -> None:
    assert lacking(LISTED) == []
    assert len(areas()) == 60
    assert len(set(LISTED.seeds)) == len(LISTED.seeds)
    assert len(LISTED.mutants) == len(numbers_of(LISTED)) == len(LISTED.seeds) * 60
    assert len({mutant.key for mutant in (*LISTED.mutants, *LISTED.replaced)}) == len(LISTED.mutants) + len(LISTED.replaced)
    assert min(Counter(mutant.kind for mutant in LISTED.mutants).values()) == len(LISTED.mutants) // len(KINDS)
    assert set(SHARES) == set(PACKAGES)


def test_every_mutant_was_killed_and_every_exception_has_its_reason() -> None:
    assert [mutant.number for mutant in LISTED.mutants if not mutant.killed_by] == []
    assert [mutant.number for mutant in LISTED.replaced if len(mutant.reason.split()) < 3] == []


def _is_in_the_gate(name: str) -> bool:
    """Whether there is such a test, or file of tests, and `make test` runs it."""
    path, *tests = name.split("::")
    if not (ROOT / path).is_file() or not tests:
        return (ROOT / path).is_file()
    found = [each for each in ast.walk(parse(ROOT / path)) if isinstance(each, ast.FunctionDef) and each.name == tests[-1]]
    return any("pytest.mark.long" not in map(ast.unparse, each.decorator_list) for each in found)


def test_every_killer_is_still_in_the_gate() -> None:
    gone = [f"{mutant.number}: {mutant.killed_by}" for mutant in LISTED.mutants if not _is_in_the_gate(mutant.killed_by)]
    assert gone == [], "`make mutants OPTIONS=NUMBER` finds another test for a mutant, or none"


def test_every_area_still_has_its_files() -> None:
    files = [path.relative_to(ROOT).as_posix() for path in library_files()]
    assert [pattern for area in set(areas()) for pattern in files_of(area) if not fnmatch.filter(files, pattern)] == []


def test_kinds_take_turns() -> None:
    assert {kind_of(number) for number in range(1, 5)} == set(KINDS)
    for number in range(1, 61):
        assert (area_of(number + 60), kind_of(number + 60)) == (area_of(number), KINDS[(number + 1) % len(KINDS)])


def _changes(code: str) -> set[tuple[str, str]]:
    return {tuple(change) for change in changes(ast.parse(code).body[0])}


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = a + b", {("operator", "x = a - b")}),
        ("x += y", {("operator", "x -= y")}),
        ("return a < b", {("operator", "return a <= b")}),
        ("return not a", {("operator", "return a")}),
        ("return a and b", {("operator", "return a or b")}),
        ("return folder / 'name'", {("constant", "return folder / 'mutant'")}),
        ("x = 3", {("constant", "x = 4")}),
        ("x: int = True", {("constant", "x: int = False")}),
        ("x = f'{a} b {c:>3}'", set()),
        ("if a:\n    b()", {("branch", "if not a:"), ("branch", "if False:")}),
        ("while True:\n    b()", {("constant", "while False:")}),
        ("x = a if b else c", {("branch", "x = a if not b else c")}),
        ("for a in b(1):\n    c()", {("constant", "for a in b(2):")}),
        ("call()", {("call", "pass")}),
        ("x = call(a, b, c)", {("call", "x = call(b, a, c)")}),
        ("x = call(a, a)", set()),
        ("x = call(*a, b)", set()),
        ("self._log.info('words %d', 3)", set()),
        ("'words'", set()),
        ("import a", set()),
    ],
)
def test_changes_of_a_statement(code: str, expected: set[tuple[str, str]]) -> None:
    assert _changes(code) == expected


SOURCE = '''\
class Box:
    """The word ä comes before."""

    def put(self, thing):
        ä = 1; x = (thing +
                    2)
        if x:
            pass
        elif (x and
              ä):
            return [x for x in (3, 4)]
        x = 7
        x = 7
'''


@pytest.mark.parametrize(
    ("statement", "becomes", "line", "expected"),
    [
        ("x = thing + 2", "x = thing - 2", 5, "        ä = 1; x = thing - 2"),
        ("if x and ä:", "if x or ä:", 9, "        elif ((x or ä)):"),
        ("return [x for x in (3, 4)]", "return [x for x in (3, 5)]", 11, "            return [x for x in (3, 5)]"),
    ],
)
def test_only_the_statement_changes(statement: str, becomes: str, line: int, expected: str) -> None:
    ((name, function),) = functions_of(ast.parse(SOURCE))
    node = dict(statements_of(function))[statement]
    changed = apply(Place("rpc", name, statement, Path("box.py"), node), becomes, SOURCE)
    assert name == "Box.put"
    assert changed.splitlines()[line - 1] == expected
    assert len(changed.splitlines()) == len(SOURCE.splitlines())
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SOURCE))


def test_what_stands_twice_is_no_place() -> None:
    ((_, function),) = functions_of(ast.parse(SOURCE))
    assert "x = 7" not in dict(statements_of(function))


def test_a_place_that_is_gone_is_named() -> None:
    with pytest.raises(PlaceError, match=r"rpc has no function Nothing\.here, or more than one"):
        find("rpc", "Nothing.here", "pass")


@pytest.mark.parametrize("expired", [False, True])
def test_a_killer_that_was_left_out_is_named(expired: bool) -> None:
    """Without it nothing is known of the mutant; one that another test kills is killed."""
    mutant = next(mutant for mutant in LISTED.mutants if mutant.killed_by)
    words = f", AND {mutant.killed_by} FAILS WITHOUT A MUTANT"
    for unfit in (False, True):
        alive = Verdict(mutant.number, list(mutant.key), "", 1.0, expired, unfit)
        assert (words in alive.line(mutant)) is unfit
        assert words not in replace(alive, killed_by="tests/test_other.py::test_it").line(mutant)
