"""History of a job: the figures that its workers have written per step and epoch, and the mean over them."""

from __future__ import annotations

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, Final, Literal, TypeAlias, get_args

from nn import arguments
from nn.model.history import VALIDATION, History

from .block_samples import BlockSamples
from .door import Door, RecordError
from .over_clients import columns_over_clients, is_over_clients, lines_over_clients
from .tables import Column, Columns, by_node, joined, node_of, read_table, warn

__all__ = ["JobHistory"]
_POSITION: Final = ("Time", "Epochs", "Batches", "in", "Total")
EPOCH, STEP, TRAFFIC, CLIENTS, ROUNDS, CLIENT_TESTS = "epoch", "step", "traffic", "clients", "rounds", "client_tests"
BYTES, SECONDS, CLIENT_BYTES = "bytes", "seconds", "client_bytes"
COUNTED: Final = frozenset({BYTES, SECONDS, CLIENT_BYTES})
"""Columns of rows that are counts of an epoch or a batch, no figures of the model."""
HOSTING: Final = "ClientMemory"
"""Codec of packets between hosts of clients, which are no part of a scheme: figures of bytes over time leave them out."""
_AXES: Final = {BYTES: "bytes sent", SECONDS: SECONDS}
Per: TypeAlias = Literal["epoch", "step"]
Axis: TypeAlias = Literal["epoch", "bytes", "seconds"]
Figures = dict[str, float]
Table = Mapping[str, Column]
_KEYS: Final = ("node", "codec", "epoch", "batch")
COUNTS: Final = {
    "packets_sent": "Packets sent",
    "bytes_sent": "Bytes sent",
    "wire_sent": "Wire sent",
    "packets_received": "Packets received",
    "bytes_received": "Bytes received",
    "wire_received": "Wire received",
}
"""Packets and bytes of a row of `JobHistory.traffic`: the column of the table `BY` for each."""
_OF_CLIENTS: Final = {
    "round": "Round",
    "slot": "Slot",
    "epoch": "Epochs",
    "batch": "Batches",
    "client": "Client",
    "samples": "Samples",
    "steps": "Steps",
    "first_loss": "First loss",
    "last_loss": "Last loss",
    "norm": "Norm",
    "seconds": "Seconds",
    "bytes_up": "Bytes up",
    "bytes_down": "Bytes down",
    "begins": "Begins",
    "arrives": "Arrives",
    "missed": "Missed",
}
_OF_ROUNDS: Final = {
    "round": "Round",
    "epoch": "Epochs",
    "batch": "Batches",
    "begins": "Begins",
    "ends": "Ends",
    "asked": "Asked",
    "counted": "Counted",
    "lost": "Lost",
    "late": "Late",
}
_OF_TESTS: Final = {"epoch": "Epoch", "client": "Client", "of": "of", "samples": "Samples"}
KINDS: Final = ("TR", "EV", "BY", "CL", "RO", "CT", "DE", "BL")
"""Kinds of the tables of which a history is made."""
_TENTH: Final = 0.1
#: Figures of clients and rounds that are whole numbers.
_COUNTS: Final = frozenset((_OF_CLIENTS | _OF_ROUNDS | _OF_TESTS).keys()) - {
    *("first_loss", "last_loss", "norm", "seconds", "begins", "arrives", "ends")
}


