"""Summary of a failure in words: the first failure, its consequences, and where to look."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping

from rpc.support.logs import clean, clean_text
from rpc.verdict import describe_work

from .case import Case, Event, NodeCase

_STAMP = "%Y-%m-%d %H:%M:%S"
_SHOWN_EVENTS = 40
_SHOWN_SIGNALS = 3  # of each node, in the summary
_NOWHERE = ("STARTED", "TRAIN_END")  # signals that are of no batch
_SHOWN = ("host", "pid", "group", "reason")  # of other events

CONTENTS = """\
summary.txt        this text
verdicts.txt       each verdict with its stack or traceback and the last lines of the log; verdicts.json has all fields
timeline.txt       what happened on all nodes, in order; each host's own clock
batches.json       what each batch took its time for, where a node has left its tables: for ui.perfetto.dev
checkpoints.txt    the states that the nodes have kept, and whether they are valid
versions.json      what ran where; nodes/*/configuration.json also has the settings of the job and who had which blocks
nodes/<node>-<agent>/   what that agent has sent: logs, record, timeline (events.jsonl), reports
"""


def summary(case: Case, now: float) -> str:
    reached = len({str(node.found.address) for node in case.nodes}) + len(case.strangers)
    sections = [
        f'Post-mortem of job {case.job} ("{clean(case.title)}"), collected {_stamp(now)}: '
        f"{reached} of {reached + len(case.unreached)} agents were reached.",
        _section("What failed first", _causes(case)),
        _section("Nodes", _nodes(case)),
        _section("Where each node was last", [line for node in case.nodes for line in _last_signals(node)]),
        _section(f"The last {_SHOWN_EVENTS} events", _tail(case.timeline)),
        _section("States to go on from", checkpoints(case)),
        _section("Versions", _versions(case)),
        _section("In this archive", CONTENTS.splitlines()),
    ]
    return "\n\n".join(sections) + "\n"


def verdicts(case: Case) -> str:
    told = [clean_text(verdict.describe()) for verdict in case.verdicts]
    return "\n\n".join(told or ["No agent has a verdict on a node of this job."]) + "\n"


def timeline(events: Iterable[Event]) -> str:
    return "".join(f"{line}\n" for line in map(_line, events))


def checkpoints(case: Case) -> list[str]:
    lines = []
    for node in case.nodes:
        lines.append(f"{node.name}:" if node.states else f"{node.name}: none")
        lines += [f"    {clean(state.describe())}" for state in node.states]
    return lines


def versions_of(case: Case) -> dict[str, Mapping[str, object]]:
    """Return the versions of the software on each node, as far as its process came to tell them."""
    told: dict[str, Mapping[str, object]] = {}
    for node in case.nodes:
        # the agent's word from the beginning, in case the process never told its own
        started = next((event.fields for event in node.events if event.event == "accepted"), {})
        said = {name: node.configuration[name] for name in ("versions", "machine") if name in node.configuration}
        told[node.name] = {"python": started.get("python"), "parallel_sgd": started.get("version"), **said}
    return told


def _causes(case: Case) -> list[str]:
    found = case.verdicts
    if not found:
        failed = [node for node in case.nodes if node.record.get("state") not in ("done", None)]
        if not failed:
            return ["No agent knows of a failure: see the states of the nodes, and those that were not reached."]
        return ["No agent has a verdict; these nodes did not end well:", *(f"    {_outcome(node)}" for node in failed)]
    lines = []
    # attempts are told one by one: a consequence belongs to the causes of its own
    for attempt in sorted({verdict.attempt for verdict in found}):
        own = [verdict for verdict in found if verdict.attempt == attempt]
        lines.append(f"Attempt {attempt + 1}: {clean_text(own[0].headline)}")
        lines += [f"    then {clean_text(verdict.headline)}" for verdict in own[1:]]
    return lines


def _nodes(case: Case) -> list[str]:
    lines = [_outcome(node) for node in case.nodes]
    lines += [f"{node.name}: not all has come: {node.found.problem}" for node in case.nodes if node.found.problem]
    lines += [f"{n.name}: {name} was not read: it would take too much memory" for n in case.nodes for name in n.left_out]
    lines += [f"agent at {address}: NOT REACHED: {reason}" for address, reason in case.unreached.items()]
    lines += [f"agent at {address}: knows nothing of this job" for address in case.strangers]
    return lines


def _outcome(node: NodeCase) -> str:
    detail = str(node.record.get("detail", "")).strip().splitlines()
    last = f", {clean(detail[-1])}" if detail else ""
    state, attempt = clean(str(node.record.get("state", "unknown"))), _count(node.record.get("attempt")) + 1
    return f"{node.name}: {state} in attempt {attempt}{last}"


def _last_signals(node: NodeCase) -> list[str]:
    signals = [event for event in node.events if event.event == "signal"][-_SHOWN_SIGNALS:]
    told = [f"{_stamp(event.time)} {_told(event)}" for event in signals]
    return [f"{node.name}: {line}" for line in told or ["it never signalled"]]


def _tail(events: list[Event]) -> list[str]:
    """Return the last lines, without the signals, which the section before has."""
    # signals come several times a second and would push out all else
    return [_line(event) for event in events if event.event != "signal"][-_SHOWN_EVENTS:]


def _line(event: Event) -> str:
    attempt = _count(event.fields.get("attempt")) + 1
    return f"{_stamp(event.time)}  node {event.node}, attempt {attempt}  {clean(event.event)}: {_told(event)}".rstrip(" :")


def _told(event: Event) -> str:
    """Write an event in words; only the last line of a traceback."""
    fields, verdict = event.fields, event.verdict
    if event.event == "signal":
        kind = clean(str(fields.get("kind")))
        return kind if kind in _NOWHERE else f"{kind} epoch {fields.get('epoch')}, batch {fields.get('batch')}"
    if verdict is not None:
        return clean(f"{verdict.reason} ({verdict.place})" if verdict.node == event.node else verdict.headline)
    if event.event == "notice":
        where = describe_work(str(fields.get("phase")), _count(fields.get("epoch")), _count(fields.get("batch")))
        seconds = fields.get("seconds")
        return clean(
            f"{fields.get('kind')} after {seconds if not isinstance(seconds, float) else round(seconds, 2)} s, {where}"
        )
    if event.event == "state":
        detail = str(fields.get("detail", "")).strip().splitlines()
        return clean(" ".join([str(fields.get("state")), *detail[-1:]]))
    return clean(", ".join(f"{name} {fields[name]}" for name in _SHOWN if name in fields))


def _versions(case: Case) -> list[str]:
    told = {name: json.dumps(said, sort_keys=True) for name, said in versions_of(case).items()}
    if len(set(told.values())) == 1:
        return [f"all nodes: {clean(next(iter(told.values())))}"]
    return ["they differ:", *(f"    {name}: {clean(said)}" for name, said in told.items())]


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"    {line}" for line in lines)])


def _stamp(at: float) -> str:
    return f"{time.strftime(_STAMP, time.localtime(at))}.{int(at * 1000) % 1000:03d}"


def _count(number: object) -> int:
    return number if isinstance(number, int) else 0
