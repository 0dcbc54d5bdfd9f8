"""Rendezvous of the phase doCommit, as one job process sees it: connections, READY messages, start or roll-back.

The first node that has all it needs says READY to all; each of the others says READY when it has, too. A node starts when it is
READY itself and has heard READY from the whole working group; at the limit, or when one of them is lost, it rolls back. Peers
outside the group (the parameter server) must be connected, but their READY is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..machine import Machine, Tick
from ..support.immutable import Immutable


class Satisfied(Immutable):
    """Event: this node has all it needs."""


class _OfPeer(Immutable):
    peer: int


class Met(_OfPeer):
    """Event: a peer is connected."""


class HeardReady(_OfPeer):
    """Event: a peer said READY."""


class PeerGone(_OfPeer):
    """Event: a peer is lost or has left."""

    reason: str


class SayReady(_OfPeer):
    """Action: tell `peer` that this node is READY."""


class Start(Immutable):
    """Action: start the executor, as all are READY."""


class RollBack(Immutable):
    """Action: give up before starting."""

    reason: str


class Rendezvous(Machine):
    """State machine of doCommit in one job process: decides when it says READY, starts its executor, or rolls back.

    `deadline` is when to send the next Tick.

    Args:
        node: id of this node.
        group: nodes that start together.
        companions: nodes outside the group that must be connected.
        limit: seconds until it rolls back.
        now: monotonic seconds.
    """

    def __init__(self, node: int, group: Iterable[int], companions: Iterable[int], limit: float, now: float) -> None:
        super().__init__()
        self._group = frozenset(group) - {node}
        self._needed = self._group | frozenset(companions)
        self._limit = limit
        self.deadline = now + limit
        self._satisfied = False
        self._met: set[int] = set()
        self._told: set[int] = set()
        self._ready: set[int] = set()
        self.decided = False

    def _decide(self, event: object, now: float) -> list[object]:
        if not isinstance(event, (Satisfied, Met, HeardReady, PeerGone, Tick)):
            raise self._impossible(event)
        if self.decided:
            return []  # events that were on their way when the decision fell
        if isinstance(event, PeerGone) and event.peer in self._needed:
            return self._roll_back(f"node {event.peer} was lost before the start: {event.reason}")
        if isinstance(event, Satisfied):
            self._satisfied = True
        elif isinstance(event, (Met, HeardReady)):  # a peer that is heard is met
            self._met.add(event.peer)
            if isinstance(event, HeardReady):
                self._ready.add(event.peer)
        actions: list[object] = []
        if self._satisfied:
            actions += [SayReady(peer) for peer in sorted((self._met & self._group) - self._told)]
            self._told |= self._met & self._group
            # met, too, for companions say nothing that is waited for
            if self._ready >= self._group and self._met >= self._needed:
                self.decided = True
                return [*actions, Start()]
        # after the event: a READY that came in time counts
        if now >= self.deadline:
            return actions + self._roll_back(f"not everybody was READY within {self._limit:g} s, missing: {self._missing()}")
        return actions

    def _missing(self) -> str:
        missing = sorted((self._needed - self._met) | (self._group - self._ready))
        return ", ".join(f"node {peer}" for peer in missing) or "this node itself"

    def _roll_back(self, reason: str) -> list[object]:
        self.decided = True
        return [RollBack(reason)]
