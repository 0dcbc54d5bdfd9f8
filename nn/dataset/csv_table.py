"""The cells of a CSV file as texts, read by pandas, and the line of the file that is wrong, which pandas does not tell."""

from __future__ import annotations

import bz2
import csv
import gzip
import lzma
import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from nn.dataset.plan.cells import Cells
from nn.dataset.plan.rows import delimiter_hint

__all__ = ["Table", "line_of", "read_table"]

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DAMAGED = (
    csv.Error,
    UnicodeError,
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
)
_MARK_OF_EXCEL = re.compile(r"sep=(.)")


class Table(NamedTuple):
    """The cells of a file.

    Args:
        path: the file.
        header: the names of its columns.
        columns: the cells ``(rows,)`` of each, texts as they stand there.
        delimiter: the mark between cells.
        encoding: the encoding of its texts.
    """

    path: Path
    header: list[str]
    columns: list[Cells]
    delimiter: str
    encoding: str

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.columns[0])

    def line_of(self, row: int) -> int:
        """Return the line of the file on which a row, from 0, ends."""
        return line_of(self.path, row, self.delimiter, self.encoding)


def read_table(path: Path, delimiter: str, encoding: str) -> Table:
    """Return the cells of a file whose first line names the columns, plain or packed by gzip, bzip2, xz or zip.

    Args:
        path: the file.
        delimiter: the mark between cells; that of a first line such as ``sep=;`` comes before it.
        encoding: the encoding of its texts.

    Raises:
        OSError: where the file cannot be opened.
        ValueError: naming it, the line, and what is wrong.
    """
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    with _damage_told(path, encoding):
        delimiter, skipped, header = _header(path, delimiter, encoding)
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # that says that cells were left out
        try:
            frame = pandas.read_csv(
                path,
                sep=delimiter,
                encoding=_with_mark(encoding),
                skiprows=skipped,
                header=0,
                names=header,
                index_col=False,
                dtype=str,
                keep_default_na=False,
                na_filter=False,
                skipinitialspace=True,
            )
        except (pandas.errors.ParserWarning, ValueError, OverflowError, *_DAMAGED) as error:
            _check_rows(path, delimiter, encoding)
            raise ValueError(f"'{path}' is no CSV file in {encoding}: {error}") from error
    columns = [frame[name].to_numpy(object) for name in header]
    if (columns[-1] == "").any():  # as of a row that is too short
        _check_rows(path, delimiter, encoding)
    return Table(path, header, columns, delimiter, encoding)


def line_of(path: Path, row: int, delimiter: str, encoding: str) -> int:
    """Return the line of the file on which a row, from 0 below the header, ends."""
    with _open(path, encoding) as file:
        return next(islice(_rows(file, delimiter), row + 1, None))[0]


def _check_rows(path: Path, delimiter: str, encoding: str) -> None:
    """Read the file once more, and name the first row that has not as many cells as the header."""
    with _damage_told(path, encoding):
        _, _, header = _header(path, delimiter, encoding)
        with _open(path, encoding) as file:
            for line, row in islice(_rows(file, delimiter), 1, None):
                if len(row) != len(header):
                    wrong = f"'{path}' line {line} must have {len(header)} cells as the header has, got {len(row)}"
                    raise ValueError(wrong + delimiter_hint(header))


@contextmanager
def _damage_told(path: Path, encoding: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        hint = ""
        if isinstance(error, UnicodeError):
            with path.open("rb") as file:
                other = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
            hint = f"; 'encoding' may name another, such as {other}"
        raise ValueError(f"'{path}' is no CSV file in {encoding}: {error}{hint}") from error


def _header(path: Path, delimiter: str, encoding: str) -> tuple[str, int, list[str]]:
    """The mark between cells, how many lines stand before the header, and the names of the columns."""
    with _open(path, encoding) as file:
        first = file.readline()
    mark = _MARK_OF_EXCEL.fullmatch(first.rstrip("\r\n"))
    if mark:
        delimiter = mark[1]
    with _open(path, encoding) as file:
        _, row = next(_rows(file, delimiter), (0, []))
    names = [name.strip() for name in row]
    repeated = ", ".join(f"{name!r} {names.count(name)} times" for name in dict.fromkeys(names) if names.count(name) > 1)
    if not names or repeated:
        raise ValueError(f"'{path}' must begin with a line of different column names, got {repeated or 'no line at all'}")
    return delimiter, 1 if mark else 0, names


def _rows(file: TextIO, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row that has any, behind a line that names the mark between cells."""
    reader = csv.reader(file, delimiter=delimiter, skipinitialspace=True)
    for row in reader:
        if row and not (reader.line_num == 1 and _MARK_OF_EXCEL.fullmatch(delimiter.join(row))):
            yield reader.line_num, row


def _open(path: Path, encoding: str) -> TextIO:
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive:  # what is opened in it stays open
            names = archive.namelist()
            if len(names) != 1:
                raise ValueError(f"'{path}' must hold one file, got {len(names)}: {', '.join(names)[:200]}")
            return TextIOWrapper(archive.open(names[0]), _with_mark(encoding), newline="")
    opener = _OPENERS.get(path.suffix.lower(), open)
    file: TextIO = opener(path, "rt", encoding=_with_mark(encoding), newline="")
    return file


def _with_mark(encoding: str) -> str:
    """A byte order mark, as some programs write it, is no part of the first name."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
