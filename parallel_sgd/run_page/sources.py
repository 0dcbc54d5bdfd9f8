"""Where a page of a run that goes on has it from: the folder of the run, or the agents that run it."""

from __future__ import annotations

import csv
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

from network.nodes import NodeAssignment
from parallel_sgd.nodes import InProcessNodes
from parallel_sgd.table import Column, values_of
from rpc.files import read_toml
from rpc.submit import Follower

from .blame import worker
from .records import RunRecords

_MOST_ROWS: Final = 2_000
_FEWEST_ROWS: Final = 60
_ROWS_OF_ALL: Final = 4_000
"""Of all tables of a kind together, so that a state of many workers costs no more than one of a few with long tables."""
_LOG_LINES: Final = 80
Row = Mapping[str, str]


@dataclass
class Seen:
    """What there is to see of a job at one moment: its records, how much of it is done, 0 to 1, since when it runs, and the
    agents, jobs and nodes of the cluster, as rows of tables.
    """

    records: RunRecords
    done: float = 0.0
    began: float | None = None
    title: str = ""
    job: str = ""
    agents: Sequence[Row] = ()
    jobs: Sequence[Row] = ()
    nodes: Sequence[Row] = ()
    log: Sequence[str] = field(default_factory=list)


class Source(Protocol):
    """Looks at a job; one thread at a time does."""

    def look(self) -> Seen:
        """How it stands now."""

    def close(self) -> None:
        """Nobody looks any more."""


