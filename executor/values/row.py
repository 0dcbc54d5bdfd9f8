"""One row of the table of values, and the checks that rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

SMALL = 100  # bytes of a small object beside what it is made of, at most: a date, a fraction


def small(_data: Any) -> int:
    """The weight of a small object."""
    return SMALL


class Row(NamedTuple):
    """How a kind of values becomes data, and comes back.

    `types` are package and qualified name of each; `weight` gives about how many bytes of objects `from_data` makes of its
    argument, which comes from a peer as well.
    """

    name: str
    types: tuple[str, ...]
    to_data: Callable[[Any], Any]
    from_data: Callable[[Any], Any]
    weight: Callable[[Any], int] = small


def parts(data: Any, *kinds: type | tuple[type, ...]) -> tuple[Any, ...]:
    """`data`, a tuple of exactly these types; a tuple of types stands for any of them.

    Raises: ValueError for anything else.
    """
    if type(data) is not tuple or len(data) != len(kinds):
        raise ValueError(f"{len(kinds)} parts were expected")
    for part, kind in zip(data, kinds, strict=True):
        if type(part) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise ValueError(f"a part is of the type {type(part).__qualname__}")
    return data


def of(data: Any, kind: type) -> Any:
    """`data`, of exactly this type.

    Raises: ValueError for anything else.
    """
    return parts((data,), kind)[0]
