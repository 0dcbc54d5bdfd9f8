"""Kinds of columns: how the cells of one column of a table become numbers.

A kind is plain data, so a plan is saved as JSON; a preprocessing layer can be made of it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn.dataset.plan.cells import ISO, TRUTH, Cells, Spelling, days_of, days_of_times, is_missing, kind_of, text_of

__all__ = [
    "Category",
    "CellError",
    "Column",
    "Date",
    "Label",
    "LeftOut",
    "Misfit",
    "Number",
    "UnknownTexts",
    "missing_rows",
]

UnknownTexts: TypeAlias = Literal["error", "none"]


_INFINITE = (math.inf, -math.inf)
_GAP = -2


class CellError(ValueError):
    """A cell that is not of the kind of its column.

    Args:
        owner: the class and the argument that hold the cell, for the message.
        row: its row, from 0.
        wrong: the column, the expectation, and the cell.
    """

    def __init__(self, owner: str, row: int, wrong: str) -> None:
        super().__init__(f"{owner}: row {row}, {wrong}")
        self.row, self.wrong = row, wrong


@dataclass(frozen=True)
class Column(ABC):
    """The kind of one column.

    Args:
        name: its name in the table.
        gaps: how many cells were missing when the plan was made.
        note: a remark on the decision, for people.

    A subclass gives `word`, the name of the kind in a table and a file of the plan.
    """

    name: str
    gaps: int = 0
    note: str = ""

    word: ClassVar[str] = ""

    @property
    def names(self) -> list[str]:
        """The names of the numbers that it becomes."""
        return [self.name]

    @property
    def width(self) -> int:
        """Number of features that the column becomes."""
        return 1

    @property
    def about(self) -> str:
        """Range or categories, for people."""
        return ""

    @property
    def is_open(self) -> bool:
        """Whether it must be completed by the cells of a file."""
        return False

    @abstractmethod
    def encode(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.float64]:
        """Return the numbers ``(rows, numbers)`` of cells, NaN for missing ones.

        Args:
            cells: ``(rows,)``, numbers, times, or objects such as texts.
            spelling: how texts spell numbers and gaps.
            unknown: treatment of a category that the plan does not have: an error, or "none" of the categories.

        Raises:
            Misfit: for a cell that is of another kind.
        """

    def put(self, cell: Any, numbers: list[float], place: int, spelling: Spelling, unknown: UnknownTexts) -> None:
        """Write the numbers of one cell into a row of zeros, from `place` on; as `encode` does, without arrays of one row.

        Args:
            cell: a number, a time, or an object such as a text.
            numbers: the row.
            place: where its numbers begin.
            spelling: how texts spell numbers and gaps.
            unknown: treatment of a category that the plan does not have: "error" or "none".

        Raises:
            Misfit: for a cell that is of another kind.
        """
        # Not `np.array([cell])`, which would look into a cell that is a list.
        cells = np.empty(1, object)
        cells[0] = cell
        numbers[place : place + self.width] = self.encode(cells, spelling, unknown)[0].tolist()

    def filled(self, numbers: NDArray[np.float64]) -> None:  # noqa: B027 - a column that is left out has none
        """Replace NaN in place by the values of training in `numbers` ``(rows, width)``, those that `encode` gave."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON holds it."""
        # What is as usual is left out, so that a file stays short and readable.
        usual = {each.name: each.default for each in fields(self)}
        told = {name: value for name, value in asdict(self).items() if value != usual[name]}
        return {"kind": self.word, **{name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}}


class Misfit(ValueError):
    """A cell that is of another kind than its column.

    Args:
        row: its row, from 0.
        expected: the expectation, for messages.
        cell: the cell.
        hint: arguments that would take it, behind a semicolon.
    """

    def __init__(self, row: int, expected: str, cell: object, hint: str = "") -> None:
        super().__init__(row, expected, cell)
        # A cell may be a long text of a stranger.
        self.row, self.expected, self.cell, self.hint = row, expected, str(cell)[:80], hint


def missing_rows(cells: Cells, spelling: Spelling) -> NDArray[np.bool_]:
    """Return which cells are missing: NaN, no time, None, or a word for a gap.

    Args:
        cells: the cells ``(rows,)``.
        spelling: tells the words for a gap.
    """
    if cells.dtype.kind == "f":
        return np.isnan(cells)
    if cells.dtype.kind == "M":
        return np.isnat(cells)
    if cells.dtype.kind != "O":
        return np.zeros(len(cells), bool)
    missing = spelling.is_missing
    return np.array([missing(cell.strip()) if isinstance(cell, str) else is_missing(cell) for cell in cells], bool)


