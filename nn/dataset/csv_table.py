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
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np

from nn.dataset.plan.cells import MISSING, WHOLE, Cells, Spelling, has_leading_zeros
from nn.dataset.plan.kinds import missing_rows
from nn.dataset.plan.rows import DataFrame, delimiter_hint

__all__ = ["Table", "read_table"]

_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BLOCK = 1 << 18  # bytes
_PACKED = (*_OPENERS, ".zip")
_DAMAGED = (
    csv.Error,
    UnicodeError,
    EOFError,
    gzip.BadGzipFile,
    lzma.LZMAError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,  # what zipfile raises for a method or version that it does not know, of a damaged header, too
)
PLAIN = Spelling()
_MARK_OF_EXCEL = re.compile(r"sep=(.)")


class Table(NamedTuple):
    """The cells of a file.

    Args:
        path: the file.
        header: the names of its columns.
        columns: the cells ``(rows,)`` of each: numbers, NaN for gaps, where all of them are numbers; else texts.
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
        return self.texts_of(row)[0]

    def texts_of(self, row: int) -> tuple[int, list[str]]:
        """Return the line of the file on which a row, from 0, ends, and the cells of the row as they stand there."""
        with _damage_told(self.path, self.encoding), _open(self.path, self.encoding) as file:
            return next(islice(_rows(file, self.delimiter), row + 1, None))


def read_table(path: Path, delimiter: str, encoding: str, spelling: Spelling = PLAIN, texts: Collection[str] = ()) -> Table:
    """Return the cells of a file, plain or packed by gzip, bzip2, xz or zip; its first line names the columns.

    Args:
        path: the file.
        delimiter: the mark between cells; that of a first line such as ``sep=;`` comes before it.
        encoding: the encoding of its texts.
        spelling: how numbers and gaps are written.
        texts: columns to take as texts, even if all cells look like numbers or dates.

    Raises:
        OSError: where the file cannot be opened.
        ValueError: naming it, the line, and the fault.
    """
    with _damage_told(path, encoding):
        delimiter, skipped, header = _header(path, delimiter, encoding)
    read = partial(_read, path, delimiter, encoding, skipped, header)
    columns: dict[str, Cells] = {}
    # what pandas would take for missing as a number, such as -999, must be taken as a text, so there all are read as texts
    if not any(spelling.number(word) is not None for word in spelling.na_values):
        columns = _columns(read(spelling=spelling, texts=texts), texts)
    others = [name for name in header if name not in columns]
    if others:
        columns |= {name: column.to_numpy(object) for name, column in read(names=others).items()}
    numbers = [name for name, cells in columns.items() if cells.dtype != object]
    if numbers and _has_zeros(path, delimiter, encoding, [cells for cells in columns.values() if cells.dtype == object]):
        for name, column in read(names=numbers).items():
            held = column.to_numpy(object)
            if any(map(has_leading_zeros, held)):
                columns[name] = held
    if missing_rows(columns[header[-1]], spelling).any():  # as of a row that is too short
        _check_rows(path, delimiter, encoding)
    return Table(path, header, [columns[name] for name in header], delimiter, encoding)


def _read(
    path: Path,
    delimiter: str,
    encoding: str,
    skipped: int,
    header: Sequence[str],
    *,
    names: Sequence[str] | None = None,
    spelling: Spelling | None = None,
    texts: Collection[str] = (),
) -> DataFrame:
    """Return the frame of pandas: some columns as texts, or all; of numbers where all of its cells are, NaN for gaps."""
    import pandas  # noqa: PLC0415 - here only, so that `import nn` stays quick

    how: dict[str, Any] = {"dtype": str, "na_filter": False, "usecols": None if names == header else names}
    if spelling is not None:
        missing = sorted({*MISSING, *spelling.na_values})
        how = {"na_values": missing, "decimal": spelling.decimal, "dtype": dict.fromkeys(texts, str)}
        if tuple(map(int, pandas.__version__.split(".")[:2])) < (3, 1):  # later ones read the nearest number anyway
            how["float_precision"] = "round_trip"
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)  # that says that cells were left out
        warnings.simplefilter("ignore", pandas.errors.DtypeWarning)  # columns of numbers and texts are read as texts again
        try:
            return pandas.read_csv(
                path,
                sep=delimiter,
                encoding=_with_mark(encoding),
                skiprows=skipped,
                header=0,
                names=header,
                index_col=False,
                keep_default_na=False,
                skipinitialspace=True,
                **how,
            )
        except (pandas.errors.ParserWarning, ValueError, OverflowError, *_DAMAGED) as error:
            _check_rows(path, delimiter, encoding)
            raise ValueError(f"'{path}' is no CSV file in {encoding}: {error}") from error


def _columns(frame: DataFrame, texts: Collection[str]) -> dict[str, Cells]:
    """Return the columns that are texts, "" for a gap, or finite numbers that float64 tells apart, NaN for a gap."""
    import pandas  # noqa: PLC0415 - as above

    found: dict[str, Cells] = {}
    for name, column in frame.items():
        if getattr(column.dtype, "kind", "O") in "if" and name not in texts:
            cells = column.to_numpy()
            if not (np.abs(cells) >= WHOLE).any():
                found[name] = cells
        elif pandas.api.types.infer_dtype(column, skipna=True) in ("string", "empty"):
            found[name] = column.astype(object).where(column.notna(), "").to_numpy(object)
    return found


def _has_zeros(path: Path, delimiter: str, encoding: str, texts: Sequence[Cells]) -> bool:
    """Return whether more cells of the file may begin with zeros, as 007 does, than those of the columns of texts."""
    marks, blanks, found = b'\n\r"' + delimiter.encode(), b" \t".replace(delimiter.encode(), b""), 0
    is_mark, is_blank, is_sign = (np.isin(np.arange(256), list(some)) for some in (marks, blanks, b"+-"))
    for lines in _lines(path, encoding):
        content = np.frombuffer(lines, np.uint8)
        before, here, after = content[:-2], content[1:-1], content[2:]
        wrong = (here == ord("0")) & (after - np.uint8(ord("0")) < 10)  # what is no digit wraps to more
        if not wrong.any():
            continue
        behind = before == marks[0]
        for mark in marks[1:] + blanks + b"+-":
            behind |= before == mark
        at = np.flatnonzero(wrong & behind)
        # Back over a sign and blanks: a cell of 007 begins behind a mark.
        at -= is_sign[content[at]]
        while (blank := is_blank[content[at]]).any():
            at -= blank
        found += int(is_mark[content[at]].sum())
    return found > 0 and found > sum(sum(map(has_leading_zeros, cells)) for cells in texts)


def _lines(path: Path, encoding: str) -> Iterator[bytes]:
    """Yield the lines of the file in pieces that stay in the cache, each with the end of a line before its first one."""
    plain = path.suffix.lower() not in _PACKED and "0,".encode(encoding) == b"0,"
    with path.open("rb") if plain else _open(path, encoding) as file:
        # So that the first cell of the file stands behind an end of a line as well.
        rest = b"\n"
        while block := file.read(_BLOCK):
            lines = rest + (block if isinstance(block, bytes) else block.encode(errors="replace"))
            end = max(lines.rfind(b"\n"), lines.rfind(b"\r"))
            if end > 0:
                yield lines[: end + 1]
            # From the last end of a line on: a cell may be cut by the end of a block.
            rest = lines[max(end, 0) :]
        yield rest


def _check_rows(path: Path, delimiter: str, encoding: str) -> None:
    """Read the file once more, and name the first row that has not as many cells as the header."""
    with _damage_told(path, encoding):
        _, _, header = _header(path, delimiter, encoding)
        with _open(path, encoding) as file:
            for line, row in islice(_rows(file, delimiter), 1, None):
                if len(row) != len(header):
                    cells = f"{len(header)} cell{'s' * (len(header) != 1)}"
                    wrong = f"'{path}' line {line} must have {cells} as the header has, got {len(row)}"
                    raise ValueError(wrong + delimiter_hint(header))


@contextmanager
def _damage_told(path: Path, encoding: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGED as error:
        hint = ""
        if isinstance(error, UnicodeError):
            with path.open("rb") as file:
                # The byte order marks of UTF-16.
                other = "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
            hint = f"; 'encoding' may name another, such as {other}"
        raise ValueError(f"'{path}' is no CSV file in {encoding}: {error}{hint}") from error


def _header(path: Path, delimiter: str, encoding: str) -> tuple[str, int, list[str]]:
    """Return the mark between cells, how many lines stand before the header, and the names of the columns."""
    with _open(path, encoding) as file:
        first = file.readline()
    mark = _MARK_OF_EXCEL.fullmatch(first.rstrip("\r\n"))
    if mark:
        delimiter = mark[1]
    with _open(path, encoding) as file:
        _, row = next(_rows(file, delimiter), (0, []))
    # pandas gets these names, so that both agree on blanks.
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
    """Return the encoding that skips a byte order mark, as some programs write it: it is no part of the first name."""
    return "utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding
