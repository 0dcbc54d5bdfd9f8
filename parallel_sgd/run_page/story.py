"""Story of the failures of a run, in plain words: the nodes that failed, how that was noticed, the reaction, and the loss."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from network.faults.fault import FIRST, node_text
from network.nodes import PARAMETER_SERVER
from parallel_sgd.checkpoint.locate import stores_of_run
from parallel_sgd.checkpoint.resume import NODES, ON_AGENTS, ON_LAUNCHED_AGENTS, checkpoint_before
from parallel_sgd.checkpoint.schedule import EPOCH
from parallel_sgd.checkpoint.store import position_of
from parallel_sgd.errors import JobFailed

from ..record.history import lost_steps
from ..record.numbers import seconds
from .records import RunRecords
from .tables import folded, stamp, table
from .terms import worker

_LOST = re.compile(r"Node\((-?\d+)\) at \S+ is lost: (.+)")
INTERRUPT: Final = KeyboardInterrupt.__name__
_AGAIN: Final = 'the same call with resume="last", or command with --resume last, goes on'
_MOST_NAMED: Final = 8
_MOST_TEXT: Final = 20_000
_MOST_BATCHES: Final = 1 << 53  # up to which a float counts exactly
_MOST_CAUSES: Final = 100
_MOST_DIGITS: Final = 12  # of a number of epochs
_CAUSE: Final = (
    *("node", "kind", "host", "pid", "attempt", "phase", "epoch", "batch", "seconds", "detail", "exit_code", "signal"),
    *("rank", "reason"),
)
_SIGKILL: Final = 9
_NOT_SENT: Final = " A SIGKILL that nobody sent is mostly the system's, for want of memory."
_FOLLOWS: Final = 2  # `rpc.Verdict.rank` of a consequence of a loss
Cause = Mapping[str, Any]


class Event(NamedTuple):
    """Failure, or another end that is not good.

    Args:
        heading: its heading.
        answers: the sentences on it, question by question.
        message: the text of the error.
        verdicts: the words of its nodes.
        is_failure: whether it is a failure.
    """

    heading: str
    answers: list[tuple[str, str]]
    message: str = ""
    verdicts: Sequence[str] = ()
    is_failure: bool = True


def events(records: RunRecords) -> list[Event]:
    """List all failures, in order of time; nothing of a run in which no node failed."""
    outcome = records.outcome
    found = [_incident(records, incident) for incident in outcome.get("incidents", ())]
    if not outcome:
        said = "it still goes on, or who started it ended before it could write down how it ended (outcome.json)"
        found.append(Event("The run has not ended", [("What is known", f"Nothing of an end: {said}.")], is_failure=False))
    elif outcome.get("message") or outcome.get("state") not in (None, "done"):
        found.append(_end(records))
    elif outcome.get("failures"):
        nodes = [int(node) for node, *_ in outcome["failures"]]
        said = f"{_begin(people(nodes))} did not end well; the others went on without, because they hold the same blocks."
        answers = [("Who failed", said)]
        # the last line of a traceback names the error
        ends = [(int(node), line) for node, _, detail in outcome["failures"] for line in str(detail).strip().splitlines()[-1:]]
        if ends:
            answers.append(("How it ended", " ".join(f"{_begin(people([node]))}: {line}" for node, line in ends)))
        untold = sum(records.history.untold.values())
        figures = f", but {lost_steps(untold)}" if untold else ""
        answers.append(("What is lost", f"Nothing that the result needs{figures}."))
        found.append(Event("Not all ended well", answers))
    if outcome.get("state") == "done" and outcome.get("notes"):
        told = [("What it was", " ".join(map(str, outcome["notes"])))]
        found.append(Event("Something went wrong on the way, and the job went on", told, is_failure=False))
    return found


def lines(records: RunRecords) -> str:
    """Return the last event as text, a line for each question."""
    return "\n".join(f"{question}: {answer}" for event in events(records)[-1:] for question, answer in event.answers)


def section(records: RunRecords) -> str:
    """Return the events as a part of the page, with the words of the nodes below them."""
    return "".join(map(_shown, events(records))) + _failures(records.outcome)


def said_of(failed: JobFailed) -> dict[str, Any]:
    """Return the record of an attempt that failed, the first causes first: in its words, and as fields for code that makes
    other words of them.
    """
    verdicts = failed.verdicts[:_MOST_CAUSES]
    causes = [{name: getattr(verdict, name) for name in _CAUSE} for verdict in verdicts]
    return {"message": str(failed), "verdicts": [verdict.describe() for verdict in verdicts], "causes": causes}


def end_of(error: BaseException, goes_on: bool) -> dict[str, Any]:
    """Return the record of the end of a job that ended with `error`, or that `goes_on` without the submitter that waited for
    it.
    """
    end: dict[str, Any] = {"message": f"{type(error).__name__}: {error}".rstrip(": ")}
    stopped = isinstance(error, KeyboardInterrupt)
    if isinstance(error, JobFailed):
        end = {**said_of(error), "reason": error.reason}
        end["failures"] = [[node, state, detail] for node, (state, detail) in error.failures.items()]
        caused = any(verdict.rank != _FOLLOWS for verdict in error.verdicts)
        # stopped by a person, unless a failure had caused it
        stopped = not caused and all(state == "stopped" for state, _ in error.failures.values())
    end["notes"] = [str(note) for note in getattr(error, "__notes__", ())]
    return {**end, "state": "left" if goes_on else "stopped" if stopped else "failed"}


def _shown(event: Event) -> str:
    answers = "".join(f"<dt>{escape(question)}</dt><dd>{escape(answer)}</dd>" for question, answer in event.answers)
    said = f'<p class="said">{escape(event.message)}</p>' if event.message else ""
    told = f"<pre>{escape(chr(10).join(event.verdicts))}</pre>" if event.verdicts else ""
    below = folded("In the words of the log and of the failure detector", said + told) if said or told else ""
    kind = "event" if event.is_failure else "event calm"
    return f'<div class="{kind}"><h3>{escape(event.heading)}</h3><dl>{answers}</dl>{below}</div>'


def _failures(outcome: Mapping[str, Any]) -> str:
    failed = outcome.get("failures") or ()
    # the last line of a traceback names the error
    rows = [(worker(int(node)), state, *(detail.strip().splitlines()[-1:] or [""])) for node, state, detail in failed]
    parts = [table(["node", "ended", "what it said last"], rows, "Nodes that did not end well")] if rows else []
    for node, _, detail in failed:
        if detail.strip().count("\n"):
            parts.append(folded(f"Traceback of {worker(int(node))}", f"<pre>{escape(detail[-_MOST_TEXT:])}</pre>"))
    if outcome.get("fault"):
        parts.append(f"<p>Faults that the job asked for: <code>{escape(outcome['fault'])}</code></p>")
    return "".join(parts)


def _incident(records: RunRecords, incident: Mapping[str, Any]) -> Event:
    """Return an attempt after which the job went on."""
    number, moment = int(incident["attempt"]) + 1, float(incident["time"])
    answers = _culprits(records, incident.get("causes") or (), incident["message"])
    later = [(row.begin, row, node) for node, rows in records.batches.items() for row in rows if row.begin > moment]
    said, took = "All nodes were started again.", "the time"
    if later:
        # the first batch after the failure, of any worker
        begin, row, _ = min(later)
        ran = _nodes_of(records, number + 1)
        on = f", with {people(ran)}" if ran else ""
        said = f"Training went on with epoch {row.epoch}, batch {row.batch}{on}."
        took = seconds(begin - moment)
    answers.append(("What was done", said))
    undone = _undone(records, number)
    lost = f"{_count(undone, 'block')} had to be computed again. And" if undone else "No batch that had been applied, only"
    answers.append(("What is lost", f"{lost} {took} until training went on."))
    return Event(f"Attempt {number} failed, {stamp(moment)}", answers, str(incident["message"]), incident["verdicts"])


def _end(records: RunRecords) -> Event:
    outcome = records.outcome
    state, message = str(outcome.get("state", "failed")), str(outcome.get("message", ""))
    verdicts, causes = outcome.get("verdicts") or (), outcome.get("causes") or ()
    notes = [str(note) for note in outcome.get("notes") or ()]
    if state == "left":
        job = records.run.job if records.run else "JOB"
        answers = [
            ("Who failed", "Nobody: who submitted the job has left it, and it goes on without."),
            ("What to do", f"'psgd attach {job}' follows it again, and completes this folder when it has ended."),
        ]
        return Event("The job was left running", answers, message, verdicts, is_failure=False)
    if state == "stopped":
        by = "Ctrl-C" if message == INTERRUPT else "'psgd stop' or on one of its nodes"
        answers = [("Who failed", f"Nobody: the job was stopped by {by}.")]
    else:
        answers = _culprits(records, causes, message, notes)
        if outcome.get("failures"):
            answers.append(("What was done", _done(outcome, causes)))
    # without causes they stand behind the message
    if notes and (causes or state == "stopped"):
        answers.append(("What went wrong before", " ".join(notes)))
    answers.append(("What is lost", _lost(records)))
    stopped, said = state == "stopped", "" if message == INTERRUPT else message
    return Event("The job was stopped" if stopped else "The job failed", answers, said, verdicts, not stopped)


def _culprits(records: RunRecords, causes: Sequence[Cause], message: str, notes: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Name the nodes that failed first, and how that was noticed."""
    if not causes:
        said = message if message.endswith((".", "!", "?")) else f"{message}."
        return [("Who failed", " ".join([said, *notes]))]
    first = [cause for cause in causes if cause["rank"] == causes[0]["rank"]]
    # consequences of one loss are many; the first says it
    if causes[0]["rank"] == _FOLLOWS:
        first = first[:1]
    alike: dict[tuple[str, str], list[Cause]] = {}
    for cause in first:
        alike.setdefault(_what(cause), []).append(cause)
    found = [
        f"{_begin(people([cause['node'] for cause in own]))} {what}, {_where(own)}{error}."
        for (what, error), own in alike.items()
    ]
    noticed = dict.fromkeys(_noticed(cause, str(records.outcome.get("fault", ""))) for cause in first)
    return [("Who failed", " ".join(found)), ("How it was noticed", " ".join(noticed))]


