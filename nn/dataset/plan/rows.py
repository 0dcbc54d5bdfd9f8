"""Rows of a table, as a program holds them, as the cells of each column: DataFrames, a Series, dicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from nn import arguments
from nn.arrays import is_rows
from nn.dataset.plan.cells import Cells

__all__ = ["DataFrame", "cells_of", "check_columns", "table_of"]

DataFrame: TypeAlias = Any
"""That of pandas, which is imported only where it is used."""

_FEW = 4  # rows that are taken out of a frame as rows


def table_of(what: str, rows: Any, names: Sequence[str]) -> list[Cells]:
    """Return the cells ``(rows,)`` of each of the columns `names`.

    Args:
        what: the argument, for messages.
        rows: a DataFrame, a Series or dict of a row, a dict of lists, or a list of dicts; further columns do not count.
        names: which columns; "" stands for the column without a name that pandas calls ``Unnamed: 0``.

    Raises:
        TypeError: for anything else.
        ValueError: for a column that is not there, or is there twice.
    """
    if not is_rows(rows):
        raise TypeError(f"{what} must be a DataFrame with the columns of x, got {type(rows).__name__}; rows as dicts do, too")
    # By an attribute: to look at a dict must not import pandas.
    if hasattr(rows, "iloc"):
        if rows.ndim == 2:
            return _of_frame(what, rows, names)
        rows = [dict(zip(map(str, rows.index), rows.tolist(), strict=True))]
    if isinstance(rows, Mapping):
        return _of_dict(what, rows, names)
    for place, row in enumerate(rows):
        if all(name in row for name in names):
            continue
        name = next(name for name in names if name not in row)
        hint = arguments.did_you_mean(name, map(str, rows[place]))
        held = ", ".join(map(str, rows[place]))[:400]
        raise ValueError(f"{what} must have {name!r} in each row, got {held} in row {place}{hint}")
    cells = np.empty((len(rows), len(names)), object)
    for place, row in enumerate(rows):
        cells[place] = [row[name] for name in names]
    return list(cells.T)


def _of_dict(what: str, rows: Mapping[str, Any], names: Sequence[str]) -> list[Cells]:
    rows = {str(name): values for name, values in rows.items()}
    check_columns(what, names, list(rows))
    several = {name: isinstance(rows[name], (list, tuple, np.ndarray)) or hasattr(rows[name], "iloc") for name in names}
    lengths = {len(rows[name]) for name in names if several[name]} or {1}
    if len(lengths) > 1 or (any(several.values()) and not all(several.values())):
        raise ValueError(f"{what} must have one value, or as many values, in each column, got lengths {sorted(lengths)}")
    return [_cells(rows[name]) if several[name] else _objects([rows[name]]) for name in names]


def _of_frame(what: str, frame: DataFrame, names: Sequence[str]) -> list[Cells]:
    header = [str(name) for name in frame.columns]
    # pandas names the column without a name; the plan may come from a file that had it.
    if "" in names and "" not in header:
        header = ["" if name.startswith("Unnamed: ") else name for name in header]
    # A dict loses names that stand twice, by which they are found.
    places = {name: place for place, name in enumerate(header)}
    if len(places) < len(header) or not all(name in places for name in names):
        check_columns(what, names, header)
    # A wide frame of which few columns are used is faster by column.
    if len(frame) <= _FEW and len(header) <= 4 * len(names):
        rows = [frame.iloc[row] for row in range(len(frame))]
        if rows and all(row.dtype == object for row in rows):  # else numbers of several kinds become one
            cells = [row.to_numpy() for row in rows]
            return [np.array([row[places[name]] for row in cells], object) for name in names]
        # As objects each number keeps its own kind.
        every = frame.to_numpy(object)
        return [every[:, places[name]] for name in names]
    return [cells_of(what, frame.iloc[:, places[name]]) for name in names]


def cells_of(what: str, series: Any) -> Cells:
    """Return the cells of a Series: numbers and times as arrays of these, all else as objects.

    Args:
        what: name of the column, for errors.
        series: a Series of pandas ``(rows,)``.

    Raises:
        TypeError: for a type that no column of a plan has.
    """
    dtype = series.dtype
    kind = getattr(dtype, "kind", "O")
    if isinstance(dtype, np.dtype) and kind in "biufM":
        values: Cells = series.to_numpy()
        return values
    if kind == "M":  # with a time zone
        return np.asarray(series.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())
    if kind in "biuf" and not _is_sparse(dtype):  # those of pandas, which may have gaps
        return np.asarray(series.to_numpy(np.float64, na_value=np.nan))
    if kind in "biuf":
        return np.asarray(series.to_numpy())
    if kind in "cmV":
        raise TypeError(f"{what}: column {str(series.name)!r} must hold numbers, texts, categories or dates, got dtype {dtype}")
    return np.asarray(series.astype(object).to_numpy(object))


def _is_sparse(dtype: object) -> bool:
    return type(dtype).__name__ == "SparseDtype"


def _cells(values: Any) -> Cells:
    """Arrays of numbers as they are, all else as objects."""
    return (
        values
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf" and values.ndim == 1
        else _objects(list(values))
    )


def _objects(values: Sequence[Any]) -> Cells:
    cells = np.empty(len(values), object)
    cells[:] = list(values)
    return cells


class MissingColumn(ValueError):
    """A column that the rows do not have.

    Args:
        said: the message.
        name: of the column.
        held: the columns that there are, in words.
        hint: a name that may be meant, in words.
    """

    def __init__(self, said: str, name: str, held: str, hint: str) -> None:
        super().__init__(said)
        self.name, self.held, self.hint = name, held, hint


def delimiter_hint(header: Sequence[str]) -> str:
    """Return a question that names the delimiter of a file which was read as one column, "" where none is likely."""
    mark = next((mark for mark in ";\t|," if mark in header[0]), "") if len(header) == 1 else ""
    return f"; is delimiter={mark!r} meant?" if mark else ""


def check_columns(what: str, names: Sequence[str], header: Sequence[str], where: str = "") -> None:
    """Check that columns are there, each once.

    Args:
        what: the argument that names them, for messages.
        names: which columns.
        header: those that there are.
        where: where, for messages; "" for rows that must have these columns.

    Raises:
        ValueError: for a name that is none of the `header`, or stands in it twice.
    """
    for name in names:
        if name not in header:
            held = ", ".join(header)[:400]
            hint = delimiter_hint(header) or arguments.did_you_mean(name, header)
            # names of the caller's for the columns of a file, or rows of the caller's for names that are known
            said = f"name columns{where} ({held}), got {name!r}" if where else f"have a column {name!r}, got {held}"
            raise MissingColumn(f"{what} must {said}{hint}", name, held, hint)
        if header.count(name) > 1:
            raise ValueError(f"{what} must have different column names, got {name!r} {header.count(name)} times")
