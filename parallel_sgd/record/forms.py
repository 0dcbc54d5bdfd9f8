"""Forms of plain data that a file of a run may hold: data of another form is refused by the file and the key.

A form is a function of a key and a value. It returns the value, and raises `Misfit` for one that it does not take.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

__all__ = ["Form", "Misfit", "any_of", "anything", "list_of", "map_of", "number", "record", "text", "whole"]

Form = Callable[[str, Any], Any]
MOST_COUNT: Final = (1 << 53) - 1
"""Largest whole number that every reader of JSON takes for itself."""
_SHOWN: Final = 60


class Misfit(ValueError):
    """Error for a value that does not have its form; the message is the end of a sentence that begins with the name of the
    file.
    """


def _refuse(key: str, expected: str, value: Any) -> Misfit:
    # short plain values alone are shown: others may be long, or have control characters
    shown = repr(value) if isinstance(value, (str, int, float, bool, type(None))) and len(str(value)) <= _SHOWN else ""
    return Misfit(f"cannot be used: '{key}' must be {expected}, got {shown or 'a ' + type(value).__name__}")


def text(key: str, value: Any) -> str:
    """Take a text.

    Args:
        key: key of the value, for the message.
        value: any value.

    Raises: Misfit for another type.
    """
    # exact types: a bool is no number, and a subclass may do anything
    if type(value) is not str:
        raise _refuse(key, "a text", value)
    return value


def number(key: str, value: Any) -> float | int:
    """Take a number that is finite.

    Args:
        key: key of the value, for the message.
        value: any value.

    Raises: Misfit for another type, a number that is not finite, or an integer beyond 2^53 - 1.
    """
    # beyond 2^53 readers of JSON make other numbers of it
    if type(value) not in (int, float) or (isinstance(value, int) and abs(value) > MOST_COUNT) or not math.isfinite(value):
        raise _refuse(key, "a finite number", value)
    return value  # type: ignore[no-any-return]


def whole(low: int = -MOST_COUNT, high: int = MOST_COUNT) -> Form:
    """Return the form of whole numbers.

    Args:
        low, high: the least and the greatest one.
    """

    def form(key: str, value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise _refuse(key, f"a whole number from {low} to {high}", value)
        return value

    return form


def anything(_key: str, value: Any) -> Any:
    """Take any `value`."""
    return value


def any_of(*forms: Form) -> Form:
    """Return the form of values that one of the forms takes; a misfit is told as the last one tells it."""

    def form(key: str, value: Any) -> Any:
        # tried in order, so the last form is the one whose sentence is told
        for each in forms[:-1]:
            try:
                return each(key, value)
            except Misfit:
                continue
        return forms[-1](key, value)

    return form


def none(key: str, value: Any) -> None:
    """Take null."""
    if value is not None:
        raise _refuse(key, "null", value)


def list_of(*forms: Form, rest: Form | None = None) -> Form:
    """Return the form of lists in which the first items have `forms`, and all further ones the form `rest`, if any are
    allowed.
    """

    def form(key: str, value: Any) -> list[Any]:
        if type(value) is not list or len(value) < len(forms) or (rest is None and len(value) > len(forms)):
            raise _refuse(key, f"a list of {len(forms)}" if rest is None else "a list", value)
        kinds: Sequence[Form | None] = [*forms, *[rest] * (len(value) - len(forms))]
        return [each(f"{key}[{place}]", item) for place, (each, item) in enumerate(zip(kinds, value, strict=True)) if each]

    return form


def map_of(values: Form) -> Form:
    """Return the form of objects with any keys, and values of one form."""

    def form(key: str, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _refuse(key, "an object", value)
        # the name is cut: it is the stranger's, and stands in a message
        return {name: values(f"{key}.{name[:_SHOWN]}", item) for name, item in value.items()}

    return form


def record(fields: Mapping[str, Form], needed: Sequence[str] = ()) -> Form:
    """Return the form of objects with these fields; further fields may hold anything.

    Args:
        fields: the form of each field, by name.
        needed: those that an object must have.
    """

    def form(key: str, value: Any) -> dict[str, Any]:
        if type(value) is not dict:
            raise _refuse(key, "an object", value)
        before = f"{key}." if key else ""
        for name in needed:
            if name not in value:
                raise Misfit(f"cannot be used: '{before}{name}' is missing")
        # fields that are not known are kept: a later release may write more
        return {name: fields.get(name, anything)(f"{before}{name}", item) for name, item in value.items()}

    return form