class JobHistory(History):
    """History with one row per epoch, as `Model.fit` gives it: `epoch` (from 1), `Loss` and the metrics in training, `val_...`
    on test data.

    Each is the mean over the workers; in training over all block steps, each of which counts by its samples. A metric is the
    mean of those that it is defined for, such as the area under the curve of samples of both classes, and NaN where there are
    none. But `bytes` are those that all nodes together have sent in the epoch, the contents of packets as in the column `Raw`
    of the accounts; of a worker's own history those that it has sent. Of a job with clients `client_bytes` are those that
    clients on machines of their own would have sent and got, and, where the clients have a clock, `seconds` those of the
    rounds. With `Clients(test=)` `val_clients_<name>` is the mean of a result over all clients, each on the samples that it
    holds out, `val_clients_<name>_worst` that over the tenth for which it is worst, and `val_clients_<name>_spread` the
    standard deviation over the clients.

    Args:
        steps: rows per step.
        epochs: rows per epoch.
        workers: for each worker the history of it alone.
        traffic: a row per node, codec and batch.
        clients: a row per round and slot, of a job with clients.
        rounds: a row per round of clients with a clock.
        client_tests: a row per epoch and client with held out samples.

    Attributes: `rows`; `steps`, also one row per batch, with `batch` (from 1) and `time`, the seconds since the first batch at
    which the last worker had computed it; `workers`, for each worker the same of it alone; `traffic`, a row per node (-2 is the
    parameter server), codec and batch with its packets, their bytes, and the bytes on the wire, sent and received; `clients`,
    a row per round (from 1) and slot with the client, its node, samples, steps, first and last loss, the norm of its change,
    its seconds, the bytes of its change and of the model that it got, the seconds of the clients' clock at which it `begins`
    and its change `arrives`, and the rounds that it has `missed` meanwhile; `rounds`, a row per round of clients with a clock:
    when it `begins` and `ends`, and how many clients were `asked`, `counted`, `lost` (dropped out or left) and `late`;
    `client_tests`, a row per epoch and client, one `of` so many, with `samples` that are held out, with loss and metrics on
    these; `told`, how many block steps have a row, by epoch and batch; `defined`, of a figure that is undefined in some of
    these rows, in how many it is defined, or how many samples these have where `samples` tells them, by epoch and batch;
    `samples`, of a training with a shorter last batch in each epoch, those of each batch, and those of its rows together;
    `untold`, the number of block steps that a killed worker had not written yet, or has taken with it, by epoch. The figures of
    such an epoch in training are made of the rows of the other workers there; `parts`, the block steps of the batches of a
    training that went on. A worker that has another number since then has the rows of before under the number that it had.

    >>> history = job.parallel(nodes, epoch=3).history  # doctest: +SKIP
    >>> history["val_accuracy"], history.workers[1]["Loss"]  # doctest: +SKIP
    >>> history.to_frame("step")  # doctest: +SKIP
    """

    def __init__(
        self,
        steps: Sequence[Figures] = (),
        epochs: Sequence[Figures] = (),
        workers: Mapping[int, JobHistory] | None = None,
        traffic: Sequence[dict[str, int | str]] = (),
        clients: Sequence[Figures] = (),
        rounds: Sequence[Figures] = (),
        client_tests: Sequence[Figures] = (),
    ) -> None:
        super().__init__()
        self.client_tests = list(client_tests)
        self.rounds = list(rounds)
        self.clients = list(clients)
        self.traffic = list(traffic)
        self.steps = list(steps)
        self.rows = list(epochs)
        self.told: Counter[tuple[int, int]] = Counter()
        self.defined: dict[tuple[int, int], dict[str, int]] = {}
        self.samples: dict[tuple[int, int], tuple[int, int]] = {}
        self.untold: dict[int, int] = {}
        self.parts = Parts()
        # made when they are asked for: a dict would make all
        self.workers: Mapping[int, JobHistory] = workers if isinstance(workers, _Workers) else dict(workers or {})

    @classmethod
    def read(cls, files: Mapping[int, Iterable[Path]]) -> JobHistory:
        """Read the history in the tables that the workers of a job have left; one that is missing or cut off adds the rows that
        it has.

        Rows that are not whole, or have a loss that is not finite, are left out, with a warning that names the worker.

        Args:
            files: by node, the files that it has left.
        """
        # by kind and number; `BY` tables are of servers, too
        found: defaultdict[str, defaultdict[int, list[Table]]] = defaultdict(lambda: defaultdict(list))
        for node, paths in sorted(files.items()):
            for path in (path for path in paths if path.name.startswith(tuple(f"{kind}-" for kind in KINDS))):
                kind, table = path.name.partition("-")[0], Columns()
                try:
                    table, remark = read_table(Door(path.parent), path)
                except RecordError as error:
                    remark = f"Node({node}): {error}."
                warn([remark])
                if (number := node_of(path.name)) is not None:
                    found[kind][number].append(table)
                else:
                    for other, rows in by_node(table).items():
                        found[kind][other].append(rows)
        return cls.of_kinds(found)

    @classmethod
    def of_kinds(cls, found: Mapping[str, Mapping[int, Sequence[Table]]]) -> JobHistory:
        """Make the history in tables.

        Args:
            found: by kind and number of the worker, its tables; there are several where workers have changed their numbers.
        """
        every = {kind: {node: joined(tables) for node, tables in sorted(found.get(kind, {}).items())} for kind in KINDS}
        trained = {node: (table, every["EV"].get(node, {})) for node, table in every["TR"].items()}
        return cls.of(trained, *(every[kind] for kind in KINDS[2:]))

    @classmethod
    def of(
        cls,
        tables: Mapping[int, tuple[Table, Table]],
        sent: Mapping[int, Table] | None = None,
        visits: Mapping[int, Table] | None = None,
        rounds: Mapping[int, Table] | None = None,
        tests: Mapping[int, Table] | None = None,
        parts: Mapping[int, Table] | None = None,
        blocks: Mapping[int, Table] | None = None,
    ) -> JobHistory:
        """Make the history in the columns of tables.

        Args:
            tables: `TR` and `EV` of each worker.
            sent: `BY` of each node.
            visits: `CL` of each worker.
            rounds: `RO` of each worker, in which all have the same rows.
            tests: `CT` of each worker.
            parts: `DE` of each worker, of which all have the same rows from when they began.
            blocks: `BL` of each worker, of which all have the same rows, too.
        """
        dealt, samples = Parts.of((parts or {}).values()), BlockSamples((blocks or {}).values())
        traffic = _traffic(sent or {})
        steps, epochs, told, untold, defined, sizes = _rows(tables, samples, bool(visits), dealt)
        whole = cls(
            steps,
            epochs,
            _Workers(tables, traffic, sent or {}, samples),
            traffic,
            _placed(visits or {}, _OF_CLIENTS, ("round", "slot")),
            _placed(rounds or {}, _OF_ROUNDS, ("round",)),
            _placed(tests or {}, _columns_of_tests(tests or {}), ("epoch", "client")),
        )
        whole.told, whole.untold, whole.parts, whole.defined, whole.samples = told, untold, dealt, defined, sizes
        whole._add_bytes(bool(sent))
        whole._add_clients()
        whole.untold |= _untold_clients(visits or {})
        whole._add_tests()
        return whole

    @property
    def _figured(self) -> list[dict[str, int | str]]:
        return [row for row in self.traffic if row["codec"] != HOSTING]

    def _add_bytes(self, counted: bool) -> None:
        """Put the bytes sent into the rows of steps and epochs, if they were `counted`. Packets between two epochs belong to
        the first one.
        """
        self.counted = counted
        by_step: Counter[tuple[int, int]] = Counter()
        by_epoch: Counter[int] = Counter()
        # sums of what each node tells it has sent: each packet once, by its sender
        for row in self._figured:
            by_step[int(row[EPOCH]), int(row["batch"])] += int(row["bytes_sent"])
            by_epoch[int(row[EPOCH])] += int(row["bytes_sent"])
        if counted:
            for step in self.steps:
                step[BYTES] = by_step[int(step[EPOCH]), int(step["batch"])]
            for epoch in self.rows:
                epoch[BYTES] = by_epoch[int(epoch[EPOCH])]

    def _add_clients(self) -> None:
        """Put the bytes of clients and the seconds of their rounds into the rows of steps and epochs, where there are any."""
        found: defaultdict[str, Counter[tuple[float, ...]]] = defaultdict(Counter)
        for row in self.clients:
            for at in ((row[EPOCH],), (row[EPOCH], row["batch"])):
                found[CLIENT_BYTES][at] += row["bytes_up"] + row["bytes_down"]  # type: ignore[assignment]
        for row in self.rounds:
            for at in ((row[EPOCH],), (row[EPOCH], row["batch"])):
                found[SECONDS][at] += row["ends"] - row["begins"]  # type: ignore[assignment]
        for name, sums in found.items():
            for row in self.steps:
                row[name] = float(sums[row[EPOCH], row["batch"]])
            for row in self.rows:
                row[name] = float(sums[(row[EPOCH],)])

    def _add_tests(self) -> None:
        """Put mean, worst tenth and spread over the clients of what they have on held out samples into the rows of epochs."""
        by_epoch: defaultdict[float, list[Figures]] = defaultdict(list)
        for row in self.client_tests:
            by_epoch[row[EPOCH]].append(row)
        names = [name for row in self.client_tests[:1] for name in row if name not in (*_OF_TESTS, "node")]
        best_first = {name: _wants_large(name) for name in names}
        for row in self.rows:
            rows = by_epoch.get(row[EPOCH], [])
            # a mean over some of them would be that of others: a job that goes on, or was killed, may lack a worker's
            for name in names if rows and len(rows) == rows[0]["of"] else ():
                # a metric may not be defined for the samples of a client
                values = sorted(each[name] for each in rows if math.isfinite(each[name]))
                if not values:
                    continue
                mean, worst, spread = columns_over_clients(name)
                row[mean] = fmean(values)
                if (large := best_first[name]) is not None:
                    tenth = math.ceil(_TENTH * len(values))
                    row[worst] = fmean(values[:tenth] if large else values[-tenth:])
                row[spread] = pstdev(values)

    def to_frame(self, per: Per | Literal["traffic", "clients", "rounds", "client_tests"] = "epoch") -> Any:
        """Return a pandas DataFrame with one row per `"epoch"` or per `"step"`, and these as its index.

        With several workers it has a level of columns above: `mean` and the numbers of the workers. Per `"traffic"` it has the
        rows of that, by node, codec, epoch and batch; per `"clients"` those of the clients, by round and slot; per
        `"rounds"` those of the rounds of clients with a clock; per `"client_tests"` those of clients on held out samples, by
        epoch and client.
        """
        import pandas  # noqa: PLC0415 - needed here only

        if per == TRAFFIC:
            return pandas.DataFrame(self.traffic, columns=[*_KEYS, *COUNTS]).set_index(list(_KEYS))
        if per == CLIENTS:
            return pandas.DataFrame(self.clients, columns=[*_OF_CLIENTS, "node"]).set_index(["round", "slot"])
        if per == ROUNDS:
            return pandas.DataFrame(self.rounds, columns=list(_OF_ROUNDS)).set_index("round")
        if per == CLIENT_TESTS:
            columns = [*(self.client_tests[0] if self.client_tests else _OF_TESTS)]
            return pandas.DataFrame(self.client_tests, columns=columns).set_index([EPOCH, "client"])
        # keys of the index: an epoch, or epoch and batch
        keys = [EPOCH, "batch"][: 1 + (self._per(per) == STEP)]
        frames = {name: pandas.DataFrame(history._table(per)) for name, history in self._named().items()}
        # a worker that was lost early has no rows
        indexed = {name: frame.set_index(keys) for name, frame in frames.items() if len(frame)}
        if not indexed:
            return pandas.DataFrame(columns=keys).set_index(keys)
        return pandas.concat(indexed, axis=1) if self.workers else indexed["mean"]

    def plot(self, path: str | os.PathLike[str] | None = None, per: Per = "epoch", x: Axis = "epoch") -> None:
        """Draw the history as `nn.model.history.History.plot` does; the lines of the workers are thin.

        Args:
            path: the file, or None for the cell of a notebook.
            per: a point per `"epoch"` or per `"step"`.
            x: `"epoch"`; `"bytes"`, which all nodes together had sent until then, of a job with clients those that its clients
                had sent and got; or `"seconds"` from the first batch until the last worker had computed the batch, of a
                simulated job virtual ones, of clients with a clock those of their clock.

        Raises: ValueError for bytes of a run that has not kept them; else as `History.plot`.
        """
        arguments.one_of("JobHistory.plot()", "x", x, get_args(Axis))
        if x == BYTES and not self.tells_bytes:
            raise ValueError("JobHistory.plot() 'x' must be 'epoch' for a run without tables of bytes (BY-...csv), got 'bytes'")
        self._per_row = STEP if self._per(per) == STEP else EPOCH  # for `_lines`, which `History.plot` calls
        self._until = {BYTES: self.bytes_until, SECONDS: self.seconds_until}[x]() if x != EPOCH else None
        of_clients = {BYTES: self.clients and "bytes of clients", SECONDS: self.rounds and "seconds of the clients' clock"}
        self._axis = of_clients.get(x) or _AXES.get(x) or ("batch" if self._per_row == STEP else EPOCH)
        super().plot(path)

    def _lines(self, name: str) -> Iterator[tuple[str, list[float], list[float], float]]:
        """Yield the lines of a panel: label, places, values, width."""
        each = max((row["batch"] for row in self.steps), default=0)
        for who, history in self._named().items():
            rows = history._table(self._per_row)
            for key, label in ((name, "training"), (VALIDATION + name, "test"), *lines_over_clients(name)):
                points = []
                for row in (row for row in rows if key in row):
                    # ends of epochs stand behind all their batches
                    at = row[EPOCH], row.get("batch", math.inf)
                    # a worker that was killed has not told its last batches
                    place = (row[EPOCH] - 1) * each + row["batch"] if self._per_row == STEP else row[EPOCH]
                    points.append((place if self._until is None else self._until.get(at, 0.0), row[key]))
                # test lines of single workers would hide each other where all evaluate the same model
                if points and (who == "mean" or key == name):
                    places, values = zip(*points, strict=True)
                    yield label if who == "mean" else f"worker {who}", list(places), list(values), 1.6 if who == "mean" else 0.5

    @property
    def tells_bytes(self) -> bool:
        """Whether tables tell the bytes of nodes or of clients."""
        return self.counted or bool(self.clients)

    def bytes_until(self) -> dict[tuple[float, float], float]:
        """Return the bytes that all nodes together had sent at the end of each batch and, with an infinite one, each epoch; of
        a job with clients those that its clients had sent and got.
        """
        ends = {(row[EPOCH], row["batch"]) for row in self.steps} | {(row[EPOCH], math.inf) for row in self.rows}
        sent: Counter[tuple[float, float]] = Counter()
        for visit in self.clients:
            sent[visit[EPOCH], visit["batch"]] += int(visit["bytes_up"] + visit["bytes_down"])
        for row in () if self.clients else self._figured:
            sent[float(row[EPOCH]), float(row["batch"])] += int(row["bytes_sent"])
        total, found = 0, {}
        # one pass over all moments in order: bytes grow and never shrink
        for at in sorted(ends | sent.keys()):
            total += sent[at]
            found[at] = float(total)
        return found

    def seconds_until(self) -> dict[tuple[float, float], float]:
        """Return the seconds since the first batch at which the last worker had computed each batch and, with an infinite one,
        each epoch; of clients with a clock those of their clock.
        """
        if self.rounds:
            ends = {(row[EPOCH], row["batch"]): row["ends"] for row in self.rounds}
            # in order, so the last of an epoch stays
            return ends | {(row[EPOCH], math.inf): row["ends"] for row in self.rounds}
        found = {(row[EPOCH], row["batch"]): row["time"] for row in self.steps}
        # the batches are in order, so the last of an epoch stays
        return found | {(row[EPOCH], math.inf): row["time"] for row in self.steps}

    @property
    def _apart(self) -> frozenset[str]:
        """Columns without a panel of their own: those that are no figures, and those over clients, which lie in that of the
        figure.
        """
        return COUNTED | {EPOCH} | {name for name in self.columns() if is_over_clients(name)}

    def _repr_html_(self) -> str:
        """Return the table for a notebook, and which epochs lack steps."""
        lost = "".join(f"<br>epoch {epoch}: {lost_steps(number)}" for epoch, number in sorted(self.untold.items()))
        return super()._repr_html_() + lost.removeprefix("<br>")

    counted = False
    _until: dict[tuple[float, float], float] | None = None
    _per_row = EPOCH

    def _per(self, per: str) -> Per:
        found: Per = arguments.one_of("JobHistory", "per", per, get_args(Per))
        return found

    def _table(self, per: str) -> list[Figures]:
        return self.steps if per == STEP else self.rows

    def _named(self) -> dict[str | int, JobHistory]:
        named: dict[str | int, JobHistory] = {"mean": self}
        for node, history in self.workers.items():
            named[node] = history
        return named

    def __repr__(self) -> str:
        last = f", last {self.rows[-1]}" if self.rows else ""
        return f"JobHistory({len(self.workers) or 1} workers, {len(self.steps)} steps, {len(self.rows)} epochs{last})"