@dataclass(frozen=True)
class _Measured(Column, ABC):
    """A column that becomes one number.

    Args:
        low: the least value in training, None where there is none.
        high: the greatest one.
        fill: the number in place of a missing cell, None where there is none.
        offset: the number that is subtracted from every value.
    """

    low: float | None = None
    high: float | None = None
    fill: float | None = None
    offset: float = 0.0

    @property
    def about(self) -> str:
        return "" if self.low is None or self.high is None else f"{self._shown(self.low)} to {self._shown(self.high)}"

    def _shown(self, value: float) -> str:
        return f"{value:.12g}"

    def encode(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.float64]:
        values = self.values(cells, spelling)
        if self.offset:
            values = values - self.offset
        return values[:, None]

    @abstractmethod
    def values(self, cells: Cells, spelling: Spelling) -> NDArray[np.float64]:
        """Return the values ``(rows,)`` before the offset, NaN for missing cells.

        The errors are those of `encode`.

        Args:
            cells, spelling: as of `encode`.
        """

    def filled(self, numbers: NDArray[np.float64]) -> None:
        if self.fill is not None:
            numbers[np.isnan(numbers)] = self.fill - self.offset


@dataclass(frozen=True)
class Number(_Measured):
    """Numbers and truth values as they are.

    Args:
        coerce: whether a text that is no number is a gap rather than an error, as ``numbers=`` says.
        truth: whether the words true and false are the numbers 1 and 0, as in a column of them.
    """

    coerce: bool = False
    truth: bool = False

    word: ClassVar[str] = "number"

    def put(self, cell: Any, numbers: list[float], place: int, spelling: Spelling, unknown: UnknownTexts) -> None:
        value = self._value(cell, spelling)
        # NaN is a gap, infinity no number.
        if value is None or value in _INFINITE:
            if not self.coerce:
                raise Misfit(0, "a finite number", cell)
            value = math.nan
        numbers[place] = value - self.offset

    def values(self, cells: Cells, spelling: Spelling) -> NDArray[np.float64]:
        if cells.dtype.kind == "O":
            return _each(cells, lambda cell: self._value(cell, spelling), "a finite number", coerce=self.coerce)
        if cells.dtype.kind == "M":
            _first_refused(cells, ~np.isnat(cells), "a finite number")
            return np.full(len(cells), np.nan)
        values = cells.astype(np.float64)
        _first_refused(cells, np.isinf(values), "a finite number")
        return values

    def _value(self, cell: Any, spelling: Spelling) -> float | None:
        """Return the number of a cell; None where it is none."""
        # The common case in a table that was parsed, before slower questions.
        if type(cell) is float:
            return cell
        if isinstance(cell, str):
            text = cell.strip()
            if spelling.is_missing(text):
                return math.nan
            found = spelling.number(text)
            return TRUTH.get(text.lower()) if found is None and self.truth else found
        if is_missing(cell):
            return math.nan
        if isinstance(cell, np.ndarray) and cell.ndim:  # of one element it is a number to NumPy before 2.4
            return None
        try:
            return float(cell)
        except (TypeError, ValueError, OverflowError):
            return None


@dataclass(frozen=True)
class Date(_Measured):
    """Dates, with or without a time, as days since 1970-01-01.

    Args:
        form: how texts spell them, as `datetime.strptime` takes it, or "ISO8601".
    """

    form: str = ISO

    word: ClassVar[str] = "date"

    def _shown(self, value: float) -> str:
        try:
            text = str(np.datetime64(round(value * 86_400), "s"))
        except (OverflowError, ValueError):
            return f"{value:.12g}"
        return text.removesuffix("T00:00:00")

    def put(self, cell: Any, numbers: list[float], place: int, spelling: Spelling, unknown: UnknownTexts) -> None:
        text = cell.strip() if isinstance(cell, str) else cell
        if spelling.is_missing(text) if isinstance(text, str) else is_missing(text):
            numbers[place] = math.nan
            return
        day = float(days_of([text], self.form)[0])
        if math.isnan(day):
            raise Misfit(0, f"a date {self.form}", text)
        numbers[place] = day - self.offset

    def values(self, cells: Cells, spelling: Spelling) -> NDArray[np.float64]:
        if cells.dtype.kind == "M":
            return days_of_times(cells)
        if cells.dtype.kind != "O":
            _first_refused(cells, ~missing_rows(cells, spelling), f"a date {self.form}")
            return np.full(len(cells), np.nan)
        gaps = missing_rows(cells, spelling)
        # What is neither text nor date becomes a text that is no date, and is told by its row.
        texts = [cell.strip() if isinstance(cell, str) else cell if kind_of(cell) == "date" else "" for cell in cells[~gaps]]
        # A date is parsed once, however often it occurs.
        distinct = list(dict.fromkeys(texts))
        day = dict(zip(distinct, days_of(distinct, self.form).tolist(), strict=True))
        values = np.full(len(cells), np.nan)
        values[~gaps] = [day[text] for text in texts]
        _first_refused(cells, np.isnan(values) & ~gaps, f"a date {self.form}")
        return values