def _what(cause: Cause) -> tuple[str, str]:
    """Describe the failure of a node, and its error."""
    kind, detail = cause["kind"], str(cause["detail"]).rstrip(".")
    lost = _LOST.search(detail)
    if kind == "crashed" and cause["signal"]:
        reason = str(cause["reason"]).rstrip(".")
        return f"died, {reason[:1].lower()}{reason[1:]}", ""
    if kind == "crashed" and lost and cause["rank"] == _FOLLOWS:
        return f"lost its connection with {worker(int(lost[1]))} ({lost[2]})", ""
    if kind == "crashed":
        return "raised an error", f": {detail}" if detail else ""
    told: Mapping[str, str] = {
        "exited": f"ended by itself with exit code {cause['exit_code']}",
        "stuck": "hung",
        "silent": f"fell silent with its machine {cause['host']}",
        "cut": "was cut off from others",
        "deadlock": "waited for others, who waited too",
    }
    return told.get(kind, str(kind)), ""


def _where(causes: Sequence[Cause]) -> str:
    cause = causes[0]
    place = f"in epoch {cause['epoch']}, batch {cause['batch']}" if cause["epoch"] else "before the first batch"
    # one process can be named; of several the numbers do
    process = f" (process {cause['pid']} on {cause['host']})" if len(causes) == 1 else ""
    return f"{place} of attempt {cause['attempt'] + 1}{process}"


