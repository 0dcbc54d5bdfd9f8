"""Runs all nodes of a job inside this process, one at a time, in a fixed order: for breakpoints, tests and teaching."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Protocol

from .accounts import check_conserved
from .channel import Sent
from .exchange import Participant
from .memory_channel import Fabric, Link, MemoryChannel, reliable
from .wait import Wait

Build = Callable[[MemoryChannel], Participant]


class JumpingClock(Protocol):
    """A clock that can be told to let time pass."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""

    def advance_to(self, moment: float) -> None:
        """Let time pass until `monotonic()` is at least `moment`."""


class SkippingClock:
    """The machine's time, plus what was skipped because everybody waited."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._skipped = 0.0

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""
        return self._monotonic() + self._skipped

    def advance_to(self, moment: float) -> None:
        """Skip to `moment`; one that has passed changes nothing."""
        while self.monotonic() < moment:
            self._skipped += moment - self.monotonic()


class Deadlock(RuntimeError):
    """Every node waits, without a limit, for something that will never come."""


@dataclass
class _Seat:
    """One participant and where it is."""

    node: int
    participant: Participant
    context: Context
    wait: Wait | None = None
    result: dict[str, float] | None = None


def run_in_process(
    builds: Mapping[int, Build], clock: JumpingClock, *, link: Link = reliable, classes: Sequence[type] = ()
) -> dict[int, dict[str, float]]:
    """Build and run the participants, and return the result of each.

    Every participant runs in its own `contextvars` context. They take turns in the order of `builds`, each until it waits.
    When nobody can move, `clock` jumps to the next arrival or deadline, so that time-outs cost no time. `link` and `classes`
    are those of `Fabric`. At the end sent = received + in flight is checked for every link and variable.

    Raises: what a participant raises, after all processes are closed; Deadlock when nobody can ever move.
    """
    fabric = Fabric(list(builds), clock.monotonic, link, classes)
    seats: list[_Seat] = []
    try:
        for node, build in builds.items():
            context = copy_context()
            seats.append(_Seat(node, context.run(build, fabric.channel(node)), context))
        while any(seat.result is None for seat in seats):
            moved = [_turn(seat, fabric, clock) for seat in seats]
            if not any(moved):
                _jump(seats, fabric, clock)
    finally:
        for seat in seats:
            seat.context.run(seat.participant.process.close)
    for seat in seats:
        _deliver(seat, fabric)
    check_conserved({seat.node: seat.participant.exchange.accounts.entries() for seat in seats}, fabric.in_flight())
    return {seat.node: seat.result for seat in seats if seat.result is not None}


def _turn(seat: _Seat, fabric: Fabric, clock: JumpingClock) -> bool:
    """Let one participant run until it waits again; False when it could not move."""
    if seat.result is not None:
        return False
    _deliver(seat, fabric)
    wait = seat.wait
    if wait is not None and not _overdue(wait, clock) and not seat.context.run(wait.ready):
        return False
    try:
        seat.wait = seat.context.run(next, seat.participant.process)
    except StopIteration as end:
        seat.result = end.value
        fabric.leave(seat.node)
    return True


def _overdue(wait: Wait, clock: JumpingClock) -> bool:
    return wait.deadline is not None and clock.monotonic() >= wait.deadline


def _deliver(seat: _Seat, fabric: Fabric) -> None:
    for sender, message in fabric.arrivals(seat.node):
        size = Sent(message.raw, message.raw + message.overhead, message.overhead)
        seat.context.run(seat.participant.exchange.deliver, sender, message.head, message.content, size)


def _jump(seats: Sequence[_Seat], fabric: Fabric, clock: JumpingClock) -> None:
    """Nobody can move: let time pass until somebody can."""
    moments = [seat.wait.deadline for seat in seats if seat.wait and seat.result is None]
    moments += [fabric.next_arrival(seat.node) for seat in seats if seat.result is None]
    known = [moment for moment in moments if moment is not None]
    if not known:
        waits = "; ".join(f"node({seat.node}) for {seat.wait.what()}" for seat in seats if seat.wait and seat.result is None)
        raise Deadlock(f"Nobody can move: {waits}.")
    clock.advance_to(min(known))
