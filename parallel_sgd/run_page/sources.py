"""Sources of a page of a run that goes on: the folder of the run, or the agents that run it."""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, Protocol

from network.nodes import NodeAssignment
from parallel_sgd.errors import JobFailed
from parallel_sgd.nodes import InProcessNodes, machine_of
from parallel_sgd.record.door import Door
from parallel_sgd.record.tables import Columns, TableRows
from rpc.agent import EVENT_LOG
from rpc.messages import Verdict
from rpc.submit import Follower, node_folder
from rpc.support.files import sample
from rpc.support.temporary import TemporaryFolder

from .records import RunRecords
from .terms import worker

#: Workers; of each of more less is read, so that a state of all of them costs no more.
_FEW: Final = 8
_MOST_BYTES: Final = 1 << 16
_FEWEST_BYTES: Final = 1 << 13
_CURVE_PARTS: Final = 24
_PART_BYTES: Final = 1 << 10
_LOG_LINES: Final = 80
_MOST_SAMPLE: Final = 64 << 20
Row = Mapping[str, str]


@dataclass
class Seen:
    """State of a job at one moment: its records, how much of it is done, 0 to 1, since when it runs, and the agents, jobs and
    nodes of the cluster, as rows of tables.
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
    """Source of the states of a job; one thread at a time looks."""

    def look(self) -> Seen:
        """Return the present state."""

    def close(self) -> None:
        """End the source: there are no more looks."""


def samples_of(workers: int) -> dict[str, tuple[int, int]]:
    """Return how much a page reads of the tables of each worker, by kind: bytes, and the parts that they come in.

    Batches in one part, because blame goes from each to the one before; curves in many, from the whole run. Of clients that
    hold samples out there are the last epochs of which all clients are there.
    """
    share = max(1, -(-workers // _FEW))
    parts = max(4, _CURVE_PARTS // share)
    tables = max(_FEWEST_BYTES, _MOST_BYTES // share)
    few = {EVENT_LOG: (_MOST_BYTES, 1)}
    last = dict.fromkeys(("BA", "BL", "CO", "CT"), (tables, 1))
    return {**last, "TR": (parts * _PART_BYTES, parts), "EV": (tables, 4), **few}


class SampledTables:
    """Reader, of tables that go on being written, of as much as a page shows, and of each only when it has grown."""

    def __init__(self) -> None:
        self._known: dict[Path, tuple[tuple[int, ...], Columns]] = {}
        self._workers: set[str] = set()

    def read(self, door: Door, name: str) -> Columns:
        """Return the columns of a sample of the table; none where it cannot be read, or no page shows it."""
        file = name.rpartition("/")[2]
        # by the tables that were read so far: nothing else tells how many workers there are
        self._workers.add(file.rpartition("-")[2])
        most, parts = samples_of(len(self._workers)).get(file.partition("-")[0], (0, 0))
        return self._columns(door, name, most, parts) if parts else {}

    def read_sample(self, door: Door, name: str) -> Columns:
        """Return the columns of a table that is a sample already."""
        return self._columns(door, name, _MOST_SAMPLE, 1)

    def _columns(self, door: Door, name: str, most: int, parts: int) -> Columns:
        path = door.folder / name
        try:  # of any size, since a sample of it is read
            with door.open(name, sys.maxsize) as file:
                status = os.fstat(file.fileno())
                state = status.st_ino, status.st_size, status.st_mtime_ns
                # the same inode, size and time: nothing to read again
                if path not in self._known or self._known[path][0] != state:
                    text = sample(file.fileno(), status.st_size, most, parts).decode("utf-8", "replace")
                    head, *rows = csv.reader(text.splitlines())
                    table = TableRows(path.name.partition("-")[0], head)
                    table.add(rows)  # rows that make no sense are left out here, and told when the run has ended
                    self._known[path] = state, table.columns
                return self._known[path][1]
        except (OSError, ValueError, csv.Error):  # RecordError among them
            return {}


class RunSource:
    """Source in the folder of a run, `folder()`; None there: it has not begun. `epochs`: by default those told there."""

    def __init__(self, folder: Callable[[], Path | None], epochs: int = 0) -> None:
        self._folder, self._epochs = folder, epochs
        self._tables = SampledTables()

    def look(self) -> Seen:
        folder = self._folder()
        if folder is None:
            return Seen(RunRecords(Path(), None))
        records = RunRecords.read(folder, self._tables.read, current=True)
        # asked once: the options of a run do not change
        self._epochs = self._epochs or _epochs_in(folder)
        far, log, run = done(records, self._epochs), _tails(records), records.run
        if run is None:
            return Seen(records, far, log=log)
        return Seen(records, far, run.began / 1e9, run.title, run.job, log=log)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class ClusterSource:
    """Source of the jobs that the agents of `nodes` run: `job`, or the newest one. Without its `epochs` its nodes say how far
    they are.
    """

    def __init__(self, nodes: NodeAssignment, job: str = "", epochs: int = 0) -> None:
        self._epochs = epochs
        self._kept = TemporaryFolder("page")
        self.folder = self._kept.path
        self._given = nodes
        self._follower = Follower(nodes, self.folder, job, samples_of)
        self._tables = SampledTables()

    def look(self) -> Seen:
        follower = self._follower
        follower.look()
        records = RunRecords.read(self.folder, self._tables.read_sample)
        held = [(node, entry) for node, entry in follower.held() if entry["job"] == follower.job]
        entries = [entry for _, entry in held]
        known = [entry for agent in follower.agents.values() for entry in agent.jobs if entry["job"] == follower.job]
        began = min((entry["started"] for entry in known), default=None)
        state = _state_of([str(entry["outcome"] or entry["state"]) for entry in entries])
        title = str(entries[0]["title"]) if entries else ""
        current = {entry["node"] for entry in entries}
        # tables of nodes that a shrink has left behind belong to no present node
        tables = {node: own for node, own in records.tables.items() if node in current}
        environment = machine_of(self._given, sum(node >= 0 for node in current))
        outcome = {"state": state, "environment": environment} if entries else {}
        records = RunRecords(self.folder, None, outcome, tables, {}, records.logs, carried=records.carried)
        if state == "failed":
            records = self._with_story(records, entries)
        shares = [percent / 100 for node, (percent, _) in follower.progress.items() if node in current]
        # the slowest decides: a job is as far as its last worker
        far = max(done(records, self._epochs), min(shares, default=0.0))
        log = [*follower.notices, *_tails(records)]
        return Seen(records, far, began, title, follower.job, self._agents(), self._jobs(), self._nodes(held), log)

    def close(self) -> None:
        self._follower.close()
        self._kept.close()

    def _with_story(self, records: RunRecords, entries: Sequence[Mapping[str, Any]]) -> RunRecords:
        """Return the records with the story of the failure, as far as the agents of its nodes have noted it."""
        from parallel_sgd.post_mortem.case import events_in  # noqa: PLC0415 - most jobs end well

        from .story import end_of  # noqa: PLC0415

        failures: dict[int, tuple[str, str]] = {}
        gone: dict[int, tuple[str, str]] = {}  # nodes with agents that are silent
        verdicts: list[Verdict] = []
        for entry in entries:
            path = self.folder / node_folder(entry["node"]) / EVENT_LOG
            events = list(events_in(path, entry["node"])) if path.is_file() else []
            said = [str(event.fields.get("detail", "")) for event in events if event.event == "state"]
            if entry["state"] != "done":
                failures[entry["node"]] = str(entry["state"]), said[-1] if said else ""
            # rows of earlier attempts tell of failures that are over
            own = [event for event in events if event.fields.get("attempt") == entry["attempt"]]
            told = (event.verdict for event in own)  # those of the driver all nodes have
            verdicts += [verdict for verdict in told if verdict is not None and verdict not in verdicts]
            for event in own:
                if event.event == "lost" and type(lost := event.fields.get("node")) is int:
                    gone.setdefault(lost, ("lost", str(event.fields.get("reason", ""))))
        failures = {**gone, **failures}
        outcome = end_of(JobFailed(failures, {}, self._follower.job, verdicts), goes_on=False)
        return replace(records, outcome={**outcome, **records.outcome})

    def _agents(self) -> list[Row]:
        rows: list[Row] = []
        known = set()
        for agent in self._follower.agents.values():
            status = agent.status
            if status is not None and status.instance in known:  # one agent may be several nodes
                continue
            told = {"agent": agent.address, "host": "", "slots": "", "problem": agent.problem}
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

    def _nodes(self, held: Sequence[tuple[int, Mapping[str, Any]]]) -> list[Row]:
        rows: list[Row] = []
        for agent, entry in held:
            percent, note = self._follower.progress.get(entry["node"], (None, ""))  # of a job that has ended it is not told
            far = "" if entry["node"] < 0 or percent is None else f"{percent} %"
            attempt = str(entry["attempt"] + 1)
            node, where = worker(entry["node"]), self._follower.agents[agent].address
            rows.append(
                {"node": node, "agent": where, "state": entry["state"], "done": far, "figures": note, "attempt": attempt}
            )
        return rows


def source_of(nodes: NodeAssignment, folder: Callable[[], Path | None], job: str, epochs: int) -> Source:
    """Return where to look at a job that this program runs: on nodes without addresses its folder has all records."""
    return RunSource(folder, epochs) if isinstance(nodes, InProcessNodes) else ClusterSource(nodes, job, epochs)


def done(records: RunRecords, epochs: int) -> float:
    """Return how much of the job is done, by the table of the slowest worker: 0 to 1."""
    shares = []
    for tables in records.tables.values():
        steps = tables.get("TR", {})
        if epochs and steps.get("Total"):
            total, each = steps["Total"][-1], steps["in"][-1]
            # no rows yet, or a table of zeros
            if isinstance(total, float) and isinstance(each, float) and each > 0:
                shares.append(min(1.0, total / (each * epochs)))
    return min(shares, default=0.0)


def _state_of(states: Sequence[str]) -> str:
    """Return the state of a job, by those of its nodes: it runs while one of them does."""
    for state in ("running", "starting", "failed", "stopped", "lost"):
        if state in states:
            return "running" if state == "starting" else "failed" if state == "lost" else state
    return states[0] if states else ""


def _epochs_in(folder: Path) -> int:
    try:
        epochs = Door(folder).toml("job.toml")["options"]["epoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return 0
    return epochs if isinstance(epochs, int) else 0


def _tails(records: RunRecords) -> list[str]:
    """Return the last lines of all logs, each behind its name where there are several."""
    each = max(5, _LOG_LINES // max(1, len(records.logs)))
    parts = [[f"--- {name.partition('/')[2]}", *lines[-each:]] for name, lines in records.logs.items() if lines]
    return list(chain.from_iterable(parts))
