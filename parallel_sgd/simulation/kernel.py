"""Kernel that runs all nodes of a job inside this process: one clock, and the events of all nodes in one fixed order.

Packets become bytes and come back, so nothing differs from the wire. A network without time makes it the scheduler of
`in_process`; a network with time, and a virtual clock, make it a simulator.
"""

from __future__ import annotations

import gc
import hashlib
import math
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import Context, copy_context
from heapq import heappop, heappush, heapreplace
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from network.clock import Clock
from network.frames import FrameReader
from network.message import Message, Undecoded
from network.wire import Kind, Sent, pack, size_of
from rpc.user_code import note

from ..codec.interfaces import Codec
from ..engine.accounts import MEMORY, PERFORMANCE, check_rows
from ..engine.channel import Key, NoSuchNode, Others, Wait
from ..engine.exchange import Participant
from .arrivals import Arrival
from .cores import Cores
from .immediate import Immediate, Link, reliable
from .order import Order
from .parcel import Parcel, is_fixed
from .timeline import JumpingClock, Timeline

Results = dict[int, dict[str, float]]
NOTHING: Final[Counter[tuple[int, int, int]]] = Counter()


class Carrier(Protocol):
    """Carrier of packets, as the kernel drives it: `Immediate`, or a `network.Network`."""

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        """Take a packet of `size` bytes that leaves `source` for `target` at `now`, in seconds."""

    def next_moment(self) -> float | None:
        """Return the time of the next event of the carrier, None when nothing is on its way."""

    def advance(self, now: float) -> list[Arrival]:
        """Let time pass until `now`, and return the packets that have arrived."""


class Costs(Protocol):
    """Seconds of the calls of codecs."""

    def encode(self, codec: Codec, size: int) -> float:
        """Return the seconds in which a codec makes a packet of `size` bytes."""

    def merge(self, codec: Codec, size: int) -> float:
        """Return the seconds in which a codec takes in a packet of `size` bytes."""


class Deadlock(RuntimeError):
    """Error when every node waits, without a limit, for something that will never come."""


class MemoryChannel:
    """`Channel` of one node of a kernel.

    Args:
        kernel: the kernel that carries its packets.
        node_id: the node.
        seat: the place of the node in the kernel, which is told of looks at the peers.

    Attributes: `by_link`, whether the accounts of the node have a row for each peer.
    """

    __slots__ = ("_kernel", "_others", "_seat", "by_link", "clock", "node_id")

    def __init__(self, kernel: Kernel, node_id: int, seat: Seat) -> None:
        self._kernel, self.node_id, self._seat = kernel, node_id, seat
        self._others = Others(kernel.here, node_id)
        self.clock: Clock = kernel.watch
        self.by_link = node_id < SAMPLE or kernel.size <= _MOST_BY_LINK

    def peers(self) -> Others:
        """Return all other nodes that have not left: the same object as long as they are the same."""
        self._seat.looks_at_peers = True
        self._kernel.lookers.add(self._seat)
        if self._others.nodes is not self._kernel.here:
            self._others = Others(self._kernel.here, self.node_id)
        return self._others

    def transport(self, _peer: int) -> str:
        """Return the transport that the packets are counted for."""
        return self._kernel.transport

    def suspects(self) -> tuple[int, ...]:
        """Return nothing: there is no failure detector here."""
        return ()

    def post(self, target: int, key: Key, content: object) -> Sent:
        """Send one packet; its arrays are copied at once.

        Raises: TypeError when the content cannot travel, ValueError when it is too large or there is no such node.
        """
        return self._kernel.post(self.node_id, target, key, content)

    def flush(self) -> None:
        """Do nothing: posted packets are under way."""

    def poll(self) -> None:
        """Do nothing: packets that have arrived are handed over at the begin of every turn."""

    def flushed(self) -> bool:
        """Return True: each posted packet has been copied."""
        return True


def _tell(error: Exception, node: int) -> None:
    """Add to an error of a node its number; of a user's code also class, method and line, as a job process tells them."""
    note(error)
    vars(error).setdefault("__notes__", []).append(f"Node({node}) of the job raised it.")  # Python 3.10 lacks add_note()


class Gone(Exception):
    """Error that ends a turn of a node without a process; nothing else hears of it."""


