"""Files in ranges of bytes: a line, or a record of a CSV file, belongs to the range in which its first byte lies."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .lineage import Lineage, Runner, Source
from .pipeline import Step

_READ_BYTES = 1 << 20
Range = tuple[str, int, int]  # path, first byte, end


def files_of(path: str | Path | Sequence[str | Path]) -> list[str]:
    """The files of a path, of a directory in the order of their names, or of several paths.

    Raises: FileNotFoundError for a path that is not there.
    """
    if not isinstance(path, (str, Path)):
        return [file for single in path for file in files_of(single)]
    if os.path.isdir(path):
        return sorted(entry.path for entry in os.scandir(os.path.abspath(path)) if entry.is_file())
    if not os.path.isfile(path):
        raise FileNotFoundError(f"There is no file or directory {path}.")
    return [os.path.abspath(path)]


def ranges_of(files: Sequence[str], partitions: int) -> list[Range]:
    """Cut files into about `partitions` ranges of about the same size."""
    sizes = {file: os.path.getsize(file) for file in files}
    each = max(1, -(-sum(sizes.values()) // max(1, partitions)))
    found: list[Range] = []
    for file, size in sizes.items():
        count = max(1, round(size / each)) if size else 0
        found += [(file, size * part // count, size * (part + 1) // count) for part in range(count)]
    return found


def check_encoding(encoding: str) -> None:
    """Raises: ValueError unless a line ends with the byte 10 in this encoding, LookupError for an unknown one."""
    if not "a\n".encode(encoding).endswith(b"a\n"):
        raise ValueError(f"A file that is read in ranges needs an encoding that extends ASCII, got {encoding!r}.")


@dataclass(frozen=True)
class ReadLines:
    """The lines of a range, without their ends: a line feed, or carriage return and line feed."""

    encoding: str

    def __call__(self, _number: int, item: Range) -> Iterator[str]:
        """See the class."""
        path, start, end = item
        with open(path, "rb") as file:
            position = _to_line(file, start)
            while position < end and (line := file.readline()):
                position += len(line)
                yield _strip(line).decode(self.encoding)


def _to_line(file: IO[bytes], start: int) -> int:
    """Go to the first line that begins at `start` or later."""
    if start:
        file.seek(start - 1)
        return start - 1 + len(file.readline())
    return 0


def _strip(line: bytes) -> bytes:
    if line.endswith(b"\n"):
        line = line[:-1]
        if line.endswith(b"\r"):
            line = line[:-1]
    return line


def count_quotes(_number: int, item: Range) -> Iterable[int]:
    """[how many quotes a range has]."""
    path, start, end = item
    total = 0
    with open(path, "rb") as file:
        file.seek(start)
        while start < end and (block := file.read(min(_READ_BYTES, end - start))):
            start += len(block)
            total += block.count(b'"')
    return [total]


class CsvRanges(Lineage):
    """Ranges of CSV files with quotes as in RFC 4180: a range learns from those before it whether it begins within quotes."""

    def __init__(self, ranges: Sequence[Range], read: Step) -> None:
        super().__init__(len(ranges), "csv_file")
        self._ranges, self._read = ranges, read

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """(range, whether it begins within quotes)."""
        files = {self._ranges[number][0] for number in wanted}
        before = [n for n, r in enumerate(self._ranges) if r[0] in files and n < max(wanted)]
        quotes = Source([self._ranges[n] for n in before], count_quotes, "csv_file: quotes")
        counted = quotes.compute(runner, range(len(before)))
        counts = {n: counted[place] for place, n in enumerate(before)}
        inside: dict[int, bool] = {}
        total, last = 0, ""
        for number, (path, _, _) in enumerate(self._ranges):
            total = total if path == last else 0
            inside[number] = total % 2 == 1
            total, last = total + counts.get(number, [0])[0], path
        return {number: (self._ranges[number], inside[number]) for number in wanted}

    def steps(self) -> list[Step]:
        """Parse the records."""
        return [self._read]


@dataclass(frozen=True)
class ReadRecords:
    """The records of a range: with `header` dicts by the names in its file's first record, else lists."""

    encoding: str
    delimiter: str
    header: bool

    def __call__(self, _number: int, item: tuple[Range, bool]) -> Iterator[Any]:
        """See the class. Raises: ValueError naming a record with more or fewer fields than the header."""
        (path, start, end), inside = item
        with open(path, "rb") as file:
            top, names = self._header(file) if self.header else (-1, [])
            file.seek(max(0, start - 1))
            begins = not start or (file.read(1) == b"\n" and not inside)
            position = start
            for number, record in enumerate(_records(file, start, inside)):
                if position >= end:
                    return
                if number or begins:  # else it is the end of a record of the range before
                    for fields in self._parse(record)[position == top :]:
                        yield self._named(fields, names, path) if self.header else fields
                position += len(record)

    def _header(self, file: IO[bytes]) -> tuple[int, list[str]]:
        """Where what is between two line feeds begins with the header, and the names; empty lines may come before it."""
        position = 0
        for record in _records(file, 0, False):
            found = self._parse(record)
            if found:
                return position, found[0]
            position += len(record)
        return -1, []

    def _parse(self, record: bytes) -> list[list[str]]:
        """The fields of a record; more than one where lone carriage returns end them, none for an empty line."""
        text = record.decode(self.encoding)
        return [fields for fields in csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter) if fields]

    @staticmethod
    def _named(fields: list[str], names: list[str], path: str) -> dict[str, str]:
        if len(fields) != len(names):
            raise ValueError(f"A record of {path} has {len(fields)} fields where its header has {len(names)}: {fields[:5]}.")
        return dict(zip(names, fields, strict=True))


def _records(file: IO[bytes], start: int, inside: bool) -> Iterator[bytes]:
    """What lies between line feeds outside of quotes, from `start` on; the first may be the end of a record."""
    file.seek(start)
    parts: list[bytes] = []
    while line := file.readline():
        parts.append(line)
        inside ^= line.count(b'"') % 2 == 1
        if not inside:
            yield b"".join(parts)
            parts = []
    if parts:
        yield b"".join(parts)
