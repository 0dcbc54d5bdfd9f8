"""History of a job: the figures that its workers have written per step and epoch, and the mean over them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, Literal, TypeAlias, get_args

from nn import arguments
from nn.model.history import VALIDATION, History

from .door import Door, RecordError
from .tables import Column, read_table, warn

__all__ = ["JobHistory"]
_POSITION: Final = ("Time", "Epochs", "Batches", "in", "Total")
EPOCH, STEP = "epoch", "step"
Per: TypeAlias = Literal["epoch", "step"]
Figures = dict[str, float]
Table = Mapping[str, Column]


class JobHistory(History):
    """History with one row per epoch, as `Model.fit` gives it: `epoch` (from 1), `Loss` and the metrics in training, `val_...`
    on test data.

    Each is the mean over the workers; in training over all block steps.

    Args:
        steps: rows per step.
        epochs: rows per epoch.
        workers: for each worker the history of it alone.

    Attributes: `rows`; `steps`, also one row per batch, with `batch` (from 1) and `time`, the seconds since the first batch at
    which the last worker had computed it; `workers`, for each worker the same of it alone.

    >>> history = job.parallel(nodes, epoch=3).history  # doctest: +SKIP
    >>> history["val_accuracy"], history.workers[1]["Loss"]  # doctest: +SKIP
    >>> history.to_frame("step")  # doctest: +SKIP
    """

    def __init__(
        self, steps: Sequence[Figures] = (), epochs: Sequence[Figures] = (), workers: Mapping[int, JobHistory] | None = None
    ) -> None:
        super().__init__()
        self.steps = list(steps)
        self.rows = list(epochs)
        self.workers: dict[int, JobHistory] = dict(workers or {})

    @classmethod
    def read(cls, files: Mapping[int, Iterable[Path]]) -> JobHistory:
        """Read the history in the tables that the workers of a job have left; one that is missing or cut off adds the rows that
        it has.

        Rows that are not whole or not finite are left out, with a warning that names the worker.

        Args:
            files: by node, the files that it has left.
        """
        found: dict[int, tuple[Table, Table]] = {}
        for node, paths in sorted(files.items()):
            tables: dict[str, Table] = {}
            for path in (path for path in paths if path.name.startswith(("TR-", "EV-"))):
                try:
                    tables[path.name.partition("-")[0]], remark = read_table(Door(path.parent), path)
                except RecordError as error:
                    remark = f"Node({node}): {error}."
                warn([remark])
            if "TR" in tables:
                found[node] = tables["TR"], tables.get("EV", {})
        return cls.of(found)

    @classmethod
    def of(cls, tables: Mapping[int, tuple[Table, Table]]) -> JobHistory:
        """Make the history in the columns of the `tables` `TR` and `EV` of each worker."""
        workers = {node: cls(*_rows([trained], [tested])) for node, (trained, tested) in tables.items()}
        every = list(tables.values())
        return cls(*_rows([trained for trained, _ in every], [tested for _, tested in every]), workers)

    def to_frame(self, per: Per = "epoch") -> Any:
        """Return a pandas DataFrame with one row per `"epoch"` or per `"step"`, and these as its index.

        With several workers it has a level of columns above: `mean` and the numbers of the workers.
        """
        import pandas  # noqa: PLC0415 - needed here only

        keys = [EPOCH, "batch"][: 1 + (self._per(per) == STEP)]
        frames = {name: pandas.DataFrame(history._table(per)) for name, history in self._named().items()}
        # a worker that was lost early has no rows
        indexed = {name: frame.set_index(keys) for name, frame in frames.items() if len(frame)}
        if not indexed:
            return pandas.DataFrame(columns=keys).set_index(keys)
        return pandas.concat(indexed, axis=1) if self.workers else indexed["mean"]

    def plot(self, path: str | os.PathLike[str] | None = None, per: Per = "epoch") -> None:
        """Draw the history as `nn.model.history.History.plot` does, per `"epoch"` or per `"step"`; the lines of the workers are
        thin.
        """
        self._axis = "batch" if self._per(per) == STEP else EPOCH
        super().plot(path)

    def _lines(self, name: str) -> Iterator[tuple[str, list[float], list[float], float]]:
        """Yield the lines of a panel: label, places, values, width."""
        each = max((row["batch"] for row in self.steps), default=0)
        for who, history in self._named().items():
            rows = history._table(STEP if self._axis == "batch" else EPOCH)
            if self._axis == "batch":  # a worker that was killed has not told its last ones
                rows = [{**row, EPOCH: (row[EPOCH] - 1) * each + row["batch"]} for row in rows]
            for key, label in ((name, "training"), (VALIDATION + name, "test")):
                points = [(row[EPOCH], row[key]) for row in rows if key in row]
                if points and (who == "mean" or key == name):
                    places, values = zip(*points, strict=True)
                    yield label if who == "mean" else f"worker {who}", list(places), list(values), 1.6 if who == "mean" else 0.5

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


def _rows(trained: Sequence[Table], tested: Sequence[Table]) -> tuple[list[Figures], list[Figures]]:
    """Return the rows per step and per epoch of some workers together."""
    steps: defaultdict[tuple[int, int], list[Figures]] = defaultdict(list)
    for table in trained:
        names = [name for name in table if name not in _POSITION]
        for place in range(min(map(len, table.values()), default=0)):
            row = {name: float(table[name][place]) for name in ("Time", *names)}
            steps[int(table["Epochs"][place]), int(table["Batches"][place])].append(row)
    by_step = [
        {EPOCH: epoch, "batch": batch, "time": max(row["Time"] for row in rows), **_mean(rows)}
        for (epoch, batch), rows in sorted(steps.items())
    ]
    epochs: defaultdict[int, list[Figures]] = defaultdict(list)
    for (epoch, _), rows in steps.items():
        epochs[epoch] += rows
    tests: defaultdict[int, list[Figures]] = defaultdict(list)
    for table in tested:
        for place, number in enumerate(table.get("Epoch", ())):
            tests[int(number)].append({name: float(table[name][place]) for name in table if name != "Epoch"})
    by_epoch = [
        {EPOCH: epoch, **_mean(epochs[epoch]), **{VALIDATION + name: value for name, value in _mean(tests[epoch]).items()}}
        for epoch in sorted(epochs.keys() | tests.keys())
    ]
    return by_step, by_epoch


def _mean(rows: Sequence[Figures]) -> Figures:
    if len(rows) == 1:  # mostly, and a page that goes on asks often
        return {name: value for name, value in rows[0].items() if name != "Time"}
    names = dict.fromkeys(name for row in rows for name in row if name != "Time")  # a worker may lack some
    return {name: fmean([row[name] for row in rows if name in row]) for name in names}
