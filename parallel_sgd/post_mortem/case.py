"""Files that the agents have sent, read: nothing in them is trusted, and a part that cannot be read is left out."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from network.budget import is_within
from network.errors import ProtocolError
from parallel_sgd.checkpoint.locate import FOLDER
from parallel_sgd.checkpoint.snapshot import FORMAT, FORMATS
from parallel_sgd.checkpoint.store import position_of
from parallel_sgd.engine.progress import Position
from parallel_sgd.record.tables import read_columns
from parallel_sgd.run_page.records import Batch, aligned, batches_of
from rpc.agent import EVENT_LOG, KEPT, RECORD_COPY
from rpc.messages import Verdict, in_causal_order, parse
from rpc.submit import Diagnostics, NodeDiagnostics
from rpc.support.files import CONFIGURATION

_MOST_BYTES: Final = 32 << 20
_LAST_SECOND: Final = 1 << 33  # a time beyond that may be none that the calendar knows


@dataclass(frozen=True)
class Event:
    """Line of a node's timeline; `time` in seconds since 1970, by the clock of its host."""

    time: float
    node: int
    event: str
    fields: Mapping[str, Any]

    @property
    def verdict(self) -> Verdict | None:
        fields = {name: value for name, value in self.fields.items() if name not in ("time", "event")}
        try:
            # parsed as a message of the wire, with all its types, since a node may have written anything
            told = parse({"op": "Verdict", **fields}, (Verdict,)) if self.event == "verdict" else None
        except ProtocolError:
            return None
        return told if isinstance(told, Verdict) else None


@dataclass
class NodeCase:
    """Findings on one node of the job at one agent. A node may be there twice: a later attempt numbers nodes anew.

    `left_out`: the files that would have become too much in memory, and were not read.
    """

    found: NodeDiagnostics
    record: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    states: list[KeptState] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, found: NodeDiagnostics) -> NodeCase:
        read = (RECORD_COPY, CONFIGURATION, EVENT_LOG, KEPT)
        # before they are read: a small file may need much memory as JSON
        large = [path.name for path in found.files if path.name in read and not _is_small(path)]
        files = {path.name: path for path in found.files if path.name not in large}
        case = cls(found, _mapping(files.get(RECORD_COPY)), _mapping(files.get(CONFIGURATION)))
        case.events = list(events_in(files.get(EVENT_LOG), found.node))
        case.states = kept_states(_json(files.get(KEPT)))
        case.left_out = large
        return case

    @property
    def name(self) -> str:
        return f"node {self.found.node} at {self.found.address}"

    @property
    def folder(self) -> str:
        # an address in a file name: no slash, no colon
        address = "".join(c if c.isalnum() or c in ".-" else "-" for c in str(self.found.address))
        return f"nodes/{self.found.node}-{address}"

    @property
    def verdicts(self) -> list[Verdict]:
        """Verdicts of the failure detector of its agent on the node in all attempts, and those that the driver of the job has
        told it.
        """
        return [verdict for event in self.events if (verdict := event.verdict) is not None]


@dataclass
class Case:
    """Collected findings on a failed job: those of its nodes, and the agents that did not answer."""

    job: str
    nodes: list[NodeCase]
    unreached: Mapping[str, str]
    strangers: list[str]

    @classmethod
    def read(cls, job: str, gathered: Diagnostics) -> Case:
        nodes = sorted((NodeCase.read(found) for found in gathered.found), key=lambda case: (case.found.node, case.name))
        return cls(job, nodes, dict(gathered.unreached), list(gathered.strangers))

    @property
    def title(self) -> str:
        return next((str(node.record["title"]) for node in self.nodes if "title" in node.record), "")

    @property
    def verdicts(self) -> list[Verdict]:
        """All verdicts, attempt after attempt, within each first causes before their consequences."""
        found: list[Verdict] = []
        for node in self.nodes:  # the driver has told its findings to all nodes
            # the same verdict from several nodes is one
            found += [verdict for verdict in node.verdicts if verdict not in found]
        # a cause in one attempt has no consequences in another
        attempts = sorted({verdict.attempt for verdict in found})
        return [v for attempt in attempts for v in in_causal_order(v for v in found if v.attempt == attempt)]

    @property
    def batches(self) -> dict[int, Sequence[Batch]]:
        """Batches of each node of which the table has come, by one clock."""
        found: dict[int, list[Batch]] = {}
        for node in self.nodes:
            # the table has the times of batches, and is there for failed jobs, too
            for path in node.found.files:
                if path.name.startswith("BA-") and _is_small(path):
                    found.setdefault(node.found.node, []).extend(batches_of(read_columns(path)))
        return aligned({node: sorted(rows, key=lambda row: row.begin) for node, rows in found.items() if rows})

    @property
    def timeline(self) -> list[Event]:
        return sorted((event for node in self.nodes for event in node.events), key=lambda event: event.time)


