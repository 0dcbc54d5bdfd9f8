"""The statements of the contracts, and the mark by which a test says which of them it asserts."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

import pytest

# the numbers that there are of each kind
STATEMENTS: dict[str, Collection[int]] = {
    "FD": range(1, 22),
    "EL": range(1, 30),
    "FLT": range(1, 29),
    "INV": range(1, 15),
    "SUB": range(1, 49),
    "SEC": range(1, 26),
    "RUN": range(1, 13),
    "DAT": range(1, 12),
    "SIM": (*range(1, 8), *range(10, 17), 20, 21, *range(30, 35)),
    "RES": range(1, 12),
}
Test = TypeVar("Test", bound=Callable[..., Any])


def covers(*statements: str) -> Callable[[Test], Test]:
    """Mark a test, or a class of tests, with the statements that it asserts: `@covers("SUB-12", "FD-6")`.

    Raises: ValueError for a statement that there is not.
    """
    for statement in statements:
        kind, _, number = statement.partition("-")
        if not (number.isdecimal() and int(number) in STATEMENTS.get(kind, ())):
            raise ValueError(f"There is no statement {statement!r}; the kinds of the contracts are {', '.join(STATEMENTS)}.")
    return pytest.mark.covers(*statements)
