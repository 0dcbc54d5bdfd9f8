"""The records of a run, read from its folder: what is missing or cut off is left out, so that a failed job has a page, too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any, Final, NamedTuple

from parallel_sgd.record.files import OUTCOME
from parallel_sgd.table import Column, read_columns
from rpc.files import parsed
from rpc.submit import Run

_TABLE = re.compile(r"(TR|EV|TI|AC|BA|CO)-.*-N\((-?[0-9]+)\)\.csv")
_FOLDER = re.compile(r"Node-(-?[0-9]+)-Retrieve")
_OUT: Final = "out"
_WORK: Final = f"agent-*/*/{_OUT}"
"""Where local workers write while they run."""
_RECORD: Final = "job.json"  # of an agent, beside `out`
_LOG_LINES: Final = 60
_MOST_LOG_BYTES: Final = 1 << 16
Key = tuple[int, int]  # epoch and batch, from 1


class Batch(NamedTuple):
    """What one worker did in one batch; `begin` in seconds by a clock that all workers share, the others as in table `BA`."""

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
        """The seconds that add up to `total`, in the order of the fields."""
        return self.data, self.compute, self.encode, self.send, self.wait, self.merge, self.rule

    @property
    def end(self) -> float:
        return self.begin + self.total


Runs = Mapping[int, Sequence[Batch]]
_NAMES: Final = ("Epochs", "Batches", "Time", *(name.capitalize() for name in Batch._fields[3:]))


def batches_of(table: Mapping[str, Column]) -> list[Batch]:
    """The rows of a table `BA` that make sense, in order of time."""
    if not table.keys() >= set(_NAMES):
        return []
    found = []
    for row in zip(*(table[name] for name in _NAMES), strict=True):
        *numbers, peer = row
        try:
            epoch, batch, *seconds = map(float, numbers)
            if all(map(isfinite, seconds)):
                found.append(Batch._make((int(epoch), int(batch), *seconds, None if peer == "" else int(peer))))
        except (ValueError, OverflowError):
            continue
    return sorted(found, key=lambda row: row.begin)


def aligned(runs: Runs) -> dict[int, Sequence[Batch]]:
    """The same by the clock of the first worker, where packets seem to have come before they were sent.

    As NTP does it: of two nodes that have waited for each other, half of what the fastest packets of both directions differ by.
    """
    fastest: dict[tuple[int, int | None], float] = {}
    for node, row, seconds in _flights(runs):
        fastest[node, row.peer] = min(fastest.get((node, row.peer), seconds), seconds)
    if min(fastest.values(), default=0.0) > -0.001:
        return dict(runs)
    first = min(runs)
    shifts = {
        node: (fastest[node, first] - fastest[first, node]) / 2
        for node in runs
        if (node, first) in fastest and (first, node) in fastest
    }
    return {node: [row._replace(begin=row.begin - shifts.get(node, 0.0)) for row in rows] for node, rows in runs.items()}


def _flights(runs: Runs) -> Iterator[tuple[int, Batch, float]]:
    """For each batch that waited for a packet: seconds from when its sender had sent all until the wait was over."""
    sent = {(node, row.key): row.begin + row.sent for node, rows in runs.items() for row in rows}
    for node, rows in runs.items():
        for row in rows:
            left = None if row.peer is None else sent.get((row.peer, row.key))
            if left is not None and row.wait:
                yield node, row, row.begin + row.put + row.wait - left


@dataclass(frozen=True)
class RunRecords:
    """What there is of a run: its record, its outcome, the tables of each worker by kind, the last lines of logs."""

    folder: Path
    run: Run | None
    outcome: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[int, Mapping[str, Mapping[str, Column]]] = field(default_factory=dict)
    ledger: Mapping[str, Column] = field(default_factory=dict)
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def read(
        cls, folder: Path, read: Callable[[Path], Mapping[str, Column]] = read_columns, current: bool = False
    ) -> RunRecords:
        """Read the folder of a run, or of the files of its nodes, tables by `read`; what cannot be read is left out.

        Where local workers still write, a later attempt may have numbered them anew: the newest table of a number counts, and
        with `current` there are none but those of the newest attempt.
        """
        tables: dict[int, dict[str, Mapping[str, Column]]] = {}
        logs: dict[str, list[str]] = {}
        ledger: Mapping[str, Column] = {}
        retrieved = sorted(path for path in folder.glob("Node-*-Retrieve") if _FOLDER.fullmatch(path.name))
        works = {inside: _attempt(inside) for inside in sorted(folder.glob(_WORK))}
        newest = max(works.values(), default=0) if current else 0
        for inside in [*retrieved, *sorted((path for path in works if works[path] >= newest), key=lambda path: -works[path])]:
            logs_beside = inside.parent.glob("*.log") if inside.name == _OUT else ()
            for path in sorted([*inside.iterdir(), *logs_beside]):
                known = _TABLE.fullmatch(path.name)
                if known and known[1] not in tables.get(int(known[2]), {}):
                    tables.setdefault(int(known[2]), {})[known[1]] = read(path)
                elif path.suffix == ".log" and not any(
                    name.endswith(f"/{path.name}") and path.name.startswith("Fit") for name in logs
                ):
                    logs[f"{path.parent.name}/{path.name}"] = _tail(path)
                elif path.name.startswith("LEDGER-") and ("-N(" not in path.name or not ledger):
                    ledger = read(path)
        return cls(folder, Run.read(folder), _json(folder / OUTCOME), dict(sorted(tables.items())), ledger, logs)

    @cached_property
    def batches(self) -> dict[int, Sequence[Batch]]:
        """The batches of each worker that has left any, by one clock."""
        found = {node: batches_of(tables.get("BA", {})) for node, tables in self.tables.items()}
        return aligned({node: rows for node, rows in found.items() if rows})

    @property
    def went_well(self) -> bool:
        """Whether it has ended with its result, and nobody failed on the way."""
        outcome = self.outcome
        return outcome.get("state") == "done" and not (outcome.get("incidents") or outcome.get("failures"))

    def costs(self) -> dict[int, list[tuple[str, float, float]]]:
        """For each worker the codecs of its variables, with the seconds that they encoded and merged."""
        found = {}
        for node, tables in self.tables.items():
            table = tables.get("CO", {})
            columns = [table.get(name, []) for name in ("Codec", "Name", "Encode", "Merge")]
            found[node] = [
                (f"{codec} of {name}" if name else str(codec), float(encode), float(merge))
                for codec, name, encode, merge in zip(*columns, strict=True)
            ]
        return found


def _attempt(out: Path) -> int:
    """Which attempt at its job writes into this folder of an agent, from 0."""
    attempt = _json(out.parent / _RECORD).get("attempt")
    return attempt if isinstance(attempt, int) else 0


def _tail(path: Path) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _MOST_LOG_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()[-_LOG_LINES:]
    except OSError:
        return []


def _json(path: Path) -> dict[str, Any]:
    try:
        content = parsed(json.loads, path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
