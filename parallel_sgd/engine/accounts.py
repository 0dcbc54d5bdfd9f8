"""Exact accounts of a node: the packets and bytes that travelled per codec, variable, link, direction and transport; the
seconds of each kind of work, in all and in each batch, and the peer that each batch waited for.

A sender enters a packet when it is posted, a receiver when it is delivered, whether or not a codec takes it. So for every link,
variable and transport sent = received + in flight, which `check_conserved` asserts.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import accumulate
from operator import add
from typing import Final, NamedTuple, NoReturn

from network.clock import Clock
from network.message import Message
from network.wire import Sent

from .channel import Wait

__all__ = ["MEMORY", "RECEIVED", "SENT", "BatchPackets", "Entry", "NodeAccounts", "Times"]
SENT = "sent"
RECEIVED = "received"
MEMORY = "memory"
EVERY: Final = -1
"""Peer of a line that has the packets of all peers together."""


class Entry(NamedTuple):
    """Line of the accounts of a node; sizes in bytes, `wire` = `raw` + `overhead`.

    A packet with its arrays left in memory is one of `memory`, which has no overhead; the frame that tells of it is overhead of
    the socket, where it is no packet.

    Args:
        codec: name of the codec class of the variable.
        variable: number of the variable.
        peer: id of the node at the other end of the link; -1 for all links together, of most workers of a large simulation.
        direction: SENT or RECEIVED.
        transport: `tcp`, `unix` (a socket), `memory` (shared by processes of one host) or `process` (`in_process`).
        packets: number of packets.
        raw: bytes of the contents.
        wire: bytes on the wire.
        overhead: bytes of frames and headers.
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


class BatchPackets(NamedTuple):
    """Packets of one codec that a node sent and received in one batch; sizes in bytes, as in `Entry`.

    A packet belongs to the batch that stands in its key, whenever it arrives. Packets of a sync type or a checkpoint have the
    name of these in place of a codec's. The state that a sharded rule gathers after an epoch has the number behind its last
    batch.

    Args:
        codec: name of the codec class.
        epoch: the epoch, from 1.
        batch: the batch in the epoch, from 1.
        packets_sent: number of packets sent; one that carries several variables is one of each, as in `Entry`.
        bytes_sent: bytes of their contents.
        wire_sent: bytes on the wire, with heads and frames.
        packets_received: number of packets received.
        bytes_received: bytes of their contents.
        wire_received: bytes on the wire.
    """

    codec: str
    epoch: int
    batch: int
    packets_sent: int
    bytes_sent: int
    wire_sent: int
    packets_received: int
    bytes_received: int
    wire_received: int


MOST_STEPS: Final = 1024
"""Batches of which packets are counted apart at a time: a peer chooses the keys of its packets."""
SENT_AT: Final = 3
"""Place of the packets sent behind the packets, bytes and overhead that were received, in a count."""


