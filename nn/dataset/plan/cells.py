"""Cells of a table: which are missing, and the numbers, truth values and dates that texts stand for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ISO",
    "MISSING",
    "TRUTH",
    "WHOLE",
    "Spelling",
    "days_of",
    "guess_dates",
    "has_leading_zeros",
    "is_iso",
    "is_missing",
    "is_nearly_number",
    "kind_of",
    "text_of",
]

Cells = NDArray[Any]
"""The cells of one column, ``(rows,)``: numbers, times in microseconds, or objects, of which texts are not stripped."""

_OF_PANDAS: Final = (
    "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA", "NULL", "NaN",
    "None", "n/a", "nan", "null",
)  # fmt: skip
MISSING: Final = frozenset({"", *_OF_PANDAS, "na", "Na", "NAN", "Nan", "Null"})
"""The words for a missing cell: those of pandas, and all spellings of NA, NaN and null."""

WHOLE: Final = 2**53  # float64 tells all integers below apart
TRUTH: Final = {"true": 1.0, "false": 0.0}
ISO: Final = "ISO8601"
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_PLAIN_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,6})?)?)?")  # without a zone, to a microsecond
_LEADING_ZERO = re.compile(r"\s*[+-]?0\d")
_SIGN, _MONEY = r"[-+\u2212]", "$€£¥"
_OTHER_NUMBER = re.compile(  # as other programs and countries write them: with marks, a currency, a percent sign, in hex
    rf"{_SIGN}?[{_MONEY}]?\s?{_SIGN}?"
    rf"(\d{{1,3}}([.,'\u2019 \u00a0\u202f]\d{{2,3}})+([.,·]\d*)?|\d*[.,·]?\d+([eEdD]{_SIGN}?\d+)?|\d+[.,·])"
    rf"(\s?[%‰{_MONEY}])?|[-+]?0[xX][\da-fA-F]+"
)
_DAY = 86_400_000_000  # microseconds
_FORMS = (
    "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%Y", "%d-%m-%Y", "%m-%d-%Y", "%b %d %Y", "%B %d %Y", "%d %b %Y", "%d %B %Y",
    "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y", "%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%y",
)  # fmt: skip
_TIMES = ("", " %H:%M", " %H:%M:%S")
_DATE_LIKE = re.compile(
    r"(\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}|[A-Za-z]{3,9} \d{1,2},? \d{4}|\d{1,2}[ -][A-Za-z]{3,9}[ -]\d{2,4})( \d.*)?"
)


class Spelling(NamedTuple):
    """Spelling of numbers and gaps in texts.

    Args:
        decimal: the mark before the fraction.
        thousands: the mark between groups of digits, "" for none.
        na_values: further texts for a missing cell.
    """

    decimal: str = "."
    thousands: str = ""
    na_values: tuple[str, ...] = ()

    def is_missing(self, text: str) -> bool:
        """Return whether a stripped text stands for a missing cell."""
        return text in MISSING or text in self.na_values

    def number(self, text: str) -> float | None:
        """Return the number that a stripped text spells, which may be infinite; None where it spells none."""
        if self.thousands and self.thousands in text:
            mark = re.escape(self.thousands)
            # Groups of two digits are usual in India; the last one has three.
            if not re.fullmatch(rf"[+-]?\d{{1,3}}({mark}\d{{2,3}})*{mark}\d{{3}}({re.escape(self.decimal)}\d*)?", text):
                return None
            text = text.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in text:  # 1.234 is a thousand and more there, as like as not
                return None
            text = text.replace(self.decimal, ".")
        # Python's `float` takes 1_000, which no table means as a number.
        if "_" in text:
            return None
        try:
            return float(text)
        except ValueError:
            return None

    def numbers(self, texts: Iterable[str]) -> NDArray[np.float64] | None:
        """Return the numbers that stripped texts spell, None as soon as one spells none."""
        if self.decimal == "." and not self.thousands:
            texts = list(texts)
            try:
                return None if any("_" in text for text in texts) else np.array(list(map(float, texts)), np.float64)
            except ValueError:
                return None
        found = []
        for text in texts:
            number = self.number(text)
            if number is None:
                return None
            found.append(number)
        return np.array(found, np.float64)


def is_missing(cell: object) -> bool:
    """Return whether a cell that is no text is None, NaN, NaT or NA."""
    if cell is None:
        return True
    try:
        # NaN and NaT differ from themselves.
        return bool(cell != cell)
    except (TypeError, ArithmeticError):  # NA of pandas has no truth value, a signalling NaN of decimal cannot be compared
        return True
    except ValueError:  # an array
        return False


def kind_of(cell: object) -> str:
    """Return "text", "date" or "number" by the type of a cell; "" for any other."""
    if isinstance(cell, str):
        return "text"
    if isinstance(cell, (date, np.datetime64)):
        return "date"
    return "number" if isinstance(cell, (Real, Decimal, np.bool_)) else ""


def text_of(cell: object) -> str:
    """Return a cell as a text without blanks around it; a whole float as an integer, as numbers get beside missing ones."""
    if isinstance(cell, str):
        return cell.strip()
    if isinstance(cell, (float, np.floating)) and math.isfinite(cell) and cell == round(float(cell)):
        return f"{cell:.0f}"
    return str(cell).strip()


def has_leading_zeros(text: str) -> bool:
    """Return whether a text such as 007 would lose its zeros as a number."""
    return _LEADING_ZERO.match(text) is not None


def is_nearly_number(text: str) -> bool:
    """Return whether a text looks like a number, also one that is not finite or is written in another way: 28,7 or 12%."""
    try:
        float(text)
    except ValueError:
        return _OTHER_NUMBER.fullmatch(text) is not None and _DATE_LIKE.fullmatch(text) is None
    return True


def is_iso(text: str) -> bool:
    """Return whether a text looks like an ISO 8601 date, with or without a time."""
    return _ISO_DATE.fullmatch(text) is not None


def days_of(cells: Sequence[Any], form: str) -> NDArray[np.float64]:
    """Return the days since 1970-01-01 of dates, or of texts of this form; NaN for one that is none.

    Args:
        cells: texts, dates, times; a time zone counts, without one a time is UTC.
        form: as `datetime.strptime` takes it, or `ISO`.
    """
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    if len(cells) <= _FEW:
        return np.array([_days_of_one(pandas, cell, form) for cell in cells], np.float64)
    times = [cell if kind_of(cell) in ("text", "date") else None for cell in cells]
    found = pandas.to_datetime(pandas.Series(times, dtype=object), format=form, errors="coerce", utc=True)
    return days_of_times(found.dt.tz_localize(None).to_numpy("datetime64[us]"))


_FEW = 16  # cells for which a call of pandas each takes less than one for all


def _days_of_one(pandas: Any, cell: Any, form: str) -> float:
    try:
        if isinstance(cell, str):
            # `Timestamp` takes many other forms, too.
            if form == ISO and not is_iso(cell):
                return math.nan
            if form == ISO and _PLAIN_ISO.fullmatch(cell):
                return int(np.datetime64(cell.replace(" ", "T"), "us").astype(np.int64)) / _DAY
            time = pandas.Timestamp(cell) if form == ISO else pandas.to_datetime(cell, format=form)
        elif kind_of(cell) == "date":
            time = pandas.Timestamp(cell)
        else:
            return math.nan
        if time.tzinfo is not None:
            time = time.tz_convert("UTC").tz_localize(None)
        return float(days_of_times(np.array([time.to_datetime64()]))[0])
    except (ValueError, OverflowError):
        return math.nan


def days_of_times(times: NDArray[np.datetime64]) -> NDArray[np.float64]:
    """Return the days since 1970-01-01 of times; NaN for NaT."""
    micro = times.astype("datetime64[us]")
    days: NDArray[np.float64] = micro.astype(np.int64) / _DAY
    # NaT is the least integer, which would be a date.
    days[np.isnat(micro)] = np.nan
    return days


def guess_dates(texts: Sequence[str]) -> list[str]:
    """Return all forms that every one of the texts has, of those that are usual; [] where these are no dates."""
    # A few texts rule out most columns without reading all.
    first = texts[: _FEW * 4]
    if not all(_DATE_LIKE.fullmatch(text) for text in first):
        return []
    forms = [form + time for form in _FORMS for time in _TIMES]
    forms = [form for form in forms if not np.isnan(days_of(first[:1], form)).any()]
    return [form for form in forms if not np.isnan(days_of(texts, form)).any()]
