"""Reader of the tables of a run: row by row, each value of the type that its column has.

A table comes from a node, and a node may be broken or hostile. A row that is not whole, or has a number that is not finite or
out of its bounds, is left out, and a remark names the node, the column and the value; the other rows are read. A metric alone
may be NaN or infinite: of some samples it is not defined, such as the area under a curve of one class.
"""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Any, Final

from rpc.support.logs import SUBMIT_LOGGER, clean_text, get_logger

from ..engine.progress import NOBODY, Part
from .bounds import MOST_BLOCKS, MOST_EPOCHS
from .door import MOST_TABLE, Door, RecordError
from .files import IDENTITIES
from .identity import ATTEMPT_COLUMNS, IDENTITY_COLUMNS
from .table import NODE
from .weight_hashes import HASH_COLUMNS

__all__ = [
    "Column",
    "Columns",
    "TableRows",
    "by_node",
    "joined",
    "node_of",
    "read_columns",
    "read_hashes",
    "read_identities",
    "read_parts",
    "read_table",
    "warn",
]

Column = list[float | str]
Columns = dict[str, Column]
Convert = Callable[[Sequence[str]], Column]  # of the texts of a column
_FOLDER: Final = re.compile(r"Node-(-?[0-9]{1,9})-Retrieve")
_NODE: Final = re.compile(r"-N\((-?[0-9]{1,9})\)\.csv$")
_MOST_LINE: Final = 1 << 18  # bytes of a row
_MOST_COLUMNS: Final = 4096
_CHUNK: Final = 4096  # rows that are converted together
_MOST_COUNT: Final = float(1 << 53)  # up to which a float is exact
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_log = get_logger(SUBMIT_LOGGER)


class _Misfit(ValueError):
    """Error for a text that is no value of its column; the message is the expectation."""


def _number(texts: Sequence[str]) -> Column:
    values = _floats(texts, "a number")
    if not all(map(math.isfinite, values)):
        raise _Misfit("a finite number")
    return values


def _figure(texts: Sequence[str]) -> Column:
    """Convert a metric, which need not be defined for the samples of its row."""
    return _floats(texts, "a number")


def _whole(low: float, high: float) -> Convert:
    expected = f"a whole number from {low:.0f} to {high:.0f}"

    def convert(texts: Sequence[str]) -> Column:
        values = _floats(texts, expected)
        # a value that is not finite is no whole number either
        if not all(map(float.is_integer, values)) or (values and not (low <= min(values) and max(values) <= high)):
            raise _Misfit(expected)
        return values

    return convert


def _floats(texts: Sequence[str], expected: str) -> list[Any]:
    try:
        return list(map(float, texts))
    except ValueError:
        raise _Misfit(expected) from None


def _texts(texts: Sequence[str]) -> Column:
    return [*texts]


def _hash(texts: Sequence[str]) -> Column:
    if not all(map(_HASH.fullmatch, texts)):
        raise _Misfit("64 hexadecimal digits")
    return [*texts]


def _peer(texts: Sequence[str]) -> Column:
    return ["" if text == "" else _NODE_NUMBER([text])[0] for text in texts]  # of a batch without a wait


