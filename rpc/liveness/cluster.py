"""The failure detector for a whole job, at whoever watches all its agents: silent hosts, and deadlocks.

All nodes run when the watch begins. Their agents beat twice a second; one that has not for 2.25 s is silent, whatever its
connection says. A host that hears nothing is found so, too: what it sends is not confirmed to it, so its system sends the
first beat again and again, and no further one. When all that still train wait for their peers, longer than a step may take
and without a byte, nobody will go on: a deadlock, unless messages were sent that have not come: then the link that swallows
them is dead.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..machine import Machine
from .heartbeats import Heartbeats
from .limits import Phase

SILENT_SECONDS = 2.25
_TRAINING = (Phase.START, Phase.STEP, Phase.BETWEEN, Phase.SAVE)


@dataclass(frozen=True)
class Heard:
    """A beat. epoch and batch count from 1; `waiting` seconds for peers without a byte; `limit` for a step there."""

    node: int
    attempt: int
    phase: Phase
    epoch: int
    batch: int
    waiting: float
    limit: float
    links: tuple[tuple[int, int, int], ...] = ()  # peer, messages sent to it, messages that came from it


@dataclass(frozen=True)
class HasEnded:
    """The job has ended on the node, or its agent is gone for another reason."""

    node: int
    well: bool


@dataclass(frozen=True)
class Tick:
    """Time has passed, and everything that had arrived before `now` has been handed over."""


@dataclass(frozen=True)
class Silent:
    """The host of the node is silent; `last` is what it said last, if anything."""

    node: int
    seconds: float
    last: Heard | None


@dataclass(frozen=True)
class Deadlock:
    """These nodes wait for each other; `longest` is who has waited longest."""

    nodes: tuple[int, ...]
    longest: Heard


@dataclass(frozen=True)
class DeadLink:
    """Of `sent` messages from one node to another, `read` have come, and no more do, while all wait."""

    sender: int
    receiver: int
    sent: int
    read: int


@dataclass(frozen=True)
class CutOff:
    """Nobody goes on because links of `node` are dead; without it, no dead link of these is left."""

    node: int
    links: tuple[DeadLink, ...]
    last: Heard


class ClusterWatch(Machine):
    """See the module. `deadline` is when to send the next Tick, or None; `strangers` counts beats of other jobs."""

    def __init__(self, nodes: Iterable[int], attempt: int, now: float) -> None:
        super().__init__()
        self._nodes = frozenset(nodes)
        self._attempt = attempt
        self._heartbeats = Heartbeats(self._nodes, SILENT_SECONDS, now)
        self._last: dict[int, Heard] = {}
        self._ended: set[int] = set()
        self._settled = False  # somebody has failed: what the others wait for is known
        self.strangers = 0

    @property
    def deadline(self) -> float | None:
        """When to look next."""
        return self._heartbeats.deadline

    def _decide(self, event: object, now: float) -> list[object]:
        if isinstance(event, Heard):
            self._on_beat(event, now)
            return []
        if isinstance(event, HasEnded):
            self._forget(event.node)
            self._settled = self._settled or not event.well
            return []
        if isinstance(event, Tick):
            return self._on_tick(now)
        raise self._impossible(event)

    def _on_beat(self, beat: Heard, now: float) -> None:
        if beat.node not in self._nodes or beat.attempt != self._attempt:
            self.strangers += 1  # of an attempt before, or of nobody
        elif beat.node not in self._ended:  # a beat may have been on its way when the end was told
            self._heartbeats.hear(beat.node, now)
            self._last[beat.node] = beat

    def _forget(self, node: int) -> None:
        self._ended.add(node)
        self._heartbeats.forget(node)
        self._last.pop(node, None)

    def _on_tick(self, now: float) -> list[object]:
        silent: list[object] = []
        for node, seconds in self._heartbeats.look(now):
            silent.append(Silent(node, seconds, self._last.get(node)))
            self._forget(node)
            self._settled = True
        return silent + self._deadlock()

    def _deadlock(self) -> list[object]:
        training = [beat for beat in self._last.values() if beat.phase in _TRAINING]
        unheard = self._nodes - self._ended - self._last.keys()
        if self._settled or unheard or not training or any(beat.waiting <= beat.limit for beat in training):
            return []
        self._settled = True
        cut_off = self._cut_off()
        if cut_off:
            return cut_off
        longest = max(training, key=lambda beat: (beat.waiting, -beat.node))
        return [Deadlock(tuple(sorted(beat.node for beat in training)), longest)]

    def _cut_off(self) -> list[object]:
        """The fewest nodes, one after the other, without which no dead link is left: who has most of them, of equals the worker
        with the highest number."""
        counts = {(node, peer): (sent, read) for node, beat in self._last.items() for peer, sent, read in beat.links}
        dead = [
            DeadLink(node, peer, sent, counts[peer, node][1])
            for (node, peer), (sent, _) in sorted(counts.items())
            if (peer, node) in counts and sent > counts[peer, node][1]
        ]
        found: list[object] = []
        while dead:
            partners: dict[int, set[int]] = {}
            for link in dead:
                partners.setdefault(link.sender, set()).add(link.receiver)
                partners.setdefault(link.receiver, set()).add(link.sender)
            worst = max(partners, key=lambda node: (len(partners[node]), node))
            own = tuple(link for link in dead if worst in (link.sender, link.receiver))
            dead = [link for link in dead if link not in own]
            found.append(CutOff(worst, own, self._last[worst]))
        return found
