"""Combining an array of every node of a group so that all get the same bits: reduce-scatter, then all-gather, in pieces.

With W nodes the array is cut into W shards. Everybody sends its pieces of shard s to the node of rank s, which combines them
in the order of ranks, along a binary tree, and sends the results to all. A node sends and receives 2 (W - 1) / W times the
array, the least that is possible; a piece is combined and sent on while it is in the cache and the next one is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from network.controller import Controller
from network.session import Session
from network.slabs import SlabPool

Array = NDArray[Any]
Combine = Callable[..., Any]

COMBINE: Final[dict[str, Combine]] = {"mean": np.add, "sum": np.add, "max": np.maximum, "min": np.minimum}
WHOLE_BYTES: Final = 32 << 10  # an array of at most this size goes to everybody in one message: one way is faster than two
PIECE_BYTES: Final = 512 << 10  # stays in the cache between arriving, being combined and leaving
PART, RESULT = 3, 4  # kinds of pieces


def combined(parts: Sequence[Array], op: str) -> Array:
    """The parts of all ranks, combined in their order along a binary tree."""
    result = tree(parts, COMBINE[op])
    return np.asarray(result / len(parts)) if op == "mean" else result


def tree(parts: Sequence[Array], combine: Combine) -> Array:
    """Combine parts pairwise: the first half, with the larger number of them, and the second."""
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    return np.asarray(combine(tree(parts[:half], combine), tree(parts[half:], combine)))


class ShardedReduction:
    """One operation on an array of more than `WHOLE_BYTES`; `group` holds the nodes by rank.

    `take` is given what arrives, `place` says where it goes; `done` tells whether `result`, in memory of `pool`, is complete,
    and `missing` from whom something is lacking. `mine` and `result` must stay unchanged until everything has left.
    """

    def __init__(self, controller: Controller, group: Sequence[int], number: int, mine: Array, op: str, pool: SlabPool) -> None:
        self._controller = controller
        self._group = group
        self._rank = group.index(controller.node_id)
        self._number = number
        self._op = op
        self._mine = np.ascontiguousarray(mine).reshape(-1)
        self._shape = mine.shape
        none = self._mine[:0]
        dtype = combined([none] * len(group), op).dtype
        self.result = pool.empty(mine.shape, dtype, mine.size * dtype.itemsize)
        self._flat = self.result.reshape(-1)
        self._cuts = [list(self._cut(rank)) for rank in range(len(group))]
        self._parts: dict[int, dict[int, Array]] = {piece: {} for piece in range(len(self._cuts[self._rank]))}
        self._awaited = {  # pieces that each peer has yet to bring: parts of the own shard, and results of its shard
            peer: len(self._cuts[self._rank]) + len(self._cuts[rank]) for rank, peer in enumerate(group) if rank != self._rank
        }

    def _cut(self, rank: int) -> Iterator[slice]:
        size, count = self._mine.size, len(self._group)
        start, end = size * rank // count, size * (rank + 1) // count
        length = max(1, PIECE_BYTES // self._mine.itemsize)
        return (slice(at, min(at + length, end)) for at in range(start, end, length))

    def start(self) -> None:
        """Put all parts for others in line, the first pieces of every shard first."""
        peers = [(rank, peer) for rank, peer in enumerate(self._group) if rank != self._rank]
        for piece in range(max(map(len, self._cuts))):
            for rank, peer in peers[self._rank :] + peers[: self._rank]:
                if piece < len(self._cuts[rank]):
                    content = (self._shape, self._mine[self._cuts[rank][piece]])
                    self._session(peer).queue(content, (PART, self._number, piece))
        self._controller.push()

    def place(self, sender: int, kind: int, piece: int) -> Array | None:
        """Where a piece shall be read to; None: anywhere."""
        cuts = self._cuts[self._group.index(sender)] if kind == RESULT and sender in self._awaited else []
        return self._flat[cuts[piece]] if 0 <= piece < len(cuts) else None

    def take(self, sender: int, kind: int, piece: int, value: Any) -> None:
        """Take a piece; the last part of one is combined with the others and sent on.

        Raises: ValueError when the sender reduces an array of another shape or type.
        """
        if kind == RESULT:
            target = self._flat[self._cuts[self._group.index(sender)][piece]]
            if not np.may_share_memory(target, value):  # it was not read to its place: it came before `start`
                np.copyto(target, value)
        else:
            shape, part = value
            if shape != self._shape or part.dtype != self._mine.dtype:
                raise ValueError(
                    f"allreduce needs one shape and type; node {sender} has {shape} of {part.dtype}, "
                    f"node {self._controller.node_id} {self._shape} of {self._mine.dtype}."
                )
            parts = self._parts[piece]
            parts[sender] = part
            if len(parts) == len(self._group) - 1:
                self._finish(piece, self._parts.pop(piece))
        self._awaited[sender] -= 1

    def _finish(self, piece: int, parts: dict[int, Array]) -> None:
        cut = self._cuts[self._rank][piece]
        parts[self._controller.node_id] = self._mine[cut]
        target = self._flat[cut]
        in_order = [parts[node] for node in self._group]
        half = (len(in_order) + 1) // 2
        combine = COMBINE[self._op]
        if self._op != "mean":
            combine(tree(in_order[:half], combine), tree(in_order[half:], combine), out=target)
        elif target.dtype == self._mine.dtype:
            combine(tree(in_order[:half], combine), tree(in_order[half:], combine), out=target)
            np.divide(target, len(in_order), out=target)
        else:
            np.copyto(target, combined(in_order, self._op))
        for peer in self._awaited:
            session = self._controller.sessions.get(peer)
            if session is not None and session.alive:  # one that is gone is missed where it is awaited
                session.queue(target, (RESULT, self._number, piece))

    def missing(self) -> list[int]:
        """The peers that have yet to bring something."""
        return [peer for peer, count in self._awaited.items() if count]

    def done(self) -> bool:
        """Push what `take` has put in line; whether the result is complete."""
        self._controller.push()
        return not any(self._awaited.values())

    def _session(self, peer: int) -> Session:
        session = self._controller.sessions.get(peer)
        if session is None or not session.alive:
            raise self._controller.loss_of(peer)
        return session
