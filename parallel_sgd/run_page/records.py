"""Records of a run, read from its folder: a file that is missing or cut off is left out, so that a failed job has a page,
too.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from parallel_sgd.record.door import CutOff, Door, RecordError
from parallel_sgd.record.forms import Misfit, anything, map_of, record, text, whole
from parallel_sgd.record.machine import MACHINE, WORKERS_HERE, WORKERS_IN_TURN
from parallel_sgd.record.outcome import OUTCOME, read_outcome
from parallel_sgd.record.settings import settings_of_run
from parallel_sgd.record.tables import Column, Columns, by_node, node_of, read_table, warn
from rpc.submit import Run

if TYPE_CHECKING:
    from parallel_sgd.record.history import JobHistory

_TABLE = re.compile(r"(TR|EV|TI|AC|BA|BL|BY|CL|CO|CT|DE|PO|RO)-.*-N\((-?[0-9]+)\)\.csv")
#: Tables that workers without tables of their own share; those files name no node.
_OF_ALL: Final = ("TR-", "BY-")
_FOLDER = re.compile(r"Node-(-?[0-9]+)-Retrieve")
_WORK = re.compile(r".*\.(?:ps(\d+)|(\d+))")
_OUT: Final = "out"
#: Begin of the name of a folder in which local workers write while they run: `agent-<k>/<job>.<node>/out`.
_AGENT: Final = "agent-"
_RECORD: Final = "job.json"  # of a run, and of an agent, beside `out`
_LOG_LINES: Final = 60
_MOST_LOG_BYTES: Final = 1 << 16
Key = tuple[int, int]  # epoch and batch, from 1


class Batch(NamedTuple):
    """Times of one worker in one batch, in seconds, as table `BA` has them.

    Args:
        epoch: number of the epoch, from 1.
        batch: number of the batch, from 1.
        begin: moment of its begin, by a clock that all workers share.
        data: seconds for the samples of the own blocks.
        compute: forward and backward.
        encode: codecs with the own blocks.
        send: handing packets to the system.
        wait: for packets of others.
        merge: codecs with received packets.
        rule: applying the results.
        put: from the begin until all own blocks were with their codecs.
        sent: from the begin until the last packets were handed to the system.
        total: from the begin to the end.
        peer: the node with the packet that ended the longest wait, None without a wait.
    """

    epoch: int
    batch: int
    begin: float
    data: float
    compute: float
    encode: float
    send: float
    wait: float
    merge: float
    rule: float
    put: float
    sent: float
    total: float
    peer: int | None

    @property
    def key(self) -> Key:
        return self.epoch, self.batch

    @property
    def phases(self) -> tuple[float, ...]:
        """Seconds that add up to `total`, in the order of the fields."""
        return self.data, self.compute, self.encode, self.send, self.wait, self.merge, self.rule

    @property
    def end(self) -> float:
        return self.begin + self.total


Runs = Mapping[int, Sequence[Batch]]
TableReader = Callable[[Door, str], Columns]
"""Reads a table of a run by its name."""
_NAMES: Final = ("Epochs", "Batches", "Time", *(name.capitalize() for name in Batch._fields[3:]))


def batches_of(table: Mapping[str, Column]) -> list[Batch]:
    """Return the rows of a table `BA` that make sense, in order of time."""
    # an older run or one that is cut off may lack columns
    if not table.keys() >= set(_NAMES):
        return []
    found = []
    for row in zip(*(table[name] for name in _NAMES), strict=True):
        *numbers, peer = row
        try:
            epoch, batch, *seconds = map(float, numbers)
            # rows of a node may hold anything (RUN-8)
            if all(map(isfinite, (epoch, batch, *seconds))):
                found.append(Batch._make((int(epoch), int(batch), *seconds, None if peer == "" else int(peer))))
        except (ValueError, OverflowError):
            continue
    return sorted(found, key=lambda row: row.begin)


def aligned(runs: Runs) -> dict[int, Sequence[Batch]]:
    """Return the same batches by the clock of the first worker, where packets seem to have come before they were sent.

    As NTP does it: of two nodes that have waited for each other, half of the difference between the fastest packets of both
    directions.
    """
    fastest: dict[tuple[int, int | None], float] = {}
    for node, row, seconds in _flights(runs):
        fastest[node, row.peer] = min(fastest.get((node, row.peer), seconds), seconds)
    # clocks of one host agree to a millisecond: nothing to be done
    if min(fastest.values(), default=0.0) > -0.001:
        return dict(runs)
    first = min(runs)
    shifts = {
        # half of the difference, as if both directions took the same time
        node: (fastest[node, first] - fastest[first, node]) / 2
        for node in runs
        if (node, first) in fastest and (first, node) in fastest
    }
    return {node: [row._replace(begin=row.begin - shifts.get(node, 0.0)) for row in rows] for node, rows in runs.items()}


def without_pauses(runs: Runs, starts: Iterable[Key], began: float) -> dict[int, Sequence[Batch]]:
    """Return the same batches without the time between a run and the one that it went on with: those of before come later.

    Args:
        runs: the batches of each worker, those of earlier runs among them.
        starts: the first batches of the parts of the training.
        began: moment when the run began, by the clock of the batches.
    """
    every = [row for rows in runs.values() for row in rows]
    # a clock that is another one, such as that of a simulation, tells nothing
    if not min(row.begin for row in every) < began <= max(row.begin for row in every):
        return dict(runs)
    first = (min((row.begin for row in every if row.key == key), default=began) for key in starts)
    found = dict(runs)
    for moment in sorted({began, *(begin for begin in first if begin < began)}):
        before = [row.end for rows in found.values() for row in rows if row.begin < moment]
        pause = min(row.begin for row in every if row.begin >= moment) - max(before, default=moment)
        if before and pause > 0:
            found = {
                node: [row._replace(begin=row.begin + pause) if row.begin < moment else row for row in rows]
                for node, rows in found.items()
            }
    return found


def _flights(runs: Runs) -> Iterator[tuple[int, Batch, float]]:
    """Yield, for each batch that waited for a packet, the seconds from when its sender had sent all until the wait was over."""
    sent = {(node, row.key): row.begin + row.sent for node, rows in runs.items() for row in rows}
    for node, rows in runs.items():
        for row in rows:
            left = None if row.peer is None else sent.get((row.peer, row.key))
            if left is not None and row.wait:
                yield node, row, row.begin + row.put + row.wait - left


_RUN: Final = record(
    {"job": text, "title": text, "began": whole(0, 1 << 62), "about": map_of(anything)}, ("job", "title", "began")
)


@dataclass(frozen=True)
class RunRecords:
    """Records of a run, as far as they are there.

    Args:
        folder: the folder of the run.
        run: its record, None where there is none.
        outcome: content of `outcome.json`.
        tables: the tables of each worker by kind.
        ledger: columns of the ledger of the job.
        logs: the last lines of each log.
        problems: the files that do not have the form of their kind, such as a link in the place of a table, a sentence each.
        cut_off: files of JSON that were not written to their end, a sentence each.
        carried: by kind and number tables of workers that have another number now, or none, each by that which it had.
    """

    folder: Path
    run: Run | None
    outcome: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[int, Mapping[str, Mapping[str, Column]]] = field(default_factory=dict)
    ledger: Mapping[str, Column] = field(default_factory=dict)
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: Sequence[str] = ()
    cut_off: Sequence[str] = ()
    carried: Mapping[str, Mapping[int, Sequence[Mapping[str, Column]]]] = field(default_factory=dict)

    @cached_property
    def history(self) -> JobHistory:
        """History in the tables of the run."""
        from parallel_sgd.record.history import JobHistory  # noqa: PLC0415 - batches alone need none

        found: dict[str, dict[int, list[Mapping[str, Column]]]] = {}
        for node, tables in self.tables.items():
            for kind, table in tables.items():
                found.setdefault(kind, {})[node] = [table]
        for kind, others in self.carried.items():
            for node, more in others.items():
                found.setdefault(kind, {}).setdefault(node, []).extend(more)
        return JobHistory.of_kinds(found)

    @cached_property
    def settings(self) -> dict[str, str]:
        """Settings in `job.toml`, as texts; none where it cannot be read, which `problems` or `psgd verify` tell."""
        try:
            return settings_of_run(Door(self.folder))
        except RecordError:
            return {}

    @cached_property
    def environment(self) -> Mapping[str, str]:
        """Software, machine and cores of a run that has ended; of one that goes on what its submitter knew of the machine."""
        told = self.outcome.get("environment")
        if told is None and self.run is not None:
            told = self.run.about.get(MACHINE)
        return {name: value for name, value in told.items() if isinstance(value, str)} if isinstance(told, dict) else {}

    @classmethod
    def read(cls, folder: str | os.PathLike[str], read: TableReader | None = None, current: bool = False) -> RunRecords:
        """Read the folder of a run, or of the files of its nodes; a file that cannot be read is left out.

        Where local workers still write, a later attempt may have numbered them anew: the newest table of a number counts.

        Args:
            folder: the folder.
            read: reads a table; None for one that tells in warnings which rows make no sense.
            current: whether there are no tables but those of the newest attempt.
        """
        folder = Path(folder)
        door = Door(folder)
        tables: dict[int, dict[str, Mapping[str, Column]]] = {}
        carried: dict[str, dict[int, list[Mapping[str, Column]]]] = {}
        logs: dict[str, list[str]] = {}
        ledger: Mapping[str, Column] = {}
        ledgers: list[str] = []
        problems: list[str] = []
        cut_off: list[str] = []
        outcome: Mapping[str, Any] = {}

        def table(name: str) -> Mapping[str, Column]:
            if read is not None:
                return read(door, name)
            columns, remark = read_table(door, name)
            warn([remark])
            return columns

        try:
            outcome = read_outcome(door)
        except CutOff:
            cut_off.append(OUTCOME)
        except RecordError as error:
            problems.append(str(error))
        since = 0  # the newest attempt that has carried any on
        for place, attempt in _places(door, current):
            # rows of attempts before it that count are among those that it has carried on, in any of its folders
            skipped = attempt < since
            # logs lie beside the folder of the tables
            beside = [place[:-1]] if place[-1] == _OUT else []
            for name in sorted("/".join((*way, name)) for way in (place, *beside) for name in door.names(*way)):
                file, inside = name.rpartition("/")[2], name.count("/") == len(place)
                known = _TABLE.fullmatch(file) if inside else None
                if known and (skipped or (known[1] == "BY" and read is not None)):
                    continue  # a part of it would give wrong sums
                try:
                    if known and int(known[2]) != _owner(place):
                        carried.setdefault(known[1], {}).setdefault(int(known[2]), []).append(table(name))
                        since = max(since, attempt)
                        continue
                    # the first of a kind counts: places are in the order in which they are to be believed
                    if known and known[1] not in tables.get(int(known[2]), {}):
                        tables.setdefault(int(known[2]), {})[known[1]] = table(name)
                    # written at the end of a run, so that no page of one that goes on lacks them
                    elif inside and read is None and file.startswith(_OF_ALL) and node_of(file) is None:
                        for node, own in by_node(table(name)).items():
                            tables.setdefault(node, {}).setdefault(file[:2], own)
                    elif file.endswith(".log") and not any(
                        other.endswith(f"/{file}") and file.startswith("Fit") for other in logs
                    ):
                        logs["/".join(name.split("/")[-2:])] = _tail(door, name)
                    elif inside and file.startswith("LEDGER-"):
                        ledgers.append(name)
                except RecordError as error:
                    problems.append(str(error))
        # one is enough: that of the job before those of single workers
        for name in sorted(ledgers, key=lambda name: node_of(name) is not None):
            if ledger:
                break
            try:
                ledger = table(name)
            except RecordError as error:
                problems.append(str(error))
        try:
            run = read_run(door)
        except CutOff:
            # nothing told of the run itself; its tables may be good
            run, cut_off = None, [_RECORD, *cut_off]
        except RecordError as error:
            run, problems = None, [str(error), *problems]
        return cls(folder, run, outcome, dict(sorted(tables.items())), ledger, logs, problems, cut_off, carried)

    @cached_property
    def batches(self) -> dict[int, Sequence[Batch]]:
        """Batches of each worker that has left any, by one clock."""
        found = {node: batches_of(tables.get("BA", {})) for node, tables in self.tables.items()}
        runs: dict[int, Sequence[Batch]] = {node: rows for node, rows in found.items() if rows}
        # workers of one machine have its clock; one that found no core after it had sent seems to have sent too late
        runs = runs if {WORKERS_HERE, WORKERS_IN_TURN} & self.environment.keys() else aligned(runs)
        starts = {
            (int(epoch), int(batch))
            for tables in self.tables.values()
            for epoch, batch in zip(*(tables.get("DE", {}).get(name, ()) for name in ("Epochs", "Batches")), strict=False)
        }
        return without_pauses(runs, starts, self.run.began / 1e9) if starts and runs and self.run is not None else runs

    @property
    def went_well(self) -> bool:
        """Whether the run has ended with its result, no node failed on the way, and none has told of trouble."""
        outcome = self.outcome
        return outcome.get("state") == "done" and not any(outcome.get(key) for key in ("incidents", "failures", "notes"))

    def costs(self) -> dict[int, list[tuple[str, float, float]]]:
        """Return, for each worker, the codecs of its variables, with the seconds that they encoded and merged."""
        found = {}
        for node, tables in self.tables.items():
            table = tables.get("CO", {})
            columns = [table.get(name, []) for name in ("Codec", "Name", "Encode", "Merge")]
            found[node] = [
                (f"{codec} of {name}" if name else str(codec), float(encode), float(merge))
                for codec, name, encode, merge in zip(*columns, strict=True)
            ]
        return found


def _owner(place: tuple[str, ...]) -> int | None:
    """Return the node whose folder this is: that of its files at home, or that in which it works."""
    if (match := _FOLDER.fullmatch(place[0])) is not None:
        return int(match[1])
    match = _WORK.fullmatch(place[1])
    return None if match is None else -int(match[1]) if match[1] else int(match[2])


def _places(door: Door, current: bool) -> list[tuple[tuple[str, ...], int]]:
    """List where files of nodes are, and of which attempt: those that came home, which count as of the newest, then those of
    local workers, of the newest attempt first.
    """
    folders = door.names(folders=True)
    retrieved = [(name,) for name in folders if _FOLDER.fullmatch(name)]
    works = {
        (agent, job, _OUT): _attempt(door, agent, job)
        for agent in folders
        if agent.startswith(_AGENT)
        for job in door.names(agent, folders=True)
        if _OUT in door.names(agent, job, folders=True)
    }
    newest = max(works.values(), default=0)
    # the newest attempt first, so that its tables count
    kept = sorted((place for place in works if works[place] >= newest or not current), key=lambda place: -works[place])
    return [*((place, newest) for place in retrieved), *((place, works[place]) for place in kept)]


def read_run(door: Door) -> Run | None:
    """Return the record of a run; None where there is none. Raises: CutOff, RecordError naming the key."""
    try:
        content = door.json(_RECORD)
    except FileNotFoundError:
        return None
    try:
        _RUN("", content)
    except Misfit as error:
        raise door.error(_RECORD, str(error)) from error
    run = Run.read(door.folder)
    if run is None:
        raise door.error(_RECORD, "cannot be used: 'job' must be the id of a job")
    return run


def _attempt(door: Door, *job: str) -> int:
    """Return the attempt at its job that writes into this folder of an agent, from 0."""
    try:
        attempt = door.json("/".join((*job, _RECORD))).get("attempt")
    except (OSError, RecordError):
        # gone, or not written yet: the first attempt
        return 0
    return attempt if isinstance(attempt, int) else 0


def _tail(door: Door, name: str) -> list[str]:
    """Return the last lines of a log, none where it has gone. Raises: RecordError."""
    try:
        return door.tail(name, _MOST_LOG_BYTES).decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
    except FileNotFoundError:
        return []