def _noticed(cause: Cause, fault: str) -> str:
    """Tell how the failure of a node was noticed; `fault`: those that the job asked for."""
    detail = str(cause["detail"])
    if cause["kind"] == "crashed" and cause["signal"]:
        # one of another attempt has no part in this end
        attempt = rf"(@a(\*|{cause['attempt'] + 1}))" + "?" * (cause["attempt"] == FIRST)
        asked = re.search(rf"\bkill {node_text(cause['node'])}@e[\d.b]+{attempt}(?=;|$)", fault)
        sent = _NOT_SENT if asked is None else f" The job had asked for it: {asked[0]}."
        return f"Its agent saw the process end.{sent if cause['signal'] == _SIGKILL else ''}"
    if cause["kind"] == "crashed" and cause["rank"] == _FOLLOWS:
        return "The process reported it; nobody had died or hung before, so look at the network between the two."
    told: Mapping[str, Callable[[], str]] = {
        "crashed": lambda: "The process reported the error itself; its traceback is below.",
        "exited": lambda: "Its agent saw the process end.",
        "stuck": lambda: f"It made no progress for {cause['seconds']:.1f} s. {detail}",
        "silent": lambda: f"Nothing came from its agent for {cause['seconds']:.1f} s, no heartbeat either. {detail}",
        "cut": lambda: f"For {cause['seconds']:.1f} s no batch went on. {detail}",
        "deadlock": lambda: f"For {cause['seconds']:.1f} s no batch went on. {detail}",
    }
    return told.get(cause["kind"], lambda: detail)().strip()