def _columns_of_tests(tables: Mapping[int, Table]) -> dict[str, str]:
    # loss and metrics behind those that all have
    return _OF_TESTS | {name: name for table in tables.values() for name in table if name not in _OF_TESTS.values()}


def _wants_large(name: str) -> bool | None:
    """Tell whether large values of a result are good ones; None where its name does not tell."""
    from nn.callback.monitor import Monitor  # noqa: PLC0415 - for clients with held out samples

    try:
        return Monitor(JobHistory, name).mode == "max"
    except ValueError:
        return None


class _Workers(Mapping[int, JobHistory]):
    """Histories of the workers, each made when it is first asked for: of a thousand most never are.

    Args:
        tables: `TR` and `EV` of each worker.
        traffic: that of all nodes.
        counted: nodes whose bytes were counted.
        samples: those of block steps.
    """

    def __init__(
        self,
        tables: Mapping[int, tuple[Table, Table]],
        traffic: Sequence[dict[str, int | str]],
        counted: Iterable[int],
        samples: BlockSamples,
    ) -> None:
        self._tables, self._traffic, self._counted, self._samples = tables, traffic, frozenset(counted), samples
        self._made: dict[int, JobHistory] = {}

    def __getitem__(self, node: int) -> JobHistory:
        if node not in self._made:
            steps, epochs, *_ = _rows({node: self._tables[node]}, self._samples)
            made = JobHistory(steps, epochs, None, self._of_nodes.get(node, ()))
            made._add_bytes(node in self._counted)
            self._made[node] = made
        return self._made[node]

    @cached_property
    def _of_nodes(self) -> dict[int, list[dict[str, int | str]]]:
        found: dict[int, list[dict[str, int | str]]] = {}
        for row in self._traffic:
            found.setdefault(int(row["node"]), []).append(row)
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _traffic(tables: Mapping[int, Table]) -> list[dict[str, int | str]]:
    """Return the packets of each node, codec and batch: a row each, of which a table may have parts."""
    found: dict[tuple[int, str, int, int], list[int]] = {}
    for node, table in tables.items():
        places = zip(*(table.get(name, ()) for name in ("Codec", "Epochs", "Batches", *COUNTS.values())), strict=False)
        for codec, epoch, batch, *counts in places:
            # a row of zeros says that all before it are written
            if not any(counts):
                continue
            sums = found.setdefault((node, str(codec), int(epoch), int(batch)), [0] * len(COUNTS))
            # a table may have a batch in several rows: packets that came after the row was written
            sums[:] = (before + int(count) for before, count in zip(sums, counts, strict=True))
    return [
        {**dict(zip(_KEYS, key, strict=True)), **dict(zip(COUNTS, counts, strict=True))}
        for key, counts in sorted(found.items())
    ]