class GrowingTables:
    """Reads tables that go on being written, each from where it ended last time.

    Of a long one, or of many, so many rows are kept that a page of them does not become slow: the last ones and, of table `TR`,
    every second, fourth and so on of those before.
    """

    def __init__(self) -> None:
        self._known: dict[Path, _Growing] = {}
        self._kinds: defaultdict[str, set[Path]] = defaultdict(set)

    def read(self, path: Path) -> Mapping[str, Column]:
        """The columns of the table; none where it cannot be read."""
        try:
            with path.open("rb") as file:
                number, known = path.stat().st_ino, self._known.get(path)
                if known is None or known.number != number or path.stat().st_size < known.at:
                    known = self._known[path] = _Growing(number)
                file.seek(known.at)
                kind = path.name[:2]
                self._kinds[kind].add(path)
                most = min(_MOST_ROWS, max(_FEWEST_ROWS, _ROWS_OF_ALL // len(self._kinds[kind])))
                known.take(file.read(), most, thinned=kind == "TR")
                return known.columns
        except (OSError, ValueError, csv.Error):
            self._known.pop(path, None)
            return {}


class _Growing:
    def __init__(self, number: int) -> None:
        self.number = number
        self.at = 0
        self.columns: dict[str, Column] = {}

    def take(self, data: bytes, most: int, thinned: bool) -> None:
        """Add the rows that are whole by now, and keep up to twice `most`."""
        whole = data[: data.rfind(b"\n") + 1]
        self.at += len(whole)
        rows = list(csv.reader(whole.decode("utf-8", "replace").splitlines()))
        if not self.columns and rows:
            self.columns = {name: [] for name in rows.pop(0)}
        for name, values in zip(self.columns, values_of(rows, len(self.columns)), strict=True):
            column = self.columns[name]
            column += values
            while len(column) > 2 * most:
                half = len(column) // 2
                self.columns[name] = column = [*(column[:half:2] if thinned else ()), *column[half:]]


class RunSource:
    """The folder of a run, `folder()`; None there: it has not begun. `epochs`: by default those told there."""

    def __init__(self, folder: Callable[[], Path | None], epochs: int = 0) -> None:
        self._folder, self._epochs = folder, epochs
        self._tables = GrowingTables()

    def look(self) -> Seen:
        folder = self._folder()
        if folder is None:
            return Seen(RunRecords(Path(), None))
        records = RunRecords.read(folder, self._tables.read)
        self._epochs = self._epochs or _epochs_in(folder)
        far, log, run = done(records, self._epochs), _tails(records), records.run
        if run is None:
            return Seen(records, far, log=log)
        return Seen(records, far, run.began / 1e9, run.title, run.job, log=log)

    def close(self) -> None:
        """There is nothing to close."""


class ClusterSource:
    """What the agents of `nodes` run: `job`, or the newest one. Without its `epochs` its nodes say how far they are."""

    def __init__(self, nodes: NodeAssignment, job: str = "", epochs: int = 0) -> None:
        self._epochs = epochs
        self._kept = tempfile.TemporaryDirectory(prefix="psgd-page-")
        self.folder = Path(self._kept.name)
        self._follower = Follower(nodes, self.folder, job)
        self._tables = GrowingTables()

    def look(self) -> Seen:
        follower = self._follower
        follower.look()
        records = RunRecords.read(self.folder, self._tables.read)
        entries = [entry for entry in follower.entries if entry["job"] == follower.job]
        began = min((entry["started"] for entry in entries), default=None)
        state = _state_of([str(entry["outcome"] or entry["state"]) for entry in entries])
        title = str(entries[0]["title"]) if entries else ""
        records = RunRecords(self.folder, None, {"state": state} if entries else {}, records.tables, {}, records.logs)
        shares = [percent / 100 for percent, _ in follower.progress.values()]
        far = max(done(records, self._epochs), min(shares, default=0.0))
        log = [*follower.notices, *_tails(records)]
        return Seen(records, far, began, title, follower.job, self._agents(), self._jobs(), self._nodes(entries), log)

    def close(self) -> None:
        self._follower.close()
        self._kept.cleanup()

    def _agents(self) -> list[Row]:
        rows: list[Row] = []
        known = set()
        for agent in self._follower.agents.values():
            status = agent.status
            if status is not None and status.instance in known:  # one agent may be several nodes
                continue
            told = {"agent": agent.address, "host": "", "slots": "", "": agent.problem}
            if status is not None:
                known.add(status.instance)
                told |= {"host": status.name, "slots": f"{status.jobs} of {status.slots} in use"}
            rows.append(told)
        return rows

    def _jobs(self) -> list[Row]:
        entries = self._follower.entries
        found: list[Row] = []
        for job in dict.fromkeys(entry["job"] for entry in reversed(entries)):
            own = [entry for entry in entries if entry["job"] == job]
            state = _state_of([str(entry["outcome"] or entry["state"]) for entry in own])
            nodes = ", ".join(str(entry["node"]) for entry in own)
            began = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(own[0]["started"]))
            found.append({"job": str(job), "title": str(own[0]["title"]), "state": state, "nodes": nodes, "since": began})
        return found[:20]

    def _nodes(self, entries: Sequence[Mapping[str, Any]]) -> list[Row]:
        places = {
            (entry["job"], entry["node"]): agent.address for agent in self._follower.agents.values() for entry in agent.jobs
        }
        rows: list[Row] = []
        for entry in entries:
            percent, note = self._follower.progress.get(entry["node"], (0, ""))
            far = "" if entry["node"] < 0 else f"{percent} %"
            attempt = str(entry["attempt"] + 1)
            node, where = worker(entry["node"]), places[entry["job"], entry["node"]]
            rows.append({"node": node, "agent": where, "state": entry["state"], "done": far, "": note, "attempt": attempt})
        return rows


def source_of(nodes: NodeAssignment, folder: Callable[[], Path | None], job: str, epochs: int) -> Source:
    """Where to look at a job that this program runs: on nodes without addresses it has all there is in its folder."""
    return RunSource(folder, epochs) if isinstance(nodes, InProcessNodes) else ClusterSource(nodes, job, epochs)


def done(records: RunRecords, epochs: int) -> float:
    """How much of the job is done, by what the slowest worker has written: 0 to 1."""
    shares = []
    for tables in records.tables.values():
        steps = tables.get("TR", {})
        if epochs and steps.get("Total"):
            total, each = steps["Total"][-1], steps["in"][-1]
            if isinstance(total, float) and isinstance(each, float) and each > 0:
                shares.append(min(1.0, total / (each * epochs)))
    return min(shares, default=0.0)


def _state_of(states: Sequence[str]) -> str:
    """Of a job, by what its nodes are: it runs while one of them does."""
    for state in ("running", "starting", "failed", "stopped", "lost"):
        if state in states:
            return "running" if state == "starting" else "failed" if state == "lost" else state
    return states[0] if states else ""


def _epochs_in(folder: Path) -> int:
    try:
        epochs = read_toml(folder / "job.toml")["options"]["epoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return epochs if isinstance(epochs, int) else 0


def _tails(records: RunRecords) -> list[str]:
    """The last lines of all logs, each behind its name where there are several."""
    each = max(5, _LOG_LINES // max(1, len(records.logs)))
    parts = [[f"--- {name.partition('/')[2]}", *lines[-each:]] for name, lines in records.logs.items() if lines]
    return list(chain.from_iterable(parts))
