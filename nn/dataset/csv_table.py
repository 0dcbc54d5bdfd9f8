"""Reading named columns of numbers out of a CSV file."""

import csv
import math
import os
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

__all__ = ["MISSING_POLICIES", "TextNumbers", "holds_text", "read_columns", "read_header"]

MISSING_POLICIES = ("error", "drop", "nan")
_MISSING = ("", "na", "nan", "null")
_MAX_LINE = 16 << 20  # characters; a file without line ends must not be read as one line

_Reader = Callable[[str, bool], float]


class TextNumbers:
    """Numbers the texts of a column, in the order in which they first appear; blanks around a text do not count."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def __call__(self, cell: str, must: bool) -> float:
        """Return the number of a cell, NaN for a missing one unless it `must` be there; raise ValueError then."""
        text = cell.strip()
        if text.lower() not in _MISSING:
            return self.texts.setdefault(text, len(self.texts))
        if must:
            raise ValueError
        return math.nan


def holds_text(path: str | os.PathLike[str], column: str, delimiter: str) -> bool:
    """Tell whether the first cell of a column that is not missing is no number; False where there is none.

    Raises OSError and ValueError as `read_header` does.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = _rows(file, path, delimiter)
        place = _header(rows, path).index(column)
        cells = (row[place].strip() for _, row in rows if len(row) > place)
        first = next((cell for cell in cells if cell.lower() not in _MISSING), "0")
    try:
        float(first)
    except ValueError:
        return True
    return False


def read_header(path: str | os.PathLike[str], delimiter: str) -> list[str]:
    """Return the names of the columns, which the first line of the file holds.

    Raises OSError where the file cannot be opened, ValueError naming it where the names are none or not different.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        return _header(_rows(file, path, delimiter), path)


def read_columns(
    path: str | os.PathLike[str],
    columns: Sequence[str],
    required: Sequence[str],
    delimiter: str,
    missing: str,
    texts: Mapping[str, TextNumbers] | None = None,
) -> NDArray[np.float64]:
    """Return the rows of the file as float64 ``(rows, columns)``, the columns in the order asked for.

    The columns in `texts` hold texts, which become numbers; those not asked for may hold anything. A cell that is empty
    or says NA, NaN or null (in any case) is missing: with 'error' that is an error, with 'drop' its row is left out, with 'nan'
    it becomes NaN, except in the `required` columns, where it stays an error. Empty lines do not count.

    Raises ValueError naming file, line and column for a row with more or fewer cells than the header, a missing cell, and one
    that is no finite number.
    """
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = _rows(file, path, delimiter)
        header = _header(rows, path)
        places = [header.index(name) for name in columns]
        strict = [missing == "error" or (missing == "nan" and name in required) for name in columns]
        readers = [(texts or {}).get(name, _number) for name in columns]
        values = array("d")
        for line, row in rows:
            if len(row) != len(header):
                raise ValueError(f"'{path}' line {line} must have {len(header)} cells as the header has, got {len(row)}")
            try:
                numbers = [read(row[place], must) for read, place, must in zip(readers, places, strict, strict=True)]
            except ValueError:
                raise ValueError(_complaint(path, line, row, header, places, strict, readers)) from None
            if missing != "drop" or not any(map(math.isnan, numbers)):
                values.extend(numbers)
    return np.frombuffer(values, np.float64).reshape(-1, len(columns)) if values else np.empty((0, len(columns)))


def _rows(file: TextIO, path: str | os.PathLike[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield line number and cells of every row that has any."""
    reader = csv.reader(_lines(file), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' is no CSV file in UTF-8, near line {max(reader.line_num, 1)}: {error}") from error


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_MAX_LINE):
        if len(line) == _MAX_LINE:
            raise csv.Error(f"a line must have fewer than {_MAX_LINE} characters")
        yield line


def _header(rows: Iterator[tuple[int, list[str]]], path: str | os.PathLike[str]) -> list[str]:
    _, row = next(rows, (0, []))
    header = [name.strip() for name in row]
    if not header or len(set(header)) != len(header):
        repeated = sorted({name for name in header if header.count(name) > 1})
        raise ValueError(f"'{path}' must begin with a line of different column names, got {repeated or 'no line at all'}")
    return header


def _number(cell: str, must: bool) -> float:
    """Return the finite number in a cell, NaN for a missing one unless it `must` be there; raise ValueError otherwise."""
    try:
        value = float(cell)
    except ValueError:
        if must or cell.strip().lower() not in _MISSING:
            raise
        return math.nan
    if math.isfinite(value) and "_" not in cell:
        return value
    if must or not math.isnan(value):
        raise ValueError
    return value


def _complaint(
    path: str | os.PathLike[str],
    line: int,
    row: Sequence[str],
    header: Sequence[str],
    places: Sequence[int],
    strict: Sequence[bool],
    readers: Sequence[_Reader],
) -> str:
    """Say which cell of a row is wrong; this repeats the work for the one row that has an error."""
    for read, place, must in zip(readers, places, strict, strict=True):
        cell = row[place]
        try:
            read(cell, must)
        except ValueError:
            where = f"'{path}' line {line}, column '{header[place]}'"
            if cell.strip().lower() in _MISSING:
                return f"{where} is missing, got {cell!r}"
            return f"{where} must be a finite number, got {cell[:80]!r}"
    return f"'{path}' line {line} is wrong"