class Agents(Protocol):
    """Agents of the nodes, as the kernel calls them."""

    def begins(self, node: int, moment: float) -> None:
        """Note that a node, which has waited until `moment`, goes on."""

    def computing(self, node: int) -> None:
        """Note that a node is about to compute a block, until the time of the clock."""

    def computes(self, node: int, until: float) -> None:
        """Note that a node computes until a moment."""

    def failed(self, node: int, error: BaseException) -> None:
        """Note that the process of a node has ended with an error."""

    def idle(self, now: float, until: float) -> None:
        """Note that nothing happens between two moments.

        Args:
            now: the first one, in seconds of the clock.
            until: the second one; infinity where nothing is to come.
        """


Build = Callable[[MemoryChannel], Participant]
_Leaving = tuple[float, int, int, Parcel]


class Seat:
    """Place of one node in a kernel.

    Attributes:
        wait: that for which it waits; None before its first turn.
        result: that of its process, once it has ended.
        busy: the moment until which it computes.
        alarm: the moment of its next deadline that is among the events.
        cores: those of its host, where it has to share them, else None.
        inbox: packets that have arrived, with their senders.
        lacks: packets that must come, at least, before a turn of the node changes anything but its accounts.
        looks_at_peers: whether its wait may end when a node leaves.
        place: that in the order of the nodes.
        gone: whether its process is no more, or stands still for ever.
    """

    __slots__ = (
        "alarm",
        "busy",
        "context",
        "cores",
        "gone",
        "inbox",
        "lacks",
        "looks_at_peers",
        "node",
        "participant",
        "place",
        "result",
        "wait",
    )

    def __init__(self, node: int, place: int = 0) -> None:
        self.node, self.place = node, place
        # codecs find their settings in a context variable, so each node has a context of its own
        self.context: Context = copy_context()
        self.participant: Participant | None = None
        self.wait: Wait | None = None
        self.result: dict[str, float] | None = None
        self.busy = -math.inf
        self.alarm = math.inf
        self.cores: Cores[Seat] | None = None
        self.inbox: list[tuple[int, Parcel]] = []
        self.lacks = 0
        self.looks_at_peers = False
        self.gone = False


