"""Data of the charts of a page, as plain data: small enough for a page of a long run, and nothing made up."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from math import isfinite
from typing import Any, Final

from network.nodes import PARAMETER_SERVER
from parallel_sgd.record.history import BYTES, CLIENT_BYTES, COUNTS, EPOCH, SECONDS, STEP, JobHistory
from parallel_sgd.record.machine import SIMULATED, WORKERS_IN_TURN, crowd_in
from parallel_sgd.record.over_clients import is_over_clients, lines_over_clients
from parallel_sgd.record.simulated import is_time_only
from parallel_sgd.record.summary import Best, Effort, best_epoch, effort_of, times_of
from parallel_sgd.record.tables import Column

from .blame import ALL_CODECS, CORES, DATA, LINK, NODE, PAUSE, SEND, START, Blame, Cause, blame, keys_of, was_away
from .client_data import clients_data
from .records import Batch, Key, RunRecords, Runs
from .terms import ORDER, figure, word

_MOST_DIGITS: Final = 18
#: The phase in which a worker takes the seconds of a kind of cause.
_PHASE_OF: Final = {NODE: "compute", DATA: "data", SEND: "send", PAUSE: "between"}
#: Causes that are turns on the cores where workers share them: a packet waits for its receiver, a worker for its begin.
_TURNS: Final = (LINK, START)
#: Boxes of all workers together; of longer runs neighbouring batches are added up.
_MOST_BATCHES: Final = 12_000
_RECENT: Final = 500
_MOST_POINTS: Final = 1_200
_MOST_LINES: Final = 80
#: Names of the lines of counts.
_OF_ALL: Final = {BYTES: "all nodes", CLIENT_BYTES: "all clients", SECONDS: "the clients' clock"}
Cell = list[float]


def page_data(records: RunRecords, shown: int | None = None) -> dict[str, Any]:
    """Return the content of a page. Times are in seconds, in `batches` in microseconds since the first batch.

    `shown`: of each worker only so many batches, the last ones, and blame by the last `_RECENT`.
    """
    runs = records.batches if shown is None else {node: rows[-_RECENT:] for node, rows in records.batches.items()}
    crowd = crowd_of(records)
    failures = [incident["time"] for incident in records.outcome.get("incidents", ())]
    found = blame(runs, records.costs(), failures)
    return {
        "causes": [
            {"kind": cause.kind, "place": _placed(cause.kind, cause.place), "seconds": cause.seconds, "text": cause.describe()}
            for cause in (_in_turns(found.causes, crowd[0]) if crowd else found.causes)
        ],
        "restarts": _restarts(records),
        "ordinary": dict(found.ordinary),
        "seconds": found.seconds,
        "recent": max(map(len, runs.values()), default=0),
        "phases": _phases(runs, failures),
        "curves": curves(records.history),
        "waits": _waits(found, runs),
        "clients": clients_data(records, records.history),
        **_bytes(records),
        "batches": _batches(runs if shown is None else {node: rows[-shown:] for node, rows in runs.items()}, failures),
    }


def crowd_of(records: RunRecords) -> tuple[int, int] | None:
    """Return how many workers shared how many cores of one machine; None where each could have one, or where it is unknown."""
    return crowd_in(records.environment)


def platform_of(records: RunRecords) -> str:
    """Return the platform of a simulated run in a line, "" of any other.

    Args:
        records: those of the run.
    """
    return str(records.environment.get(SIMULATED, ""))


def best_of(records: RunRecords, history: JobHistory) -> Best | None:
    """Return the best epoch of a run; None of one without an evaluation, or in which nothing is learned.

    Args:
        records: those of the run.
        history: that in its tables.
    """
    return None if is_time_only(platform_of(records)) else best_epoch(history)


def effort_in(records: RunRecords) -> Effort | None:
    """Return how the workers of a run have spent their time; None where none has told it."""
    told = records.settings.get("redundancy", "")
    # a number with more digits is no count: any program may have written the file
    copies = int(told) if told.isdecimal() and len(told) < _MOST_DIGITS else 1
    # of many workers in one process, taking turns or simulated, only the first have tables of seconds
    together = str(
        records.environment.get(WORKERS_IN_TURN, records.settings.get("workers", "") if platform_of(records) else "")
    )
    workers = int(together) if together.isdecimal() and len(together) < _MOST_DIGITS else 0
    copies = max(1, copies)
    effort = effort_of((times_of(each["TI"]) for each in records.tables.values() if "TI" in each), copies, workers)
    history = records.history
    # tables of seconds are of the workers that are left, and of epochs that one process has trained as a whole
    went_on = history.parts or history.untold or records.outcome.get("failures")
    if effort is None or not went_on:
        return effort
    spent, steps, between = _computed(records)
    every = history.told.total() + sum(history.untold.values())
    return effort._replace(alone=(spent / steps * every + between) / copies) if steps else effort


def _computed(records: RunRecords) -> tuple[float, int, float]:
    """Return the seconds of compute in the batches of which workers have told them, the block steps in these, and the seconds
    of compute between batches, such as of evaluations.
    """
    spent, steps, between = 0.0, 0, 0.0
    for node, tables in records.tables.items():
        in_epochs: defaultdict[int, float] = defaultdict(float)
        trained = tables.get("TR", {})
        # to the shorter column: a table that is cut off ends within a row
        places = zip(trained.get("Epochs", ()), trained.get("Batches", ()), strict=False)
        told = Counter((int(epoch), int(batch)) for epoch, batch in places)
        for row in records.batches.get(node, ()):
            if row.key in told:
                in_epochs[row.epoch] += row.compute
                steps += told[row.key]
        spent += sum(in_epochs.values())
        # of an epoch that went on within it the table has the seconds since
        times = tables.get("TI", {})
        for epoch, compute in zip(times.get("Epochs", ()), times.get("Compute", ()), strict=False):
            between += max(0.0, float(compute) - in_epochs[int(epoch)])
    return spent, steps, between


def _in_turns(causes: Sequence[Cause], workers: int) -> list[Cause]:
    """Return causes in which no link of the one machine is accused of the seconds that the turns on its cores took."""
    turns = sum(cause.seconds for cause in causes if cause.kind in _TURNS)
    # on shared cores a packet that is late has waited for its receiver's turn
    kept = [cause for cause in causes if cause.kind not in _TURNS]
    kept += [Cause(CORES, f"{workers} workers", turns)] if turns else []
    return sorted(kept, key=lambda cause: -cause.seconds)


def _restarts(records: RunRecords) -> list[list[int]]:
    """Return the epoch and batch, from 1, in which each attempt failed that was followed by another one."""
    firsts = [(incident.get("causes") or [{}])[0] for incident in records.outcome.get("incidents", ())]
    return [[cause["epoch"], cause["batch"]] for cause in firsts if cause.get("epoch")]


def _placed(kind: str, place: str) -> str:
    """Return the label of a cause; its place stands first, since a label may be cut."""
    if kind == CORES:
        return f"{place} in turns"
    phase = START if kind == START else word(_PHASE_OF.get(kind, ""))
    return f"{place}: {phase}" if phase else place.replace(ALL_CODECS, "codecs")


def curves(history: JobHistory) -> dict[str, Any]:
    """Return lines by epoch and by step: training and test, the mean and each worker; of bytes also each of several codecs."""
    names = [name for name in history.columns() if name != EPOCH and not name.startswith("val_")]
    steps = [name for row in history.steps[:1] for name in row if name not in (EPOCH, "batch", "time")]
    tested = [name[4:] for name in history.columns() if name.startswith("val_") and not is_over_clients(name)]
    names = list(dict.fromkeys([*names, *steps, *tested]))
    return {
        "names": names,
        "titles": [*map(figure, names)],
        EPOCH: list(_lines(history, names, EPOCH)),
        STEP: list(_lines(history, names, STEP)),
    }


def _lines(history: JobHistory, names: Sequence[str], per: str) -> Iterator[dict[str, Any]]:
    own = history.workers.items() if 1 < len(history.workers) <= _MOST_LINES else ()  # the line of a single worker is the mean
    # batches of an epoch, by which batches are numbered through
    each = max((row["batch"] for row in history.steps), default=0) if per == STEP else 0
    for name in names:
        for node, worker in own:
            rows = worker.rows if per == EPOCH else worker.steps
            yield from _line(name, name, f"worker {node}", rows, each, of_all=False)
        rows = history.rows if per == EPOCH else history.steps
        yield from _line(name, name, _OF_ALL.get(name, "training"), rows, each)
        if name == BYTES:
            yield from _lines_of_codecs(history.traffic, rows, each)
        if per == EPOCH:
            for test, (column, label) in enumerate(((f"val_{name}", "test"), *lines_over_clients(name)), 1):
                yield from _line(name, column, label, rows, each, test=test)


def _lines_of_codecs(
    traffic: Sequence[Mapping[str, int | str]], rows: Sequence[Mapping[str, float]], each: float
) -> Iterator[dict[str, Any]]:
    """Yield a line of the bytes sent by each codec of several, with the places of `rows`."""
    sent: defaultdict[str, Counter[tuple[float, ...]]] = defaultdict(Counter)
    for row in traffic:
        at = (int(row[EPOCH]), int(row["batch"])) if each else (int(row[EPOCH]),)
        sent[str(row["codec"])][at] += int(row["bytes_sent"])
    for codec, by_place in sent.items() if 1 < len(sent) <= _MOST_LINES else ():
        places = [(row, (row[EPOCH], row["batch"]) if each else (row[EPOCH],)) for row in rows]
        yield from _line(BYTES, BYTES, codec, [{**row, BYTES: by_place[at]} for row, at in places], each, of_all=False)


def _line(
    metric: str, column: str, label: str, rows: Sequence[Mapping[str, float]], each: float, of_all: bool = True, test: int = 0
) -> Iterator[dict[str, Any]]:
    """Yield a line by epoch, or with `each` batches in an epoch by batch, counted from the first one on: rows may be
    missing. `test` is 0 in training; lines of other numbers are dashed, each of a colour of its own.
    """
    found = [((row[EPOCH] - 1) * each + row["batch"] if each else row[EPOCH], row[column]) for row in rows if column in row]
    # a curve breaks at a loss that is not finite; the rest of it is drawn
    found = [point for point in found if isfinite(point[1])]
    if found:
        shown = _MOST_POINTS if of_all else max(100, _MOST_POINTS // 4)
        # six digits are more than a screen shows
        points = [[x, float(f"{y:.6g}")] for x, y in found[:: -(-len(found) // shown)]]
        yield {"metric": metric, "label": label, "mean": of_all, "test": test, "points": points}


def _phases(runs: Runs, failures: Sequence[float]) -> dict[str, Any]:
    """Return the seconds of each worker by the phase of its work. A gap with one of the `failures` in it is a restart; one in
    which others have trained is none of its work.
    """
    workers, keys = sorted(runs), keys_of(runs)
    seconds = {name: [round(sum(getattr(row, name) for row in runs[node]), 6) for node in workers] for name in ORDER}
    gaps = [runs[node][-1].end - runs[node][0].begin - sum(row.total for row in runs[node]) for node in workers]
    known = [list(_gaps(runs[node], failures, keys)) for node in workers]
    restarts = [sum(restart for restart, _ in each) for each in known]
    # what is left of a gap beside these
    seconds["between"] = [round(max(0.0, gap - sum(map(sum, each))), 6) for gap, each in zip(gaps, known, strict=True)]
    if any(restarts):
        seconds["restart"] = [round(restart, 6) for restart in restarts]
    return {"workers": workers, "seconds": seconds}


def _gaps(rows: Sequence[Batch], failures: Sequence[float], keys: Sequence[Key]) -> Iterator[tuple[float, float]]:
    """Yield the seconds between two batches of a worker, in which an attempt failed, or others trained without it."""
    for before, after in pairwise(rows):
        if any(before.end <= moment <= after.begin for moment in failures):
            yield after.begin - before.end, 0.0
        elif was_away(before, after, keys):
            yield 0.0, after.begin - before.end


def _waits(found: Blame, runs: Runs) -> dict[str, Any]:
    nodes = sorted({*runs, *(node for pair in found.waits for node in pair)})
    # nodes without tables are waited for, and have no row that would stay empty
    waiters = sorted({*runs, *(who for who, _ in found.waits)})
    column = {node: number for number, node in enumerate(nodes)}
    row = {node: number for number, node in enumerate(waiters)}
    cells = [[column[peer], row[who], round(seconds, 6)] for (who, peer), seconds in sorted(found.waits.items())]
    return {"nodes": nodes, "waiters": waiters, "cells": cells}


def _rows(table: Mapping[str, Column], *names: str) -> Iterable[tuple[float | str, ...]]:
    return zip(*(table.get(name, []) for name in names), strict=False)


_OF_ACCOUNTS: Final = ("Codec", "Name", "Peer", "Direction", "Transport", "Wire")


def _bytes(records: RunRecords) -> dict[str, Any]:
    """Return bytes on the wire, by sender and receiver, also by transport, and by variable and sender; and the packets and
    bytes by node and codec.
    """
    ways: Counter[tuple[int, int, str]] = Counter()
    variables: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for node, tables in records.tables.items():
        for codec, name, peer, direction, way, wire in _rows(tables.get("AC", {}), *_OF_ACCOUNTS):
            if isinstance(peer, str) or isinstance(wire, str):  # the table is damaged
                continue
            if direction == "sent":
                ways[node, int(peer), str(way)] += int(wire)
                whose = f"{name} ({codec})" if name else str(codec)
                variables[whose][node] += int(wire)
            # the server's tables are not all there, so its bytes are what the workers have received
            elif int(peer) == PARAMETER_SERVER:
                ways[PARAMETER_SERVER, node, str(way)] += int(wire)
    links: Counter[tuple[int, int]] = Counter()
    for (of, to, _), wire in ways.items():
        links[of, to] += wire
    nodes = sorted({node for pair in links for node in pair})
    place = {node: number for number, node in enumerate(nodes)}
    # of many workers in one process only the first have accounts, and empty rows would say that the others had sent nothing
    rows = {node: number for number, node in enumerate(sorted({of for of, _ in links}))}
    names = sorted(variables, key=lambda name: -sum(variables[name].values()))[:_MOST_LINES]
    senders = sorted({node for name in names for node in variables[name]})
    cells = [[senders.index(node), row, wire] for row, name in enumerate(names) for node, wire in variables[name].items()]
    return {
        "links": {
            "nodes": nodes,
            "senders": [*rows],
            "cells": [[place[to], rows[of], wire] for (of, to), wire in sorted(links.items())],
            "ways": [[place[to], rows[of], way, wire] for (of, to, way), wire in sorted(ways.items())],
        },
        "variables": {"nodes": senders, "names": names, "cells": cells},
        "traffic": _traffic(records),
    }


def _traffic(records: RunRecords) -> list[list[Any]]:
    """Return the packets and bytes of each node and codec over all batches: node, codec, and the columns of counts of `BY`."""
    found: dict[tuple[int, str], list[int]] = {}
    for node, tables in records.tables.items():
        for codec, *counts in _rows(tables.get("BY", {}), "Codec", *COUNTS.values()):
            sums = found.setdefault((node, str(codec)), [0] * len(COUNTS))
            sums[:] = (before + int(count) for before, count in zip(sums, counts, strict=True))
    return [[*key, *counts] for key, counts in sorted(found.items()) if any(counts)]


def _batches(runs: Runs, failures: Sequence[float] = ()) -> dict[str, Any]:
    """Return rows of node, begin, the phases in order, epoch, batch, how many batches, the node that it waited for, when that
    one had sent.
    """
    zero = min((rows[0].begin for rows in runs.values()), default=0.0)
    sent = {(node, row.key): row.begin + row.sent for node, rows in runs.items() for row in rows}
    # neighbouring batches as one box, so that long runs stay readable and small
    group = -(-sum(map(len, runs.values())) // _MOST_BATCHES) or 1
    found = []
    for node, rows in sorted(runs.items()):
        for start in range(0, len(rows), group):
            together = rows[start : start + group]
            first, longest = together[0], max(together, key=lambda row: row.wait)
            # with several batches in a box an arrow would point into the middle of nothing
            left = None if longest.peer is None or group > 1 else sent.get((longest.peer, longest.key))
            found.append(
                [
                    node,
                    _micro(first.begin - zero),
                    *map(_micro, first.phases if group == 1 else map(sum, zip(*(row.phases for row in together), strict=True))),
                    first.epoch,
                    first.batch,
                    len(together),
                    longest.peer,
                    None if left is None else _micro(left - zero),
                ]
            )
    begins = sorted(row.begin for rows in runs.values() for row in rows)
    restarts = [
        [_micro(moment - zero), _micro(begins[bisect_left(begins, moment)] - zero)]
        for moment in failures
        if begins and zero <= moment <= begins[-1]
    ]
    return {"workers": sorted(runs), "rows": found, "restarts": restarts}


def _micro(seconds: float) -> int:
    return round(seconds * 1e6)
