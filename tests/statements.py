"""The statements of the contracts, and the mark by which a test says which of them it asserts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

STATEMENTS = {"FD": 21, "EL": 29, "FLT": 28, "INV": 14, "SUB": 48, "SEC": 25}  # how many there are of each kind
Test = TypeVar("Test", bound=Callable[..., Any])


def covers(*statements: str) -> Callable[[Test], Test]:
    """Mark a test, or a class of tests, with the statements that it asserts: `@covers("SUB-12", "FD-6")`.

    Raises: ValueError for a statement that there is not.
    """
    for statement in statements:
        kind, _, number = statement.partition("-")
        if not (number.isdecimal() and 1 <= int(number) <= STATEMENTS.get(kind, 0)):
            raise ValueError(f"There is no statement {statement!r}; those of the contracts are {STATEMENTS}.")
    return pytest.mark.covers(*statements)