def _untold_clients(visits: Mapping[int, Table]) -> dict[int, int]:
    """Return by epoch how many clients of its rounds have no row, because a killed worker has taken it along."""
    told: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
    every: dict[tuple[int, int], int] = {}
    for table in visits.values():
        # an older table has no numbers of clients
        places = zip(*(map(int, table.get(name, ())) for name in ("Epochs", "Batches", "Slot", "of")), strict=False)
        for epoch, batch, slot, count in places:
            told[epoch, batch].add(slot)
            every[epoch, batch] = count
    found: Counter[int] = Counter()
    for (epoch, batch), count in every.items():
        found[epoch] += max(0, count - len(told[epoch, batch]))
    return {epoch: count for epoch, count in found.items() if count}


def _placed(tables: Mapping[int, Table], columns: Mapping[str, str], keys: Sequence[str]) -> list[Figures]:
    """Return the rows of clients or rounds in order; of equal ones of several workers that of the first, with its node.

    Args:
        tables: those of the workers.
        columns: name of the column of each figure.
        keys: figures by which rows are told apart.
    """
    found: dict[tuple[float, ...], Figures] = {}
    for node, table in sorted(tables.items()):
        # column by column, since there are a row and its figures for every client of every round
        values = [map(int if name in _COUNTS else float, table.get(column, ())) for name, column in columns.items()]
        # of a worker's own clients
        whose = {} if keys == ("round",) else {"node": node}
        for row in zip(*values, strict=False):
            figures: Figures = dict(zip(columns, row, strict=True)) | whose
            found.setdefault(tuple([figures[key] for key in keys]), figures)
    return [row for _, row in sorted(found.items())]


