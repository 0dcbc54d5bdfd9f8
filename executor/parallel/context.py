"""Where lazy collections begin."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from network.nodes import NodeAssignment
from rpc.files import write_result

from ..broadcast import Broadcast, Held, from_file, pack_broadcast
from ..cluster import ClusterExecutor
from ..options import WithOptions
from . import files, steps
from .checks import checked_count
from .collection import Collection
from .lineage import Source
from .runner import ExecutorRunner, workers_of
from .scattered import scattered_by

T = TypeVar("T")


class Context:
    """Makes collections whose tasks run on an executor.

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
        """The elements of `data` (of an array: its rows) in partitions of about the same size.

        Raises: ValueError for no partition.
        """
        count = self._count(partitions)
        items: Any = data if isinstance(data, (range, np.ndarray)) else list(data)
        borders = [len(items) * number // count for number in range(count + 1)]
        parts = [items[start:end] for start, end in itertools.pairwise(borders)]
        if isinstance(items, range):
            return Collection(Source([(p.start, p.stop, p.step) for p in parts], _ranged, "parallelize"), self._runner)
        return Collection(Source(parts, steps.elements, "parallelize"), self._runner)

    def text_file(
        self, path: str | Path | Sequence[str | Path], partitions: int | None = None, *, encoding: str = "utf-8"
    ) -> Collection[str]:
        """The lines of a file, of all files of a directory, or of several paths, each task reading a range of bytes.

        The files must be where the tasks run, too. Raises: FileNotFoundError; ValueError for an encoding that is no extension
        of ASCII.
        """
        files.check_encoding(encoding)
        ranges = files.ranges_of(files.files_of(path), self._count(partitions))
        return Collection(Source(ranges, files.ReadLines(encoding), "text_file"), self._runner)

    def csv_file(
        self,
        path: str | Path | Sequence[str | Path],
        partitions: int | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        encoding: str = "utf-8",
    ) -> Collection[Any]:
        """The records of CSV files as dicts of str by the names in the first record, without `header` as lists of str.

        Fields in quotes may hold line feeds; quotes stand at both ends of a field only, or doubled within (RFC 4180).
        Raises: as `text_file`; a task raises ValueError for a record that does not fit the header.
        """
        files.check_encoding(encoding)
        ranges = files.ranges_of(files.files_of(path), self._count(partitions))
        return Collection(files.CsvRanges(ranges, files.ReadRecords(encoding, delimiter, header)), self._runner)

    def broadcast(self, value: T) -> Broadcast[T]:
        """A value that tasks name, brought to each process once; to processes of a pool by a temporary file until `close`.

        Where the processes of a pool are on several machines, `$TMPDIR` must be a folder that they share, except on Dask.

        Raises: TypeError when it is no data, OSError when the disk is full.
        """
        if isinstance(self._executor, (ClusterExecutor, WithOptions)):
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
