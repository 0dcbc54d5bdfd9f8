"""Tables that a worker writes: a row per block step (TR); per epoch (EV, and its seconds, TI); per account (AC); per batch
(BA), and for each codec in it (BY); per client of a round (CL), per client and epoch on samples that are held out (CT), per
round of clients with a clock (RO), and per client (PO); per codec (CO); per variable and epoch (WH); per process that trained
(ID); per block that was applied (LEDGER); per part of a training that went on (DE); per block of each worker,
where epochs end with a shorter batch (BL).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import methodcaller
from pathlib import Path
from typing import Final

from nn.metric import Metric

from ..engine.accounts import BATCH_COLUMNS, BATCH_LINE, BatchPackets, BatchRow, Entry, Times
from ..engine.batches import BLOCK_COLUMNS, Batches
from ..engine.progress import COLUMNS, NOBODY, History, Part, Position
from .block_history import LedgerTable
from .bounds import check_title
from .identity import IDENTITY_COLUMNS, own_identity
from .table import NODE, Earlier, Table
from .weight_hashes import HASH_COLUMNS, Array, hash_of

KINDS = ("TR", "EV", "TI", "AC", "BA", "BY", "CO", "WH", "ID")
RECORD_FILES: Final = ("RUN-job.toml", "RUN-start.model")
"""Settings of a run, and the model that it begins with: kept by its nodes for a command that fetches it from elsewhere."""
_STEP_COLUMNS: Final = ("Time", "Epochs", "Batches", "in", "Total", "Loss")
_COST_COLUMNS = ("Codec", "Variable", "Name", "Encode", "Merge")
TRAFFIC_COLUMNS: Final = (
    *("Codec", "Epochs", "Batches"),
    *("Packets sent", "Bytes sent", "Wire sent", "Packets received", "Bytes received", "Wire received"),
)
"""Columns of the table `BY`, the fields of `BatchPackets`."""
CLIENTS: Final = "CL"
"""Kind of the table of the clients that a worker has trained, which only jobs with clients have."""
CLIENT_COLUMNS: Final = (
    *("Seconds", "Epochs", "Batches", "Round", "Slot", "Client", "Samples", "Steps"),
    *("First loss", "Last loss", "Norm", "Bytes up", "Bytes down", "Begins", "Arrives", "Missed", "of"),
)
"""Its columns. `of` is how many clients the round has, by which a reader knows those whose rows were lost with a worker."""
CLIENT_TESTS: Final = "CT"
"""Kind of the table of clients on samples that are held out, of which each worker evaluates some."""
CLIENT_TEST_COLUMNS: Final = ("Epoch", "Client", "of", "Samples", "Loss")
"""Its columns before those of the metrics. `of` is how many clients all workers together evaluate, by which a reader of the
running job knows that it has all of them."""
ROUNDS: Final = "RO"
"""Kind of the table of the rounds of clients with a clock."""
POPULATION: Final = "PO"
"""Kind of the table of the samples of each client and class, which the first worker of a job with clients has."""
ROUND_COLUMNS: Final = ("Round", "Epochs", "Batches", "Begins", "Ends", "Asked", "Counted", "Lost", "Late")
DEALT: Final = "DE"
"""Kind of the table of the parts of a training that went on: how many block steps all workers have in a batch, from which batch
on."""
DEALT_COLUMNS: Final = ("Steps", "Epochs", "Batches", "Last", "Workers", "Owner", "Tables")
"""Its columns, the fields of `Part`, with epoch and batch from 1. `Owner` is empty where nothing was forgotten; `Tables` tells
how many tables `TR` of other numbers lie beside it, for a reader of the running job."""
BLOCKS: Final = "BL"
"""Kind of the table of the blocks of all workers, of a training with a shorter last batch in each epoch."""
_AT_THE_END = ("AC", "CO")
FIGURES: Final = ("TR", "EV", "BY", CLIENTS, CLIENT_TESTS)
"""Kinds of the tables of which figures of an epoch are made, which workers carry on for those that are no more."""
OF_ALL: Final = ("TR", "BY")
"""Kinds of the tables that workers without tables of their own share."""
_ACCOUNT_COLUMNS = ("Codec", "Variable", "Name", "Peer", "Direction", "Transport", "Packets", "Raw", "Wire", "Overhead")
#: A position behind all others.
_ALL: Final = (1 << 62, 0)
SAVE_SECONDS = 1.0
_MOST_WAITING: Final = 32  # block steps, and
_WAITING_BYTES: Final = 64 << 10  # of labels and predictions of one of them
_copy_of: Final[Callable[[Array], Array]] = methodcaller("copy")


def model_name(title: str, node_id: int) -> str:
    return f"MODEL-{title}-N({node_id}).model"


class TrainingReport:
    """Tables `TR-`, `EV-`, `TI-`, `AC-`, `BA-`, `BY-`, `CO-`, `WH-`, `ID-`, and if asked `LEDGER-<title>-N(i).csv`.

    Numbers read back equal; those of `TI`, `BA` and `CO` are in microseconds. Files of that name are replaced; with `earlier`
    they begin with the rows of the part that is over. Rows of block steps and batches go out once a second and with `save`, so
    that most steps cost no file access, and a worker that is killed takes no more than its last second with it; no file stays
    open. Rows that the disk refuses are kept until there is room; only `close` insists.
    """

    def __init__(
        self, directory: Path, title: str, node_id: int, metrics: Sequence[str], earlier: Earlier | None = None
    ) -> None:
        check_title(title)
        self._node, self._earlier = node_id, earlier
        self._ledger_path = directory / f"LEDGER-{title}-N({node_id}).csv"
        self._ledger: LedgerTable | None = None
        # a ledger of the last run of this title is none of this one, nor are its parts
        if earlier is None:
            self._ledger_path.unlink(missing_ok=True)
            (directory / f"{BLOCKS}-{title}-N({node_id}).csv").unlink(missing_ok=True)
        (directory / f"{DEALT}-{title}-N({node_id}).csv").unlink(missing_ok=True)
        self.paths = [directory / f"{kind}-{title}-N({node_id}).csv" for kind in KINDS]
        self.steps_path, self.evaluations_path, self.times_path, *_ = self.paths
        self._hashes_path = self.paths[KINDS.index("WH")]
        self._times = Times(0.0, 0.0, 0.0, 0.0, 0.0)
        self._rows: list[tuple[float | int, ...]] = []
        self._batch_rows: list[BatchRow] = []
        self._traffic: Callable[[tuple[int, int] | None], Iterable[BatchPackets]] = lambda _: ()
        self._saved = 0.0  # the time of the first row since the last `save`
        heads: list[tuple[str, ...]] = [
            (*_STEP_COLUMNS, *metrics),
            ("Loss", *metrics, "Epoch"),
            ("Epochs", "Total", *(name.capitalize() for name in Times._fields)),
            _ACCOUNT_COLUMNS,
            BATCH_COLUMNS,
            TRAFFIC_COLUMNS,
            _COST_COLUMNS,
            HASH_COLUMNS,
            IDENTITY_COLUMNS,
        ]
        tables = []
        self._evaluated = 0  # epochs
        for kind, path, head in zip(KINDS, self.paths, heads, strict=True):
            # accounts and costs are of this process alone, and written at its end
            rows = [] if earlier is None or kind in _AT_THE_END else earlier.rows(path, node_id, head)
            # at once, so that a process that dies before its first second is over has told it
            own = [(1 if earlier is None else earlier.position[0] + 1, own_identity())] if kind == "ID" else []
            tables.append(Table(path, [head, *rows, *own], lasting=bool(rows)))
            if kind == "EV":
                self._evaluated = len(rows)
        self._carried = 0
        if earlier is not None:
            further = {CLIENTS: CLIENT_COLUMNS, CLIENT_TESTS: (*CLIENT_TEST_COLUMNS, *metrics)}
            self._carry(directory, title, earlier, {**dict(zip(KINDS, heads, strict=True)), **further})
        self._steps, self._evaluations, self._epochs, self._packets, *others = tables
        self._batches, self._packets_of_batches, self._costs, self._hashes, _ = others
        self._every = tables

    def _carry(self, directory: Path, title: str, earlier: Earlier, heads: Mapping[str, Sequence[str]]) -> None:
        """Write the rows of workers that no longer have a table of their number here, each under the number that it had."""
        shared = {kind: earlier.shared(kind, heads[kind]) for kind in OF_ALL}
        for number in sorted({*earlier.numbers(), *(number for rows in shared.values() for number in rows)}):
            for kind in FIGURES if number != self._node else ():
                path = directory / f"{kind}-{title}-N({number}).csv"
                if rows := [*earlier.rows(path, number, heads[kind]), *shared.get(kind, {}).get(number, ())]:
                    Table(path, [heads[kind], *rows])
                    self.paths.append(path)
                    self._carried += kind == "TR"

    def went_on(self, parts: Iterable[Part]) -> None:
        """Write the table of the parts of a training that went on, the same on all workers but for the last column."""
        path = self.steps_path.with_name(DEALT + self.steps_path.name[2:])
        rows = [
            (part.steps, part.epoch + 1, part.batch + 1, part.last, part.workers, "" if part.owner == NOBODY else part.owner)
            for part in parts
        ]
        Table(path, [DEALT_COLUMNS, *((*row, self._carried) for row in rows)])
        self.paths.append(path)

    def blocks(self, batches: Batches, dealt: Iterable[Collection[int]], begin: Position) -> None:
        """Write the table of the blocks of all workers, by which a reader knows the samples of each block step.

        Args:
            batches: those of an epoch.
            dealt: the blocks of each worker.
            begin: where this part of the training begins.
        """
        path = self.steps_path.with_name(BLOCKS + self.steps_path.name[2:])
        earlier = [] if self._earlier is None else self._earlier.rows(path, self._node, BLOCK_COLUMNS)
        sizes = batches.samples, batches.block_size, batches.block_count
        place = begin.epoch + 1, begin.batch + 1
        rows = [[*map(str, (worker, *place, block, *sizes))] for worker, blocks in enumerate(dealt) for block in blocks]
        # a part that deals as the one before needs no rows of its own
        last = [row for row in earlier if row[1:3] == earlier[-1][1:3]]
        again = [[row[0], *row[3:]] for row in last] == [[row[0], *row[3:]] for row in rows]
        Table(path, [BLOCK_COLUMNS, *earlier, *([] if again else rows)])
        self.paths.append(path)

    def clients(self) -> Callable[[tuple[float | int, ...]], None]:
        """Begin the table of the clients that this worker trains, and return a function that adds one of a round: a row of
        CLIENT_COLUMNS, which goes out with the others.
        """
        return self._further(CLIENTS, CLIENT_COLUMNS)

    def client_tests(self, metrics: Sequence[str]) -> Callable[[tuple[float | int, ...]], None]:
        """Begin the table of clients on samples that are held out, and return a function that adds one of an epoch.

        Args:
            metrics: names of the metrics, of which a row has the values behind CLIENT_TEST_COLUMNS.
        """
        return self._further(CLIENT_TESTS, (*CLIENT_TEST_COLUMNS, *metrics))

    def rounds(self) -> Callable[[tuple[float | int, ...]], None]:
        """Begin the table of the rounds of clients with a clock, and return a function that adds a row of ROUND_COLUMNS."""
        return self._further(ROUNDS, ROUND_COLUMNS)

    def population(self, sizes: Sequence[int], classes: Array | None) -> None:
        """Write the table of the samples of each client.

        Args:
            sizes: samples of each client.
            classes: samples of each client and class, of shape (clients, classes), or None.
        """
        # a kind has two letters; the rest of the name tells title and node
        path = self.steps_path.with_name(POPULATION + self.steps_path.name[2:])
        counts = [[]] * len(sizes) if classes is None else classes.tolist()
        head = ("Client", "Samples", *(f"Class {number}" for number in range(0 if classes is None else classes.shape[1])))
        rows = [(client, int(size), *own) for client, (size, own) in enumerate(zip(sizes, counts, strict=True))]
        Table(path, [head, *rows]).save()
        self.paths.append(path)

    def _further(self, kind: str, columns: tuple[str, ...]) -> Callable[[tuple[float | int, ...]], None]:
        """Begin a table that not every job has, and return a function that adds a row."""
        path = self.steps_path.with_name(kind + self.steps_path.name[2:])
        rows = [] if self._earlier is None else self._earlier.rows(path, self._node, columns)
        table = Table(path, [columns, *rows], lasting=bool(rows))
        # written before that of the steps: a reader of the running job that finds steps finds its rows, too
        self._every = [table, *self._every]
        self.paths.append(path)
        return lambda row: table.add([row])

    def ledger(self, blocks: Iterable[int], begun: History) -> LedgerTable:
        """Begin the ledger of this worker, which computes `blocks` and goes on from `begun`; it is saved with the rest."""
        earlier = [] if self._earlier is None else self._earlier.rows(self._ledger_path, self._node, COLUMNS)
        self._ledger = LedgerTable(self._ledger_path, self._node, blocks, begun, earlier)
        self.paths.append(self._ledger_path)
        return self._ledger

    def step(self, row: tuple[float | int, ...]) -> None:
        """Add one block step: seconds since the first batch, epoch and batch (from 1), block steps per epoch of this worker,
        block steps so far, loss, metrics.
        """
        self._rows.append(row)
        # by the time of the rows: a step costs no look at a clock
        if row[0] - self._saved >= SAVE_SECONDS:
            self.save()
            self._saved = row[0]

    def batch(self, row: BatchRow) -> None:
        """Add one batch: the row of `BatchWatch`, which goes out with the others."""
        # a row costs less than a file access
        self._batch_rows.append(row)

    def traffic(self, counted: Callable[[tuple[int, int] | None], Iterable[BatchPackets]]) -> None:
        """Take the packets of batches from `Accounts.traffic`, those of batches with a row whenever the tables are saved."""
        self._traffic = counted

    def evaluation(self, epoch: int, values: Sequence[float]) -> None:
        """Add one epoch, from 1: loss and metrics on the test set."""
        self._evaluated += 1
        self._evaluations.add([(*values, epoch)])
        self._evaluations.save()

    def goes_on_after(self, epoch: int, values: Sequence[float], weights: Mapping[str, Array]) -> None:
        """Make the tables agree with the state after an epoch from which training goes on, which may be that of another worker.

        Args:
            epoch: number of completed epochs, above 0.
            values: evaluation of the state, for a worker that was stopped before it had evaluated the epoch itself; figures of
                its own stay, as those of the epoch that it has trained.
            weights: values of the state by variable. Their hashes replace those of the epoch: a table of weights tells what the
                workers of this run have, and a model that is saved here must be in it.
        """
        # only the one epoch that is lacking: others are rows of its own
        if self._evaluated == epoch - 1 and values:
            self.evaluation(epoch, values)
        known = [] if self._earlier is None else self._earlier.rows(self._hashes_path, self._node, HASH_COLUMNS)
        hashed = {int(row[0]) for row in known}
        rows = [[str(epoch), name, hash_of(value)] for name, value in weights.items()]
        # a worker without rows up to here begins its table with the next epoch
        if max(hashed, default=0) in (epoch - 1, epoch) and [row for row in known if int(row[0]) == epoch] != rows:
            self._hashes.begin_again([HASH_COLUMNS, *(row for row in known if int(row[0]) != epoch), *rows])

    def times(self, epoch: int, times: Times) -> None:
        """Add one epoch, from 1: the seconds that it took, by the kind of work. `times` are those until now, of all epochs
        together.
        """
        # times are told as sums, tables have seconds of the epoch
        passed = Times(*(now - before for now, before in zip(times, self._times, strict=True)))
        self._times = times
        self._epochs.add([(epoch, round(passed.total, 6), *(round(seconds, 6) for seconds in passed))])
        self._epochs.save()

    def weights(self, epoch: int, values: Mapping[str, Array]) -> None:
        """Add one epoch, from 1: the hash of each variable after it, by which the epoch can be verified."""
        # hashes of what is in memory, before anything is written
        self._hashes.add([(epoch, name, hash_of(value)) for name, value in values.items()])
        self._hashes.save()

    def accounts(self, entries: Iterable[Entry], names: Sequence[str]) -> None:
        """Add all packets, one row per `Entry`; sizes in bytes. `names` are those of the variables."""
        # packets of checkpoints have the variable -1
        rows = [(e.codec, e.variable, names[e.variable] if 0 <= e.variable < len(names) else "", *e[2:]) for e in entries]
        self._packets.add(rows)
        self._packets.save()

    def costs(self, costs: Iterable[tuple[str, int, float, float]], names: Sequence[str]) -> None:
        """Add the seconds of the codecs of the variables (`Accounts.costs`), one row each."""
        rows = [(c, v, names[v] if v < len(names) else "", round(e, 6), round(m, 6)) for c, v, e, m in costs]
        self._costs.add(rows)
        self._costs.save()

    def save(self) -> None:
        """Bring the rows of block steps and of the ledger into their files, and rows that the disk has refused before."""
        for table in self._tables():
            table.save()

    def close(self) -> None:
        """Bring everything into the files: the job is over.

        Raises: OSError when the disk refuses; it may be called again.
        """
        for table in self._tables(over=True):
            table.close()

    def _tables(self, over: bool = False) -> list[Table]:
        """Return all tables with their rows. Once the job is `over` the packets of its end are among them."""
        self._steps.add(self._rows)
        self._rows.clear()
        if over or self._batch_rows:
            # packets of batches that have a row: later ones may still come
            last = None if over else (int(self._batch_rows[-1][1]) - 1, int(self._batch_rows[-1][2]) - 1)
            rows = list(self._traffic(last))
            # they come in the order of batches
            if last is not None and not (rows and (rows[-1].epoch - 1, rows[-1].batch - 1) == last):
                # of zeros, so that a reader of the running job knows that these batches are whole
                rows.append(BatchPackets("", last[0] + 1, last[1] + 1, 0, 0, 0, 0, 0, 0))
            self._packets_of_batches.add(rows)
        # as text, which takes a fifth of the time of a general writer
        self._batches.add_text("".join([BATCH_LINE % row for row in self._batch_rows]))
        self._batch_rows.clear()
        return self._every if self._ledger is None else [*self._every, self._ledger.table()]


class ServerTraffic:
    """Table `BY-<title>-N(-2).csv` of a parameter server, which has no other table of batches.

    Args:
        directory: the folder of the node.
        title: that of the job.
        node_id: number of the server.
        earlier: the part that is over, of a job that goes on.
        before: folder of that part's table where the server does not know the position, for it remembers nothing; or None.
    """

    def __init__(
        self, directory: Path, title: str, node_id: int, earlier: Earlier | None = None, before: Path | None = None
    ) -> None:
        self.path = directory / f"BY-{title}-N({node_id}).csv"
        known = earlier or (None if before is None else Earlier(before, _ALL))
        self._rows = [] if known is None else known.rows(self.path, node_id, TRAFFIC_COLUMNS)
        self._is_open = earlier is None
        self._table = Table(self.path, [TRAFFIC_COLUMNS, *self._rows])

    def add(self, rows: Iterable[BatchPackets]) -> None:
        """Bring rows into the file, or keep them while the disk refuses them."""
        rows = list(rows)
        if self._is_open and self._rows and rows:
            # the first batch that is served again tells where training goes on
            self._is_open, first = False, min((row.epoch, row.batch) for row in rows)
            kept = [row for row in self._rows if (int(row[1]), int(row[2])) < first]
            self._table = Table(self.path, [TRAFFIC_COLUMNS, *kept])
        self._table.add(rows)
        self._table.save()


class CommonTables:
    """Tables `TR-<title>.csv` and `BY-<title>.csv` of the workers of a process that have no tables of their own.

    They have the columns of those, and the number of the worker in a last one, `Node`.

    Args:
        directory: the folder of the first worker.
        title: that of the job.
        metrics: names of the metrics.
        earlier: the part that is over, of a job that goes on.
    """

    def __init__(self, directory: Path, title: str, metrics: Sequence[str], earlier: Earlier | None = None) -> None:
        self._earlier = earlier
        self._heads = {"TR": (*_STEP_COLUMNS, *metrics, NODE), "BY": (*TRAFFIC_COLUMNS, NODE)}
        self.paths = {kind: directory / f"{kind}-{title}.csv" for kind in self._heads}
        self._rows: dict[str, list[tuple[object, ...]]] = {kind: [] for kind in self._heads}
        self._traffic: dict[int, Callable[[], Iterable[BatchPackets]]] = {}

    def steps(self, node: int) -> Callable[[tuple[float | int, ...]], None]:
        """Return a function that adds a block step of a worker, a row as `TrainingReport.step` takes it."""
        add = self._rows["TR"].append
        return lambda row: add((*row, node))

    def traffic(self, node: int, counted: Callable[[], Iterable[BatchPackets]]) -> None:
        """Take the packets of a worker from `Accounts.traffic` when the tables are written."""
        self._traffic[node] = counted

    def write(self) -> None:
        """Write the rows until now, in the order of batches and nodes.

        Raises: OSError when the disk refuses.
        """
        for node, counted in self._traffic.items():
            self._rows["BY"] += [(*row, node) for row in counted()]
        for kind, head in self._heads.items():
            if rows := self._rows[kind]:
                rows.sort(key=lambda row: (row[1], row[2], row[-1]))
                path = self.paths[kind]
                earlier = [] if self._earlier is None else self._earlier.rows(path, 0, head)
                Table(path, [head, *earlier, *rows]).close()


class StepRows:
    """Rows of block steps, with metrics that are computed for several at a time.

    While a model of some size is trained, each step finds the caches full of something else, and code that runs once in a step
    takes several times as long as code that runs again and again. So work that belongs to no one step waits for others of its
    kind, for a second at most while steps follow each other; behind a slow step and for large predictions nothing waits.

    Args:
        enter: takes a row.
        metrics: the metrics, each with the place of its output among those with a loss.
    """

    def __init__(self, enter: Callable[[tuple[float | int, ...]], None], metrics: Sequence[tuple[int, Metric]]) -> None:
        self._enter_row, self._metrics = enter, metrics
        self._waiting: list[tuple[tuple[float | int, ...], Sequence[Array], Sequence[Array]]] = []
        self._last = -math.inf  # second of the step before

    def add(
        self, head: tuple[float | int, ...], labels: Sequence[Array], predictions: Sequence[Array], *, kept: bool = False
    ) -> None:
        """Add one block step: its row up to the metrics, and the arrays of which these are computed, which may change
        afterwards unless they are `kept`.

        Args:
            head: the row up to the metrics.
            labels: those of each output with a loss.
            predictions: those of each of these outputs.
            kept: whether the arrays stay as they are, so that they need not be copied.
        """
        # a slow step gives its rows out at once: the next one may be long in coming
        slow, self._last = head[0] - self._last > SAVE_SECONDS / _MOST_WAITING, head[0]
        size = 0
        for each in (*labels, *predictions):
            size += each.nbytes
        if slow or size > _WAITING_BYTES:
            self.flush()
            self._enter(head, labels, predictions)
            return
        if not kept:  # copied: model and feeder use their arrays again
            # by `map`: a step of a small network takes as long as some calls
            labels, predictions = [*map(_copy_of, labels)], [*map(_copy_of, predictions)]
        self._waiting.append((head, labels, predictions))
        if len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Enter all rows that wait into the report."""
        waiting, self._waiting = self._waiting, []
        for row in waiting:
            self._enter(*row)

    def _enter(self, head: tuple[float | int, ...], labels: Sequence[Array], predictions: Sequence[Array]) -> None:
        results = []
        for place, metric in self._metrics:
            metric.reset()
            metric.update(labels[place], predictions[place])
            found = metric.result()
            # those of ours are floats: a block step makes no further call
            results.append(found if type(found) is float else metric._number(found))
        self._enter_row((*head, *results))