class Parts:
    """Parts of a training that went on, of which each may deal its batches to other workers.

    Args:
        rows: for each part the epoch and batch with which it begins, the block steps of all workers in a batch, and those in
            the last batch of an epoch.
    """

    def __init__(self, rows: Iterable[tuple[int, int, int, int]] = ()) -> None:
        self._rows = sorted(set(rows))

    @classmethod
    def of(cls, tables: Iterable[Table]) -> Parts:
        """Make the parts in tables `DE`; of a worker that came later there are only the last ones."""
        names = ("Epochs", "Batches", "Steps", "Last")
        return cls(
            (int(epoch), int(batch), int(steps), int(last))
            for table in tables
            for epoch, batch, steps, last in zip(*(table.get(name, ()) for name in names), strict=False)
        )

    def __bool__(self) -> bool:
        return bool(self._rows)

    def steps(self, epoch: int, batches: Sequence[int]) -> list[tuple[int, int]]:
        """Return for each batch of an epoch its block steps, and those that it would have as a whole batch.

        Args:
            epoch: number of the epoch, from 1.
            batches: numbers of its batches, from 1, of which the last is that of the epoch.
        """
        found = []
        for batch in batches:
            known = [row for row in self._rows if row[:2] <= (epoch, batch)]
            _, _, steps, last = known[-1] if known else self._rows[0]
            found.append((last if batch == batches[-1] else steps, steps))
        return found


