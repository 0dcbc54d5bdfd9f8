"""Context, from which lazy collections begin."""

from __future__ import annotations

import csv
import io
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO, Any, TypeVar

import numpy as np

from network.nodes import NodeAssignment
from rpc.support.files import write_result

from ..cluster import ClusterExecutor
from ..process_setup import Broadcast, Held, from_file, pack_broadcast
from . import pipeline
from .collection import Collection, checked_count
from .lineage import Lineage, Runner, Source
from .pipeline import Step
from .runner import ExecutorRunner, scattered_by, workers_of

T = TypeVar("T")


class Context:
    """Source of collections that run their tasks on an executor.

    Args:
        executor: any `concurrent.futures.Executor`; or nodes, for a ClusterExecutor of its own that `close` shuts down.
        partitions: of a collection, where nothing else is said; default two for each worker.
        progress: show a bar for every stage.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(2) as pool:
    ...     Context(pool).parallelize(range(5)).map(lambda x: x * x).collect()
    [0, 1, 4, 9, 16]
    """

    def __init__(self, executor: Executor | NodeAssignment, *, partitions: int | None = None, progress: bool = False) -> None:
        if partitions is not None:
            checked_count("Context 'partitions'", partitions)
        if not isinstance(executor, (Executor, NodeAssignment)):
            raise TypeError(f"Context 'executor' must be an Executor or nodes, got {type(executor).__qualname__}.")
        self._own = ClusterExecutor(executor, pure=True) if isinstance(executor, NodeAssignment) else None
        self._executor: Executor = self._own if self._own is not None else executor  # type: ignore[assignment]
        self._partitions = partitions or 2 * workers_of(self._executor)
        self._scattered = scattered_by(self._executor)
        self._runner = ExecutorRunner(self._executor, progress, self._scattered)
        self._files: list[str] = []

    def parallelize(self, data: Iterable[T], partitions: int | None = None) -> Collection[T]:
        """Divide elements into partitions of about the same size.

        Args:
            data: the elements; of an array its rows.
            partitions: their number; None for the number of the context.

        Raises: ValueError for no partition.
        """
        count = self._count(partitions)
        # a range and an array are cut without making their elements
        items: Any = data if isinstance(data, (range, np.ndarray)) else list(data)
        borders = [len(items) * number // count for number in range(count + 1)]
        parts = [items[start:end] for start, end in itertools.pairwise(borders)]
        if isinstance(items, range):
            # three numbers travel for each part
            return Collection(Source([(p.start, p.stop, p.step) for p in parts], _ranged, "parallelize"), self._runner)
        return Collection(Source(parts, pipeline.elements, "parallelize"), self._runner)

    def text_file(
        self, path: str | Path | Sequence[str | Path], partitions: int | None = None, *, encoding: str = "utf-8"
    ) -> Collection[str]:
        """Read the lines of a file, of all files of a directory, or of several paths, each task a range of bytes.

        The files must be where the tasks run, too.

        Args:
            path: of one file or directory, or several.
            partitions: number of ranges, about.
            encoding: of the text.

        Raises: FileNotFoundError; ValueError for an encoding that is no extension of ASCII.
        """
        check_encoding(encoding)
        ranges = ranges_of(files_of(path), self._count(partitions))
        return Collection(Source(ranges, ReadLines(encoding), "text_file"), self._runner)

    def csv_file(
        self,
        path: str | Path | Sequence[str | Path],
        partitions: int | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> Collection[Any]:
        """Read the records of CSV files as dicts of str by the names in the first record, without `header` as lists of str.

        Fields in quotes may hold line feeds; quotes stand at both ends of a field only, or doubled within (RFC 4180).

        Args:
            path: of one file or directory, or several.
            partitions: number of ranges, about.
            header: whether the first record of each file has the names.
            delimiter: between fields.
            encoding: of the text.

        Raises: as `text_file`; a task raises ValueError for a record that does not fit the header.
        """
        check_encoding(encoding)
        ranges = ranges_of(files_of(path), self._count(partitions))
        return Collection(CsvRanges(ranges, ReadRecords(encoding, delimiter, header)), self._runner)

    def broadcast(self, value: T) -> Broadcast[T]:
        """Bring `value`, which tasks name, to each process once; to processes of a pool by a temporary file until `close`.

        Where the processes of a pool are on several machines, `$TMPDIR` must be a folder that they share, except on Dask.

        Raises: TypeError when it is no data, OSError when the disk is full.
        """
        if isinstance(self._executor, ClusterExecutor):
            return self._executor.broadcast(value)
        if isinstance(self._executor, ThreadPoolExecutor):
            return Broadcast(Held(0, value))
        if self._scattered is not None:
            return self._scattered.broadcast(value)
        descriptor, path = tempfile.mkstemp(prefix="psgd-broadcast-")
        os.close(descriptor)
        self._files.append(path)
        try:
            write_result(Path(path), list(pack_broadcast(value)), ())
        except BaseException:
            self._remove(path)
            raise
        return Broadcast(partial(from_file, path), partial(self._remove, path))

    def _remove(self, path: str) -> None:
        if path in self._files:
            self._files.remove(path)
            Path(path).unlink(missing_ok=True)  # systems clean their temporary folders

    def _count(self, partitions: int | None) -> int:
        return self._partitions if partitions is None else checked_count("'partitions'", partitions)

    def close(self) -> None:
        """Remove temporary files, and shut an executor of its own down; idempotent."""
        for path in list(self._files):
            self._remove(path)
        if self._scattered is not None:
            self._scattered.close()
        if self._own is not None:
            self._own.shutdown()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _ranged(_number: int, item: Any) -> Iterable[int]:
    return range(*item)


_READ_BYTES = 1 << 20
Range = tuple[str, int, int]  # path, first byte, end


def files_of(path: str | Path | Sequence[str | Path]) -> list[str]:
    """List the files of a path, of a directory in the order of their names, or of several paths.

    Raises: FileNotFoundError for a path that is not there.
    """
    if not isinstance(path, (str, Path)):
        return [file for single in path for file in files_of(single)]
    if os.path.isdir(path):
        # sorted: partitions must be the same in each process and run
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
    """Raise ValueError unless a line ends with the byte 10 in this encoding, LookupError for an unknown one."""
    # UTF-16 and its kin have a zero behind or before the 10
    if not "a\n".encode(encoding).endswith(b"a\n"):
        raise ValueError(f"A file that is read in ranges needs an encoding that extends ASCII, got {encoding!r}.")


@dataclass(frozen=True)
class ReadLines:
    """Reader of a range's lines, without their ends: a line feed, or carriage return and line feed."""

    encoding: str

    def __call__(self, _number: int, item: Range) -> Iterator[str]:
        path, start, end = item
        with open(path, "rb") as file:
            # the line that `start` cuts belongs to the range before
            position = _to_line(file, start)
            while position < end and (line := file.readline()):
                position += len(line)
                yield (line[:-2] if line.endswith(b"\r\n") else line.removesuffix(b"\n")).decode(self.encoding)


def _to_line(file: IO[bytes], start: int) -> int:
    """Go to the first line that begins at `start` or later."""
    if start:
        # one byte before: a line that begins at `start` exactly is this range's
        file.seek(start - 1)
        return start - 1 + len(file.readline())
    return 0


def count_quotes(_number: int, item: Range) -> Iterable[int]:
    """Count the quotes of a range: [number]."""
    path, start, end = item
    total = 0
    with open(path, "rb") as file:
        file.seek(start)
        while start < end and (block := file.read(min(_READ_BYTES, end - start))):
            start += len(block)
            total += block.count(b'"')
    return [total]


class CsvRanges(Lineage):
    """Ranges of CSV files with quotes as in RFC 4180: a range learns from those before it whether it begins within quotes.

    Args:
        ranges: (path, first byte, end) of each partition.
        read: step that reads a range.
    """

    def __init__(self, ranges: Sequence[Range], read: Step) -> None:
        super().__init__(len(ranges), "csv_file")
        self._ranges, self._read = ranges, read

    def inputs(self, runner: Runner, wanted: Sequence[int]) -> Mapping[int, Any]:
        """Pair each range with whether it begins within quotes."""
        # only files that are asked for, and of them what comes before
        files = {self._ranges[number][0] for number in wanted}
        before = [n for n, r in enumerate(self._ranges) if r[0] in files and n < max(wanted)]
        quotes = Source([self._ranges[n] for n in before], count_quotes, "csv_file: quotes")
        counted = quotes.compute(runner, range(len(before)))
        counts = {n: counted[place] for place, n in enumerate(before)}
        inside: dict[int, bool] = {}
        total, last = 0, ""
        for number, (path, _, _) in enumerate(self._ranges):
            # each file begins outside of quotes
            total = total if path == last else 0
            inside[number] = total % 2 == 1
            total, last = total + counts.get(number, [0])[0], path
        return {number: (self._ranges[number], inside[number]) for number in wanted}

    def steps(self) -> list[Step]:
        return [self._read]


@dataclass(frozen=True)
class ReadRecords:
    """Reader of a range's records: with `header` dicts by the names in its file's first record, else lists."""

    encoding: str
    delimiter: str
    header: bool

    def __call__(self, _number: int, item: tuple[Range, bool]) -> Iterator[Any]:
        """Yield the records. Raises: ValueError naming a record with more or fewer fields than the header."""
        (path, start, end), inside = item
        with open(path, "rb") as file:
            top, names = self._header(file) if self.header else (-1, [])
            file.seek(max(0, start - 1))  # one byte before, to see whether a record begins at `start`
            begins = not start or (file.read(1) == b"\n" and not inside)
            position = start
            for number, record in enumerate(_records(file, start, inside)):
                if position >= end:
                    return
                if number or begins:  # else it is the end of a record of the range before
                    # the record that has the names may have more behind them, after a lone carriage return
                    for fields in self._parse(record)[position == top :]:
                        yield self._named(fields, names, path) if self.header else fields
                position += len(record)

    def _header(self, file: IO[bytes]) -> tuple[int, list[str]]:
        """Find the begin of the text between two line feeds that has the header, and the names; empty lines may come before
        it.
        """
        position = 0
        for record in _records(file, 0, False):
            found = self._parse(record)
            if found:
                return position, found[0]
            position += len(record)
        return -1, []

    def _parse(self, record: bytes) -> list[list[str]]:
        """Return the fields of a record; more than one where lone carriage returns end them, none for an empty line."""
        text = record.decode(self.encoding)
        # `newline=""` as `csv` demands: line feeds in quotes must stay
        return [fields for fields in csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter) if fields]

    @staticmethod
    def _named(fields: list[str], names: list[str], path: str) -> dict[str, str]:
        if len(fields) != len(names):
            raise ValueError(f"A record of {path} has {len(fields)} fields where its header has {len(names)}: {fields[:5]}.")
        return dict(zip(names, fields, strict=True))


def _records(file: IO[bytes], start: int, inside: bool) -> Iterator[bytes]:
    """Yield the text between line feeds outside of quotes, from `start` on; the first may be the end of a record."""
    file.seek(start)
    parts: list[bytes] = []
    while line := file.readline():
        parts.append(line)
        # doubled quotes change nothing: they come in pairs
        inside ^= line.count(b'"') % 2 == 1
        if not inside:
            yield b"".join(parts)
            parts = []
    if parts:  # the last record may lack its line feed, or its closing quote
        yield b"".join(parts)
