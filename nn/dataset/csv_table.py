"""Reading a CSV file into a DataFrame, and saying which line of it is wrong."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import math
import warnings
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, TextIO, TypeVar

from nn.dataset.table import DataFrame

__all__ = ["check_rows", "line_of", "read_table"]

Result = TypeVar("Result")
_WORDS = ("", "na", "nan", "null")
_MISSING = sorted({spelled for word in _WORDS for spelled in (word, word.upper(), word.capitalize(), "NaN")})
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def read_table(path: Path, delimiter: str, encoding: str) -> DataFrame:
    """Return the rows of a file, plain or packed by gzip, bzip2 or xz; its first line names the columns.

    A cell that is empty or says NA, NaN or null is missing. Columns of numbers have a type of numbers, others hold texts.

    Raises OSError where the file cannot be opened, ValueError naming it and what is wrong.
    """
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    header = _guarded(path, encoding, lambda: _header(path, delimiter, encoding))
    exact = {} if int(pandas.__version__.partition(".")[0]) >= 3 else {"float_precision": "round_trip"}  # the default since
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # that says that cells were left out
        try:
            frame = pandas.read_csv(
                path,
                sep=delimiter,
                encoding=_with_mark(encoding),
                header=0,
                names=header,
                index_col=False,
                na_values=_MISSING,
                keep_default_na=False,
                skipinitialspace=True,
                low_memory=False,
                **exact,
            )
        except (pandas.errors.ParserWarning, ValueError, OverflowError, EOFError, lzma.LZMAError) as error:
            check_rows(path, (), (), delimiter, encoding)
            raise ValueError(f"'{path}' is no CSV file in {encoding}: {error}") from error
    if len(frame) and frame[header[-1]].isna().any():  # a row that is too short has none there
        check_rows(path, (), (), delimiter, encoding)
    return frame


def check_rows(path: Path, numbers: Collection[str], strict: Collection[str], delimiter: str, encoding: str) -> None:
    """Read the file once more, to find the first row that has not as many cells as the header, a cell of the columns `numbers`
    that is no finite number, or one of the columns `strict` that is missing.

    Raises ValueError naming file, line, column and what came.
    """
    _guarded(path, encoding, lambda: _check_rows(path, numbers, strict, delimiter, encoding))


def _check_rows(path: Path, numbers: Collection[str], strict: Collection[str], delimiter: str, encoding: str) -> None:
    header = _header(path, delimiter, encoding)
    with _open(path, encoding) as file:
        rows = _rows(file, delimiter)
        next(rows)
        for line, row in rows:
            if len(row) != len(header):
                raise ValueError(f"'{path}' line {line} must have {len(header)} cells as the header has, got {len(row)}")
            for name, cell in zip(header, row, strict=True):
                missing = cell.strip().lower() in _WORDS
                if missing and name in strict:
                    raise ValueError(f"'{path}' line {line}, column {name!r} is missing, got {cell!r}")
                if not missing and name in numbers and not _is_number(cell):
                    raise ValueError(f"'{path}' line {line}, column {name!r} must be a finite number, got {cell[:80]!r}")


def line_of(path: Path, row: int, delimiter: str, encoding: str) -> int:
    """The line of the file on which a row (from 0, below the header) ends."""
    with _open(path, encoding) as file:
        return next(islice(_rows(file, delimiter), row + 1, None))[0]


def _guarded(path: Path, encoding: str, act: Callable[[], Result]) -> Result:
    try:
        return act()
    except (csv.Error, UnicodeError, EOFError, gzip.BadGzipFile, lzma.LZMAError) as error:
        hint = "; 'encoding' may name another, such as latin-1" if isinstance(error, UnicodeError) else ""
        raise ValueError(f"'{path}' is no CSV file in {encoding}: {error}{hint}") from error


def _header(path: Path, delimiter: str, encoding: str) -> list[str]:
    with _open(path, encoding) as file:
        _, row = next(_rows(file, delimiter), (0, []))
    names = [name.strip() for name in row]
    repeated = ", ".join(f"{name!r} {names.count(name)} times" for name in dict.fromkeys(names) if names.count(name) > 1)
    if not names or repeated:
        raise ValueError(f"'{path}' must begin with a line of different column names, got {repeated or 'no line at all'}")
    return names


def _rows(file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row that has any."""
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
    for row in reader:
        if row:
            yield reader.line_num, row


def _open(path: Path, encoding: str) -> TextIO:
    opener = _OPENERS.get(path.suffix.lower(), open)
    file: TextIO = opener(path, "rt", encoding=_with_mark(encoding), newline="")
    return file


def _with_mark(encoding: str) -> str:
    """A byte order mark, as some programs write it, is no part of the first name."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding


def _is_number(cell: str) -> bool:
    try:
        return math.isfinite(float(cell)) and "_" not in cell
    except ValueError:
        return False
