"""Fifteen values of wrong kinds for each argument of a public part: an error of ours names it, or the part takes the value.

Values that parts take are not looked at in general: a test of its own names what must not be taken.
"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from .sources import PACKAGES, ROOT

__all__ = ["BAD", "Odd", "arguments", "faults"]


class Odd:
    """An object of no kind that anything takes."""

    def __repr__(self) -> str:
        # without the address: it is part of names of tests, which are the same in each process
        return "Odd()"


BAD: dict[str, Any] = {
    "object": Odd(),
    "array": np.arange(3.0),
    "number in an array": np.array(3),
    "texts": np.array(["a", "b"]),
    "frame": pd.DataFrame({"a": [1]}),
    "bytes": b"ab",
    "set": {1},
    "dict": {"a": 1},
    "NaN": float("nan"),
    "complex": 1j,
    "decimal": Decimal(2),
    "text": "nonsense",
    "negative": np.int64(-3),
    "class": int,
    "nested": [[1], [2, 3]],
}


def arguments(kind: Callable[..., Any]) -> Iterator[str]:
    """Yield the names of the arguments that a part has by name."""
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            yield parameter.name


def faults(
    kind: Callable[..., Any],
    name: str,
    given: Mapping[str, Any],
    together: Iterable[str] = (),
    errors: tuple[type[Exception], ...] = (TypeError, ValueError, FileNotFoundError),
) -> Iterator[str]:
    """Yield what is wrong with the answers of a part to bad values of one argument.

    Args:
        kind: class or function to be called.
        name: the argument.
        given: the other arguments, which are right.
        together: other words by which an error may name it, such as an argument that it belongs with.
        errors: kinds of errors that are answers.
    """
    made = getattr(kind, "__init__", kind) if isinstance(kind, type) else kind
    aliases = getattr(made, "aliases", {})
    words = [name, *together, *(each for each, meant in aliases.items() if meant == name)]
    for bad, value in BAD.items():
        called = f"{kind.__name__}({name}={bad})"
        try:
            kind(**{**given, name: value})
        except errors as error:
            place = traceback.extract_tb(error.__traceback__)[-1].filename
            if not any(word in str(error) for word in words) or not _is_ours(place):
                yield f"{called}: {type(error).__name__} {error} [{place}]"
        except Exception as error:
            yield f"{called}: {type(error).__name__} {error} is no answer"


def _is_ours(file: str) -> bool:
    return any(file.startswith(f"{ROOT / package}/") for package in PACKAGES)
