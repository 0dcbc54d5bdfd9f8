"""Communication of an executor: messages to single nodes, and operations of its whole working group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

import numpy as np

from network.controller import BlockHandler, Controller
from network.errors import BadContent, ProtocolError, Rejected, TimedOut
from network.message import Message
from network.names import missing
from network.values import Array

from .collective.allreduce import (
    GIVEN_UP,
    PART_NUMBERS,
    PIECE_HEAD,
    STRETCH_BYTES,
    WAKE,
    WHOLE_BYTES,
    Left,
    Pieces,
    Scratch,
    check_op,
    combined,
    named,
    room_for,
    unlike,
)
from .job.peers import PeerConnector, Suspects
from .protocol import MOST_NOTE

_GROUP_HEAD = 2  # ints in the head of a message of a group operation: its kind and its number
_GATHER, _RESULT = 1, 2
_PIECE_BYTES = 1 << 12  # of objects beside the array: a shape, a place in shared memory
PROGRESS_SECONDS = 0.1  # between two messages of progress: agent and submitter wake up for each
LoadCode: TypeAlias = Callable[[bytes, bytes], tuple[dict[str, Any], Sequence[type]]]


#: Names of MPI's communicators and torch.distributed.
_MEANT: Final = {
    **dict.fromkeys(("Get_rank", "get_rank"), "rank"),
    **dict.fromkeys(("Get_size", "get_size", "world_size", "get_world_size"), "size"),
    **dict.fromkeys(("all_reduce", "Allreduce", "reduce"), "allreduce(array)"),
    **dict.fromkeys(("bcast", "Bcast"), "broadcast(value)"),
    "Barrier": "barrier()",
    **dict.fromkeys(("send", "isend", "Send", "scatter"), "send_one(target, value)"),
    **dict.fromkeys(("recv", "irecv", "Recv"), "get_one()"),
    **dict.fromkeys(("gather", "allgather", "all_gather"), "send_one(target, value) and get_one()"),
}


class Communication:
    """Communication of an executor with the other nodes of its job: the object `com` that it gets.

    Attributes: `node_id`, `group` (ids of the working group, ascending), `rank` and `size` within it, `output_directory` for
    reports and for state from which an executor goes on, which lasts over all attempts at its job on this node; `job`, and
    `attempt` from 0; `cache_directory` for data worth keeping between jobs, `controller` for executors that move bytes
    themselves, `connector` for executors that connect with their peers by themselves (`AbsExecutable.meets_peers`), else None;
    `suspects`, the peers of which the failure detector has a doubt.

    Args:
        controller: sessions with the peers.
        group: ids of the working group.
        output_directory: see above.
        cache_directory: see above.
        on_progress: called with percent and note.
        job: id of the job.
        attempt: counted from 0.
        load_code: loads code from the submitter; None where that is not possible.
        connector: see above.
    """

    def __init__(
        self,
        controller: Controller,
        group: Sequence[int],
        output_directory: Path,
        cache_directory: Path,
        on_progress: Callable[[int, str], None],
        job: str = "",
        attempt: int = 0,
        load_code: LoadCode | None = None,
        connector: PeerConnector | None = None,
    ) -> None:
        self.controller = controller
        self.node_id = controller.node_id
        self.group = sorted(group)
        self.rank = self.group.index(self.node_id)
        self.size = len(self.group)
        self.output_directory = output_directory
        self.cache_directory = cache_directory
        self.job = job
        self.attempt = attempt
        self.connector = connector
        self.suspects = Suspects()
        self._load_code = load_code
        self._on_block: BlockHandler | None = None
        self._early: list[tuple[int, Message]] = []  # a peer may start, and send, before our executor listens
        self._on_progress = on_progress
        self._percent, self._told = -1, 0.0
        self._operation = 0
        self._arrived: dict[tuple[int, int, int], Message] = {}
        self._pieces = Pieces(controller, self.group)
        from .collective.shared_slots import SharedSlots  # noqa: PLC0415 - a submitter, which imports this module, needs none

        self._slots = SharedSlots(controller, self.group)
        # after the slots: they note which peers had shared memory before, for another group
        controller.share_memory()
        controller.handlers = {_GROUP_HEAD: self._take_operation, PIECE_HEAD: self._take_piece}
        controller.on_block = self._keep

    if not TYPE_CHECKING:  # else a type checker would take every name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an attribute that is not there, with the name here for one of MPI or torch.distributed."""
            return missing(self, name, _MEANT)

    def _take_operation(self, sender: int, message: Message) -> None:
        kind, number = message.head
        # the waking alone was its purpose; the slot is read by the one that waits
        if kind == WAKE or (kind == _GATHER and number < self._operation):  # then a slot has brought its array
            return
        self._arrived[kind, number, sender] = message

    def _take_piece(self, sender: int, message: Message) -> None:
        self._pieces.take(sender, message.head, message.within(_PIECE_BYTES))

    def _keep(self, sender: int, message: Message) -> None:
        self._early.append((sender, message))

    @property
    def on_block(self) -> BlockHandler | None:
        """Handler of messages with a head of their own (the blocks of an exchange), called as (sender, message). A new
        `handler` gets those that came before it.
        """
        return self._on_block

    @on_block.setter
    def on_block(self, handler: BlockHandler | None) -> None:
        self._on_block = handler
        self.controller.on_block = handler or self._keep
        # one by one: a handler that raises must not lose those behind
        while handler is not None and self._early:
            handler(*self._early.pop(0))

    def load_code(self, objects: bytes, code: bytes) -> tuple[dict[str, Any], Sequence[type]]:
        """Load the objects and the class table of a bundle (`shipping.Bundle`) that the submitter has sent while the job runs.

        Args:
            objects: its pickled objects.
            code: its pickled code.

        Raises: Rejected where the worker's policy forbids it or outside a job process, and the errors of `shipping.load`.
        """
        if self._load_code is None:
            raise Rejected(f"Node {self.node_id} runs in no job process, so it takes no code.")
        return self._load_code(objects, code)

    @property
    def available_clients(self) -> list[int]:
        return self.controller.available_clients

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to other nodes of the job, protocol included."""
        return self.controller.bytes_sent

    @property
    def bytes_read(self) -> int:
        """Bytes received from other nodes of the job, protocol included."""
        return self.controller.bytes_read

    def send_one(self, target: int | Iterable[int], value: object, timeout: float | None = None) -> None:
        """Send a value to one node or several; see `network.Controller.send_one`.

        Args:
            target, value, timeout: as there.
        """
        self.controller.send_one(target, value, timeout)

    @overload
    def get_one(self, blocking: Literal[True] = True, timeout: float | None = None) -> tuple[int, Any]: ...

    @overload
    def get_one(self, blocking: bool, timeout: float | None = None) -> tuple[int, Any] | None: ...

    def get_one(self, blocking: bool = True, timeout: float | None = None) -> tuple[int, Any] | None:
        """Take the next message as (sender, value); see `network.Controller.get_one`.

        Args:
            blocking, timeout: as there.
        """
        return self.controller.get_one(blocking, timeout)

    def report_progress(self, percent: float, note: str = "") -> None:
        """Tell the submitter how far this node is: at most ten times a second, and always when it is done.

        Args:
            percent: 0 to 100.
            note: a text of up to 120 characters.

        Raises: ValueError for `percent` outside that range.
        """
        if not 0 <= percent <= 100:
            raise ValueError(f"Progress must be from 0 to 100, got {percent}.")
        now = time.monotonic()
        if int(percent) != self._percent and (percent == 100 or now - self._told >= PROGRESS_SECONDS):
            self._percent, self._told = int(percent), now
            self._on_progress(self._percent, note[:MOST_NOTE])

    def allreduce(self, array: Any, op: str = "mean", timeout: float | None = None) -> np.ndarray[Any, Any]:
        """Combine an array of the same shape from every node of the group.

        Every node gets the same bits: they are combined in the order of ranks, along a binary tree. A small array goes from
        each node to all; of a large one each node combines a part: two nodes of one host a half of each stretch, which they
        leave in their slots, others pieces (`allreduce.ShardedReduction`).

        Args:
            array: of this node.
            op: 'mean', 'sum', 'max' or 'min'.
            timeout: seconds; None waits for ever.

        Raises: ValueError for an unknown `op` or shapes that differ, PeerLost, TimedOut.
        """
        check_op(op)
        mine = np.asarray(array)
        if not mine.dtype.isnative:
            # numbers travel as the machine has them
            mine = mine.astype(mine.dtype.newbyteorder("="))
        # also if this one fails: all nodes must agree on the numbers of those that follow
        self._begin()
        left = _Countdown(timeout)
        try:
            if mine.nbytes > WHOLE_BYTES and self.size > 1:
                return (self._reduce_halves if self._slots.carry() else self._reduce_sharded)(mine, op, left)
            parts = self._exchange(mine, mine.shape, left)
        except TimedOut as late:
            raise left.over(late) from None
        parts.insert(self.rank, (self.node_id, mine))
        total = combined([part for _, part in parts], op)
        # the peer may have gone on and written over what was read: only now is it known to have been whole
        self._slots.check(self._operation)
        return total

    def _begin(self) -> None:
        """Go on to the next operation: the number of its first part, which all nodes give it, however the one before went."""
        self._operation += PART_NUMBERS - self._operation % PART_NUMBERS

    def _reduce_halves(self, mine: Array, op: str, left: Callable[[], float | None]) -> Array:
        """Reduce in halves of each stretch between two nodes: each gets its half of the other's array, and leaves the result
        for it.
        """
        flat, result = np.ascontiguousarray(mine).reshape(-1), room_for(mine, self.size, op, self._pieces.pool)
        total, scratch = result.reshape(-1), Scratch()
        length = STRETCH_BYTES // max(mine.itemsize, result.itemsize)
        for start in range(0, mine.size, length):
            end = min(start + length, mine.size)
            middle = (start + end) // 2
            # rank 0 reduces the first half of each stretch, rank 1 the second
            own, other = (slice(start, middle), slice(middle, end))[:: 1 if self.rank == 0 else -1]
            # a number for each part, see PART_NUMBERS
            self._operation += start > 0
            # by rank, not by arrival: the order of the sum decides its bits
            parts = dict.fromkeys(self.group, flat[own])
            for peer, part in self._exchange(flat[other], mine.shape, left, len(flat[own])):
                if part.dtype != mine.dtype:
                    raise unlike(peer, mine.shape, part.dtype, self.node_id, mine.shape, mine.dtype)
                parts[peer] = part
            scratch.combine(list(parts.values()), op, total[own])
            self._slots.check(self._operation)
            self._operation += 1
            for peer, part in self._exchange(total[own], mine.shape, left, len(flat[other])):
                if part.dtype != total.dtype:
                    raise BadContent(peer, named(self._operation), f"its result is of {part.dtype}, not of {total.dtype}")
                np.copyto(total[other], part)
            self._slots.check(self._operation)
        return result

    def _exchange(
        self, mine: Array, shape: tuple[int, ...], left: Callable[[], float | None], size: int | None = None
    ) -> list[tuple[int, Array]]:
        """Exchange arrays of this shape, or parts of `size` items: leave `mine`, and return those of the others by rank,
        which are not ours to keep.
        """
        # memory is read without a system call, so an interruption would not be seen otherwise
        self.controller.check()
        others = [peer for peer in self.group if peer != self.node_id]
        # first, so that a peer that waits goes on while this node looks for the others
        near = self._slots.put(self._operation, mine, shape)
        if len(near) < len(others):
            value = mine if size is None else (shape, mine)
            self._send_group([peer for peer in others if peer not in near], _GATHER, value, left)
        self._slots.look(self._operation)
        found = []
        for peer in others:
            there = self._slots.find(peer, self._operation)
            if there is None:
                # noted before waiting, so that a peer that puts from here on sends a message
                self._slots.sleep(self._operation)
                there = self._await(_GATHER, peer, left)
            if there[0] != shape:
                raise self._other_shape(peer, there[0], shape)
            wanted = mine.size if size is None else size
            if there[1].size != wanted:
                raise BadContent(peer, named(self._operation), f"it has {there[1].size} items where {wanted} should be")
            found.append((peer, there[1] if size is not None else there[1].reshape(shape)))
        return found

    def _reduce_sharded(self, mine: Array, op: str, left: Callable[[], float | None]) -> Array:
        try:
            reduction = self._pieces.begin(self._operation, mine, op)
            self._slots.sleep(self._operation)  # no peer is to leave a small array unnoticed

            def ready() -> bool:
                for peer in self.group:
                    small = self._slots.find(peer, self._operation)
                    if small is None and (message := self._arrived.get((_GATHER, self._operation, peer))) is not None:
                        small = _left(message.value)
                    # a peer with a small array has left it in a slot or sent it whole: it would wait for ours for ever
                    if small is not None:
                        raise self._other_shape(peer, small[0], mine.shape)
                return reduction.done() or any(self._culprit(peer) is not None for peer in reduction.missing())

            self.controller.wait_until(ready, left(), lambda: self._awaited(", ".join(map(str, reduction.missing()))))
            for peer in reduction.missing():
                culprit = self._culprit(peer)
                if culprit is not None:
                    raise self.controller.loss_of(culprit)
            # what is still on its way lies in arrays that the caller, or the next operation, may write over
            self.controller.flush([peer for peer in self.group if peer in self.available_clients], left())
        finally:
            self._pieces.end()
        return reduction.result

    def _awaited(self, nodes: object) -> str:
        return f"{named(self._operation)} of node(s) {nodes}"

    def _other_shape(self, peer: int, theirs: tuple[int, ...], ours: tuple[int, ...]) -> ValueError:
        return ValueError(f"allreduce needs one shape; node {peer} has {theirs}, node {self.node_id} {ours}.")

    def broadcast(self, value: Any, root: int = 0, timeout: float | None = None) -> Any:
        """Return the value of one rank on every node of the group.

        Args:
            value: the value to send; it counts on that rank only.
            root: the rank.
            timeout: seconds; None waits for ever.

        Raises: ValueError when there is no such rank, PeerLost, TimedOut.
        """
        check_root(root, self.size)
        self._begin()
        left = _Countdown(timeout)
        try:
            if self.rank == root:
                self._send_group([peer for peer in self.group if peer != self.node_id], _RESULT, value, left)
                return value
            return self._await(_RESULT, self.group[root], left)
        except TimedOut as late:
            raise left.over(late) from None

    def barrier(self, timeout: float | None = None) -> None:
        """Wait until every node of the group has come here, for `timeout` seconds.

        Raises: PeerLost, TimedOut.
        """
        self.allreduce(np.zeros(1), "sum", timeout)

    def _send_group(self, peers: Sequence[int], kind: int, value: object, left: Callable[[], float | None]) -> None:
        for peer in peers:
            self.controller.flush([peer], left())  # so that `post` never waits at the high-water mark
            self.controller.post(peer, value, (kind, self._operation))
        self.controller.flush(peers, left())

    def _await(self, kind: int, peer: int, left: Callable[[], float | None]) -> Any:
        key = (kind, self._operation, peer)

        def ready() -> bool:
            self._pieces.check_none(self._operation, self.node_id)
            if kind == _GATHER and (self._slots.has(peer, self._operation) or self._slots.given_up(peer, self._operation)):
                return True
            return key in self._arrived or self._culprit(peer) is not None

        self.controller.wait_until(
            ready,
            left(),
            lambda: f"{named(self._operation)} of node {peer}",
        )
        # the slot first: the message that woke us may have no content
        if kind == _GATHER and (part := self._slots.find(peer, self._operation)) is not None:
            return part
        # a peer may send and leave at once: its message counts, and only then its end
        if key not in self._arrived:
            if (culprit := self._culprit(peer)) is not None:
                raise self.controller.loss_of(culprit)
            if self._slots.given_up(peer, self._operation):
                raise BadContent(peer, named(self._operation), GIVEN_UP)
        try:
            value = self._arrived.pop(key).value
        except ProtocolError as error:
            raise BadContent(peer, named(self._operation), str(error).rstrip(".")) from error
        return _left(value) if kind == _GATHER else value

    def _culprit(self, peer: int) -> int | None:
        """Find the node because of whose loss `peer` will not send: a lost one of the group first, else `peer` itself if it
        has left.
        """
        # one lost node may have made others leave: it is named, not those
        lost = [node for node in self.group if node in self.controller.lost]
        if lost or peer not in self.available_clients:
            return lost[0] if lost else peer
        return None


def _left(value: Any) -> Left:
    """Read the array of a message in place of a slot."""
    if type(value) is tuple and len(value) == 2 and type(value[1]) is np.ndarray:
        return value
    array = np.asarray(value)
    return array.shape, array


def check_root(root: int, size: int) -> None:
    """Raise ValueError unless `root` is a rank of a group of `size` nodes."""
    if not 0 <= root < size:
        raise ValueError(f"broadcast 'root' must be a rank from 0 to {size - 1}, got {root}.")


class _Countdown:
    """Countdown of `timeout`: called, it returns the seconds that are left; None without a limit."""

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._deadline = None if timeout is None else time.monotonic() + timeout

    def __call__(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def over(self, late: TimedOut) -> TimedOut:
        """Return the error of the whole operation for that of its last wait, which names what was left for it as the limit."""
        return late if self._timeout is None else TimedOut(late.what, self._timeout)