class NodeAccounts(list[Entry]):
    """Lines of the accounts of one node.

    Args:
        entries: the lines.
        times: seconds that the node spent on each kind of work.
        staleness: under asynchronous types on the parameter server {steps: gradients that were so many steps old when they were
            applied}, added up over the variables.

    Attributes: `times` and `staleness`, as the arguments.
    """

    def __init__(self, entries: Iterable[Entry], times: Times, staleness: Mapping[int, int]) -> None:
        super().__init__(entries)
        self.times = times
        self.staleness = dict(sorted(staleness.items()))

    def describe(self) -> list[str]:
        """Return lines for the log: bytes and packets sent and received, in all, by each transport and codec, the times, the
        staleness.
        """
        lines = []
        # by transport and by codec: each of both adds up to the same totals
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
    """Neighbouring variables that travel as one vector.

    Args:
        variables: their numbers.
        sizes: how many numbers each has: by these the bytes of a packet are shared out, and the parts of the variables add up.
            A packet counts as one of each.
    """

    variables: range
    # in numbers, not in bytes: a codec may send fewer bytes than the vector has
    sizes: tuple[int, ...]

    def shares(self, *sums: int) -> Iterator[tuple[int, list[int]]]:
        """Yield each variable with its parts of whole numbers of `sums`."""
        # 1 for variables without numbers, of which each part is 0
        end, total = 0, sum(self.sizes) or 1
        for variable, size in zip(self.variables, self.sizes, strict=True):
            start, end = end, end + size
            # differences of rounded running sums, so that the parts add up
            yield variable, [each * end // total - each * start // total for each in sums]

    def at(self, place: int) -> int:
        """Return the variable that holds the number at a place of the vector."""
        return self.variables[bisect_right(list(accumulate(self.sizes)), place)]


class AccountError(Exception):
    """Error for bytes or packets that are missing or came from nowhere."""


class PerformanceClock:
    """Finest clock of this machine (a `network.clock.Clock`)."""

    __slots__ = ()

    monotonic = staticmethod(time.perf_counter)
    time = staticmethod(time.time)


PERFORMANCE: Final = PerformanceClock()


class _Sums(defaultdict[tuple[str, int, int], list[int]]):
    """Rows of accounts in which all peers are one."""

    def __getitem__(self, key: tuple[str, int, int]) -> list[int]:
        return super().__getitem__((key[0], key[1], EVERY))


def _row() -> list[int]:
    return [0, 0, 0, 0, 0]


class Accounts:
    """Accounts of one node: the packets and bytes that it sends and receives, and the seconds of encoding and merging.

    Args:
        node_id: id of the node.
        codecs: names of the codec classes of the variables.
        transport: returns the name of the socket to a peer.
        joined: vectors of variables that travel together. With them all numbers are places among these vectors; results are by
            variable nevertheless.
        clock: tells the seconds of the node.
        by_link: whether each peer has a row; else all have one together, and a table of W nodes has no W * W rows.

    Attributes: `rows`, packets, raw bytes and overhead, and the packets and raw bytes of them that lay in memory, by
    (direction, variable, peer): code that enters many packets adds to them there; `encoding` and `merging`, the seconds of the
    codec of each variable; `watch`, which adds up the seconds of the node; `step`, epoch and batch that run, from 0; `counts`,
    packets, raw bytes and overhead by batch, in which the numbers of a codec begin at `places` of its variable, which says for
    how many variables a packet counts: code that adds to `rows` adds to these.
    """

    def __init__(
        self,
        node_id: int,
        codecs: Sequence[str],
        transport: Callable[[int], str],
        joined: Sequence[Joined] = (),
        clock: Clock = PERFORMANCE,
        by_link: bool = True,
    ) -> None:
        self.node_id, self.by_link = node_id, by_link
        self._codecs, self._transport, self._joined = tuple(codecs), transport, joined
        self.rows: defaultdict[tuple[str, int, int], list[int]] = (defaultdict if by_link else _Sums)(_row)
        self._classes = tuple(dict.fromkeys(codecs))
        self.step = (0, 0)
        # its own factory, so that a batch costs no call of Python
        self.counts = defaultdict[tuple[int, int], list[int]](partial(list, [0] * (2 * SENT_AT * len(self._classes))))
        self._starts = {name: 2 * SENT_AT * number for number, name in enumerate(self._classes)}
        self.places = [(self._starts[name], len(self.joined(place).variables)) for place, name in enumerate(codecs)]
        self.encoding, self.merging = [0.0] * len(codecs), [0.0] * len(codecs)
        self.watch = Stopwatch(clock)

    def sent(self, variable: int, peer: int, size: Sent) -> None:
        _enter(self.rows[SENT, variable, peer], size)
        self._count(variable, SENT_AT, size)

    def received(self, variable: int, peer: int, size: Message) -> None:
        _enter(self.rows[RECEIVED, variable, peer], size)
        self._count(variable, 0, size)

    def _count(self, variable: int, way: int, size: Sent | Message) -> None:
        """Count a packet of the batch that runs; `way` is the place of its direction in the numbers of its codec."""
        count, (place, variables) = self.counts[self.step], self.places[variable]
        # in place: the row is in the dictionary already
        at = slice(place + way, place + way + SENT_AT)
        count[at] = map(add, count[at], (variables, size.raw, size.overhead))

    def traffic(self, until: tuple[int, int] | None = None) -> list[BatchPackets]:
        """Return the counts that were not returned before, in the order of batches: up to the batch `until`, from 0, or all."""
        found = []
        for step in sorted(step for step in self.counts if until is None or step <= until):
            # taken out: a later call returns what has come since, and the memory of long jobs stays small
            count = self.counts.pop(step)
            epoch, batch = step[0] + 1, step[1] + 1
            for codec, place in self._starts.items():
                # a codec that was silent in a batch has no row
                if count[place] or count[place + SENT_AT]:
                    got, got_raw, got_more, put, put_raw, put_more = count[place : place + 2 * SENT_AT]
                    put_wire, got_wire = put_raw + put_more, got_raw + got_more
                    found.append(BatchPackets(codec, epoch, batch, put, put_raw, put_wire, got, got_raw, got_wire))
        return found

    def entries(self) -> list[Entry]:
        """Return all lines, ordered by direction, variable and peer, the socket before the memory."""
        found = []
        joined = cache(self.joined)
        for (direction, place, peer), (packets, raw, overhead, shared, in_memory) in self.rows.items():
            transport = self._transport(peer)
            # what lay in memory went without a frame, so it has raw bytes and no overhead
            for variable, (own, added, left) in joined(place).shares(raw - in_memory, overhead, in_memory):
                link = (self._codecs[place], variable, peer, direction)
                found.append(Entry(*link, transport, packets - shared, own, own + added, added))
                if shared:
                    found.append(Entry(*link, MEMORY, shared, left, left, 0))
        return sorted(found, key=lambda entry: (entry.direction, entry.variable, entry.peer))

    def joined(self, place: int) -> Joined:
        """Return the variables at a place; places behind the last one and before the first stand for entries that are no
        variable.
        """
        if 0 <= place < len(self._joined):
            return self._joined[place]
        # places of sync type and checkpoints lie behind the vectors: shifted to numbers behind the last variable
        if self._joined and place > 0:
            place += self._joined[-1].variables.stop - len(self._joined)
        return Joined(range(place, place + 1), (1,))

    def close(self, staleness: Mapping[int, int]) -> NodeAccounts:
        """Return the accounts of the node at its end."""
        return NodeAccounts(self.entries(), self.watch.times(), staleness)

    def close_later(self, staleness: Mapping[int, int]) -> Callable[[], NodeAccounts]:
        """Return a function that makes the accounts of the node at its end, and holds nothing else of the node."""
        self._transport = {peer: self._transport(peer) for _, _, peer in self.rows}.__getitem__
        return partial(self.close, dict(staleness))

    def costs(self) -> list[tuple[str, int, float, float]]:
        """List class, variable, and the seconds of its codec with own blocks and with received packets, of codecs that took
        any.
        """
        costs = []
        for place, (codec, encode, merge) in enumerate(zip(self._codecs, self.encoding, self.merging, strict=True)):
            joined = self.joined(place)
            for variable, size in zip(*joined, strict=True) if encode or merge else ():
                # a codec of several variables took its seconds for all of them: each has its share by size
                share = size / (sum(joined.sizes) or 1)
                costs.append((codec, variable, encode * share, merge * share))
        return costs

    def total(self, direction: str) -> Sent:
        """Return the bytes of one direction over all variables and links."""
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
    """Count the packets in flight for `check_conserved` on the links where the receiver went first.

    Args:
        books: entries of each node.
        unheard: by node, the nodes from which it did not hear BYE before it went, so that it read no more from them.

    Returns: packets by (sender, receiver, variable).
    """
    # only packets towards the node that went first are in doubt; what it has sent itself was read
    gone_first = {(sender, receiver) for receiver, senders in unheard.items() for sender in senders}
    flying: Counter[tuple[int, int, int]] = Counter()
    for node, entries in books.items():
        for entry in entries:
            if entry.direction == SENT and (node, entry.peer) in gone_first:
                flying[node, entry.peer, entry.variable] += entry.packets
            elif entry.direction == RECEIVED and (entry.peer, node) in gone_first:
                # the receiver's own book tells how many of them it read before it went
                flying[entry.peer, node, entry.variable] -= entry.packets
    return flying


def check_conserved(books: Mapping[int, Iterable[Entry]], in_flight: Mapping[tuple[int, int, int], int]) -> None:
    """Assert that sent = received + in flight for every link, variable and transport of a job, and wire = raw + overhead.

    A link in `in_flight` is judged on all its packets together, any other on bytes and by transport too. Links to nodes without
    books are left out.

    Args:
        books: entries of each node.
        in_flight: packets per (sender, receiver, variable) that were posted and not delivered.

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
            # a node that was killed told no accounts: its links cannot be judged
            if entry.peer in books:
                is_sent = entry.direction == SENT
                link = (node, entry.peer, entry.variable) if is_sent else (entry.peer, node, entry.variable)
                # of packets in flight only the number is known, so such a link is judged without its transports and bytes
                key = (*link, "" if link in in_flight else entry.transport)
                sums = (sent if is_sent else received).setdefault(key, [0, 0, 0, 0])
                sums[:] = map(add, sums, entry[5:])
    for key in sorted(sent.keys() | received.keys()):
        posted, arrived = (tuple(way.get(key, (0, 0, 0, 0))) for way in (sent, received))
        sender, receiver, variable, transport = key
        flying = in_flight.get((sender, receiver, variable), 0)
        # where all has arrived bytes must agree, too, not just numbers of packets
        if posted[0] != arrived[0] + flying or (transport and posted != arrived):
            by = f" by {transport}" if transport else ""
            raise AccountError(
                f"Node({sender}) sent {posted} of variable {variable} to node({receiver}){by}, where {arrived} arrived and "
                f"{flying} packet{'s are' if flying != 1 else ' is'} in flight (packets, raw, wire and overhead bytes)."
            )


def check_rows(books: Mapping[int, Accounts], in_flight: Mapping[tuple[int, int, int], int]) -> None:
    """Assert the same as `check_conserved`, at the rows of the accounts: of many nodes of one process these are a thousandth
    of the lines.

    A link of a node that has no row for each peer is judged on the sum over all nodes.

    Args:
        books: accounts of each node, which all have the same variables and count for one transport.
        in_flight: packets per (sender, receiver, place of the key) that were posted and not delivered.

    Raises: AccountError, as `check_conserved`.
    """
    found = Counter[int]()
    for (_, _, place), count in in_flight.items():
        found[place] -= count
    for node, accounts in books.items():
        for (direction, place, peer), row in accounts.rows.items():
            found[place] += row[0] if direction == SENT else -row[0]
            other = books.get(peer)
            # a row of all peers together is no row of this link: only the sums over all nodes can be compared
            if other is None or not other.by_link:
                continue
            back = other.rows.get((RECEIVED if direction == SENT else SENT, place, node))
            link = (node, peer, place) if direction == SENT else (peer, node, place)
            if row != back and link not in in_flight:
                _disagree(books, in_flight)
    for link, count in in_flight.items():
        ends = [books.get(node) for node in link[:2]]
        if all(end is not None and end.by_link for end in ends):
            posted, arrived = (
                end.rows.get((way, link[2], peer), (0,))[0]
                for end, way, peer in zip(ends, (SENT, RECEIVED), link[1::-1], strict=True)
                if end is not None
            )
            if posted != arrived + count:
                _disagree(books, in_flight)
    # packets to and from a peer without accounts are in one book alone
    if any(found.values()) and not any(
        peer != EVERY and peer not in books for each in books.values() for *_, peer in each.rows
    ):
        _disagree(books, in_flight)


def _disagree(books: Mapping[int, Accounts], in_flight: Mapping[tuple[int, int, int], int]) -> NoReturn:
    """Raise the error of accounts that do not agree, by line where all nodes have lines for each peer."""
    lines: Counter[tuple[int, int, int]] = Counter()
    for (sender, receiver, place), count in in_flight.items():
        for variable in next(iter(books.values())).joined(place).variables:
            lines[sender, receiver, variable] = count
    check_conserved({node: accounts.entries() for node, accounts in books.items()}, lines)
    raise AccountError(
        "The packets that all nodes together have sent are not those that they have received, and those in flight."
    )


class AccountsOfNodes(Mapping[int, NodeAccounts]):
    """Accounts of the nodes of a job, each made of its rows when it is first asked for.

    Args:
        made: by node, makes its accounts.
    """

    def __init__(self, made: Mapping[int, Callable[[], NodeAccounts]]) -> None:
        self._made = dict(made)
        self._known: dict[int, NodeAccounts] = {}

    def __getitem__(self, node: int) -> NodeAccounts:
        found = self._known.get(node)
        if found is None:
            found = self._known[node] = self._made[node]()
            del self._made[node]  # with the rows
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(sorted({*self._known, *self._made}))

    def __len__(self) -> int:
        return len(self._known) + len(self._made)

    def __repr__(self) -> str:
        return repr(dict(self))


Figures = dict[str, float]


class Times(NamedTuple):
    """Seconds of a node, which add up to those from the first batch to the end. A parameter server computes nothing but its
    bookkeeping. Of nodes that share a process, each waits while another one runs.

    Args:
        compute: forward, backward, the rule, evaluations and reports.
        encode: codecs with the node's own blocks, or a server's answers.
        send: handing packets to the system.
        wait: for others, while the system also takes the bytes that it did not take at once.
        merge: codecs with received packets.
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
"""Accounts of a node that has not told any."""


class Stopwatch:
    """Sum of the seconds of one node. The code that does the work adds its own to `encode`, `send` and `merge`, each second
    once.

    `clock` returns monotonic seconds; `sent` is when packets were last handed to the system.

    Args:
        clock: tells the seconds of the node.
    """

    __slots__ = ("_start", "_stop", "clock", "encode", "merge", "send", "sent", "time", "wait")

    def __init__(self, clock: Clock = PERFORMANCE) -> None:
        self.clock, self.time = clock.monotonic, clock.time
        self.encode = self.send = self.wait = self.merge = self.sent = 0.0
        self._start: float | None = None
        self._stop: float | None = None

    def times(self) -> Times:
        """Return the seconds since `timed` began, until now or its end; all seconds that belong to no other kind are
        `compute`.
        """
        if self._start is None:
            return Times(0.0, 0.0, 0.0, 0.0, 0.0)
        total = (self.clock() if self._stop is None else self._stop) - self._start
        # the rest, so that the kinds always add up to the whole: nothing is lost between two clocks
        compute = total - self.encode - self.send - self.wait - self.merge
        return Times(compute, self.encode, self.send, self.wait, self.merge)

    def timed(self, process: Generator[Wait, None, Figures]) -> Generator[Wait, None, Figures]:
        """Return the same process, timed; `wait` is the time until it is resumed, without the seconds of sending and merging in
        the meantime.
        """
        clock = self.clock
        self._start = clock()
        try:
            while True:
                try:
                    wait = next(process)
                except StopIteration as end:
                    figures: Figures = end.value
                    return figures
                # while it waits, packets are sent and merged, and these seconds are counted there already
                start, other = clock(), self.send + self.merge
                yield wait
                self.wait += clock() - start - (self.send + self.merge - other)
        finally:
            # closed at this level first, so that the process sees GeneratorExit at its own wait
            process.close()
            # after the process is closed: its last checkpoint is part of the node's time
            self._stop = clock()


BATCH_COLUMNS: Final = (
    *("Time", "Epochs", "Batches"),
    *("Data", "Compute", "Encode", "Send", "Wait", "Merge", "Rule"),
    *("Put", "Sent", "Total", "Peer"),
)
"""Columns of the table `BA`; docs/results.md tells their meaning."""

BATCH_LINE: Final = "%.6f,%d,%d" + 10 * ",%.6f" + ",%s\n"
"""A row as text, in microseconds: a fifth of the time that a general writer takes."""

_LOOKS: Final = 9
BatchRow = tuple[float | int | str, ...]


def _zero(watch: Stopwatch) -> float:
    """Return the difference between the clock and the seconds since 1970, by the quickest of some looks: during one others may
    have had the core.
    """
    looks = []
    for _ in range(_LOOKS):
        before, now, after = watch.clock(), watch.time(), watch.clock()
        looks.append((after - before, now - (before + after) / 2))
    return min(looks)[1]


class BatchWatch:
    """Reader of the stopwatch of a worker at the begin of a batch, when its own blocks are put, and at its end.

    Attributes: `data`, seconds for samples, which the training loop adds when it fetches them; `clock`, that of the stopwatch.
    """

    __slots__ = ("_begin", "_longest", "_middle", "_peer", "_put", "_start", "_wait", "_watch", "_zero", "clock", "data")

    def __init__(self, watch: Stopwatch) -> None:
        self._watch, self.clock = watch, watch.clock
        self._zero = _zero(watch)
        self.begin()

    def begin(self) -> None:
        """Begin a batch."""
        watch = self._watch
        self.data = self._longest = 0.0
        self._peer: int | None = None
        self._wait, self._start = watch.wait, (watch.encode, watch.send, watch.merge)
        self._begin = self.clock()

    def put(self) -> None:
        """Note that all own blocks are with their codecs: from now on the worker waits, merges, and applies."""
        watch = self._watch
        self._put, self._middle = self.clock(), watch.encode + watch.send + watch.merge

    def waited(self, before: float, peer: int | None) -> None:
        """Note the end of a wait. The stopwatch had `before` seconds of waiting before it; a packet of `peer` has ended it."""
        # the peer of the longest wait is that of the batch
        if self._watch.wait - before > self._longest:
            self._longest, self._peer = self._watch.wait - before, peer

    def row(self, epoch: int, batch: int) -> BatchRow:
        """End the batch, `epoch` and `batch` from 0, and return its row."""
        end, watch, begin = self.clock(), self._watch, self._begin
        encode, send, merge = self._start
        # the same by subtraction for one batch: up to `put` the worker computes but for what codecs and sockets took
        compute = self._put - begin - self.data - (self._middle - encode - send - merge)
        after = watch.encode + watch.send + watch.merge - self._middle
        wait = watch.wait - self._wait
        encode, send, merge = watch.encode - encode, watch.send - send, watch.merge - merge
        rule = end - self._put - after - wait
        seconds = (self.data, compute, encode, send, wait, merge, rule)
        # where nothing was sent in this batch, `sent` is of an earlier one
        moments = (self._put - begin, max(watch.sent, begin) - begin, end - begin)
        peer = "" if self._peer is None else self._peer
        return self._zero + begin, epoch + 1, batch + 1, *seconds, *moments, peer