_NODE_NUMBER: Final = _whole(-MOST_BLOCKS, MOST_BLOCKS)
_COUNT: Final = _whole(0, _MOST_COUNT)
_EPOCH: Final = _whole(1, MOST_EPOCHS)
_BATCH: Final = _whole(1, _MOST_COUNT)
_PHASES: Final = ("Data", "Compute", "Encode", "Send", "Wait", "Merge", "Rule", "Put", "Sent", "Total")
_TRAFFIC: Final = ("Packets sent", "Bytes sent", "Wire sent", "Packets received", "Bytes received", "Wire received")
#: Columns that a table has at least, and the type of further ones, by kind.
_KINDS: Final[Mapping[str, tuple[Mapping[str, Convert], Convert]]] = {
    "TR": ({"Time": _number, "Epochs": _EPOCH, "Batches": _BATCH, "in": _COUNT, "Total": _COUNT}, _figure),
    "EV": ({"Epoch": _EPOCH}, _figure),
    "TI": ({"Epochs": _EPOCH}, _number),
    "AC": (
        {
            "Codec": _texts,
            "Variable": _whole(-1, _MOST_COUNT),  # -1: of a checkpoint, which belongs to none
            "Name": _texts,
            "Peer": _NODE_NUMBER,
            "Direction": _texts,
            "Transport": _texts,
            **dict.fromkeys(("Packets", "Raw", "Wire", "Overhead"), _COUNT),
        },
        _texts,
    ),
    "BA": ({"Time": _number, "Epochs": _EPOCH, "Batches": _BATCH, **dict.fromkeys(_PHASES, _number), "Peer": _peer}, _texts),
    "BY": ({"Codec": _texts, "Epochs": _EPOCH, "Batches": _BATCH, **dict.fromkeys(_TRAFFIC, _COUNT)}, _texts),
    "CL": (
        {
            "Round": _BATCH,
            "Epochs": _EPOCH,
            "Batches": _BATCH,
            **dict.fromkeys(("Slot", "Client", "Samples", "Steps", "Bytes up", "Bytes down", "Missed"), _COUNT),
        },
        _number,
    ),
    "DE": ({"Steps": _COUNT, "Epochs": _EPOCH, "Batches": _BATCH, "Last": _COUNT, "Tables": _COUNT}, _texts),
    "BL": (
        {
            "Worker": _whole(0, MOST_BLOCKS),
            "Epochs": _EPOCH,
            "Batches": _BATCH,
            "Block": _whole(0, MOST_BLOCKS),
            **dict.fromkeys(("Samples", "Block size", "Blocks"), _COUNT),
        },
        _texts,
    ),
    "CT": ({"Epoch": _EPOCH, "Client": _COUNT, "of": _COUNT, "Samples": _COUNT}, _figure),
    "PO": ({}, _COUNT),
    "RO": (
        {
            "Round": _BATCH,
            "Epochs": _EPOCH,
            "Batches": _BATCH,
            **dict.fromkeys(("Asked", "Counted", "Lost", "Late"), _COUNT),
        },
        _number,
    ),
    "CO": ({"Codec": _texts, "Variable": _COUNT, "Name": _texts, "Encode": _number, "Merge": _number}, _texts),
    "WH": ({"Epoch": _EPOCH, "Variable": _texts, "SHA256": _hash}, _texts),
    "ID": ({"Epoch": _EPOCH, "Computes with": _texts}, _texts),
    IDENTITIES: ({"Attempt": _EPOCH, "Node": _NODE_NUMBER, "Computes with": _texts}, _texts),
    "LEDGER": (
        {
            "epoch": _EPOCH,
            "batch": _BATCH,
            "block": _whole(0, MOST_BLOCKS),
            "node": _NODE_NUMBER,
            "attempt": _BATCH,
            "committed": _whole(0, 1),
        },
        _texts,
    ),
}
#: Types of columns that tables of earlier releases lack.
FURTHER: Final[Mapping[str, Mapping[str, Convert]]] = {"DE": {"Workers": _COUNT, "Owner": _peer}, "CL": {"of": _COUNT}}