@dataclass(frozen=True)
class Category(Column):
    """Texts: one number for each of the categories, 1 for that of the cell, 0 for the others.

    Args:
        categories: the texts, in the order of the numbers; None for all of a file, which then completes the plan.
    """

    categories: tuple[str, ...] | None = None

    word: ClassVar[str] = "category"

    @property
    def names(self) -> list[str]:
        return [f"{self.name}={category}" for category in self.categories or ()]

    @property
    def about(self) -> str:
        return "" if self.categories is None else _listed(self.categories)

    @property
    def is_open(self) -> bool:
        return self.categories is None

    def encode(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.float64]:
        places = self.places(cells, spelling, unknown)
        rows = np.zeros((len(cells), self.width))
        rows[places == _GAP] = np.nan
        known = np.flatnonzero(places >= 0)
        rows[known, places[known]] = 1
        return rows

    def places(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.intp]:
        """Return which of the categories each cell is, -1 for none of them, -2 for a missing cell.

        The errors are those of `encode`.

        Args:
            cells, spelling, unknown: as of `encode`.
        """
        found = np.empty(len(cells), np.intp)
        # As objects of Python: these are read faster one by one.
        for row, cell in enumerate(cells.tolist() if cells.dtype.kind != "M" else cells.astype(str)):
            place = self._place(cell, spelling, unknown, row)
            found[row] = _GAP if place is None else place
        return found

    def put(self, cell: Any, numbers: list[float], place: int, spelling: Spelling, unknown: UnknownTexts) -> None:
        found = self._place(cell, spelling, unknown, 0)
        if found is None:
            numbers[place : place + self.width] = [math.nan] * self.width
        elif found >= 0:
            numbers[place + found] = 1.0

    def _place(self, cell: Any, spelling: Spelling, unknown: UnknownTexts, row: int) -> int | None:
        """Return which of the categories a cell is, -1 for none of them, None for a missing cell."""
        text = cell.strip() if isinstance(cell, str) else None if is_missing(cell) else text_of(cell)
        if text is None or spelling.is_missing(text):
            return None
        (found,) = self.lookup((text,))
        if found < 0 and unknown == "error":
            known = _listed(self.categories or ("no category",), most=40)[:200]
            raise Misfit(row, f"one of {known}", text, "; unknown='none' takes it for none of them")
        return found

    def lookup(self, texts: Iterable[str]) -> Iterator[int]:
        """Return an iterator over which of the categories each text is, as it stands; -1 for none of them."""
        # A dict, because a column may have a thousand categories, a text as many words.
        return map(self._places.get, texts, repeat(-1))

    @property
    def width(self) -> int:
        return len(self.categories or ())

    @cached_property
    def _places(self) -> dict[str, int]:
        return {text: place for place, text in enumerate(self.categories or ())}

    def filled(self, numbers: NDArray[np.float64]) -> None:
        # None of the categories.
        numbers[np.isnan(numbers)] = 0.0


@dataclass(frozen=True)
class LeftOut(Column):
    """A column that is no feature; its `note` says why."""

    word: ClassVar[str] = "left out"

    @property
    def width(self) -> int:
        return 0

    @property
    def names(self) -> list[str]:
        return []

    def encode(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.float64]:
        return np.empty((len(cells), 0))


@dataclass(frozen=True)
class Label(Column):
    """A column that is to be predicted.

    Args:
        classes: the names of the classes, in the order of their numbers; None where labels are numbers.
        whole: whether labels are class numbers as they stand in the table.
        dtype: the type of the labels in the data set.
        low: the least number, None for classes by name.
        high: the greatest one.
        form: how texts spell dates, which become days since 1970-01-01; "" where labels are no dates.
    """

    classes: tuple[str, ...] | None = None
    whole: bool = False
    dtype: str = "float32"
    low: float | None = None
    high: float | None = None
    form: str = ""

    word: ClassVar[str] = "label"

    @property
    def about(self) -> str:
        if self.classes is not None:
            return _listed(self.classes)
        return "" if self.low is None or self.high is None else f"{self.low:.12g} to {self.high:.12g}"

    def encode(self, cells: Cells, spelling: Spelling, unknown: UnknownTexts = "error") -> NDArray[np.float64]:
        """Return the labels ``(rows, 1)``, class numbers for classes; raises as that of a `Number`, and for a missing cell."""
        if self.classes is None:
            return (Date(self.name, form=self.form) if self.form else Number(self.name, truth=True)).encode(cells, spelling)
        places = Category(self.name, categories=self.classes).places(cells, spelling)
        return np.where(places == _GAP, np.nan, places)[:, None]


def _each(cells: Cells, read: Callable[[Any], float | None], expected: str, *, coerce: bool) -> NDArray[np.float64]:
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        value = read(cell)
        if value is None or math.isinf(value):
            if not coerce:
                raise Misfit(row, expected, cell)
            value = math.nan
        values[row] = value
    return values


def _first_refused(cells: Cells, wrong: NDArray[np.bool_], expected: str) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        raise Misfit(int(rows[0]), expected, cells[int(rows[0])])


def _listed(texts: Sequence[str], most: int = 6) -> str:
    shown = ", ".join(repr(text) if "," in text or text != text.strip() else text for text in texts[:most])
    return shown if len(texts) <= most else f"{shown}, .. ({len(texts)} in all)"