class Kernel:
    """Events of all nodes in the order of (moment, number): the first packet that is posted at a moment arrives first at it.

    Args:
        nodes: ids of the nodes.
        clock: a `Timeline`, which the kernel moves from event to event, or a clock that passes by itself and can jump.
        network: carries the packets; by default each arrives at the moment when it is posted.
        classes: class table of the values that may travel beside plain data.
        transport: name under which the accounts count the packets. Those of "tcp" are counted as they are sealed there.

    Attributes:
        here: the nodes that have not left, in their order; another object when one has.
        lookers: places of nodes that have looked at their peers.
        events: number of the events so far: arrivals of packets, and moments at which a node looks again.
        ended: the moment at which the last node has ended.
        digest: SHA-256 of the events so far.
        size: number of the nodes.
        watch: clock of the accounts of the nodes.
        costs: seconds of the calls of codecs, charged where a packet is packed and where it is handed over; None: none.
        order: keeps or sets the order of arrival; None: packets are taken as they come.
        answer: seconds that a node takes, beside its codecs, to send in a turn in which it computes no block: one that packets
            have woken.
        answers: whether the running node has computed no block and sent nothing in its turn.
        agents: hear of the turns of the nodes, and of their errors; None: an error of a node is raised.
    """

    def __init__(
        self,
        nodes: Sequence[int],
        clock: JumpingClock,
        network: Carrier | None = None,
        classes: Sequence[type] = (),
        transport: str = "process",
    ) -> None:
        self.network: Carrier = Immediate() if network is None else network
        self.transport = transport
        self.size = len(nodes)
        self._present = dict.fromkeys(nodes)  # a dict: it keeps the order of the nodes, and a node leaves it in constant time
        self.here: Collection[int] = self._present.keys()
        self.lookers: set[Seat] = set()
        self.events = 0
        self.ended = clock.monotonic()
        self.digest = hashlib.sha256()
        self.costs: Costs | None = None
        self.order: Order | None = None
        self.answer = 0.0
        self.answers = False
        self.agents: Agents | None = None
        self._clock = clock
        self._timeline = clock if isinstance(clock, Timeline) else None
        self.watch: Clock = self._timeline or PERFORMANCE
        self._classes = classes
        self._seats = {node: Seat(node, place) for place, node in enumerate(nodes)}
        self._reader = FrameReader()
        self._reader.classes = classes
        self._alarms: list[tuple[float, int, int | Callable[[], None]]] = []
        self._left = 0
        self._number = 0
        self._defers = True  # whether nodes may get packets later than these arrive, where that changes nothing
        self._last: tuple[Key, object, Parcel] | None = None
        # packets that leave while their node is charged: networks take them in the order of time
        self._later: list[_Leaving] = []
        self._leaving: list[tuple[float, int, Iterator[_Leaving], _Leaving]] = []

    def channel(self, node: int) -> MemoryChannel:
        """Return the channel of a node."""
        return MemoryChannel(self, node, self._seats[node])

    def share_cores(self, nodes: Sequence[int], cores: int) -> None:
        """Let nodes of one host share its cores.

        Args:
            nodes: ids of the nodes.
            cores: number of cores of the host.
        """
        shared: Cores[Seat] = Cores(cores)
        for node in nodes:
            self._seats[node].cores = shared

    def build(self, node: int, build: Build) -> Participant:
        """Build the participant of a node, in the context of that node."""
        seat = self._seats[node]
        seat.participant = seat.context.run(build, self.channel(node))
        return seat.participant

    def post(self, sender: int, target: int, key: Key, content: object) -> Sent:
        """Take a packet; its arrays are copied at once, and once for all targets in a row, which have the same key object.

        Args:
            sender: the node that posts.
            target: the node that is to get it.
            key: (attempt, epoch, batch, variable).
            content: plain data and arrays.

        Returns: the bytes of the packet.

        Raises: TypeError when the content cannot travel, ValueError when it is too large or there is no such node.
        """
        if target not in self._seats:
            raise NoSuchNode(f"A packet must go to one of the nodes {sorted(self._seats)}, got {target}")
        if self._seats[sender].gone:
            return Sent(0, 0)
        last = self._last
        if last is not None and last[0] is key and last[1] is content:
            parcel = last[2]
        else:
            parcel = self._pack(key, content)
            if self.answer and self.answers and self._timeline is not None and self._codec_of(sender, parcel) is not None:
                self.answers = False
                self._timeline.charge(self.answer)
            if self.costs is not None:
                self._charge(self.costs.encode, sender, parcel)
            self._last = (key, content, parcel)
        timeline = self._timeline
        if timeline is not None and timeline.charged:
            self._later.append((timeline.monotonic(), sender, target, parcel))
        else:
            self.network.send(self._clock.monotonic(), sender, target, parcel.wire, parcel)
        return parcel.size

    def _charge(self, cost: Callable[[Codec, int], float], node: int, parcel: Parcel) -> None:
        """Let the time of a call of a codec pass."""
        codec = self._codec_of(node, parcel)
        if codec is not None:
            seconds = cost(codec, parcel.wire)
            if self._timeline is not None:
                self._timeline.charge(seconds)

    def _codec_of(self, node: int, parcel: Parcel) -> Codec | None:
        """Return the codec of a packet; those of the sync type and of checkpoints have none."""
        participant, place = self._seats[node].participant, parcel.key[-1]
        codecs = participant.exchange.bank.codecs if participant is not None else []
        return codecs[place] if 0 <= place < len(codecs) else None

    def _pack(self, key: Key, content: object) -> Parcel:
        sealed = self.transport == "tcp"
        known = size_of(key, content, sealed)
        if known is not None:  # as the wire would bring it, which would take three times as long
            if type(content) is tuple:
                value: Any = tuple([item if type(item) is int else _copied(item) for item in content])
            else:
                value = _copied(content)
            return self._parcel(key, value, known)
        # packed though it stays in this process: a value that cannot travel fails here, too, and bytes are counted alike
        packed = pack(Kind.MESSAGE, key, content, False, self._classes)
        self._reader.feed(b"".join(packed.buffers()))
        value, raw, overhead = self._reader.messages.popleft()[1:4]
        if isinstance(value, Undecoded):
            decoded = value.unpack()
            parts = decoded if type(decoded) is tuple else (decoded,)
            if _FIXED.issuperset(map(type, parts)):  # lists and the like would be shared by all receivers: they decode them
                value = decoded
        for array in _arrays(value):
            array.flags.writeable = False
        if sealed:
            # the same message as the wire has it; its frames are lists of views, so this copies nothing
            packed = pack(Kind.MESSAGE, key, content, True, self._classes)
            raw, overhead = packed.raw, packed.overhead
        return self._parcel(key, value, Sent(raw, overhead))

    def _parcel(self, key: Key, value: Any, size: Sent) -> Parcel:
        """Return a message with its size as the transport counts it: in memory the frame that tells of it is no packet."""
        if self.transport == MEMORY:
            size = Sent(size.raw, 0)
        return Parcel(key, Message(key, value, size.raw, size.overhead), size, size.wire)

    def wake(self, moment: float, node: int) -> None:
        """Add an event: the node looks at `moment` whether it can go on."""
        self._number += 1
        heappush(self._alarms, (moment, self._number, node))

    def act(self, moment: float, action: Callable[[], None]) -> None:
        """Add an event of no node: `action` is called at `moment`, or now where that is over."""
        # of the event: the running node may be charged beyond it
        now = self._clock.monotonic() if self._timeline is None else self._timeline.now
        self._number += 1
        heappush(self._alarms, (max(moment, now), self._number, action))

    def halt(self, node: int) -> None:
        """Let a node have no turns any more; the others wait for it."""
        self._seats[node].gone = True

    def remove(self, node: int) -> None:
        """End a node without a result: the others hear that it has left."""
        seat = self._seats[node]
        if node in self.here:  # it may have left by itself
            seat.gone = True
            self._leave(seat)

    def do_without(self, node: int) -> None:
        """Let the run end without the result of a node that was removed."""
        if self._seats[node].result is None:
            self._left -= 1

    def waiting(self) -> list[int] | None:
        """List the nodes that wait; None while one computes, or stands still for ever."""
        now = self._clock.monotonic()
        here = [seat for seat in self._seats.values() if seat.result is None and seat.node in self.here]
        if any(seat.gone or seat.busy > now for seat in here):
            return None
        return [seat.node for seat in here]

    def participants(self) -> dict[int, Participant]:
        """Return the participants of the nodes."""
        return {node: seat.participant for node, seat in self._seats.items() if seat.participant is not None}

    def run(self) -> Results:
        """Let all nodes run to their ends, and return the result of each.

        Raises: each error of a participant; Deadlock when no participant can ever move.
        """
        # where each packet takes time, is put in order or may end a process, it is handed over as it arrives
        self._defers = self.costs is None and self.order is None and self.agents is None
        start = self._clock.monotonic()
        for node in self._seats:
            self.wake(start, node)
        self._left = sum(seat.result is None for seat in self._seats.values())
        while self._left:
            self.events += 1
            ended = self._next()  # which may remove others
            self._left -= ended
        return {node: seat.result for node, seat in self._seats.items() if seat.result is not None}

    def _next(self) -> int:
        """Take the next event, and return how many nodes have ended in it."""
        if self._leaving:
            self._let_leave()
        alarms, coming = self._alarms, self.network.next_moment()
        if self.agents is not None:
            following = min((alarms[0][0] if alarms else math.inf), math.inf if coming is None else coming)
            if following > self._clock.monotonic() + _LONG:
                self.agents.idle(self._clock.monotonic(), following)  # which may add events
        # at one moment packets come before alarms: what arrives at a deadline is in time
        if coming is not None and not (alarms and alarms[0][0] < coming):
            moment, turns = coming, self._take(coming)
        elif alarms:
            moment, _, node = heappop(alarms)
            self._clock.advance_to(moment)
            if not isinstance(node, int):
                node()
                return 0
            turns = [self._seats[node]]
            if self._seats[node].alarm <= moment:
                self._seats[node].alarm = math.inf
        else:
            moment, turns = self._clock.monotonic(), self._movable()
        ended = 0
        for seat in turns:
            ended += self._turn(seat, moment)
        return ended

    def _take(self, moment: float) -> list[Seat]:
        """Let time pass until `moment`, and return the nodes to which something comes then that they may act upon."""
        self._clock.advance_to(moment)
        arrivals = self.network.advance(moment)
        self.events += max(0, len(arrivals) - 1)  # `run` has counted one
        # each node once, in the order of the first packets
        return [seat for seat in dict.fromkeys(map(self._arrive, arrivals)) if seat.lacks <= 0]

    def _let_leave(self) -> None:
        """Give the network the packets that leave before anything else happens."""
        leaving, alarms, network = self._leaving, self._alarms, self.network
        while leaving:
            moment, number, rest, packet = leaving[0]
            coming = network.next_moment()
            if (alarms and alarms[0][0] < moment) or (coming is not None and coming < moment):
                return
            network.send(*packet[:3], packet[3].wire, packet[3])
            following = next(rest, None)
            if following is None:
                heappop(leaving)
            else:
                heapreplace(leaving, (following[0], number, rest, following))

    def _arrive(self, arrival: Arrival) -> Seat:
        parcel: Parcel
        moment, sender, target, parcel = arrival
        self.digest.update(_EVENT(moment, sender, target, parcel.wire))
        seat = self._seats[target]
        seat.inbox.append((sender, parcel))
        if seat.lacks:
            # a packet of no variable, such as the word of a node that computes, is looked at at once
            is_counted = parcel.key[-1] < len(seat.participant.exchange.bank.codecs)  # type: ignore[union-attr]
            seat.lacks = seat.lacks - 1 if is_counted else 0
            seat.looks_at_peers = False  # as after a turn
        return seat

    def _movable(self) -> list[Seat]:
        """Return the nodes that can go on although nothing happens any more.

        Raises: Deadlock when there is none.
        """
        waiting = [seat for seat in self._seats.values() if seat.result is None and not seat.gone]
        # packets that an order holds back let no node go on
        handed = self.order is None
        found = [seat for seat in waiting if (handed and seat.inbox) or seat.wait is None or seat.context.run(seat.wait.ready)]
        if not found:
            waits = "; ".join(f"node({seat.node}) for {seat.wait.what()}" for seat in waiting if seat.wait is not None)
            raise Deadlock(f"No node can go on: {waits}.{'' if self.order is None else self.order.excuse}")
        return found

    def _turn(self, seat: Seat, moment: float) -> int:
        """Let the node have a turn if it has time and a core; return 1 if it has ended, else 0."""
        cores = seat.cores
        if seat.result is not None or seat.gone:
            if cores is not None and cores.leave(seat):
                self._wake_next(cores, moment)
            return 0
        if seat.busy > moment:
            return 0  # what has arrived waits until the node has time for it
        if cores is not None and not cores.grant(seat, moment):
            if cores.is_first(seat):  # if all woke the first, and it them, they would go round for ever
                self._wake_next(cores, moment)
            return 0
        timeline = self._timeline
        if timeline is not None:
            timeline.advance_to(moment)  # the nodes of one moment compute at the same time, not one after the other
        self.answers = True
        agents = self.agents
        if agents is None:
            ended = self._go_on(seat)
        else:
            agents.begins(seat.node, moment)
            ended = self._watched(seat, agents)
        # one entry in the heap for all packets of a turn, which are in the order of time
        if self._later:
            rest = iter(self._later)
            first, self._later = next(rest), []
            self._number += 1
            heappush(self._leaving, (first[0], self._number, rest, first))
        if timeline is not None and timeline.charged:
            seat.busy = timeline.monotonic()
            self.wake(seat.busy, seat.node)
            if cores is not None:
                cores.take(seat.busy)
            if agents is not None and not seat.gone:
                agents.computes(seat.node, seat.busy)
        if cores is not None:
            self._wake_next(cores, moment)
        return ended

    def _wake_next(self, cores: Cores[Seat], moment: float) -> None:
        following = cores.next(moment)
        if following is not None:
            self.wake(following[0], following[1].node)

    def _watched(self, seat: Seat, agents: Agents) -> int:
        """Let a node go on, and tell the agents of an error that ends its process; return 1 if it has ended, else 0."""
        try:
            return self._go_on(seat)
        except Gone:
            return 0
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a process may end with
            seat.gone = True
            agents.failed(seat.node, error)
            return 0

    def _go_on(self, seat: Seat) -> int:
        """Hand over the arrived packets, and let the node go on if it can; return 1 if it has ended, else 0."""
        packets = seat.inbox if self.order is None else self.order.take(seat.node, seat.inbox)
        if packets is None:
            return 0
        wait, process = seat.wait, seat.participant.process  # type: ignore[union-attr]
        cores = seat.cores
        run = seat.context.run
        try:
            # one by one: an answer to a packet leaves when that has been taken in
            if self.costs is not None:
                for packet in packets:
                    self._charge(self.costs.merge, seat.node, packet[1])
                    run(self._deliver, seat, (packet,))
            elif packets:
                run(self._deliver, seat, packets)
        except Exception as error:
            _tell(error, seat.node)
            raise
        if self.order is None:  # an order has taken out those that it wanted
            seat.inbox.clear()
        seat.looks_at_peers = False
        seat.lacks = 0
        ended = 0
        try:
            is_overdue = wait is not None and wait.deadline is not None and self._clock.monotonic() >= wait.deadline
            if is_overdue and self._defers:
                self._stop_deferring()
            if wait is None or is_overdue or run(wait.ready):
                if self.order is not None:
                    self.order.resumed(seat.node)
                    if seat.inbox:  # packets that were held back may be next
                        self.wake(self._clock.monotonic(), seat.node)
                wait = seat.wait = run(next, process)
                if run(wait.ready):  # the others of this moment come first
                    self.wake(self._clock.monotonic(), seat.node)
            # nodes that share cores queue for them turn by turn, so none of their turns is left out
            if self._defers and wait.fewest is not None and cores is None:
                seat.lacks = run(wait.fewest)
            if wait.deadline is not None and wait.deadline < seat.alarm:
                seat.alarm = wait.deadline
                self.wake(wait.deadline, seat.node)
        except StopIteration as end:
            self._leave(seat)
            self.ended = max(self.ended, self._clock.monotonic())
            seat.result = end.value
            ended = 1
        except Exception as error:
            _tell(error, seat.node)
            raise
        return ended

    def _stop_deferring(self) -> None:
        """Hand over each packet as it arrives, from now on: after a time-out it may be a question, which is answered."""
        self._defers = False
        for seat in self._seats.values():
            seat.lacks = 0

    def _leave(self, seat: Seat) -> None:
        """Let a node go that has done its work; packets that are on their way to it stay in flight."""
        self._present.pop(seat.node, None)
        self.here = self._present.keys()  # another object: they are not the same any more
        now = self._clock.monotonic()
        self.lookers = {other for other in self.lookers if other.looks_at_peers and other.result is None and other is not seat}
        # by place: a set of seats has another order in each process
        for other in sorted(self.lookers, key=lambda looker: looker.place):
            self.wake(now, other.node)

    def _deliver(self, seat: Seat, packets: Sequence[tuple[int, Parcel]]) -> None:
        exchange = seat.participant.exchange  # type: ignore[union-attr]
        exchange.deliver_all([(sender, parcel.message) for sender, parcel in packets])

    def close(self, at_end: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext()) -> None:
        """Close all processes.

        Args:
            at_end: makes a context for each step, by its name.
        """
        for seat in self._seats.values():
            if seat.participant is not None:
                with at_end("The end of a worker"):
                    # closed in its own context: its `finally` may call codecs, which look for their settings there
                    seat.context.run(seat.participant.process.close)

    def settle(
        self,
        at_end: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
        lost: Counter[tuple[int, int, int]] = NOTHING,
    ) -> None:
        """Hand over the packets that came after the ends, and check the accounts.

        For each link and variable, sent = received + in flight.

        Args:
            at_end: makes a context for each step, by its name.
            lost: packets per (sender, receiver, variable) that the network has lost, less those that it has repeated.

        Raises: AccountError where they disagree.
        """
        with at_end("The last packets"):
            left = [packet for _, _, rest, first in self._leaving for packet in (first, *rest)]
            for moment, sender, target, parcel in sorted(left, key=lambda packet: packet[0]):  # networks take no step back
                self.network.send(moment, sender, target, parcel.wire, parcel)
            for arrival in self.network.advance(self._clock.monotonic()):
                self._arrive(arrival)
        for seat in self._seats.values():
            with at_end("The packets that came to a worker after its end"):
                seat.context.run(self._deliver, seat, seat.inbox)
        with at_end("The check of the accounts"):
            flying = Counter(lost)
            for _, sender, receiver, parcel in self.network.advance(math.inf):
                flying[sender, receiver, parcel.key[-1]] += 1
            books = {node: seat.participant.exchange.bank.accounts for node, seat in self._seats.items() if seat.participant}
            check_rows(books, flying)


