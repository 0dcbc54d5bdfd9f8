"""Allreduce: combine an array of every node of a group so that all get the same bits: reduce-scatter, then all-gather, in
pieces.

With W nodes the array is cut into W shards. Each node sends its pieces of shard s to the node of rank s, which combines them in
the order of ranks, along a binary tree, and sends the results to all. A node sends and receives 2 (W - 1) / W times the array,
the least that is possible. Both halves run at once: part k + `AHEAD` of a shard follows only when result k has come back, so
the moving data stay in the caches, and a node that is ahead fills no other node's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from network.controller import Controller
from network.memory import SlabPool
from network.names import did_you_mean
from network.session import Session
from network.values import Array

Combine = Callable[..., Any]
Left: TypeAlias = tuple[tuple[int, ...], Array]  # of an array: its shape, and the items of one part of it

COMBINE: Final[dict[str, Combine]] = {"mean": np.add, "sum": np.add, "max": np.maximum, "min": np.minimum}
WHOLE_BYTES: Final = 32 << 10  # an array of at most this size goes to all in one message: one way is faster than two
AHEAD: Final = 2  # pieces that may be under way to one peer: it combines one while the next ones come
PIECE_BYTES: Final = 1 << 20  # at most: large enough that messages cost little, and a few of them stay in the caches
SMALL_PIECE_BYTES: Final = 256 << 10  # cutting less than that costs more than it gains
PART, RESULT = 3, 4  # kinds of pieces
GIVEN_UP: Final = "it has given that up and begun a later one"
WAKE: Final = 5  # the kind of a message for a node that sleeps until a slot is filled
STRETCH_BYTES: Final = 8 << 20  # of an array that two nodes combine, each a half, in one go
PART_NUMBERS: Final = 1 << 20  # that an operation has for the parts of its array


def named(number: int) -> str:
    """Name the operation with a part of this number, as errors do."""
    return f"group operation {number // PART_NUMBERS}"


def unlike(peer: int, theirs: Any, their_type: Any, node: int, ours: tuple[int, ...], our_type: Any) -> ValueError:
    """Make the error for arrays of two nodes that cannot be combined."""
    return ValueError(
        f"allreduce needs one shape and type; node {peer} has {theirs} of {their_type}, node {node} {ours} of {our_type}."
    )


def check_op(op: str) -> None:
    """Raise ValueError unless arrays can be combined by `op`."""
    if op not in COMBINE:
        raise ValueError(f"allreduce 'op' must be one of {', '.join(COMBINE)}, got {op!r}{did_you_mean(op, COMBINE) or '.'}")


def combined(parts: Sequence[Array], op: str) -> Array:
    """Combine the parts of all ranks in their order along a binary tree, by the operation `op`."""
    result = tree(parts, COMBINE[op])
    # divided once, at the root: the order of sums alone decides the bits
    return np.asarray(result / len(parts)) if op == "mean" else result


def tree(parts: Sequence[Array], combine: Combine) -> Array:
    """Combine parts pairwise by `combine`: the first half, with the larger number of them, and the second."""
    if len(parts) == 1:
        return parts[0]
    # the shape depends on the number of parts alone, so each node adds in the same order
    half = (len(parts) + 1) // 2
    return np.asarray(combine(tree(parts[:half], combine), tree(parts[half:], combine)))


def room_for(mine: Array, count: int, op: str, pool: SlabPool) -> Array:
    """Take memory of `pool` for `count` arrays like `mine`, combined."""
    dtype = combined([mine.reshape(-1)[:0]] * count, op).dtype
    return pool.empty(mine.shape, dtype, mine.size * dtype.itemsize)


class Scratch:
    """Memory for the values between the leaves of a tree and its root; fresh memory costs more than the sums."""

    def __init__(self) -> None:
        self._spare: dict[int, Array] = {}

    def tree(self, parts: Sequence[Array], combine: Combine, target: Array, depth: int = 0) -> Array:
        """Compute `tree` of two parts or more.

        Args:
            parts: the parts.
            combine: combines two of them.
            target: takes the result; it has the type of the parts.
            depth: number of calls around this one.
        """
        # as `tree` splits: both must give the same bits
        half = (len(parts) + 1) // 2
        left, right = parts[0], parts[-1]
        if half > 1:
            left = self.tree(parts[:half], combine, target, depth + 1)
        if len(parts) - half > 1:
            spare = self._spare.get(depth)
            if spare is None or spare.dtype != target.dtype or spare.size < target.size:
                # one for each depth: the left half is done before the right one of the same depth begins
                spare = self._spare[depth] = np.empty_like(target)
            right = self.tree(parts[half:], combine, spare[: target.size], depth + 1)
        combine(left, right, out=target)
        return target

    def combine(self, parts: Sequence[Array], op: str, target: Array) -> None:
        """Write the parts of one type, two or more, `combined`.

        Args:
            parts: the parts.
            op: as of `combined`.
            target: takes the result.
        """
        # a mean of integers is of floats: rare, so it may take fresh memory
        if target.dtype != parts[0].dtype:
            np.copyto(target, combined(parts, op))
            return
        self.tree(parts, COMBINE[op], target)
        if op == "mean":
            np.divide(target, len(parts), out=target)


class ShardedReduction:
    """Operation on an array of more than `WHOLE_BYTES`.

    `take` gets the pieces that arrive, `place` returns their destination; `done` tells whether `result` is complete, and
    `missing` lists the peers of missing pieces. `mine` and `result` must stay unchanged until everything has left.

    Args:
        controller: sends the pieces.
        group: ids of the nodes by rank.
        number: number of the operation.
        mine: array of this node.
        op: a key of `COMBINE`.
        pool: gives the memory of `result`.
    """

    def __init__(
        self,
        controller: Controller,
        group: Sequence[int],
        number: int,
        mine: Array,
        op: str,
        pool: SlabPool,
    ) -> None:
        self._controller = controller
        self._group = group
        self._rank = group.index(controller.node_id)
        self._number = number
        self._op = op
        # contiguous: pieces leave from this memory, and a slice of it must be one
        self._mine = np.ascontiguousarray(mine).reshape(-1)
        self._shape = mine.shape
        self.result = room_for(mine, len(group), op, pool)
        self._flat = self.result.reshape(-1)
        self._scratch = Scratch()
        # pieces have the same number of items on both ways, so the wider type bounds them
        itemsize = max(self._mine.itemsize, self.result.itemsize)
        half = mine.size * itemsize // len(group) // 2 + 1  # of a shard: it is combined while the other half comes
        self._length = max(1, min(PIECE_BYTES, max(SMALL_PIECE_BYTES, half)) // itemsize)
        self._cuts = [list(self._cut(rank)) for rank in range(len(group))]
        self._parts: dict[int, dict[int, Array]] = {piece: {} for piece in range(len(self._cuts[self._rank]))}
        self._awaited = {  # pieces that each peer has yet to bring: parts of the own shard, and results of its shard
            peer: len(self._cuts[self._rank]) + len(self._cuts[rank]) for rank, peer in enumerate(group) if rank != self._rank
        }

    def _cut(self, rank: int) -> Iterator[slice]:
        size, count = self._mine.size, len(self._group)
        start, end = size * rank // count, size * (rank + 1) // count
        return (slice(at, min(at + self._length, end)) for at in range(start, end, self._length))

    def start(self) -> None:
        """Send the first parts, to every peer the same number of them before the next, and not all to the same peer first."""
        # from the next rank on: else all nodes would begin with node 0, and it would be the narrow place
        ranks = [(self._rank + step) % len(self._group) for step in range(1, len(self._group))]
        for piece in range(AHEAD):
            for rank in ranks:
                self._send_part(rank, piece)
            # after each round of peers, so that the first pieces leave before the second ones are packed
            self._controller.push()

    def _send_part(self, rank: int, piece: int) -> None:
        """Put part `piece` of the shard of `rank` in line, if there is one."""
        peer = self._group[rank]
        session = self._alive(peer)
        if session is None or piece >= len(self._cuts[rank]):
            return
        part = self._mine[self._cuts[rank][piece]]
        session.queue((self._shape, part), (PART, self._number, piece))

    def place(self, sender: int, kind: int, piece: int) -> Array | None:
        """Return the memory into which a piece shall be read; None: any."""
        # parts go to new memory: they are kept until all of them are there
        cuts = self._cuts[self._group.index(sender)] if kind == RESULT and sender in self._awaited else []
        return self._flat[cuts[piece]] if 0 <= piece < len(cuts) else None

    def take(self, sender: int, kind: int, piece: int, value: Any) -> None:
        """Take a piece; the last part of one is combined with the others and sent on, a result lets the next part go.

        Args:
            sender: node that has sent it.
            kind: `PART` or `RESULT`.
            piece: its number.
            value: its array.

        Raises: ValueError when the sender reduces an array of another shape or type.
        """
        if kind == RESULT:
            rank = self._group.index(sender)
            target = self._flat[self._cuts[rank][piece]]
            if not np.may_share_memory(target, value):  # it was not read to its place: it lies in the memory of the peer
                np.copyto(target, value)
            self._send_part(rank, piece + AHEAD)
        else:
            shape, part = value
            if shape != self._shape or part.dtype != self._mine.dtype:
                raise unlike(sender, shape, part.dtype, self._controller.node_id, self._shape, self._mine.dtype)
            parts = self._parts[piece]
            parts[sender] = part
            if len(parts) == len(self._group) - 1:
                # popped, so that their memory is free for the next parts
                self._finish(piece, self._parts.pop(piece))
        self._awaited[sender] -= 1

    def _finish(self, piece: int, parts: dict[int, Array]) -> None:
        cut = self._cuts[self._rank][piece]
        parts[self._controller.node_id] = self._mine[cut]
        target = self._flat[cut]
        # by rank, however they came in: the order of the sum decides its bits
        self._scratch.combine([parts[node] for node in self._group], self._op, target)
        for peer in self._awaited:
            if (session := self._alive(peer)) is not None:
                session.queue(target, (RESULT, self._number, piece))

    def missing(self) -> list[int]:
        """List the peers that have yet to bring something."""
        return [peer for peer, count in self._awaited.items() if count]

    def done(self) -> bool:
        """Push the pieces that `take` has queued; return whether the result is complete."""
        self._controller.push()
        return not any(self._awaited.values())

    def _alive(self, peer: int) -> Session | None:
        """Return the session with `peer`; None when it is gone, which shows where its pieces are awaited."""
        session = self._controller.sessions.get(peer)
        return session if session is not None and session.alive else None


PIECE_HEAD = 3  # ints in the head of a piece: its kind, the number of the operation, and its own number


class Pieces:
    """Pieces of one node. One operation runs at a time; a peer may be ahead."""

    def __init__(self, controller: Controller, group: Sequence[int]) -> None:
        self._controller = controller
        self._group = group
        self._rank = group.index(controller.node_id)
        # a peer that has begun the next operation does not wait for us
        self._early: dict[int, list[tuple[int, int, int, Any]]] = {}
        self._running: ShardedReduction | None = None
        self._number = 0
        self.pool = SlabPool()  # for results

    def begin(self, number: int, mine: Array, op: str) -> ShardedReduction:
        """Start operation `number`, with the pieces that have come already."""
        self._number = number
        # before the first bytes of results can come
        self._controller.use_place(self._place)
        self._running = running = ShardedReduction(self._controller, self._group, number, mine, op, self.pool)
        running.start()
        for sender, kind, piece, value in self._early.pop(number, []):
            running.take(sender, kind, piece, value)
        return running

    def end(self) -> None:
        # messages of the program must not be read into this result
        self._controller.use_place(None)
        self._running = None

    def take(self, sender: int, head: tuple[int, ...], value: Any) -> None:
        kind, number, piece = head
        if self._running is not None and number == self._number:
            self._running.take(sender, kind, piece, value)
        elif number > self._number:  # else of an operation that has failed here
            self._early.setdefault(number, []).append((sender, kind, piece, value))

    def check_none(self, number: int, node: int) -> None:
        """Raise ValueError when a piece has come for an operation in which `node` has an array too small to be cut."""
        for sender, kind, _, value in self._early.get(number, ()):
            if kind == PART:
                raise ValueError(f"allreduce needs one shape; node {sender} has {value[0]}, node {node} a smaller one.")

    def _place(self, sender: int, head: tuple[int, ...]) -> Array | None:
        if self._running is None or len(head) != PIECE_HEAD or head[1] != self._number:
            return None
        return self._running.place(sender, head[0], head[2])