@dataclass
class TableRows:
    """Converted rows of a table; rows that are left out are counted.

    Args:
        kind: the text with which the names of such tables begin.
        head: the names of its columns.

    Attributes:
        columns: the values by column.
        left_out: number of rows that are left out.
        why: the reason of the first one.

    Raises:
        RecordError: The head is not that of such a table.
    """

    kind: str
    head: Sequence[str]
    left_out: int = 0
    why: str = ""
    columns: Columns = field(init=False)
    _converts: list[Convert] = field(init=False, repr=False)
    _read: int = field(default=1, repr=False)

    def __post_init__(self) -> None:
        known, other = _KINDS[self.kind]
        lacking = [name for name in known if name not in self.head]
        # columns go by name: equal ones would hide each other
        if lacking or len(set(self.head)) != len(self.head) or len(self.head) > _MOST_COLUMNS:
            what = f"lacks the column {lacking[0]!r}" if lacking else "has a head with equal names, or too many"
            raise RecordError(f"is no table of this kind: it {what}")
        # a table of several workers has the first, too; a loss that is not finite ends a training
        known = {**known, NODE: _NODE_NUMBER, "Loss": _number, **FURTHER.get(self.kind, {})}
        self._converts = [known.get(name, other) for name in self.head]
        self.columns = {name: [] for name in self.head}

    def add(self, rows: Sequence[Sequence[str]]) -> None:
        """Take rows in, and leave out those that do not fit."""
        width = len(self.head)
        try:
            if not all(len(row) == width for row in rows):
                raise _Misfit
            # column by column, which is faster; row by row only where one does not fit
            # not strict: zip() of no rows has no columns at all
            made: list[Column] = [
                convert(texts) for convert, texts in zip(self._converts, zip(*rows, strict=True), strict=False)
            ]
        except _Misfit:
            # numbered as lines of the file, for the reason that is told
            kept = [values for number, row in enumerate(rows, self._read + 1) if (values := self._row(number, row)) is not None]
            made = [list(values) for values in zip(*kept, strict=True)]
        self._read += len(rows)
        for name, values in zip(self.head, made, strict=False):
            self.columns[name] += values

    def fits(self, row: Sequence[str]) -> bool:
        """Tell if a row fits; one that does not is counted."""
        self._read += 1
        return self._row(self._read, row) is not None

    def _row(self, number: int, row: Sequence[str]) -> list[float | str] | None:
        if len(row) != len(self.head):
            self.leave_out(f"row {number} has {len(row)} of {len(self.head)} fields")
            return None
        values: list[float | str] = []
        for name, convert, text in zip(self.head, self._converts, row, strict=True):
            try:
                values += convert([text])
            except _Misfit as error:
                self.leave_out(f"in row {number} {name[:40]!r} must be {error}, got {text[:40]!r}")
                return None
        return values

    def leave_out(self, why: str) -> None:
        """Count a row that is left out; of the first one `why` is kept, the reason."""
        self.left_out += 1
        # the first reason is enough: a table that is wrong is so in many rows
        self.why = self.why or why


def node_of(name: str) -> int | None:
    """Return the node of a table, by the name of the file; None for one that is of all."""
    match = _NODE.search(name)
    return int(match[1]) if match else None


def read_table(door: Door, name: str | Path) -> tuple[Columns, str]:
    """Return the columns of a table by name, numbers as floats, and a remark on the rows that were left out, "" if none were.

    Args:
        door: of the run, or of the folder of a node.
        name: of the file.

    Raises:
        RecordError: There is something else in its place: a link, a pipe, a giant. A table that is not there has no columns.
    """
    file = Path(name).name
    kind = file.partition("-")[0]
    node = node_of(file)
    whose = f"Node({node})" if node is not None else "The run"
    try:
        opened = door.open(name, MOST_TABLE)
    except FileNotFoundError:
        return {}, ""
    with opened:
        lines = _Lines(opened)
        reader = csv.reader(lines)
        table: TableRows | None = None
        try:
            head = next(reader, None)
            if head is None:
                return {}, ""  # it has not got its first line yet
            table = TableRows(kind, head)
            rows: list[list[str]] = []
            try:
                for row in lines.whole(reader):
                    rows.append(row)
                    if len(rows) == _CHUNK:
                        table.add(rows)
                        rows = []
            finally:  # rows before one that has no end are read
                table.add(rows)
        except OSError as error:
            raise door.error(name, f"cannot be read: {error.strerror}") from error
        except RecordError as error:
            return {}, clean_text(f"{whose}: {file} is left out: it {error}.")
        except csv.Error as error:
            if table is None:
                return {}, clean_text(f"{whose}: {file} is left out: its head cannot be read: {error}.")
            table.leave_out(f"what follows row {len(next(iter(table.columns.values()), [])) + 1} cannot be read: {error}")
    if not table.left_out:
        return table.columns, ""
    count = f"{table.left_out} row{'s' if table.left_out > 1 else ''}"
    return table.columns, clean_text(f"{whose}: {count} of {file} left out: {table.why}.")


