"""Scheduler that runs all nodes of a job inside this process, one at a time, in a fixed order, over channels in memory.

Packets become bytes and come back, so nothing differs from the wire. For breakpoints, tests and teaching.
"""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Protocol

from network.frames import FrameReader
from network.message import Message
from network.wire import Kind, Sent, pack

from .accounts import check_conserved
from .channel import Key, Wait
from .exchange import Participant

#: Fate of a packet (sender, receiver, key) on a link: the seconds after which each copy arrives; `(0.0,)` is normal,
#: `()` loses it, `(0.0, 0.0)` delivers it twice, `(0.5,)` delays it.
Link = Callable[[int, int, Key], Sequence[float]]


def reliable(_sender: int, _receiver: int, _key: Key) -> Sequence[float]:
    """Deliver each packet once, at once."""
    return (0.0,)


class Fabric:
    """Connection of the channels of `nodes`. Packets wait here until their receiver is driven.

    Args:
        nodes: ids of the nodes.
        clock: returns monotonic seconds.
        link: decides about each packet; by default all arrive at once.
        classes: class table of the values that may travel beside plain data.
    """

    def __init__(
        self, nodes: Sequence[int], clock: Callable[[], float], link: Link = reliable, classes: Sequence[type] = ()
    ) -> None:
        self._clock = clock
        self._link = link
        self._classes = classes
        self._order = 0
        self._waiting: dict[int, list[tuple[float, int, int, Key, bytes]]] = {node: [] for node in nodes}
        self._here = set(nodes)
        self._reader = FrameReader()
        self._reader.classes = classes
        self.lost: Counter[tuple[int, int, int]] = Counter()  # (sender, receiver, variable): packets lost, less those repeated

    def channel(self, node_id: int) -> MemoryChannel:
        return MemoryChannel(self, node_id)

    def leave(self, node: int) -> None:
        """Let a node go that has done its work; packets that are on their way to it stay in flight."""
        self._here.discard(node)

    def peers(self, node: int) -> set[int]:
        """Return all other nodes that have not left."""
        return self._here - {node}

    def post(self, sender: int, target: int, key: Key, content: object) -> Sent:
        """Take a packet; its arrays are copied at once.

        Raises: TypeError when the content cannot travel, ValueError when it is too large or there is no such node.
        """
        if target not in self._waiting:
            raise ValueError(f"A packet must go to one of the nodes {sorted(self._waiting)}, got {target}")
        # packed though it stays in this process: what cannot travel fails here, too, and bytes are counted alike
        packed = pack(Kind.MESSAGE, key, content, False, self._classes)
        frames = b"".join(packed.buffers())
        copies = self._link(sender, target, key)
        if len(copies) != 1:
            self.lost[sender, target, key[-1]] += 1 - len(copies)
        for delay in copies:
            self._order += 1
            # the number breaks ties: packets of one moment arrive in the order in which they were posted
            heapq.heappush(self._waiting[target], (self._clock() + delay, self._order, sender, key, frames))
        return Sent(packed.raw, packed.overhead)

    def arrivals(self, node: int) -> list[tuple[int, Message]]:
        """Take the packets that have arrived at `node` by now, with their senders, in order of arrival."""
        waiting = self._waiting[node]
        arrived: list[tuple[int, Message]] = []
        while waiting and waiting[0][0] <= self._clock():
            _, _, sender, _, frames = heapq.heappop(waiting)
            arrived.append((sender, self._read(frames)))
        return arrived

    def next_arrival(self, node: int) -> float | None:
        waiting = self._waiting[node]
        return waiting[0][0] if waiting else None

    def in_flight(self) -> Counter[tuple[int, int, int]]:
        """Count the packets per (sender, receiver, variable) that were posted and not delivered."""
        flying = Counter(self.lost)
        for node, waiting in self._waiting.items():
            for _, _, sender, key, _ in waiting:
                flying[sender, node, key[-1]] += 1
        return flying

    def _read(self, frames: bytes) -> Message:
        self._reader.feed(frames)
        return self._reader.messages.popleft()


class MemoryChannel:
    """`Channel` of one node of a `Fabric`."""

    def __init__(self, fabric: Fabric, node_id: int) -> None:
        self._fabric = fabric
        self.node_id = node_id

    def peers(self) -> set[int]:
        return self._fabric.peers(self.node_id)

    def transport(self, _peer: int) -> str:
        return "process"

    def suspects(self) -> tuple[int, ...]:
        """Return nothing: there is no failure detector here."""
        return ()

    def post(self, target: int, key: Key, content: object) -> Sent:
        return self._fabric.post(self.node_id, target, key, content)

    def flush(self) -> None:
        """Do nothing: posted packets are under way."""

    def poll(self) -> None:
        """Do nothing: packets that have arrived are handed over at the begin of every turn."""

    def flushed(self) -> bool:
        return True


Build = Callable[[MemoryChannel], Participant]


