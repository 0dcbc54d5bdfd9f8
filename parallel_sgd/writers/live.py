"""Live figures of a job for writers: every batch once, in order, as soon as all workers have written it down."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Final

from nn.model.history import VALIDATION
from rpc.submit import RunFolder
from rpc.support.logs import get_logger

from ..errors import JobFailed
from ..record.history import BYTES, COUNTS, JobHistory
from ..record.spared import spared
from ..record.tables import Columns, TableRows, node_of
from .console import JobConsole
from .interface import DONE, FAILED, Config, Traffic, Writer, Writers

__all__ = ["Followers", "LiveFigures", "following"]
_log = get_logger("parallel_sgd.writers")
Place = tuple[int, int]  # epoch and batch, from 1
_START: Place = (0, 0)
_MOST_ROW = 1 << 20  # bytes
_ORDER = {
    "TR": (["Time", "Epochs", "Batches", "in", "Total"], list[str]()),
    "EV": (list[str](), ["Epoch"]),
    "BY": (["Codec", "Epochs", "Batches"], list[str]()),
    "CL": (["Seconds", "Epochs", "Batches"], list[str]()),
    "RO": (["Round", "Epochs", "Batches"], list[str]()),
    "CT": (["Epoch", "Client", "of"], list[str]()),
    "DE": (["Steps", "Epochs", "Batches", "Last"], ["Tables"]),
    "BL": (["Worker", "Epochs", "Batches", "Block"], ["Blocks"]),
}
_EVALUATIONS: Final = "EV"
_TESTS: Final = "CT"
_PARTS: Final = "DE"
_BLOCKS: Final = "BL"
#: Kinds of the tables that have no batch, and the column of the epoch; all others have epoch and batch in their second and
#: third column.
_BY_EPOCH: Final = {_EVALUATIONS: -1, _TESTS: 0}


class _Lines:
    """Table that grows: its rows that make sense, behind those that are not needed any more."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._rest = b""
        self._table: TableRows | None = None
        self.rows: list[list[str]] = []

    def add(self, data: bytes) -> None:
        """Take the bytes that the table has gained. Raises: ValueError, csv.Error for bytes that are no such table."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        # a worker that never ends its row must not fill the memory
        if len(self._rest) > _MOST_ROW:
            raise ValueError(f"a row has more than {_MOST_ROW} bytes")
        rows = list(csv.reader(line.decode("utf-8", "replace") for line in lines))
        if rows and self._table is None:
            head = rows.pop(0)
            self._table = TableRows(self._kind, head)
            first, last = _ORDER[self._kind]
            if not (head[: len(first)] == first and head[len(head) - len(last) :] == last):
                raise ValueError(f"its columns are {','.join(head)[:80]}")
        if self._table is not None:
            self.rows += filter(self._table.fits, rows)

    @property
    def begun(self) -> bool:
        """Whether its head is there."""
        return self._table is not None

    @property
    def last(self) -> Place:
        """Last place of which it has a row."""
        return max(map(_place, self.rows), default=_START)

    def columns(self, rows: Iterable[list[str]]) -> Columns:
        """Return the columns of some of the rows."""
        if self._table is None:
            return {}
        table = TableRows(self._kind, self._table.head)
        table.add(list(rows))
        return table.columns


class _Worker:
    """Tables of a worker, as far as they are there: `TR`, `EV`, `BY`, of a training that went on `DE`, and of clients `CL`,
    `RO` and `CT`.

    Attribute: `others`, tables of workers that have another number now, or none, by that which they had; they lie beside its
    own, and have no further rows.
    """

    def __init__(self) -> None:
        self._tables = {kind: _Lines(kind) for kind in _ORDER}
        self.others: defaultdict[int, _Worker] = defaultdict(_Worker)

    def add(self, kind: str, at: int, data: bytes) -> None:
        # a later attempt begins the file anew
        if at == 0:
            self._tables[kind] = _Lines(kind)
        self._tables[kind].add(data)

    @property
    def tests(self) -> _Lines:
        """Table of the clients that it evaluates on held out samples."""
        return self._tables[_TESTS]

    def last_batch(self, epoch: int) -> int:
        """Return the last batch of an epoch of which the steps have a row."""
        return max((int(row[2]) for row in self._tables["TR"].rows if int(row[1]) == epoch), default=0)

    @property
    def next(self) -> Place:
        """Place before which all is complete: the rows of its batches, their packets, and with the last one of an epoch the
        evaluation.
        """
        steps, packets, visits, rounds, parts = (self._tables[kind] for kind in ("TR", "BY", "CL", "RO", _PARTS))
        # the table of the parts comes before all `TR`, and those of others may come behind the own one
        awaited = int(parts.rows[-1][-1]) if parts.rows else 0
        if not steps.rows or sum(other._tables["TR"].begun for other in self.others.values()) < awaited:
            return _START
        last, ends = _place(steps.rows[-1]), [self._trained(steps.rows)]
        # a table of packets has a row of the last batch whenever it is written, and none before the first time
        if packets.begun and packets.last < last:
            ends.append(packets.last)
        # a row for each of a step
        if visits.begun and len(visits.rows) < len(steps.rows):
            ends.append(visits.last)
        # a row when the batch is over
        if rounds.begun and rounds.last < last:
            epoch, batch = rounds.last
            ends.append((epoch, batch + 1))
        return min(ends)

    def _trained(self, steps: list[list[str]]) -> Place:
        epoch, batch, each, total = map(int, steps[-1][1:5])
        # `TR` is complete at its last step of an epoch; `EV` tells when it was evaluated
        tested = max((int(row[-1]) for row in self._tables["EV"].rows), default=0)
        if total == each * epoch and tested >= epoch:
            return epoch + 1, 0
        # steps behind the evaluation wait: with the last step of an epoch its figures come
        untested = [_place(row) for row in steps if int(row[1]) == tested + 1 < epoch]
        return untested[-1] if untested else (epoch, batch)

    def between(self, begin: Place, end: Place) -> dict[str, Columns]:
        """Return the columns of the tables from one place up to before another; rows before the first place are forgotten."""
        found = {}
        for kind, table in self._tables.items():
            if kind in (_PARTS, _BLOCKS):
                # of all epochs: each figure needs to know in which part its batches are
                found[kind] = table.columns(table.rows)
            elif kind in _BY_EPOCH:
                column = _BY_EPOCH[kind]
                # of evaluations all are kept, which tell how far the worker is
                if kind == _TESTS:
                    table.rows = [row for row in table.rows if begin[0] <= int(row[column])]
                found[kind] = table.columns(row for row in table.rows if begin[0] <= int(row[column]) < end[0])
            else:
                # forgotten once told, so that the memory of a long job stays small
                table.rows = [row for row in table.rows if _place(row) >= begin]
                found[kind] = table.columns(row for row in table.rows if _place(row) < end)
        return found


def _place(row: list[str]) -> Place:
    return int(row[1]), int(row[2])


class LiveFigures:
    """Reader of tables (`rpc.submit.TableReader`) that gives `log` the history of a job piece by piece.

    Args:
        begin: called when an attempt begins.
        log: called with each piece of the history.
    """

    def __init__(self, begin: Callable[[], None], log: Callable[[JobHistory], None]) -> None:
        self._begin, self._log = begin, log
        self._workers: dict[int, _Worker] = {}
        self._next = _START
        self._read: dict[Path, int] = {}

    def begin(self, workers: Iterable[int]) -> None:
        """Begin an attempt with these `workers`, of which no table is there yet."""
        self._workers = {worker: _Worker() for worker in workers}
        self._begin()

    def read(self, worker: int, files: Iterable[Path]) -> None:
        """Take the bytes that the files of a worker of this process have gained.

        Args:
            worker: id of the worker.
            files: paths of its tables.
        """
        # in the order of names, as agents read them: `BY` begins before `TR`, whose rows wait for it
        for file in sorted(files, key=lambda path: path.name):
            try:
                with file.open("rb") as opened:
                    at = opened.seek(self._read.get(file, 0))
                    data = opened.read()
            except FileNotFoundError:  # a full disk has not taken it yet, and training goes on
                continue
            self._read[file] = at + len(data)
            self.take(worker, file.name, at, data)

    def take(self, worker: int, name: str, at: int, data: bytes) -> None:
        """Take bytes of a table of a worker.

        Args:
            worker: id of the worker.
            name: name of the file.
            at: place of the bytes in the file; 0 begins the table anew.
            data: the bytes.
        """
        kind = name.partition("-")[0]
        if kind in _ORDER and worker in self._workers:
            try:
                number, tables = node_of(name), self._workers[worker]
                (tables if number in (worker, None) else tables.others[number]).add(kind, at, data)
            # its figures would be wrong or late for all; at the end they are read from the files
            except Exception as error:  # noqa: BLE001  a worker may send anything
                self._give_up(error)
            self._tell()

    def lose(self, worker: int) -> None:
        """Do without `worker` from here on."""
        self._workers.pop(worker, None)
        self._tell()

    def _tell(self) -> None:
        try:
            # the slowest worker decides: a figure is the mean over all
            end = self._tested(min((worker.next for worker in self._workers.values()), default=_START))
            if end > self._next:
                found: defaultdict[str, defaultdict[int, list[Columns]]] = defaultdict(lambda: defaultdict(list))
                for own, worker in self._workers.items():
                    for node, tables in ((own, worker), *worker.others.items()):
                        for kind, columns in tables.between(self._next, end).items():
                            found[kind][node].append(columns)
                self._log(JobHistory.of_kinds(found))
                self._next = end
        except Exception as error:  # noqa: BLE001  a worker may send anything
            self._give_up(error)

    def _tested(self, end: Place) -> Place:
        """Return `end`, or the last step of the first epoch before it of which clients with held out samples are still to come:
        with this step the figures of the epoch come.
        """
        tables = [worker.tests for worker in self._workers.values()]
        if not any(table.begun for table in tables):
            return end
        clients: defaultdict[int, set[str]] = defaultdict(set)  # with redundant blocks two workers evaluate the same ones
        whole = 0
        for row in (row for table in tables for row in table.rows):
            clients[int(row[0])].add(row[1])
            if len(clients[int(row[0])]) == int(row[2]):
                whole = max(whole, int(row[0]))
        # rows come in the order of epochs: those that an epoch before a whole one lacks never come, as of a job that goes on
        # without the tables of some workers
        epoch = max(self._next[0], whole + 1, 1)
        if epoch >= end[0]:
            return end
        return epoch, max((worker.last_batch(epoch) for worker in self._workers.values()), default=0)

    def _give_up(self, error: Exception) -> None:
        self._workers.clear()
        _log.warning("The figures of the job come when it has ended, as its tables cannot be read: %s", error)


class Followers:
    """Followers of a job: its console, and its writers, which are told in a thread of their own, so that none holds it up.

    Args:
        writers: they begin when the job does; None where there are none.
        config: makes the settings that they get at the begin.
        console: shows the epochs; None where nothing is shown.
    """

    def __init__(self, writers: Writers | None, config: Callable[[], Config], console: JobConsole | None = None) -> None:
        self._writers, self._config, self._console = writers, config, console
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._step = 0
        self._last = _START

    def tables(self, run: RunFolder, job: str) -> LiveFigures:
        """Make the reader for the tables of the job that is to begin.

        Args:
            run: folder of the run.
            job: id of the job.
        """

        def begin() -> None:
            if self._console is not None:
                self._console.begin(run.path, job)
            # once for a job, however often it starts again
            if self._writers is not None and self._thread is None:
                config = {**self._config(), "run": str(run.path.absolute()), "job": job}
                self._calls.put(partial(self._writers.start, config))
                # in the context of the job, which says how much is shown
                thread = Thread(target=copy_context().run, args=(self._run,), name="writers", daemon=True)
                thread.start()
                self._thread = thread

        return LiveFigures(begin, self._take)

    def _take(self, history: JobHistory) -> None:
        if self._console is not None:
            self._console.take(history)
        if self._thread is not None:
            self._log_steps(history)

    def done(self, read: Callable[[], JobHistory]) -> None:
        """Tell the figures that were not told yet of a job that has ended well, and wait for the writers; `read` reads its
        history.
        """
        if self._console is not None:
            with spared("The console of the job"):
                self._console.take_all(read())
        self._end(DONE, read)

    def failed(self, read: Callable[[], JobHistory] | None) -> None:
        """Tell the end of a job that has failed; nothing if it had not begun. `read` reads the history that came home, None
        where there is none.
        """
        self._end(FAILED, read)

    def _end(self, status: str, read: Callable[[], JobHistory] | None) -> None:
        if self._thread is None:
            return
        try:
            if read is not None:
                self._log_steps(read())
        except Exception as error:  # noqa: BLE001  the job itself went as it went
            _log.warning("The writers get no more figures, as the tables of the job cannot be read: %s", error)
        finally:
            self.close(status)

    def close(self, status: str) -> None:
        """Give the writers the end of the job, `status`, and wait for them, if they have begun and have not ended."""
        thread, self._thread = self._thread, None
        if thread is not None and self._writers is not None:
            self._calls.put(partial(self._writers.finish, status))
            self._calls.put(None)
            # waits without a limit: the last figures of a job count, and a writer may be slow
            thread.join()

    def _run(self) -> None:
        for call in iter(self._calls.get, None):
            call()

    def _log_steps(self, history: JobHistory) -> None:
        """Give the writers the steps of a history that were not told before; with the last one of an epoch its results on test
        data.
        """
        tests = {row["epoch"]: {name: row[name] for name in row if name.startswith(VALIDATION)} for row in history.rows}
        last = {row["epoch"]: row["batch"] for row in history.steps}
        traffic: defaultdict[Place, list[Traffic]] = defaultdict(list)
        for packets in history.traffic:
            # of a parameter server there are no rows until the end; its packets are those of the workers
            if int(packets["node"]) >= 0:
                traffic[int(packets["epoch"]), int(packets["batch"])].append(packets)
        for row in history.steps:
            place = int(row["epoch"]), int(row["batch"])
            # places only grow, so figures that a restart computes again are not told twice
            if place > self._last:
                self._last, self._step = place, self._step + 1
                values = {name: value for name, value in row.items() if name not in ("epoch", "batch", BYTES)}
                values |= {name: sum(int(packets[name]) for packets in traffic[place]) for name in COUNTS if history.counted}
                if last[place[0]] == place[1] and tests[place[0]]:
                    values |= {"epoch": place[0], **tests[place[0]]}
                if self._writers is not None:
                    self._calls.put(partial(self._writers.log, self._step, values))
                    self._calls.put(partial(self._writers.log_traffic, self._step, traffic[place]))


@contextmanager
def following(
    writers: Sequence[Writer], config: Callable[[], Config], console: JobConsole | None = None
) -> Iterator[Followers]:
    """Have writers and the console follow a job and end with the block; of a job that fails the writers get the figures that
    came home.

    Args:
        writers: the writers of the job.
        config: makes the settings that they get at the begin.
        console: shows the epochs; None where nothing is shown.
    """
    followers = Followers(Writers(writers) if writers else None, config, console)
    try:
        yield followers
    except BaseException as error:
        files = error.files if isinstance(error, JobFailed) else None
        followers.failed(None if files is None else lambda: JobHistory.read(files))
        raise
    finally:
        with spared("The end of the writers"):
            followers.close(DONE)  # the job has its result, but the last figures could not be told to the writers