def by_node(table: Mapping[str, Column]) -> dict[int, Columns]:
    """Return the parts of a table that several workers share, by node, without the column of the nodes."""
    places: dict[int, list[int]] = {}
    for place, node in enumerate(table.get(NODE, ())):
        places.setdefault(int(node), []).append(place)
    return {
        node: {name: [column[place] for place in own] for name, column in table.items() if name != NODE}
        for node, own in sorted(places.items())
    }


def read_columns(path: Path) -> Columns:
    """Return the columns of the table at `path`, in any folder, as `read_table`; none where it cannot be read."""
    try:
        return read_table(Door(path.parent), path)[0]
    except RecordError:
        return {}


def joined(tables: Sequence[Mapping[str, Column]]) -> Mapping[str, Column]:
    """Return the rows of tables of one kind and number: a worker that has another number by now has left its rows under the one
    that it had, in the files of another node.

    Args:
        tables: the tables; those without columns, and with other columns than the first of the rest, are left out, and rows
            that several have are there once.
    """
    first, *others = [table for table in tables if table] or [{}]
    if not others:
        return first
    found = _counts(first)
    for table in others:
        if [*table] == [*first]:
            found |= _counts(table)
    told = (tuple(math.nan if value is None else value for value in row) for row in found.elements())
    rows = sorted(told, key=lambda row: _moment(dict(zip(first, row, strict=True))))
    return {name: list(column) for name, column in zip(first, zip(*rows, strict=True), strict=False)} or first


def _counts(table: Mapping[str, Column]) -> Counter[tuple[float | str | None, ...]]:
    """Count the equal rows of a table; None stands for NaN, of which no two are equal."""
    rows = zip(*table.values(), strict=False)
    return Counter(tuple(None if isinstance(each, float) and math.isnan(each) else each for each in row) for row in rows)


def _moment(row: Mapping[str, float | str]) -> tuple[float | str, ...]:
    return tuple(row[name] for name in ("Epochs", "Epoch", "Batches", "Total") if name in row)


def read_hashes(run: Path) -> dict[int, dict[str, dict[int, str]]]:
    """Return the hashes in the tables of a run's workers, by epoch, variable and node; rows that are not whole are left out,
    and a warning names the worker.

    Raises: RecordError for an entry that is no table of a run, such as a link in its place.
    """
    found: dict[int, dict[str, dict[int, str]]] = {}
    door = Door(run)
    for folder in door.names(folders=True):
        match = _FOLDER.fullmatch(folder)
        for name in door.names(folder) if match else ():
            if match and name.startswith("WH-") and name.endswith(".csv"):
                columns, remark = read_table(door, f"{folder}/{name}")
                warn([remark])
                for epoch, variable, value in zip(*(columns.get(each, []) for each in HASH_COLUMNS), strict=True):
                    found.setdefault(int(epoch), {}).setdefault(str(variable), {})[int(match[1])] = str(value)
    return found


def read_identities(run: Path) -> dict[int, list[str]]:
    """Return the identities that the nodes of a run told its submitter, and those in their tables `ID-<title>-N(i).csv`, which
    are all that a run has that was fetched.

    Raises: RecordError for an entry that is no table of a run, such as a link in its place.
    """
    found: dict[int, list[str]] = {}
    for node, _, text in [*told_at_the_start(run), *told_by_tables(run)]:
        found.setdefault(node, []).append(text)
    return {node: list(dict.fromkeys(texts)) for node, texts in sorted(found.items())}


