"""Exact accounts of a node: what travelled per codec, variable, link, direction and transport; what time went
into, in all and in each batch, and whom that waited for.

A sender enters a packet when it is posted, a receiver when it is delivered, whether or not a codec takes it. So for every
link, variable and transport sent = received + in flight, which `check_conserved` asserts.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from operator import add
from typing import Final, NamedTuple

from network.message import Message
from network.wire import Sent

from .channel import Wait

__all__ = ["MEMORY", "RECEIVED", "SENT", "Entry", "NodeAccounts", "Times"]
SENT = "sent"
RECEIVED = "received"
MEMORY = "memory"


class Entry(NamedTuple):
    """One line of the accounts of a node; sizes in bytes, `wire` = `raw` + `overhead`.

    `transport` is `tcp`, `unix` (a socket), `memory` (shared by processes of one host) or `process` (`in_process`). A packet
    whose arrays are left in memory is one of `memory`, which has no overhead; the frame that tells of it is overhead of the
    socket, where it is no packet.
    """

    codec: str
    variable: int
    peer: int
    direction: str
    transport: str
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
        """Lines for the log: what was sent and received, in all, by each transport and codec, the times, the staleness."""
        lines = []
        ways, codecs = {f"By {entry.transport}" for entry in self}, {entry.codec for entry in self}
        for whose in ("", *sorted(ways), *sorted(codecs)):
            for direction in (SENT, RECEIVED):
                rows = [entry[5:] for entry in self if entry.direction == direction and _belongs(entry, whose)]
                packets, raw, wire, overhead = (sum(column) for column in zip((0, 0, 0, 0), *rows, strict=True))
                size = f"raw {raw} + overhead {overhead} = wire {wire} bytes"
                lines.append(f"{whose} {direction}: {packets} packets, {size}." if whose else f"Packets {direction}: {size}.")
        lines.append(f"Time: {self.times}.")
        if self.staleness:
            ages = ", ".join(f"{count} of {steps}" for steps, count in self.staleness.items())
            lines.append(f"Staleness of gradients in steps: {ages}.")
        return lines


def _belongs(entry: Entry, whose: str) -> bool:
    return whose in ("", entry.codec, f"By {entry.transport}")


class Joined(NamedTuple):
    """Neighbouring variables that travel as one vector, and how many numbers each has: by these bytes are shared out, and
    their parts add up. A packet is one of each."""

    variables: range
    sizes: tuple[int, ...]

    def shares(self, *sums: int) -> Iterator[tuple[int, list[int]]]:
        """Each variable with its parts of whole numbers."""
        end, total = 0, sum(self.sizes) or 1
        for variable, size in zip(self.variables, self.sizes, strict=True):
            start, end = end, end + size
            yield variable, [each * end // total - each * start // total for each in sums]

    def at(self, place: int) -> int:
        """The variable that holds the number at a place of the vector."""
        return self.variables[bisect_right(list(accumulate(self.sizes)), place)]


class AccountError(Exception):
    """Bytes or packets are missing or came from nowhere."""


class Accounts:
    """The books of one node. `codecs` names the codec class of each variable; `watch` adds up its seconds.

    `transport` names the socket to a peer. `rows` holds packets, raw bytes and overhead, and the packets and raw bytes of them
    that lay in memory, by (direction, variable, peer): who enters many packets adds to them there; `encoding` and `merging`
    the seconds of the codec of each variable. Where variables are `joined`, all are by the place among these vectors; results
    are by variable nevertheless.
    """

    def __init__(
        self, node_id: int, codecs: Sequence[str], transport: Callable[[int], str], joined: Sequence[Joined] = ()
    ) -> None:
        self.node_id = node_id
        self._codecs, self._transport, self._joined = tuple(codecs), transport, joined
        self.rows: defaultdict[tuple[str, int, int], list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])
        self.encoding, self.merging = [0.0] * len(codecs), [0.0] * len(codecs)
        self.watch = Stopwatch()

    def sent(self, variable: int, peer: int, size: Sent) -> None:
        _enter(self.rows[SENT, variable, peer], size)

    def received(self, variable: int, peer: int, size: Message) -> None:
        _enter(self.rows[RECEIVED, variable, peer], size)

    def entries(self) -> list[Entry]:
        """All lines, ordered by direction, variable and peer, the socket before the memory."""
        found = []
        for (direction, place, peer), (packets, raw, overhead, shared, in_memory) in self.rows.items():
            transport = self._transport(peer)
            for variable, (own, added, left) in self.joined(place).shares(raw - in_memory, overhead, in_memory):
                link = (self._codecs[place], variable, peer, direction)
                found.append(Entry(*link, transport, packets - shared, own, own + added, added))
                if shared:
                    found.append(Entry(*link, MEMORY, shared, left, left, 0))
        return sorted(found, key=lambda entry: (entry.direction, entry.variable, entry.peer))

    def joined(self, place: int) -> Joined:
        """The variables at a place; behind the last one, and before the first, is what is none."""
        if 0 <= place < len(self._joined):
            return self._joined[place]
        if self._joined and place > 0:
            place += self._joined[-1].variables.stop - len(self._joined)
        return Joined(range(place, place + 1), (1,))

    def close(self, staleness: Mapping[int, int]) -> NodeAccounts:
        return NodeAccounts(self.entries(), self.watch.times(), staleness)

    def costs(self) -> list[tuple[str, int, float, float]]:
        """Class, variable, and the seconds of its codec with own blocks and with received packets, of codecs that took any."""
        costs = []
        for place, (codec, encode, merge) in enumerate(zip(self._codecs, self.encoding, self.merging, strict=True)):
            joined = self.joined(place)
            for variable, size in zip(*joined, strict=True) if encode or merge else ():
                share = size / (sum(joined.sizes) or 1)
                costs.append((codec, variable, encode * share, merge * share))
        return costs

    def total(self, direction: str) -> Sent:
        """The bytes of one direction over all variables and links."""
        rows = [row for (way, _, _), row in self.rows.items() if way == direction]
        return Sent(sum(row[1] for row in rows), sum(row[2] for row in rows))

    def targets(self, variable: int) -> set[int]:
        return {peer for way, of, peer in self.rows if way == SENT and of == variable}


def _enter(row: list[int], size: Sent | Message) -> None:
    row[0] += 1
    row[1] += size.raw
    row[2] += size.overhead
    if size.shared:
        row[3] += 1
        row[4] += size.raw


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
    """Assert that sent = received + in flight for every link, variable and transport of a job, and wire = raw + overhead.

    `books` holds the entries of each node, `in_flight` the packets per (sender, receiver, variable) that were posted and not
    delivered. A link that is among them is judged on all its packets together, any other on bytes and by transport too. Links
    to nodes without books are left out.

    Raises: AccountError naming node, peer, variable and transport of the first discrepancy.
    """
    sent: dict[tuple[int, int, int, str], list[int]] = {}
    received: dict[tuple[int, int, int, str], list[int]] = {}
    for node, entries in books.items():
        for entry in entries:
            if entry.wire != entry.raw + entry.overhead:
                raise AccountError(f"Node({node}): wire bytes are not raw bytes plus overhead in {entry}.")
            if entry.transport == MEMORY and entry.overhead:
                raise AccountError(f"Node({node}): what lies in memory has no overhead, but there is some in {entry}.")
            if entry.peer in books:
                is_sent = entry.direction == SENT
                link = (node, entry.peer, entry.variable) if is_sent else (entry.peer, node, entry.variable)
                key = (*link, "" if link in in_flight else entry.transport)
                sums = (sent if is_sent else received).setdefault(key, [0, 0, 0, 0])
                sums[:] = map(add, sums, entry[5:])
    for key in sorted(sent.keys() | received.keys()):
        posted, arrived = (tuple(way.get(key, (0, 0, 0, 0))) for way in (sent, received))
        sender, receiver, variable, transport = key
        flying = in_flight.get((sender, receiver, variable), 0)
        if posted[0] != arrived[0] + flying or (transport and posted != arrived):
            by = f" by {transport}" if transport else ""
            raise AccountError(
                f"Node({sender}) sent {posted} of variable {variable} to node({receiver}){by}, where {arrived} arrived and "
                f"{flying} packet(s) are in flight (packets, raw, wire and overhead bytes)."
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


NO_ACCOUNTS: Final = NodeAccounts((), Times(0.0, 0.0, 0.0, 0.0, 0.0), {})
"""Of a node that has not told any."""


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


BATCH_COLUMNS: Final = (
    *("Time", "Epochs", "Batches"),
    *("Data", "Compute", "Encode", "Send", "Wait", "Merge", "Rule"),
    *("Put", "Sent", "Total", "Peer"),
)
"""Of the table `BA`; docs/results.md tells what they mean."""

BATCH_LINE: Final = "%.6f,%d,%d" + 10 * ",%.6f" + ",%s\n"
"""A row as text, in microseconds: a fifth of the time that a general writer takes."""

_LOOKS: Final = 9
BatchRow = tuple[float | int | str, ...]


def _zero(clock: Callable[[], float]) -> float:
    """What is to be added to the clock for seconds since 1970, by the quickest of some looks: during one others may have
    had the core."""
    looks = []
    for _ in range(_LOOKS):
        before, now, after = clock(), time.time(), clock()
        looks.append((after - before, now - (before + after) / 2))
    return min(looks)[1]


class BatchWatch:
    """Reads the stopwatch of a worker at the begin of a batch, when its own blocks are put, and at its end.

    Attributes: `data`, seconds for samples, which whoever fetches them adds; `clock`, that of the stopwatch.
    """

    __slots__ = ("_begin", "_longest", "_middle", "_peer", "_put", "_start", "_wait", "_watch", "_zero", "clock", "data")

    def __init__(self, watch: Stopwatch) -> None:
        self._watch, self.clock = watch, watch.clock
        self._zero = _zero(watch.clock)
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        watch = self._watch
        self.data = self._longest = 0.0
        self._peer: int | None = None
        self._wait, self._start = watch.wait, (watch.encode, watch.send, watch.merge)
        self._begin = self.clock()

    def put(self) -> None:
        """All own blocks are with their codecs: from now on it waits, merges, and applies."""
        watch = self._watch
        self._put, self._middle = self.clock(), watch.encode + watch.send + watch.merge

    def waited(self, before: float, peer: int | None) -> None:
        """A wait is over, before which the stopwatch had `before` seconds of that; a packet of `peer` has ended it."""
        if self._watch.wait - before > self._longest:
            self._longest, self._peer = self._watch.wait - before, peer

    def row(self, epoch: int, batch: int) -> BatchRow:
        """The batch is over, `epoch` and `batch` from 0: its row."""
        end, watch, begin = self.clock(), self._watch, self._begin
        encode, send, merge = self._start
        compute = self._put - begin - self.data - (self._middle - encode - send - merge)
        after = watch.encode + watch.send + watch.merge - self._middle
        wait = watch.wait - self._wait
        encode, send, merge = watch.encode - encode, watch.send - send, watch.merge - merge
        rule = end - self._put - after - wait
        seconds = (self.data, compute, encode, send, wait, merge, rule)
        moments = (self._put - begin, max(watch.sent, begin) - begin, end - begin)
        peer = "" if self._peer is None else self._peer
        return self._zero + begin, epoch + 1, batch + 1, *seconds, *moments, peer