#: Seconds in which nothing happens, that agents hear of.
_LONG: Final = 5.0
#: Workers that have tables and a row of the accounts for each peer, where most have not.
SAMPLE: Final = 4
_MOST_BY_LINK: Final = 256
#: Nodes from which on the collector of cycles is felt.
_MANY: Final = 16
#: Objects more than before at which the collector looks for cycles while many nodes run.
_RARELY: Final = 1_000_000
#: Types of values that cannot change once their arrays are read-only.
_FIXED: Final = frozenset({int, float, bool, str, bytes, type(None), np.ndarray})
_EVENT: Final = struct.Struct("<dqqq").pack  # little endian on all machines, which are to find the same digest


def _copied(item: Any) -> Any:
    """Return a copy of an array that cannot be written to, and any other item as it is."""
    if type(item) is not np.ndarray:
        return item
    if item.flags.c_contiguous and is_fixed(item):
        return item  # its owner has made it so that nothing writes to it any more
    copy = item.copy()  # in the order of the wire
    copy.flags.writeable = False
    return copy


def _arrays(content: object) -> list[NDArray[Any]]:
    """Return the arrays of the content of a message."""
    if isinstance(content, Undecoded):
        return content.arrays
    return [item for item in (content if isinstance(content, tuple) else (content,)) if isinstance(item, np.ndarray)]