def _done(outcome: Mapping[str, Any], causes: Sequence[Cause]) -> str:
    """Tell the end of the other nodes, and why nothing more was tried."""
    # the causes themselves are told above
    culprits = {cause["node"] for cause in causes if cause["rank"] == causes[0]["rank"] != _FOLLOWS}
    others = [int(node) for node, *_ in outcome.get("failures") or () if int(node) not in culprits]
    parts = [f"{_begin(people(others))} ended{', too: nobody can go on alone' * bool(culprits)}."] if others else []
    again, policy = len(outcome.get("incidents") or ()), (outcome.get("settings") or {}).get("on_failure")
    if again:
        parts.append(f"The job had been started again {_count(again, 'time')} before.")
    if outcome.get("reason") or policy:  # elsewhere the policy is unknown
        parts.append(str(outcome.get("reason") or f"It was not started again: on_failure is {policy!r}."))
    return " ".join(parts)


def _lost(records: RunRecords) -> str:
    """Tell how far training had come, and from where it can go on."""
    settings = records.outcome.get("settings") or {}
    asked = str(settings.get("epoch", ""))
    parts = ["The result."]
    if (far := _far(records)) is not None:
        total, each = far
        of, epochs = (
            (f" of {each * int(asked):,}", f" of {asked}") if asked.isdecimal() and len(asked) < _MOST_DIGITS else ("", "")
        )
        whole = f"{total // each}{epochs} epochs were" if epochs or total // each != 1 else "1 epoch was"
        parts.append(f"{total:,}{of} batches had been trained: {whole} complete.")
    else:
        parts.append("No batch had been trained, as far as the tables tell.")
    if (kept := checkpoint_of(records) or origin_of(records)) is not None:
        parts.append(f"{kept}: {_AGAIN} from it.")
    elif not _keeps_none(records) and _nodes(records) == ON_AGENTS:
        parts.append(f"If its agents have kept checkpoints, {_AGAIN} from the newest.")
    elif not _keeps_none(records) and _nodes(records) == ON_LAUNCHED_AGENTS:
        parts.append("Checkpoints that its workers had end with the workers, which the program itself had launched.")
    else:
        parts.append("There is no checkpoint.")
    return " ".join(parts)


