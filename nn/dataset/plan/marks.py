"""Marks of a table of texts, checked: between cells, in numbers, and the encoding."""

from __future__ import annotations

__all__ = ["check_delimiter", "check_encoding", "check_marks"]


def check_marks(owner: str, decimal: object, thousands: object) -> None:
    """Check the marks of numbers.

    Args:
        owner: the class that is given them, for messages.
        decimal: the mark before the fraction.
        thousands: the mark between groups of digits, "" for none.

    Raises:
        ValueError: naming the argument.
    """
    for argument, mark in (("decimal", decimal), ("thousands", thousands)):
        none = argument == "thousands" and mark == ""
        if not isinstance(mark, str) or (not none and (len(mark) != 1 or mark.isalnum() or mark in "+-_\0\r\n")):
            raise ValueError(
                f"{owner} '{argument}' must be one character that is no digit, no letter and no sign, got {str(mark)[:80]!r}"
            )
    if decimal == thousands:
        raise ValueError(f"{owner} 'decimal' and 'thousands' must be different marks, got {decimal!r} twice")


def check_delimiter(owner: str, delimiter: object) -> str:
    """Return the mark between cells.

    Args:
        owner: names the data set in the error.
        delimiter: the mark, as it was given; ``\\t`` in two characters, as a shell gives it, is a tab.

    Raises ValueError unless it is one usable character.
    """
    if isinstance(delimiter, str) and delimiter == r"\t":
        return "\t"
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise ValueError(f"{owner} 'delimiter' must be one character, no quote and no line end, got {str(delimiter)[:80]!r}")
    return delimiter


def check_encoding(owner: str, encoding: object) -> str:
    """Return the name of an encoding of texts.

    Args:
        owner: names the data set in the error.
        encoding: the name, as it was given.

    Raises ValueError for another value.
    """
    try:
        "".encode(encoding)  # type: ignore[arg-type]
    except (LookupError, TypeError, ValueError):
        raise ValueError(f"{owner} 'encoding' must be the name of one, such as utf-8, got {str(encoding)[:80]!r}") from None
    return str(encoding)