def events_in(path: Path | None, node: int) -> Iterator[Event]:
    """Yield the events in the event log of a node. Raises: OSError."""
    for line in _text(path).splitlines():
        try:
            content = json.loads(line)
        except (ValueError, RecursionError):  # the last line of an agent that was killed
            continue
        if not isinstance(content, dict) or not isinstance(content.get("event"), str):
            continue
        at = content.get("time")
        if isinstance(at, float) and 0 <= at < _LAST_SECOND:  # not a number neither
            yield Event(at, node, content["event"], content)


def _mapping(path: Path | None) -> Mapping[str, Any]:
    content = _json(path)
    return content if isinstance(content, dict) else {}


def _json(path: Path | None) -> Any:
    try:
        return json.loads(_text(path) or "null")
    except (ValueError, RecursionError):
        return None


def _is_small(path: Path) -> bool:
    """Tell if a text in JSON does not take too much memory: a file of a node may be made to."""
    return path.stat().st_size <= _MOST_BYTES and is_within(_text(path))


def _text(path: Path | None) -> str:
    return "" if path is None else path.read_text("utf-8", "replace")


@dataclass(frozen=True)
class KeptState:
    """Checkpoint file. `valid` is None where no process has read it as a whole; `why` tells its fault."""

    name: str
    position: Position
    size: int
    saved: float
    valid: bool | None
    why: str = ""
    attempt: int = 0
    personal: bool = False
    loss: float | None = None

    def describe(self) -> str:
        verdict = {True: "valid", False: "NOT VALID", None: "not checked"}[self.valid]
        loss = "" if self.loss is None else f", Loss {self.loss:.6g}"
        whose = ", of this worker alone" if self.personal else ""
        why = f" ({self.why})" if self.why else ""
        return f"{self.name}: after {self.position}, attempt {self.attempt + 1}{loss}, {self.size} bytes{whose}: {verdict}{why}"


def kept_states(listed: Any) -> list[KeptState]:
    """Return the checkpoints in an agent's list of kept files, the most advanced first; entries that are no checkpoint, and a
    text that is no list, are left out.
    """
    found = []
    for entry in listed if isinstance(listed, list) else []:
        with contextlib.suppress(AttributeError, KeyError, OverflowError, TypeError, ValueError):
            position = position_of(entry["name"])
            if entry["folder"] == FOLDER and position is not None:
                found.append(_state(entry, position))
    return sorted(found, key=lambda state: state.position, reverse=True)


def _state(entry: dict[str, Any], position: Position) -> KeptState:
    """Make the state of an entry. Raises: KeyError, OverflowError, TypeError or ValueError for an entry that no agent sends."""
    valid, why, about = entry["whole"], str(entry["why"]), entry["about"]
    header: dict[str, Any] = {}
    if valid is not False and about.get("format") not in FORMATS:
        valid, why = False, f"its format is {str(about.get('format'))[:40]!r}, not {FORMAT!r}"
    elif "snapshot" in about:
        with contextlib.suppress(ValueError, RecursionError):  # cut, because it is very long
            header = json.loads(about["snapshot"])["header"]
    evaluation = header.get("progress", {}).get("evaluation", {})
    loss = evaluation.get("Loss") if position.batch == 0 else None
    return KeptState(
        str(entry["name"]),
        position,
        int(entry["size"]),
        float(entry["modified"]),
        None if valid is None else bool(valid),
        why,
        int(header.get("attempt", 0)),
        bool(header.get("personal", False)),
        None if loss is None else float(loss),
    )
