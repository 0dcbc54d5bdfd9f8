"""Blame for the seconds of a run, along the chain of work that no node could have begun sooner.

The *critical path* goes back from the end of the run. The worker that computed at its end is followed back to where it waited;
the time from when the packet that ended the wait had left its sender is the link's; from there on the sender is followed. So
every second of the run is entered once, for a node that did something in it. The time that a worker needed beyond the others in
the same batch is its own fault, and so are seconds of links and codecs; time that all needed alike is ordinary work.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final, NamedTuple

from network.nodes import PARAMETER_SERVER

from .records import Batch, Key, Runs
from .terms import WAIT, worker

_LEAST = 20e-6  # seconds; a shorter wait is none
_SHARE = 0.001  # of the run; less is not told
Costs = Mapping[int, Sequence[tuple[str, float, float]]]

NODE, DATA, LINK, CODEC, SEND, PAUSE, SERVER_TURN = "node", "data", "link", "codec", "send", "pause", "server"
RESTART: Final = "restart"
CORES: Final = "cores"
START: Final = "start"
ALL_CODECS: Final = "of all variables together"
TOLD: Final = {
    NODE: "{place} computed longer than the others",
    DATA: "The samples of {place} came late",
    LINK: "Packets took long on {place}, or waited until their receiver was free",
    CODEC: "The codec {place} took time to encode and combine packets",
    SEND: "{place} took time to send its packets",
    PAUSE: "{place} evaluated the model, or saved it, between two batches",
    CORES: "{place} took turns, so packets waited for the turn of their receiver",
    RESTART: "All were started again after a failure",
    START: "{place} began its first batch later than the others",
    SERVER_TURN: "The {place} kept the workers waiting",
}


class Step(NamedTuple):
    """Piece of the critical path: work of one node, or the way of a packet, without which the run would have been shorter.

    Args:
        what: the kind of work, such as `compute`, or `link`.
        node: the node that did it.
        key: the batch in which it did it, (epoch, batch).
        seconds: how long it took.
        sender: of a link, the node that had sent.
    """

    what: str
    node: int
    key: Key
    seconds: float
    sender: int | None = None


class Cause(NamedTuple):
    """Cause without which the run would have been shorter.

    Args:
        kind: one of `TOLD`.
        place: the worker, link or codec.
        seconds: by how much it would have been shorter.
    """

    kind: str
    place: str
    seconds: float

    def describe(self) -> str:
        return TOLD[self.kind].format(place=self.place)


@dataclass(frozen=True)
class Blame:
    """Seconds of a run by their causes.

    Args:
        seconds: from the first batch to the end of the last one.
        ordinary: seconds of ordinary work, by phase.
        causes: the worst first.
        waits: seconds by (node that waited, node that it waited for), all of them, on the critical path or not.
    """

    seconds: float
    ordinary: Mapping[str, float]
    causes: Sequence[Cause]
    waits: Mapping[tuple[int, int], float]


def blame(runs: Runs, costs: Costs | None = None, failures: Sequence[float] = ()) -> Blame:
    """Find the causes of the seconds of a run.

    Args:
        runs: the batches of all workers, by node.
        costs: the seconds of their codecs, by node, where they are known.
        failures: the moments at which attempts had failed after which all were started again.

    >>> fast = Batch(1, 1, 0.0, 0, 1.0, 0, 0, 2.0, 0, 0, 1.0, 1.0, 3.0, 1)
    >>> slow = Batch(1, 1, 0.0, 0, 3.0, 0, 0, 0.0, 0, 0, 3.0, 3.0, 3.0, None)
    >>> found = blame({0: [fast], 1: [slow]})
    >>> found.causes, found.ordinary["compute"]
    ([Cause(kind='node', place='worker 1', seconds=2.0)], 1.0)
    """
    waits: Counter[tuple[int, int]] = Counter()
    for node, rows in runs.items():
        for row in rows:
            # every wait, on the path or not: the matrix of waits shows all
            if row.peer is not None:
                waits[node, row.peer] += row.wait  # type: ignore[assignment]
    # from the end, where each piece of time has one cause
    path = list(critical_path(runs, failures))
    normal = _normal(runs, {step.key for step in path})
    shares = {node: _shares(own) for node, own in (costs or {}).items()}
    ordinary: Counter[str] = Counter()
    faults: defaultdict[tuple[str, str], float] = defaultdict(float)
    alone: defaultdict[tuple[str, str], Counter[int]] = defaultdict(Counter)  # seconds of a codec of one worker beyond others
    for step in path:
        beyond = 1 - min(1.0, normal.get((step.what, step.key), 0.0) / step.seconds) if step.seconds else 0.0
        for kind, place, seconds in _entries(step, normal, shares):
            if place:
                faults[kind, place] += seconds
            else:
                ordinary[kind] += seconds  # type: ignore[assignment]
            if kind == CODEC:
                alone[kind, place][step.node] += seconds * beyond  # type: ignore[assignment]
    total = sum(step.seconds for step in path)
    causes = []
    for (kind, place), seconds in faults.items():
        # a codec that is slow on one worker alone is that worker's
        for node, own in alone[kind, place].most_common(1):
            place += f" on {worker(node)}" if own > seconds / 2 else ""
        if seconds > _SHARE * total:
            causes.append(Cause(kind, place, seconds))
    causes.sort(key=lambda cause: -cause.seconds)
    return Blame(total, dict(ordinary.most_common()), causes, dict(waits))


def critical_path(runs: Runs, failures: Sequence[float] = ()) -> Iterator[Step]:
    """Yield the pieces of the critical path, from the end of the run to its beginning; `failures` as in `blame`."""
    if not any(runs.values()):
        return
    places = {node: {row.key: place for place, row in enumerate(rows)} for node, rows in runs.items()}
    keys = keys_of(runs)
    node = max((node for node in runs if runs[node]), key=lambda one: runs[one][-1].end)
    place, hops = len(runs[node]) - 1, 0
    now = runs[node][place].end
    while True:
        row = runs[node][place]
        opened = row.begin + row.put
        if now > row.end - row.rule:
            yield Step("rule", node, row.key, now - (row.end - row.rule))
            now = row.end - row.rule
        if now > opened:
            waited = min(row.wait, now - opened)
            yield Step("merge", node, row.key, now - opened - waited)
            now = opened + waited
            # very short waits have no packet worth following
            if waited > _LEAST:
                sender, left = _sender(row, node, runs, places)
                reached = min(now, max(left, opened))
                # the sender's batch is followed; at most once around all workers, since clocks may disagree by a little
                is_followed = opened < left and runs[sender][places[sender][row.key]].begin < reached and hops < len(runs)
                # of another wait nothing else is known, so all of it is the link's
                yield Step("link", node, row.key, now - (reached if is_followed else opened), row.peer)
                if is_followed:
                    hops += 1
                    node, place, now = sender, places[sender][row.key], reached
                    continue
            elif waited:
                yield Step("merge", node, row.key, waited)
            now = opened
        hops = 0
        yield from _own(row, node, now)
        away = place > 0 and was_away(runs[node][place - 1], row, keys)
        if place and not away:
            before, place = node, place - 1
        # it has come, or been numbered anew, with a restart, or with a run that went on with this one
        elif (away or failures) and (ended := _ended_before(row.begin, runs)):
            before, place = ended
        else:
            # of those that began with the same batch; a worker that joined later is no cause
            first = min(rows[0].begin for rows in runs.values() if rows and rows[0].key == row.key)
            yield Step(START, node, row.key, row.begin - first)
            return
        now = min(runs[before][place].end, row.begin)  # clocks of two workers may disagree by a little
        restarted = any(now <= moment <= row.begin for moment in failures)
        # the table of the worker begins here: it was started later, or its rows are lost
        if before != node and not restarted and not away:
            return
        yield Step(RESTART if restarted else "between", node, row.key, row.begin - now)
        node = before


def keys_of(runs: Runs) -> list[Key]:
    """Return the batches that any worker has a row of, in order."""
    return sorted({row.key for rows in runs.values() for row in rows})


def was_away(before: Batch, after: Batch, keys: Sequence[Key]) -> bool:
    """Tell if other workers have trained batches between two rows of a worker, in which it had no part, or lost its rows.

    Args:
        before: the first of two neighbouring rows.
        after: the second one.
        keys: those of `keys_of`.
    """
    return bisect_left(keys, after.key) > bisect_right(keys, before.key)


def _ended_before(moment: float, runs: Runs) -> tuple[int, int] | None:
    """Return the worker that was the last to end a batch by then, and the place of the batch."""
    ended = [(row.end, node, place) for node, rows in runs.items() for place, row in enumerate(rows) if row.end <= moment]
    return max(ended)[1:] if ended else None


def _sender(row: Batch, node: int, runs: Runs, places: Mapping[int, Mapping[Key, int]]) -> tuple[int, float]:
    """Return the node with the packets that ended the wait of `node`, and when they had left: behind a server that is the last
    node that sent.
    """
    ended = row.begin + row.put + row.wait
    peers = [other for other in runs if other != node] if row.peer == PARAMETER_SERVER else [row.peer]
    moments = [
        (other.begin + other.sent, peer)
        for peer in peers
        if peer is not None and row.key in places.get(peer, ())
        for other in [runs[peer][places[peer][row.key]]]
        if row.peer != PARAMETER_SERVER or other.begin + other.sent <= ended
    ]
    left, sender = max(moments, default=(row.begin, node))
    return sender, left


def _own(row: Batch, node: int, until: float) -> Iterator[Step]:
    """Yield the work that a worker did by itself from the begin of a batch until then."""
    scale = (until - row.begin) / row.put if row.put > 0 else 0.0  # of a part of the time each kind of work has its share
    encode = min(row.encode, max(0.0, row.put - row.data - row.compute))
    rest = max(0.0, row.put - row.data - row.compute - encode)
    for what, seconds in (("send", rest), ("encode", encode), ("compute", row.compute), ("data", row.data)):
        yield Step(what, node, row.key, seconds * scale)


def _normal(runs: Runs, keys: set[Key]) -> dict[tuple[str, Key], float]:
    """Return the seconds that the work of a batch took the worker in the middle; of two, the faster one."""
    found: defaultdict[tuple[str, Key], list[float]] = defaultdict(list)
    for rows in runs.values():
        end: float | None = None
        for row in rows:
            if row.key in keys:
                for what in ("data", "compute", "encode", "merge", "rule"):
                    found[what, row.key].append(getattr(row, what))
                if end is not None:
                    found["between", row.key].append(max(0.0, row.begin - end))
            end = row.end
    # low: of two workers the faster one is the measure, so the slower one is to blame
    return {key: median_low(seconds) for key, seconds in found.items()}


Shares = tuple[Mapping[str, float], Mapping[str, float]]


def _shares(costs: Sequence[tuple[str, float, float]]) -> Shares:
    """Return, by codec, its share of the seconds in which codecs encoded, and in which they merged."""
    encode, merge = sum(row[1] for row in costs) or 1.0, sum(row[2] for row in costs) or 1.0
    return {row[0]: row[1] / encode for row in costs}, {row[0]: row[2] / merge for row in costs}


def _entries(
    step: Step, normal: Mapping[tuple[str, Key], float], shares: Mapping[int, Shares]
) -> Iterator[tuple[str, str, float]]:
    """Yield the entries of a step: kind, place and seconds; without a place it is ordinary."""
    what, seconds = step.what, step.seconds
    if what in ("compute", "rule", "data", "between"):
        # only the time beyond the usual of such a step is laid to a worker
        usual = min(seconds, normal.get((what, step.key), 0.0))
        kind = {"data": DATA, "between": PAUSE}.get(what, NODE)
        yield what, "", usual
        yield kind, worker(step.node), seconds - usual
    elif what == RESTART:
        yield RESTART, RESTART, seconds
    elif what == START:
        yield START, worker(step.node), seconds
    elif what == "link" and step.sender == PARAMETER_SERVER:
        yield SERVER_TURN, "parameter server", seconds
    elif what == "link" and step.sender is None:
        yield WAIT, "", seconds
    elif what == "link":
        yield LINK, link(step.node, step.sender or 0), seconds
    elif what == "send":
        yield SEND, worker(step.node), seconds
    else:
        own = shares.get(step.node, ({}, {}))[what == "merge"]
        for codec, share in own.items():
            yield CODEC, codec, seconds * share
        if not own:
            yield CODEC, ALL_CODECS, seconds


def link(one: int, other: int) -> str:
    low, high = sorted((one, other))
    return f"link {low}\N{EN DASH}{high}"