class DealtSteps:
    """Block steps that the batches of a training are to have, epoch after epoch.

    Of a training without parts these are the most that any epoch until then has: a worker without which the others went on has
    none in any later one, and a record of an earlier release does not tell of workers that were more from some epoch on. Only
    the last batch, the tail, may have fewer than the others.
    """

    def __init__(self) -> None:
        self._most: dict[int, int] = {}

    def of(self, epoch: int, told: Sequence[tuple[int, int]], parts: Parts) -> list[tuple[int, int]]:
        """Return for each batch of an epoch the block steps that are to have a row, and those of a whole batch.

        Args:
            epoch: number of the epoch, of which those before were asked for earlier.
            told: each batch, in order, and its block steps that have a row.
            parts: those of a training that went on.
        """
        if parts:
            return parts.steps(epoch, [batch for batch, _ in told])
        for batch, count in told:
            self._most[batch] = max(count, self._most.get(batch, 0))
        last, most = max(self._most), max(self._most.values())
        return [(self._most[last] if batch == last else most, most) for batch, _ in told]


def over_epoch(
    batches: Sequence[tuple[int, Figures]],
    steps: Sequence[tuple[int, int]] = (),
    defined: Sequence[Mapping[str, int]] = (),
    of_clients: bool = False,
    samples: Sequence[tuple[int, int] | None] = (),
) -> tuple[Figures, int]:
    """Return the mean over an epoch, and how many block steps have no row.

    A batch counts by its samples, or where these are not told by its blocks, also where a killed worker took rows with it:
    without them a mean over rows would lean towards the end of the epoch. Only the last batch, the tail, may have fewer blocks
    than the others. Where the workers have changed
    within the epoch, a batch has as many samples as before, dealt to another number of blocks, and counts as much. A figure
    that is undefined in some rows of a batch, such as `auc` of a block of one class, counts there by the others: its mean over
    the epoch is that over the rows that have it.

    Args:
        batches: for each batch in order the number of its rows, and their mean.
        steps: for each batch its block steps, and those of a whole one, see `Parts`; by default the most that any has, and
            those that are there in the last.
        defined: for each batch, of a figure that some of its rows lack, how many have it.
        of_clients: whether rows are of clients, of which a batch may have any number, and each counts alike.
        samples: for each batch its samples and those of its rows together; `defined` is in samples then.
    """
    counts = [count for count, _ in batches]
    most = max(counts)
    steps = steps or [(most, most)] * (len(counts) - 1) + [(counts[-1], most)]
    # in steps of the last part: whole numbers, so that a mean over equal parts is that over rows
    unit = steps[-1][1]
    weights, rows = counts if of_clients else [unit] * (len(counts) - 1) + [steps[-1][0]], counts
    if (sizes := [each for each in samples if each is not None]) and len(sizes) == len(counts):
        weights, rows = [whole for whole, _ in sizes], [own for _, own in sizes]
    partly = defined or [{}] * len(counts)
    names = dict.fromkeys(name for _, row in batches for name in row)
    found = {}
    for name in names:
        known = [
            # whole numbers stay so, and with them the bits of figures that all rows have
            (weight * own[name] / count if name in own else weight, row[name])
            for weight, own, count, (_, row) in zip(weights, partly, rows, batches, strict=True)
            if math.isfinite(row.get(name, math.nan))
        ]
        found[name] = sum(weight * value for weight, value in known) / sum(weight for weight, _ in known) if known else math.nan
    if of_clients:
        return found, 0
    return found, sum(max(0, own - count) for (own, _), count in zip(steps, counts, strict=True))


