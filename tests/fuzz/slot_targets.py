"""The targets that read what another process of the same user writes to memory which both map: slots and counts."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from network.controller import Controller
from network.errors import BadContent, Rejected, TimedOut
from network.session import Peer, Session
from network.shared_memory import LEAST_BYTES, PAGE_BYTES, PAGES, Outbox, PeerTable, SharedMemory
from network.transport import SocketLink
from network.values import DTYPES
from rpc.collective.allreduce import PART_NUMBERS
from rpc.collective.shared_slots import FIRST
from rpc.communication import Communication
from tests.network.wires import keys_for

from .mutate import INTEGERS
from .target import MIB, REFUSED_BY_NETWORK, Outcome, Target

OURS = (np.arange(3.0), np.ones((2, 5), np.int16), np.ones(9001, np.float32), np.ones((70, 300), np.int8))
SLOT = struct.Struct("=QBB6sQ8Q")  # its number, less that of the operation; type, dimensions, 6 zeros, items, shape
INPUT = struct.Struct("=BQ")  # which array is ours, and for which number the other process sleeps
CODES = tuple(DTYPES)
_WORD = (1 << 64) - 1


@contextlib.contextmanager
def _pair() -> Iterator[tuple[Communication, memoryview]]:
    """One node that reads the slots of another, whose memory is written by what is tried."""
    nodes = []
    for node, end in enumerate(socket.socketpair()):
        session = Session(SocketLink(end), keys_for(False), Peer("peer"), is_server=node == 0)
        nodes.append(Communication(Controller(node, {1 - node: session}), range(2), Path(), Path(), lambda percent, note: None))
    one, other = nodes
    try:
        for _ in range(FIRST + 3):  # in one thread: who comes first gives up, which agrees on memory as well
            for com in nodes:
                with contextlib.suppress(TimedOut):
                    com.barrier(0.0)
        board, is_read = other.controller.sessions[0].offer_memory()
        if board is None or not is_read:
            raise RuntimeError("The two nodes do not share memory.")
        yield one, board
    finally:
        for com in nodes:
            com.controller.close(graceful=False)
            com.controller.handlers, com.controller.on_block = (
                {},
                None,
            )  # which hold it: a worker has addresses for few outboxes


def _left(array: np.ndarray, number: int, items: int) -> bytes:
    shape = (*array.shape, *(0,) * (8 - array.ndim))
    return SLOT.pack(number, CODES.index(array.dtype.str), array.ndim, bytes(6), items, *shape)


def _slots() -> Sequence[bytes]:
    """Slots of honest nodes: what is awaited first or second, beside what was before, and both parts of a large array."""
    made = []
    for place, array in enumerate(OURS):
        size, large = array.size, array.nbytes > 1 << 15
        first = _left(array, 0, size // 2 if large else size)  # of rank 1, which has the second half
        second = _left(array, 1, size - size // 2) if large else _left(array, _WORD - PART_NUMBERS + 1, size)
        made += [INPUT.pack(place, asleep) + first + second for asleep in (0, _WORD)]
        made.append(INPUT.pack(place, 0) + second + first)
    return made


def _fields_altered(rng: random.Random, data: bytes) -> bytes:
    """Some fields that say something else."""
    fields = list(struct.unpack(INPUT.format + 2 * SLOT.format[1:], data))
    for _ in range(rng.randrange(3, 7)):
        at = rng.randrange(len(fields))
        if isinstance(fields[at], int):
            most = 0xFF if fields[at] < 0x100 and rng.randrange(2) else _WORD
            fields[at] = (rng.choice((fields[at] + rng.choice((-1, 1, 1 << 20, 1 << 63)), rng.choice(INTEGERS)))) & most
    for at in (0, 3, 4, 16, 17):  # those of one byte
        fields[at] &= 0xFF
    return struct.pack(INPUT.format + 2 * SLOT.format[1:], *fields)


def _reduce(data: bytes) -> Outcome:
    """An operation of a node, whose peer has left `data` and nothing else."""
    with _pair() as (com, board):
        return _reduce_beside(com, board, data)


def _reduce_beside(com: Communication, board: memoryview, data: bytes) -> Outcome:
    data = data[: INPUT.size + 2 * SLOT.size].ljust(INPUT.size + 2 * SLOT.size, b"\0")
    place, asleep = INPUT.unpack_from(data)
    number = com._operation // PART_NUMBERS * PART_NUMBERS + PART_NUMBERS
    for slot in range(2):
        head = data[INPUT.size + slot * SLOT.size :][: SLOT.size]
        at = slot * (len(board) // 2 - 64)
        relative = struct.unpack_from("=Q", head)[0]
        board[at : at + SLOT.size] = struct.pack("=Q", (relative + number) & _WORD) + head[8:]
    board[-8:] = struct.pack("=Q", (asleep + number) & _WORD)
    mine = OURS[place % len(OURS)]
    try:
        with np.errstate(all="ignore"):
            total = com.allreduce(mine, "sum", 0.0)
    except TimedOut:
        return "incomplete"
    except ValueError as error:
        if not str(error).startswith("allreduce needs one shape"):
            raise
        raise Rejected(str(error)) from error
    return "read" if total.shape == mine.shape else "accepted"


MOST_PAGES, ROOM = 100, 300  # of an array, and where nothing lies yet
LEAVE = struct.Struct("=HHI")  # pages of an array, the page whose count the reader writes before, and the count


def _counts() -> Sequence[bytes]:
    """Counts of an honest reader, which lets go of each array before the next but one."""
    rows = [
        (pages, page, 1 + turn // 2) for turn in range(8) for pages, page in ((4 + turn % 2 * 8, PAGES - ROOM + turn % 2 * 4),)
    ]
    return [b"".join(LEAVE.pack(*row) for row in rows), LEAVE.pack(MOST_PAGES - 1, PAGES - ROOM, 0) * 5]


def _leave(data: bytes) -> Outcome:
    """Arrays left for two readers, of which one writes any counts: what the other still reads must not be used again."""
    outbox, honest, hostile = Outbox(), SharedMemory(4 * PAGES), SharedMemory(4 * PAGES)
    if outbox.handle is None:
        return "incomplete"
    outbox._end = PAGES - ROOM
    tables, counts = [PeerTable(tuple(each.handle)) for each in (honest, hostile)], hostile.memory.cast("I")
    read: list[tuple[int, int]] = []
    kept = honest.memory.cast("I")
    for pages, page, count in LEAVE.iter_unpack(data[: len(data) // LEAVE.size * LEAVE.size][: 64 * LEAVE.size]):
        counts[page % PAGES] = count
        array = np.broadcast_to(np.uint8(0), max(LEAST_BYTES, pages % MOST_PAGES * PAGE_BYTES))
        places = [outbox.leave(table, [array]) for table in tables]
        if places[0] is None:
            continue
        start, size = places[0]
        end = start + -(-size // PAGE_BYTES)
        if places[1] != places[0] or end > PAGES or any(start < there and here < end for here, there in read):
            return "accepted"
        read.append((start, end))
        if len(read) > 2:  # this reader lets go, as it should
            kept[read.pop(0)[0]] += 1
    return "read"


SLOTS = (
    (
        Target("slots of shared memory", _slots, _reduce, (*REFUSED_BY_NETWORK, BadContent), (_fields_altered,), 4 * MIB, 0.3),
        Target("counts of shared memory", _counts, _leave, (), budget=4 * MIB, weight=0.1),
    )
    if sys.platform == "linux"
    else ()
)
