"""Choice of the position where all nodes go on, by the checkpoints that they hold.

Every node decides alike, from the same offers, without I/O.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..engine.progress import Position
from .snapshot import Snapshot


class CheckpointOffer(NamedTuple):
    """A valid checkpoint that some node holds.

    Args:
        owner: the node of the state.
        epoch: completed epochs at its position.
        batch: completed batches of the next epoch.
        personal: whether other workers have other states at the position.
        workers: number of workers of its job.
        size: of its arrays, in bytes.
    """

    owner: int
    epoch: int
    batch: int
    personal: bool
    workers: int
    size: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> CheckpointOffer:
        header, size = snapshot.header, sum(array.nbytes for array in snapshot.arrays.values())
        return cls(header.node, *header.position, header.personal, header.workers, size)

    @property
    def position(self) -> Position:
        # positions are compared as (epoch, batch)
        return Position(self.epoch, self.batch)


class CheckpointSource(NamedTuple):
    """The node that holds a checkpoint, and its owner, the node of the state."""

    holder: int
    owner: int


@dataclass(frozen=True)
class Choice:
    """The position where all nodes go on, and the checkpoint that each node takes; a node without one starts afresh.

    `whole`: every node has its whole state. Else only values and rules are taken over, by all from the same checkpoint, and
    the memory of optimizers and codecs of single workers begins anew everywhere. `reason` says why it is not simply the newest
    checkpoint there is, or is "".
    """

    position: Position
    whole: bool
    sources: Mapping[int, CheckpointSource]
    reason: str

    @property
    def said(self) -> str:
        return self.said_of("")

    def said_of(self, run: str) -> str:
        """Return the sentence on where training goes on, with the name of its `run` where that is known, else ""."""
        of = f" of {run}" if run else ""
        return (
            f"{self.reason}{' ' if self.reason else ''}Training{of} goes on after {self.position}, with {self.position.next}."
        )


def choose(offers: Mapping[int, Sequence[CheckpointOffer]], workers: Sequence[int], server: int | None = None) -> Choice | None:
    """Choose the newest position at which every node has the state it needs; without any the newest of all, in part.

    A worker needs its own personal state; a state that is not personal may be any worker's. `server` is the parameter server,
    if it remembers anything. Without offers the choice is None.
    """
    # every position of which a node holds a checkpoint, its own or one of another node
    held: dict[Position, dict[int, list[int]]] = {}  # position: {owner: holders}
    personal: dict[Position, bool] = {}
    for holder, found in offers.items():
        for offer in found:
            held.setdefault(offer.position, {}).setdefault(offer.owner, []).append(holder)
            # a server's state decides nothing on its own: it goes with the workers' states at the same position
            if offer.owner >= 0:
                personal[offer.position] = personal.get(offer.position, False) or offer.personal
    others = {o.position for found in offers.values() for o in found if o.owner >= 0 and o.workers != len(workers)}
    newest = sorted(personal, reverse=True)
    reason = ""
    for position in newest:
        # newest first, so the least work is done again
        lacking = _lacking(held[position], workers if personal[position] else [], server)
        # where states are common, one worker's stands for all, and only the server's can be lacking
        if personal[position] and position in others:
            problem = "it was made by another number of workers, each with a state of its own"
        elif lacking:
            problem = f"the state of node(s) {', '.join(map(str, lacking))} is lacking"
        else:
            return Choice(position, True, _sources(held[position], workers, server), reason)
        reason = reason or f"The newest checkpoint, after {position}, cannot be used as it is: {problem}."
    if not newest:
        return None
    # the first reason is that of the newest one, which is what people ask about
    owner = min(owner for owner in held[newest[0]] if owner >= 0)
    # the same owner on all nodes: states of different workers at one position would give different models
    one = {owner: held[newest[0]][owner]}
    # no server: a memory of its own does not belong to the values of one worker alone
    reason = f"{reason} Nor can an older one, so what was remembered for single workers begins anew."
    return Choice(newest[0], False, _sources(one, workers, None), reason)


def _lacking(held: Mapping[int, Sequence[int]], workers: Sequence[int], server: int | None) -> list[int]:
    return [node for node in (*workers, *([] if server is None else [server])) if node not in held]


def _sources(held: Mapping[int, Sequence[int]], workers: Sequence[int], server: int | None) -> dict[int, CheckpointSource]:
    """Prefer, for each node, its own state before another's, and one that it holds itself before one that it must be sent."""
    sources: dict[int, CheckpointSource] = {}
    for node in workers:
        found = [CheckpointSource(holder, owner) for owner, holders in held.items() if owner >= 0 for holder in holders]
        sources[node] = min(found, key=lambda source: (source.owner != node, source.holder != node, source))
    if server is not None:
        sources[server] = CheckpointSource(min(held[server], key=lambda holder: (holder != server, holder)), server)
    return sources