def checkpoint_of(records: RunRecords) -> str | None:
    """Tell the newest checkpoint from which a run that has not ended well can go on; None where none is known of."""
    stores = stores_of_run(records.run) if records.run else []
    if kept := [place for store in stores for path in store.folder.glob("*") if (place := position_of(path.name))]:
        epoch, batch = max(kept)
        after = f"epoch {epoch + 1}, batch {batch}" if batch else f"epoch {epoch}"
        return f"The newest checkpoint is that of {after}"
    far, every = _far(records), str((records.outcome.get("settings") or {}).get("checkpoint_every"))
    if far is None or _nodes(records) != ON_AGENTS:
        return None
    # those of agents are not here, but the worker that is behind all others has saved its own by then
    total, each = far
    needed = each if every == EPOCH else int(every) if every.isdecimal() and len(every) < _MOST_DIGITS else total + 1
    return "Its agents have checkpoints" if total >= needed else None


def origin_of(records: RunRecords) -> str | None:
    """Tell the origin of a run without checkpoints of its own, and its checkpoint on this machine; None where there is none, or
    agents may have a newer one.
    """
    found = None
    if records.run is not None and (_nodes(records) != ON_AGENTS or _keeps_none(records)):
        found = checkpoint_before(records.run)
    if found is None:
        return None
    name, position = found
    return f"It had gone on from {name}, whose newest checkpoint is after {position}"


def why_none(records: RunRecords) -> str:
    """Tell why a run that was stopped has no checkpoint of its own that is known of."""
    if (origin := origin_of(records)) is not None:
        return f"{origin}: it goes on from there again."
    if _keeps_none(records):
        return "It cannot go on, for it kept no checkpoints."
    if _nodes(records) == ON_AGENTS:
        return f"If its agents have kept checkpoints, {_AGAIN} from the newest."
    if _nodes(records) == ON_LAUNCHED_AGENTS:
        return "It cannot go on: its checkpoints ended with its workers, which the program itself had launched."
    return "It cannot go on, for it was stopped before its first checkpoint: it begins again at epoch 1."


def _keeps_none(records: RunRecords) -> bool:
    return str((records.outcome.get("settings") or {}).get("checkpoint_every")) == "None"


def _nodes(records: RunRecords) -> str:
    """Return the word for the nodes of a run; a run that was fetched from its agents tells none."""
    return ON_AGENTS if records.run is None else str(records.run.about.get(NODES, ON_AGENTS))


def _far(records: RunRecords) -> tuple[int, int] | None:
    """Return how many batches the worker that is behind all others has trained, and how many make an epoch."""
    found = []
    for tables in records.tables.values():
        last = [column[-1] for name in ("Total", "in") if (column := tables.get("TR", {}).get(name))]
        numbers = [int(value) for value in last if isinstance(value, float) and 0 < value < _MOST_BATCHES]
        if len(numbers) == len(("Total", "in")):
            found.append((numbers[0], numbers[1]))
    return min(found, default=None)


def _undone(records: RunRecords, attempt: int) -> int:
    columns = [records.ledger.get(name, []) for name in ("attempt", "committed")]
    return sum(1 for number, committed in zip(*columns, strict=False) if number == attempt and committed == 0)


def _nodes_of(records: RunRecords, attempt: int) -> list[int]:
    """Return the nodes of the blocks that the ledger has of an attempt."""
    columns = [records.ledger.get(name, []) for name in ("node", "attempt")]
    return sorted({int(float(node)) for node, number in zip(*columns, strict=False) if number == attempt})


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"


def people(nodes: Collection[int]) -> str:
    """Name some nodes as a sentence does.

    >>> people([2, 0, 1])
    'workers 0, 1 and 2'
    """
    workers = sorted(node for node in set(nodes) if node != PARAMETER_SERVER)
    parts: Iterable[str] = ["the parameter server"] if PARAMETER_SERVER in nodes else []
    if len(workers) > _MOST_NAMED:
        parts = [*parts, f"{len(workers)} workers"]
    elif len(workers) > 1:
        parts = [*parts, f"workers {', '.join(map(str, workers[:-1]))} and {workers[-1]}"]
    elif workers:
        parts = [*parts, worker(workers[0])]
    return " and ".join(parts)


def _begin(text: str) -> str:
    return text[:1].upper() + text[1:]
