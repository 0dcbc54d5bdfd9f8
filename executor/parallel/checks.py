"""What collections refuse before any task is made of it."""

from __future__ import annotations

from numbers import Integral
from typing import Any


def checked_count(what: str, value: object) -> int:
    """The value as an int.

    Raises: ValueError unless it is a positive integer.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{what} must be a positive integer, got {value!r}.")
    return int(value)


def checked_function(what: str, function: Any) -> Any:
    """The function itself.

    Raises: TypeError unless it can be called.
    """
    if not callable(function):
        raise TypeError(f"{what} needs a function, got {type(function).__qualname__}.")
    return function