@contextmanager
def frozen_garbage(nodes: int) -> Iterator[None]:
    """Spare the collector of cycles the objects of many nodes, which it would look at again and again.

    Args:
        nodes: their number; nothing is done for a few, nor within such a block.
    """
    if nodes <= _MANY or gc.get_freeze_count():
        yield
        return
    gc.collect()  # first: garbage that is frozen would stay until the end
    gc.freeze()
    try:
        # packets on their way are many, and no cycles
        with rare_collections(nodes):
            yield
    finally:
        gc.unfreeze()


@contextmanager
def rare_collections(nodes: int) -> Iterator[None]:
    """Let the collector of cycles look seldom while many nodes are there, whose objects it would look at each time.

    Args:
        nodes: their number; nothing is done for a few.
    """
    before = gc.get_threshold()
    if nodes > _MANY:
        gc.set_threshold(_RARELY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def run_in_process(
    builds: Mapping[int, Build],
    clock: JumpingClock,
    *,
    link: Link = reliable,
    classes: Sequence[type] = (),
    at_end: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> Results:
    """Build and run the participants on a network without time, and return the result of each.

    Every participant runs in its own `contextvars` context. At one moment they go on in the order in which something came for
    them, each until it waits. When no participant can move, `clock` jumps to the next arrival or deadline, so that time-outs
    cost no time. At the end sent = received + in flight is checked for every link and variable.

    Args:
        builds: by node id, a function that makes the participant for its channel.
        clock: tells monotonic seconds, and can jump.
        link: decides about each packet; by default all arrive at once.
        classes: class table of the values that may travel beside plain data.
        at_end: makes a context for each thing that is done when all have their results.

    Raises: each error of a participant, after all processes are closed; Deadlock when no participant can ever move.
    """
    network = Immediate(link)
    return run_kernel(Kernel(list(builds), clock, network, classes), builds, at_end, network.lost)


def run_kernel(
    kernel: Kernel,
    builds: Mapping[int, Build],
    at_end: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
    lost: Counter[tuple[int, int, int]] = NOTHING,
) -> Results:
    """Build the participants, run them to their ends, close them, check the accounts, and return the result of each.

    Args:
        kernel: the kernel, which has run nothing yet.
        builds: by node id, a function that makes the participant for its channel.
        at_end: as for `run_in_process`.
        lost: as for `Kernel.settle`.

    Raises: as `run_in_process`.
    """
    try:
        for node, build in builds.items():
            kernel.build(node, build)
        with frozen_garbage(len(builds)):
            results = kernel.run()
    finally:
        kernel.close(at_end)
    kernel.settle(at_end, lost)  # not after an error: packets are lost then that the accounts have
    return results