def lost_steps(number: int) -> str:
    """Return in words that so many steps of an epoch in training have no figures."""
    return f"figures of {number} training step{'s' * (number != 1)} lost with a worker"


def _rows(
    tables: Mapping[int, tuple[Table, Table]], samples: BlockSamples, of_clients: bool = False, parts: Parts | None = None
) -> tuple[
    list[Figures],
    list[Figures],
    Counter[tuple[int, int]],
    dict[int, int],
    dict[tuple[int, int], dict[str, int]],
    dict[tuple[int, int], tuple[int, int]],
]:
    """Return the rows per step and per epoch of some workers together, and as `JobHistory` has them `told`, `untold`, `defined`
    and `samples`.

    Args:
        tables: `TR` and `EV` of each worker.
        samples: those of block steps.
        of_clients: whether steps are of clients, of which a batch may have any number.
        parts: those of a training that went on.
    """
    steps: defaultdict[tuple[int, int], list[Figures]] = defaultdict(list)
    counts: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for node, (table, _) in tables.items():
        names = [name for name in table if name not in _POSITION]
        # to the shortest column: a table that is cut off ends within a row
        length = min(map(len, table.values()), default=0)
        places = [(int(table["Epochs"][place]), int(table["Batches"][place])) for place in range(length)]
        sizes = samples.of_steps(node, places) if samples else [1] * length
        for number, (place, size) in enumerate(zip(places, sizes, strict=True)):
            steps[place].append({name: float(table[name][number]) for name in ("Time", *names)})
            counts[place].append(size)
    by_step = [
        # the batch is over when the last worker has computed it
        {EPOCH: epoch, "batch": batch, "time": max(row["Time"] for row in rows), **_mean(rows, counts[epoch, batch])}
        for (epoch, batch), rows in sorted(steps.items())
    ]
    told = Counter({place: len(rows) for place, rows in steps.items()})
    defined = {place: lacking for place, rows in steps.items() if (lacking := _lacking(rows, counts[place]))}
    of_rows = {place: (samples.of_batch(place), sum(own)) for place, own in counts.items()} if samples else {}
    epochs: defaultdict[int, list[Figures]] = defaultdict(list)
    weights: defaultdict[int, list[int]] = defaultdict(list)
    for place, rows in steps.items():
        epochs[place[0]] += rows
        weights[place[0]] += counts[place]
    tests: defaultdict[int, list[Figures]] = defaultdict(list)
    for _, table in tables.values():
        for number, epoch in enumerate(table.get("Epoch", ())):
            tests[int(epoch)].append({name: float(table[name][number]) for name in table if name != "Epoch"})
    means = {epoch: _mean(rows, weights[epoch]) for epoch, rows in epochs.items()}
    untold: dict[int, int] = {}
    if (len(tables) > 1 or parts) and not of_clients:
        found: defaultdict[int, list[int]] = defaultdict(list)
        for epoch, batch in sorted(steps):
            found[epoch].append(batch)
        every = DealtSteps()
        for epoch in sorted(epochs.keys() & tests.keys()):  # an epoch that goes on lacks the steps of those that are slower
            own = [(epoch, batch) for batch in found[epoch]]
            dealt = every.of(epoch, [(place[1], told[place]) for place in own], parts or Parts())
            # nearly no epoch lacks any, and the mean over its rows has the bits that it always had
            even = len({each for _, each in dealt}) == 1
            if not even or [each for each, _ in dealt] != [told[place] for place in own]:
                whole = [(told[place], _mean(steps[place], counts[place])) for place in own]
                partly = [defined.get(place, {}) for place in own]
                means[epoch], lost = over_epoch(whole, dealt, partly, samples=[of_rows.get(place) for place in own])
                untold |= {epoch: lost} if lost else {}
    by_epoch = [
        {EPOCH: epoch, **means.get(epoch, {}), **{VALIDATION + name: value for name, value in _mean(tests[epoch]).items()}}
        for epoch in sorted(epochs.keys() | tests.keys())
    ]
    return by_step, by_epoch, told, untold, defined, of_rows


