"""Columns of a table (a pandas DataFrame) as numbers, with what stands for what fixed beforehand."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from decimal import Decimal
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nn import arguments

__all__ = [
    "CATEGORY", "DATE", "NUMBER", "CellError", "Column", "DataFrame", "Series", "as_texts", "check_columns", "encode",
    "fill", "other_rows", "plan_columns",
]  # fmt: skip

DataFrame: TypeAlias = Any
Series: TypeAlias = Any
"""Those of pandas, which is imported only where it is used."""

NUMBER, CATEGORY, DATE = "number", "category", "date"
_MOST_CATEGORIES = 1000  # of one column; more are names or numbers of things, which tell a model nothing
_ISO_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_TRUTH = {"true": 1.0, "false": 0.0}


class CellError(ValueError):
    """A cell that is not what its column holds: in which `row` (from 0), and `wrong`, what it must be and is."""

    def __init__(self, owner: str, row: int, wrong: str) -> None:
        super().__init__(f"{owner}: row {row}, {wrong}")
        self.row, self.wrong = row, wrong


class Column(NamedTuple):
    """What becomes of one column: a number; for a date, whose texts have the `form` of strptime or are ISO 8601, the days since
    1970-01-01; or for texts one number for each of the `categories`, 1 for that which the cell holds, else 0."""

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    form: str = "ISO8601"

    @property
    def names(self) -> list[str]:
        """The names of the numbers that it becomes."""
        return [f"{self.name}={category}" for category in self.categories] if self.kind == CATEGORY else [self.name]


def plan_columns(
    owners: Sequence[str], frames: Sequence[DataFrame], categories: Collection[str] = (), dates: Mapping[str, str] | None = None
) -> list[Column]:
    """Decide what becomes of each column, from all rows of `frames`, which have the same columns.

    Numbers and truth values stay numbers. Columns in `categories`, of pandas' type for them, and of texts are categories: in
    the order of their type, else sorted. Columns in `dates`, of a type for them, and of texts that are all ISO 8601 are dates.

    Raises ValueError or TypeError naming the frame, as `owners` do, and the column where there is no way to take it, and the
    row of a cell that is of another kind than most of its column.
    """
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    columns = []
    for name in frames[0].columns:
        parts = [frame[name] for frame in frames]
        cells = pandas.concat(parts, ignore_index=True)
        if name not in categories and name not in (dates or {}):
            _refuse_mixed(owners, parts, cells)
        columns.append(_plan(owners[0], str(name), cells, categories, dates or {}))
    return columns


def _refuse_mixed(owners: Sequence[str], parts: Sequence[Series], cells: Series) -> None:
    """Refuse cells of a column of objects that are no numbers, texts or dates, or of another kind than most of them are."""
    from pandas.api import types  # noqa: PLC0415

    if not types.is_object_dtype(cells.dtype) or types.infer_dtype(cells, skipna=True) in ("string", "empty"):
        return
    kinds = cells.map(_kind_of, na_action="ignore")
    found = kinds.dropna()
    usual = found[found != ""].mode()
    expected = usual[0] if len(usual) else "number"
    odd = np.flatnonzero((kinds.notna() & (kinds != expected)).to_numpy())
    if odd.size:
        row, place = int(odd[0]), 0
        while row >= len(parts[place]):
            row, place = row - len(parts[place]), place + 1
        cell = parts[place].iloc[row]
        what = f"a {expected}, as other cells of the column are" if len(usual) else "a number, a text or a date"
        raise ValueError(
            f"{owners[place]}: row {row}, column {cells.name!r} must be {what}, got {type(cell).__name__} {str(cell)[:80]!r}"
        )


def _kind_of(cell: object) -> str:
    if isinstance(cell, str):
        return "text"
    if isinstance(cell, (date, np.datetime64)):
        return DATE
    return NUMBER if isinstance(cell, (Real, Decimal, np.bool_)) else ""


def _plan(owner: str, name: str, cells: Series, categories: Collection[str], dates: Mapping[str, str]) -> Column:
    from pandas.api import types  # noqa: PLC0415

    dtype, given = cells.dtype, getattr(cells.dtype, "categories", None)
    if name in dates:
        return Column(name, DATE, form=dates[name] or "ISO8601")
    if types.is_datetime64_any_dtype(dtype):
        return Column(name, DATE)
    if name not in categories and given is None:
        if types.is_bool_dtype(dtype) or (types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)):
            return Column(name, NUMBER)
        if not (types.is_object_dtype(dtype) or types.is_string_dtype(dtype)):
            raise TypeError(f"{owner}: column {name!r} must hold numbers, texts, categories or dates, got dtype {dtype}")
        held = cells.dropna()
        if not len(held) or _kind_of(held.iloc[0]) == NUMBER:  # all of a column are of one kind
            return Column(name, NUMBER)
    texts = as_texts(cells).dropna().unique()
    if name not in categories and given is None and len(texts):
        if {str(text).lower() for text in texts} <= _TRUTH.keys():
            return Column(name, NUMBER)
        if all(map(_ISO_DATE.fullmatch, texts)):
            return Column(name, DATE)
    ordered = sorted(texts) if given is None else [str(category) for category in given]
    if len(ordered) > _MOST_CATEGORIES:
        raise ValueError(
            f"{owner}: column {name!r} must have at most {_MOST_CATEGORIES} different texts, got {len(ordered)}: "
            f"make numbers of them, or leave the column out"
        )
    return Column(name, CATEGORY, tuple(ordered))


def as_texts(cells: Series) -> Series:
    """The cells as texts without blanks around them; whole floats, as numbers get beside missing ones, as integers."""
    from pandas.api import types  # noqa: PLC0415

    if types.is_float_dtype(cells.dtype):
        return cells.map(lambda cell: f"{cell:.0f}" if cell == np.rint(cell) else str(cell), na_action="ignore").astype(object)
    return cells.astype(object).map(lambda cell: str(cell).strip(), na_action="ignore")


def encode(owner: str, frame: DataFrame, columns: Sequence[Column]) -> NDArray[np.float64]:
    """Return the numbers ``(rows, numbers)`` of all `columns`, NaN for missing cells.

    Raises CellError naming row (from 0, whatever the index says) and column for a cell that is not what its column holds.
    """
    parts = [_encode(owner, frame[column.name], column) for column in columns]
    return np.concatenate(parts, axis=1) if parts else np.empty((len(frame), 0))


def _encode(owner: str, cells: Series, column: Column) -> NDArray[np.float64]:
    import pandas  # noqa: PLC0415

    missing = cells.isna().to_numpy()
    if column.kind == CATEGORY:
        codes = pandas.Index(column.categories, dtype=object).get_indexer(as_texts(cells))
        _refuse(owner, cells, column, (codes < 0) & ~missing, f"one of {', '.join(column.categories)[:200]}")
        rows = np.zeros((len(cells), len(column.categories)))
        known = np.flatnonzero(~missing)
        rows[known, codes[known]] = 1
        rows[missing] = np.nan
        return rows
    if column.kind == DATE:
        dates = pandas.to_datetime(cells, format=column.form, errors="coerce", utc=True)
        _refuse(owner, cells, column, dates.isna().to_numpy() & ~missing, f"a date {column.form}")
        days = (dates - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta(days=1)
        found: NDArray[np.float64] = days.to_numpy(np.float64, na_value=np.nan)
        return found[:, None]
    if cells.dtype.kind not in "biuf":
        truth = cells.astype(object).map(lambda cell: _TRUTH.get(str(cell).strip().lower(), cell), na_action="ignore")
        cells = pandas.to_numeric(truth, errors="coerce")
    numbers: NDArray[np.float64] = cells.to_numpy(np.float64, na_value=np.nan)
    _refuse(owner, cells, column, ~np.isfinite(numbers) & ~missing, "a finite number")
    return numbers[:, None]


def _refuse(owner: str, cells: Series, column: Column, wrong: NDArray[np.bool_], expected: str) -> None:
    rows = np.flatnonzero(wrong)
    if rows.size:
        found = str(cells.iloc[int(rows[0])])[:80]
        raise CellError(owner, int(rows[0]), f"column {column.name!r} must be {expected}, got {found!r}")


def other_rows(what: str, rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """Return `rows` with texts as names of columns.

    Raises TypeError unless it is a DataFrame, ValueError unless it has each of `columns` once.
    """
    if getattr(rows, "ndim", 0) != 2 or not hasattr(rows, "columns"):
        raise TypeError(f"{what} must be a DataFrame with the columns of x, got {type(rows).__name__}")
    frame = rows.set_axis([str(column) for column in rows.columns], axis=1)
    check_columns(what, [column.name for column in columns], list(frame.columns))
    return frame


def check_columns(what: str, names: Sequence[str], header: Sequence[str], where: str = "") -> None:
    """Raise ValueError for a name that is none of the `header`, or stands in it twice."""
    for name in names:
        if name not in header:
            held = ", ".join(header)[:400]
            hint = arguments.did_you_mean(name, header)
            if len(header) == 1 and (mark := next((mark for mark in ";\t|," if mark in header[0]), "")):
                hint = f"; is delimiter={mark!r} meant?"
            raise ValueError(f"{what} must name columns{where} ({held}), got {name!r}{hint}")
        if header.count(name) > 1:
            raise ValueError(f"{what} must have different column names, got {name!r} {header.count(name)} times")


def fill(train: NDArray[np.float64], others: Sequence[NDArray[np.float64]], columns: Sequence[Column]) -> None:
    """Replace NaN, in place: numbers and dates by the median of the training rows, a category by none, all 0.

    Raises ValueError for a column without any number in the training rows.
    """
    place = 0
    for column in columns:
        for _ in column.names:
            value, cells = 0.0, train[:, place]
            if column.kind != CATEGORY and any(np.isnan(part[:, place]).any() for part in (train, *others)):
                if np.isnan(cells).all():
                    raise ValueError(f"column {column.name!r} must have a number in one of the training rows, got none")
                value = float(np.nanmedian(cells))
            for part in (train, *others):
                part[np.isnan(part[:, place]), place] = value
            place += 1