class JumpingClock(Protocol):
    """Clock that can be told to let time pass."""

    def monotonic(self) -> float:
        """Return the seconds since an arbitrary start; they never go back."""

    def advance_to(self, moment: float) -> None:
        """Let time pass until `monotonic()` is at least `moment`."""


class SkippingClock:
    """Time of the machine, plus the time that was skipped because all nodes waited."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._skipped = 0.0

    def monotonic(self) -> float:
        return self._monotonic() + self._skipped

    def advance_to(self, moment: float) -> None:
        # a loop, since rounding may leave the sum just below the moment
        while self.monotonic() < moment:
            self._skipped += moment - self.monotonic()


class Deadlock(RuntimeError):
    """Error when every node waits, without a limit, for something that will never come."""


@dataclass
class _ScheduledNode:
    node: int
    participant: Participant
    context: Context
    wait: Wait | None = None
    result: dict[str, float] | None = None


def run_in_process(
    builds: Mapping[int, Build],
    clock: JumpingClock,
    *,
    link: Link = reliable,
    classes: Sequence[type] = (),
    at_end: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> dict[int, dict[str, float]]:
    """Build and run the participants, and return the result of each.

    Every participant runs in its own `contextvars` context. They take turns in the order of `builds`, each until it waits. When
    no participant can move, `clock` jumps to the next arrival or deadline, so that time-outs cost no time. At the end sent =
    received + in flight is checked for every link and variable.

    Args:
        builds: by node id, a function that makes the participant for its channel.
        clock: tells monotonic seconds, and can jump.
        link: as for `Fabric`.
        classes: as for `Fabric`.
        at_end: makes a context for each thing that is done when all have their results.

    Raises: each error of a participant, after all processes are closed; Deadlock when no participant can ever move.
    """
    fabric = Fabric(list(builds), clock.monotonic, link, classes)
    schedule: list[_ScheduledNode] = []
    try:
        for node, build in builds.items():
            # codecs find their settings in a context variable, so each node has a context of its own
            context = copy_context()
            schedule.append(_ScheduledNode(node, context.run(build, fabric.channel(node)), context))
        while any(scheduled.result is None for scheduled in schedule):
            # in one order, so that a run can be repeated bit by bit
            moved = [_turn(scheduled, fabric, clock) for scheduled in schedule]
            if not any(moved):
                _jump(schedule, fabric, clock)
    finally:
        for scheduled in schedule:
            with at_end("The end of a worker"):
                # closed in its own context: its `finally` may call codecs, which look for their settings there
                scheduled.context.run(scheduled.participant.process.close)
    for scheduled in schedule:
        with at_end("What was on its way to a worker"):
            _deliver(scheduled, fabric)
    with at_end("The check of the accounts"):
        books = {scheduled.node: scheduled.participant.exchange.bank.accounts for scheduled in schedule}
        flying = {
            (sender, receiver, variable): count
            for (sender, receiver, place), count in fabric.in_flight().items()
            for variable in books[sender].joined(place).variables
        }
        check_conserved({node: accounts.entries() for node, accounts in books.items()}, flying)
    return {scheduled.node: scheduled.result for scheduled in schedule if scheduled.result is not None}


def _turn(scheduled: _ScheduledNode, fabric: Fabric, clock: JumpingClock) -> bool:
    if scheduled.result is not None:
        return False
    _deliver(scheduled, fabric)
    wait = scheduled.wait
    if wait is not None and not _overdue(wait, clock) and not scheduled.context.run(wait.ready):
        return False
    try:
        scheduled.wait = scheduled.context.run(next, scheduled.participant.process)
    except StopIteration as end:
        scheduled.result = end.value
        fabric.leave(scheduled.node)
    except Exception as error:  # in place of add_note(), which Python 3.10 lacks
        vars(error).setdefault("__notes__", []).append(f"Node({scheduled.node}) of the job raised it.")
        raise
    return True


def _overdue(wait: Wait, clock: JumpingClock) -> bool:
    return wait.deadline is not None and clock.monotonic() >= wait.deadline


def _deliver(scheduled: _ScheduledNode, fabric: Fabric) -> None:
    for sender, message in fabric.arrivals(scheduled.node):
        scheduled.context.run(scheduled.participant.exchange.deliver, sender, message)


def _jump(schedule: Sequence[_ScheduledNode], fabric: Fabric, clock: JumpingClock) -> None:
    """Let time pass until a participant can move."""
    moments = [scheduled.wait.deadline for scheduled in schedule if scheduled.wait and scheduled.result is None]
    moments += [fabric.next_arrival(scheduled.node) for scheduled in schedule if scheduled.result is None]
    known = [moment for moment in moments if moment is not None]
    if not known:
        waits = "; ".join(
            f"node({scheduled.node}) for {scheduled.wait.what()}"
            for scheduled in schedule
            if scheduled.wait and scheduled.result is None
        )
        raise Deadlock(f"Nobody can move: {waits}.")
    clock.advance_to(min(known))