def _lacking(rows: Sequence[Figures], weights: Sequence[int]) -> dict[str, int]:
    """Return of each figure that some of the rows lack, or have as no finite number, the sum of the weights of those that have
    it.
    """
    names = dict.fromkeys(name for row in rows for name in row if name != "Time")
    having = {
        name: [weight for row, weight in zip(rows, weights, strict=True) if math.isfinite(row.get(name, math.nan))]
        for name in names
    }
    return {name: sum(known) for name, known in having.items() if len(known) < len(rows)}


def _mean(rows: Sequence[Figures], weights: Sequence[int] = ()) -> Figures:
    if len(rows) == 1:  # mostly, and a page that goes on asks often
        return {name: value for name, value in rows[0].items() if name != "Time"}
    names = dict.fromkeys(name for row in rows for name in row if name != "Time")  # a worker may lack some
    # without any, or with equal ones, the bits are those of a plain mean
    if len(set(weights)) < 2:
        return {name: mean_of([row[name] for row in rows if name in row]) for name in names}
    return {
        name: _weighted([(row[name], weight) for row, weight in zip(rows, weights, strict=True) if name in row])
        for name in names
    }


def _weighted(values: Sequence[tuple[float, int]]) -> float:
    """Return the mean of those values that are finite, each by its weight; NaN of none."""
    known = [(value, weight) for value, weight in values if math.isfinite(value)]
    total = sum(weight for _, weight in known)
    # shares first: numbers near the largest one have no larger sum
    return math.fsum(value * (weight / total) for value, weight in known) if known else math.nan


def mean_of(values: Sequence[float]) -> float:
    """Return the mean of those values that are finite, such as a metric where it is defined; NaN of none."""
    try:
        mean = fmean(values)
    except (OverflowError, ValueError):  # of numbers near the largest one, or of both infinities
        mean = math.nan
    if not math.isfinite(mean):
        finite = [value for value in values if math.isfinite(value)]
        mean = sum(value / len(finite) for value in finite) if finite else math.nan
    return mean
