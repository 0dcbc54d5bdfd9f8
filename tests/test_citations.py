"""Texts that comments, docstrings and pages cite are in the repository: pages, statements, decisions."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from .sources import ROOT, library_files, script_files
from .statements import SENTENCES

PAGES = sorted(page for page in ROOT.rglob("*.md") if not any(part.startswith(".") for part in page.relative_to(ROOT).parts))
RECORDS = {int(page.name[:4]) for page in (ROOT / "docs" / "adr").glob("0*.md")}
KINDS = "|".join(sorted({statement.partition("-")[0] for statement in SENTENCES}))
ABSENT = re.compile(r"\b(?:design decision|decision \d|law \d|finding [A-Z]?\d|issue \d)", re.IGNORECASE)


def sources() -> list[Path]:
    """Return every Python file of the repository that people write."""
    beside = [path for name in ("tests", "benchmarks", "docs") for path in sorted((ROOT / name).rglob("*.py"))]
    return [*library_files(), *script_files(), *beside]


def spoken(text: str) -> Iterator[str]:
    """Yield the comments and docstrings of a program."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield ast.get_docstring(node) or ""


def cited_pages(text: str) -> set[str]:
    """Return the names of pages in a text."""
    return set(re.findall(r"(?<![\w./:*-])[\w./-]*\w\.md\b", text))


@functools.cache
def page_names() -> set[str]:
    """Return every name by which a page may be cited: its path, or the end of it."""
    paths = [page.relative_to(ROOT).parts for page in PAGES]
    return {"/".join(parts[place:]) for parts in paths for place in range(len(parts))}


def absent(text: str) -> set[str]:
    """Return the citations of a text that lead nowhere."""
    found = {name for name in cited_pages(text) if re.sub(r"^(\.\./)+", "", name) not in page_names()}
    found |= {f"ADR {number}" for number in re.findall(r"\bADR (\d+)", text) if int(number) not in RECORDS}
    found |= {statement for statement in re.findall(rf"\b(?:{KINDS})-\d+\b", text) if statement not in SENTENCES}
    return found | set(ABSENT.findall(text))


def test_programs_cite_what_is_there() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in sources()}
    suspects = [
        path for path, text in texts.items() if absent(text)
    ]  # few, where to tell words from code takes a second for 60
    found = {path: absent("\n".join(spoken(texts[path]))) for path in suspects}
    assert not {path: cited for path, cited in found.items() if cited}


def test_pages_cite_what_is_there() -> None:
    found = {page.relative_to(ROOT).as_posix(): absent(page.read_text("utf-8")) for page in PAGES}
    assert not {page: cited for page, cited in found.items() if cited}


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("Bits, see nowhere.md.", {"nowhere.md"}),
        ("docs/contract.md, ../parallel_sgd/codec/README.md, errors.md", set()),
        ("ADR 1 and ADR 999", {"ADR 999"}),
        ("SUB-1, SUB-999", {"SUB-999"}),
        ("law 7 holds", {"law 7"}),
    ],
)
def test_a_citation_that_leads_nowhere_is_found(text: str, cited: set[str]) -> None:
    assert absent(text) == cited
