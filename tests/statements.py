"""The statements of docs/contract.md, and the mark by which a test names those that it asserts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest

from tests.sources import ROOT

_ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.+) \|$", re.MULTILINE)
SENTENCES: Final[dict[str, str]] = dict(_ROW.findall((ROOT / "docs" / "contract.md").read_text("utf-8")))
"""Each statement's id and text."""
Test = TypeVar("Test", bound=Callable[..., Any])


def covers(*statements: str) -> Callable[[Test], Test]:
    """Mark a test, or a class of tests, with the statements that it asserts: `@covers("SUB-12", "FD-6")`.

    Raises:
        ValueError: A statement has no row in docs/contract.md.
    """
    for statement in statements:
        if statement not in SENTENCES:
            raise ValueError(f"There is no statement {statement!r} in docs/contract.md.")
    return pytest.mark.covers(*statements)


def told(statements: tuple[str, ...]) -> str:
    """Return the text of these statements, one a line."""
    return "\n".join(f"{statement}: {SENTENCES[statement]}" for statement in statements)
