"""Small arrays of a group's operations, each in a slot of memory that all processes of a host read: no message tells of them.

A process leaves its array in its own outbox (`network.shared_memory`), and beside it the number of the operation, for which the
others look: for a moment where each process has a core; then they note in their own memory for which number they sleep, and who
comes later and finds that sends a message without content. Of two slots the operations take turns: who begins one has seen that
all have begun the one before, so that nobody reads any more what was left for the one before that.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from network.controller import Controller
from network.errors import BadContent
from network.shared_memory import BOARD_BYTES, LOADS_FIRST
from network.values import DTYPES, Array

from .allreduce import WAKE

FIRST: Final = 3  # operation: for fewer, as at the start of a job, it is not worth to share memory
_MOST_DIMENSIONS: Final = 8
_HEAD: Final = struct.Struct(f"=BB6x{_MOST_DIMENSIONS}Q")  # type, dimensions, shape; it follows the number
_DATA: Final = 128  # where the array begins in a slot
_SLOT: Final = BOARD_BYTES // 2 - 64
_ASLEEP: Final = BOARD_BYTES // 8 - 1  # the word for the number for which the owner sleeps
_SOON: Final = 32  # operations, after which one looks but now and then whether somebody has agreed
_LEAST_PATIENCE: Final = 1 / 64
_CODES: Final = tuple(DTYPES)


class SharedSlots:
    """Those of one node of a group, made before the controller shares memory: who has done so by then has another group."""

    def __init__(self, controller: Controller, group: Sequence[int]) -> None:
        self._sessions, self._controller = controller.sessions, controller
        self._foreign = {peer for peer, session in self._sessions.items() if session.peer_board is not None}
        near = {peer for peer, session in self._sessions.items() if session.link.private and not session.sealed}
        self._unknown = near.intersection(group) - self._foreign  # nothing is agreed with them yet
        self._boards: dict[int, memoryview] = {}  # which this node reads,
        self._words: dict[int, memoryview] = {}  # number by number,
        self._readers: dict[int, memoryview] = {}  # and those of peers that read ours, too
        self._own: memoryview | None = None
        self._own_words = memoryview(b"")
        self._fence = threading.Lock()
        self._count = self._at = 0
        self._patience = 1.0
        self._head = b""

    def put(self, number: int, array: Array) -> Collection[int]:
        """Leave an array for operation `number`, and wake who sleeps; the others of the group get a message."""
        self._count += 1
        self._at = self._count % 2 * _SLOT
        if self._unknown and (FIRST <= self._count < _SOON or self._count % _SOON == 0):
            self._agree()
        head = _head_of(array)
        if self._own is None or not self._readers or not head:
            return ()
        board, at = self._own, self._at
        np.copyto(np.ndarray(array.shape, array.dtype, board, at + _DATA), array)
        board[at + 8 : at + 8 + _HEAD.size] = self._head = head
        if not LOADS_FIRST:
            self._order()
        self._own_words[at // 8] = number
        self._order()
        woken = False
        for peer, words in self._readers.items():
            session = self._sessions[peer]
            session.bytes_sent += array.nbytes
            session.bytes_shared += array.nbytes
            if words[_ASLEEP] == number and session.alive:
                session.queue(None, (WAKE, number))
                woken = True
        if woken:
            self._controller.push()
        return self._readers.keys()

    def look(self, number: int) -> None:
        """Look for the arrays of the others, for a moment where each process has a core to look with; for a shorter one after
        one in vain, as others may have come to these cores."""
        at, end = self._at // 8, time.perf_counter() + self._controller.look_seconds * self._patience
        for words in self._words.values():
            while words[at] < number:
                if time.perf_counter() >= end:
                    self._patience = max(self._patience / 2, _LEAST_PATIENCE)
                    return
        self._patience = 1.0

    def sleep(self, number: int) -> None:
        """Have the others send a message with their arrays for `number`; what is there by now is found."""
        if self._own is not None:
            self._own_words[_ASLEEP] = number
            self._order()

    def has(self, peer: int, number: int) -> bool:
        """Whether `peer` has left its array for operation `number`, or has given that one up and left one for a later."""
        if not self._read(peer):
            return False
        words = self._words[peer]
        return bool(words[self._at // 8] >= number or words[(_SLOT - self._at) // 8] == number)

    def find(self, peer: int, number: int) -> Array | None:
        """The array of `peer`, in its memory: it stays until this node has begun the next operation but one.

        Raises: BadContent when it is none, or that of a later operation.
        """
        if not self.has(peer, number):
            return None
        if not LOADS_FIRST:
            self._order()
        board, words = self._boards[peer], self._words[peer]
        at = self._at if words[self._at // 8] == number else _SLOT - self._at
        if words[at // 8] != number:
            raise BadContent(peer, f"group operation {number}", "it has given that up and begun a later one")
        code, dimensions, *shape = _HEAD.unpack_from(board, at + 8)
        shape = shape[:dimensions]
        if code >= len(_CODES) or dimensions > _MOST_DIMENSIONS or not _fits(shape, DTYPES[_CODES[code]]):
            raise BadContent(peer, f"group operation {number}", "what it left in memory is no array")
        array = np.ndarray(shape, _CODES[code], board, at + _DATA)
        session = self._sessions[peer]
        session.bytes_read += array.nbytes
        session.bytes_shared += array.nbytes
        return array

    def _agree(self) -> None:
        """Offer memory to those that do not read it yet; who does, and has offered its own, gets no messages any more."""
        self._controller.read()  # nobody else would, as long as all that is awaited lies in slots
        for peer in sorted(self._unknown):
            session = self._sessions[peer]
            own, is_read = session.offer_memory() if session.alive else (None, False)
            if own is not None and self._own is None:
                self._own, self._own_words = own, own.cast("Q")
            if self._read(peer) and is_read:
                self._readers[peer] = self._words[peer]
            if peer in self._readers or not session.alive:
                self._unknown.discard(peer)
        self._controller.push()

    def _read(self, peer: int) -> bool:
        """Whether we read the board of `peer`, as from when it has offered its memory."""
        if peer in self._boards:
            return True
        session = self._sessions.get(peer)
        if session is None or session.peer_board is None or peer in self._foreign:
            return False
        self._boards[peer], self._words[peer] = session.peer_board, session.peer_board.cast("Q")
        return True

    def _order(self) -> None:
        """What was read or written before this is seen before what comes after it."""
        for _ in range(2):
            with self._fence:
                pass


def _head_of(array: Array) -> bytes:
    """What tells type and shape; b"" of an array that only a message can bring."""
    if array.dtype.str not in DTYPES or array.ndim > _MOST_DIMENSIONS or not _fits(array.shape, array.dtype.itemsize):
        return b""
    return _HEAD.pack(_CODES.index(array.dtype.str), array.ndim, *array.shape, *(0,) * (_MOST_DIMENSIONS - array.ndim))


def _fits(shape: Sequence[int], item_bytes: int) -> bool:
    """Whether a slot has room for such an array. Dimensions beside a 0 count too: NumPy makes no array of just any."""
    return math.prod(size or 1 for size in shape) * item_bytes <= _SLOT - _DATA
