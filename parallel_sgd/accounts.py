"""Exact accounts of a node: what travelled per codec, variable, link and direction, in bytes and packets; what time went into.

A sender enters a packet when it is posted, a receiver when it is delivered, whether or not a codec takes it. So for every
link and variable sent = received + in flight, which `check_conserved` asserts.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import NamedTuple

from network.message import Message
from network.wire import Sent

from .channel import Wait

__all__ = ["RECEIVED", "SENT", "Entry", "NodeAccounts", "Times"]
SENT = "sent"
RECEIVED = "received"


class Entry(NamedTuple):
    """One line of the accounts of a node; sizes in bytes, `wire` = `raw` + `overhead`."""

    codec: str
    variable: int
    peer: int
    direction: str
    packets: int
    raw: int
    wire: int
    overhead: int


class NodeAccounts(list[Entry]):
    """The lines of one node. Attributes: `times`, what it spent its time on; `staleness`, under asynchronous types on the
    parameter server {steps: gradients that were so many steps old when they were applied}, added up over the variables.
    """

    def __init__(self, entries: Iterable[Entry], times: Times, staleness: Mapping[int, int]) -> None:
        super().__init__(entries)
        self.times = times
        self.staleness = dict(sorted(staleness.items()))

    def describe(self) -> list[str]:
        """Lines for the log: what was sent and received, in all and by each codec, the times, the staleness."""
        lines = []
        for codec in ("", *sorted({entry.codec for entry in self})):
            for direction in (SENT, RECEIVED):
                rows = [entry[4:] for entry in self if codec in ("", entry.codec) and entry.direction == direction]
                packets, raw, wire, overhead = (sum(column) for column in zip((0, 0, 0, 0), *rows, strict=True))
                size = f"raw {raw} + overhead {overhead} = wire {wire} bytes"
                lines.append(f"{codec} {direction}: {packets} packets, {size}." if codec else f"Packets {direction}: {size}.")
        lines.append(f"Time: {self.times}.")
        if self.staleness:
            ages = ", ".join(f"{count} of {steps}" for steps, count in self.staleness.items())
            lines.append(f"Staleness of gradients in steps: {ages}.")
        return lines


class AccountError(Exception):
    """Bytes or packets are missing or came from nowhere."""


class Accounts:
    """The books of one node. `codecs` names the codec class of each variable; `watch` adds up its seconds.

    `rows` holds packets, raw bytes and overhead by (direction, variable, peer): who enters many packets adds to them there;
    `encoding` and `merging` the seconds of the codec of each variable.
    """

    def __init__(self, node_id: int, codecs: Sequence[str]) -> None:
        self.node_id = node_id
        self._codecs = tuple(codecs)
        self.rows: defaultdict[tuple[str, int, int], list[int]] = defaultdict(lambda: [0, 0, 0])
        self.encoding, self.merging = [0.0] * len(codecs), [0.0] * len(codecs)
        self.watch = Stopwatch()

    def sent(self, variable: int, peer: int, size: Sent) -> None:
        _enter(self.rows[SENT, variable, peer], size)

    def received(self, variable: int, peer: int, size: Message) -> None:
        _enter(self.rows[RECEIVED, variable, peer], size)

    def entries(self) -> list[Entry]:
        """All lines, ordered by direction, variable and peer."""
        return [
            Entry(self._codecs[variable], variable, peer, direction, packets, raw, raw + overhead, overhead)
            for (direction, variable, peer), (packets, raw, overhead) in sorted(self.rows.items())
        ]

    def close(self, staleness: Mapping[int, int]) -> NodeAccounts:
        return NodeAccounts(self.entries(), self.watch.times(), staleness)

    def costs(self) -> list[tuple[str, int, float, float]]:
        """Class, variable, and the seconds of its codec with own blocks and with received packets, of codecs that took any."""
        seconds = enumerate(zip(self._codecs, self.encoding, self.merging, strict=True))
        return [(codec, variable, encode, merge) for variable, (codec, encode, merge) in seconds if encode or merge]

    def total(self, direction: str) -> Sent:
        """The bytes of one direction over all variables and links."""
        sums = [sums for (way, _, _), sums in self.rows.items() if way == direction]
        return Sent(*(sum(column) for column in zip(*(row[1:] for row in sums), strict=True))) if sums else Sent(0, 0)

    def targets(self, variable: int) -> set[int]:
        return {peer for way, of, peer in self.rows if way == SENT and of == variable}


def _enter(row: list[int], size: Sent | Message) -> None:
    row[0] += 1
    row[1] += size.raw
    row[2] += size.overhead


def unread(books: Mapping[int, Iterable[Entry]], unheard: Mapping[int, Iterable[int]]) -> Counter[tuple[int, int, int]]:
    """Packets in flight for `check_conserved` on the links where the receiver went first.

    `unheard` holds the nodes whose BYE a node did not hear before it went, so that it read no more from them.
    """
    gone_first = {(sender, receiver) for receiver, senders in unheard.items() for sender in senders}
    flying: Counter[tuple[int, int, int]] = Counter()
    for node, entries in books.items():
        for entry in entries:
            if entry.direction == SENT and (node, entry.peer) in gone_first:
                flying[node, entry.peer, entry.variable] += entry.packets
            elif entry.direction == RECEIVED and (entry.peer, node) in gone_first:
                flying[entry.peer, node, entry.variable] -= entry.packets
    return flying


def check_conserved(books: Mapping[int, Iterable[Entry]], in_flight: Mapping[tuple[int, int, int], int]) -> None:
    """Assert that sent = received + in flight for every link and variable of a job, and wire = raw + overhead.

    `books` holds the entries of each node, `in_flight` the packets per (sender, receiver, variable) that were posted and not
    delivered. A link that is not among them is judged on bytes too. Links to nodes without books are left out.

    Raises: AccountError naming node, peer and variable of the first discrepancy.
    """
    sent: dict[tuple[int, int, int], Entry] = {}
    received: dict[tuple[int, int, int], Entry] = {}
    for node, entries in books.items():
        for entry in entries:
            if entry.wire != entry.raw + entry.overhead:
                raise AccountError(f"Node({node}): wire bytes are not raw bytes plus overhead in {entry}.")
            if entry.peer in books:
                if entry.direction == SENT:
                    sent[node, entry.peer, entry.variable] = entry
                else:
                    received[entry.peer, node, entry.variable] = entry
    for key in sorted(sent.keys() | received.keys()):
        out, into, flying = sent.get(key), received.get(key), in_flight.get(key, 0)
        posted, arrived = (out[4:] if out else (0, 0, 0, 0)), (into[4:] if into else (0, 0, 0, 0))
        if posted[0] != arrived[0] + flying or (key not in in_flight and posted != arrived):
            raise AccountError(
                f"Node({key[0]}) sent {posted} of variable {key[2]} to node({key[1]}), where {arrived} arrived and {flying} "
                f"packet(s) are in flight (packets, raw, wire and overhead bytes)."
            )


Figures = dict[str, float]


class Times(NamedTuple):
    """Seconds, which add up to those from the first batch to the end.

    `compute`: forward, backward, the rule, evaluations and reports; `encode`: codecs with the node's own blocks, or a server's
    answers; `send`: handing packets to the system; `wait`: for others, while the system also takes what it did not take at
    once; `merge`: codecs with received packets. A parameter server computes nothing but its bookkeeping. Of nodes that share
    a process, each waits while another one runs.
    """

    compute: float
    encode: float
    send: float
    wait: float
    merge: float

    @property
    def total(self) -> float:
        return sum(self)

    def __str__(self) -> str:
        parts = " + ".join(f"{name} {seconds:.3f}" for name, seconds in zip(self._fields, self, strict=True))
        return f"{parts} = {self.total:.3f} s"


class Stopwatch:
    """Adds up the seconds of one node. Whoever does the work adds its own to `encode`, `send` and `merge`, each second once.

    `clock` returns monotonic seconds; `sent` is when packets were last handed to the system.
    """

    __slots__ = ("_start", "_stop", "clock", "encode", "merge", "send", "sent", "wait")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.encode = self.send = self.wait = self.merge = self.sent = 0.0
        self._start: float | None = None
        self._stop: float | None = None

    def times(self) -> Times:
        """What came together since `timed` began, until now or its end; all that nothing else was measured for is `compute`."""
        if self._start is None:
            return Times(0.0, 0.0, 0.0, 0.0, 0.0)
        total = (self.clock() if self._stop is None else self._stop) - self._start
        compute = total - self.encode - self.send - self.wait - self.merge
        return Times(compute, self.encode, self.send, self.wait, self.merge)

    def timed(self, process: Generator[Wait, None, Figures]) -> Generator[Wait, None, Figures]:
        """The same process; `wait` is what passes until it is resumed, without what was sent and merged in the meantime."""
        clock = self.clock
        self._start = clock()
        try:
            while True:
                try:
                    wait = next(process)
                except StopIteration as end:
                    figures: Figures = end.value
                    return figures
                start, other = clock(), self.send + self.merge
                yield wait
                self.wait += clock() - start - (self.send + self.merge - other)
        finally:
            process.close()
            self._stop = clock()