def read_parts(run: Path) -> dict[int, list[Part]]:
    """Return the parts of a training that went on, by worker, as its table `DE-<title>-N(i).csv` tells them. Tables of earlier
    releases do not tell workers and owners: there are 0 workers.

    Raises: RecordError for an entry that is no table of a run, such as a link in its place.
    """
    found: dict[int, list[Part]] = {}
    door = Door(run)
    for folder in door.names(folders=True):
        match = _FOLDER.fullmatch(folder)
        for name in door.names(folder) if match else ():
            if match and name.startswith("DE-") and node_of(name) == int(match[1]):
                columns, remark = read_table(door, f"{folder}/{name}")
                warn([remark])
                rows = len(columns.get("Steps", ()))
                workers, owners = columns.get("Workers", [0.0] * rows), columns.get("Owner", [""] * rows)
                numbers = (columns.get(each, ()) for each in ("Steps", "Epochs", "Batches", "Last"))
                found[int(match[1])] = [
                    Part(int(steps), int(epoch) - 1, int(batch) - 1, int(last), int(count), NOBODY if of == "" else int(of))
                    for steps, epoch, batch, last, count, of in zip(*numbers, workers, owners, strict=True)
                ]
    return dict(sorted(found.items()))


def told_at_the_start(run: Path) -> Iterator[tuple[int, int, str]]:
    """Yield the node, the attempt and the identity of each row of `identities.csv`, of which a run that was fetched has none.

    Raises: RecordError for an entry that is no table of a run, such as a link in its place.
    """
    columns, remark = read_table(Door(run), IDENTITIES)
    warn([remark])
    for attempt, node, text in zip(*(columns.get(name, []) for name in ATTEMPT_COLUMNS), strict=True):
        yield int(node), int(attempt), str(text)


def told_by_tables(run: Path) -> Iterator[tuple[int, int, str]]:
    """Yield the node, the first epoch and the identity of each row of the tables `ID-<title>-N(i).csv` of a run.

    Raises: RecordError for an entry that is no table of a run, such as a link in its place.
    """
    door = Door(run)
    for folder in door.names(folders=True):
        for name in door.names(folder):
            node = node_of(name)
            if name.startswith("ID-") and node is not None:
                columns, remark = read_table(door, f"{folder}/{name}")
                warn([remark])
                for epoch, text in zip(*(columns.get(each, []) for each in IDENTITY_COLUMNS), strict=True):
                    yield node, int(epoch), str(text)


def warn(remarks: Iterable[str]) -> None:
    """Warn of the rows that were left out of tables; each of the `remarks` once."""
    for remark in dict.fromkeys(filter(None, remarks)):
        _log.warning("%s", remark)


class _Lines:
    """Whole lines of a file, as text; bytes behind the last one are half a row.

    Raises: csv.Error for a row without an end.
    """

    def __init__(self, file: BufferedReader) -> None:
        self._file, self._room = file, _MOST_LINE

    def __iter__(self) -> Iterator[str]:
        while (line := self._file.readline(_MOST_LINE + 1)).endswith(b"\n"):
            self._room -= len(line)
            if self._room < 0:
                raise csv.Error(f"a row must have at most {_MOST_LINE} bytes")
            yield line.decode("utf-8", "replace")
        if len(line) > _MOST_LINE:
            raise csv.Error(f"a line must have at most {_MOST_LINE} bytes")

    def whole(self, rows: Iterable[list[str]]) -> Iterator[list[str]]:
        """Yield the rows that a reader makes of the lines; each may have so many lines."""
        for row in rows:
            self._room = _MOST_LINE
            yield row
