"""Slots of arrays for a group's operations, or parts of them, in memory that all processes of a host read: no message announces
them.

A process leaves its array in its own outbox (`network.shared_memory`), and beside it the number of the operation, for which the
others look: for a moment where each process has a core; then they note in their own memory for which number they sleep, and a
process that comes later and finds that sends a message without content. Of two slots the numbers take turns: a process that
begins one has seen that all have begun the one before, so that none reads any more the array left for the one before that; only
a process that gives operations up goes on without the others, and so the number is looked at again after the array was read.
"""

from __future__ import annotations

import struct
import sys
import threading
import time
from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from network.controller import Controller
from network.errors import BadContent
from network.shared_memory import BOARD_BYTES, LOADS_FIRST
from network.values import DTYPES, Array

from .allreduce import GIVEN_UP, WAKE, Left, named

FIRST: Final = 3  # operation: for fewer, as at the start of a job, it is not worth to share memory
_MOST_DIMENSIONS: Final = 8
_HEAD: Final = struct.Struct(f"=BB6xQ{_MOST_DIMENSIONS}Q")  # type, dimensions, items here, whole shape; it follows the number
_DATA: Final = 128  # where the items begin in a slot
_SLOT: Final = BOARD_BYTES // 2 - 64
_OTHER: Final = _SLOT // 8  # the word for the number of the second slot; that of the first is 0
_BUSY: Final = 1 << 63  # and the number, while the owner writes
_SENT: Final = b"\xff"  # in place of a type: a message brings it
_ASLEEP: Final = BOARD_BYTES // 8 - 1  # the word for the number for which the owner sleeps
_SOON: Final = 32  # operations, after which one looks but now and then whether a peer has agreed
_LEAST_PATIENCE: Final = 1 / 64
_CODES: Final = tuple(DTYPES)


class SharedSlots:
    """Slots of one node of a group, made before the controller shares memory: a peer that has done so by then has another
    group.
    """

    def __init__(self, controller: Controller, group: Sequence[int]) -> None:
        self._sessions, self._controller, self._group = controller.sessions, controller, group
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
        self._pending = False  # whether the array put last has not been checked: the operation failed
        self._patience = 1.0
        self._found: list[tuple[int, int]] = []  # from whom, and the word of its number

    def put(self, number: int, array: Array, shape: tuple[int, ...]) -> Collection[int]:
        """Leave an array of this shape, or a part of it, under `number`, and wake the sleeping readers.

        Returns: the peers that read it there; the others of the group get a message.
        """
        self._found.clear()
        self._count += 1
        after_failure, self._pending = self._pending, True
        # rarely later: asking costs a system call for each peer that will never agree
        if self._unknown and (FIRST <= self._count < _SOON or self._count % _SOON == 0):
            self._agree()
        if self._own is None or not self._readers:
            return ()
        head = _head_of(array, shape)
        # the other slot: readers may still be at the one of the operation before
        self._at = _SLOT - self._at
        board, at = self._own, self._at
        self._own_words[at // 8] = _BUSY + number  # a peer that is late, because we gave up, shall not take the old array
        # the busy mark must be seen before the items change
        if not LOADS_FIRST:
            self._order()
        if head != _SENT:
            np.copyto(np.ndarray(array.shape, array.dtype, board, at + _DATA), array)
        board[at + 8 : at + 8 + len(head)] = head
        # and the items and the head before the number that announces them
        if not LOADS_FIRST:
            self._order()
        self._own_words[at // 8] = number
        if head == _SENT:
            return ()
        # on all processors: the number is stored before the sleepers' words are loaded, else both sides could wait
        self._order()
        woken = False
        for peer, words in self._readers.items():
            session = self._sessions[peer]
            session.bytes_sent += array.nbytes
            session.bytes_shared += array.nbytes
            # a peer that sleeps for an array that we gave up must see that we went on; earlier numbers are of former sleeps
            if (words[_ASLEEP] == number or (after_failure and 0 < words[_ASLEEP] < number)) and session.alive:
                session.queue(None, (WAKE, number))
                woken = True
        if woken:
            self._controller.push()
        return self._readers.keys()

    def carry(self) -> bool:
        """Tell if large arrays go from slot to slot, too, as both nodes of a group of two see it alike."""
        if len(self._group) != 2 or sys.platform != "linux":
            return False
        session = self._sessions.get(sum(self._group) - self._controller.node_id)
        return session is not None and session.link.private and not session.sealed

    def look(self, number: int) -> None:
        """Look for the arrays of the others, for a moment where each process has a core to look with; for a shorter one
        after one in vain, as others may have come to these cores.
        """
        end = time.perf_counter() + self._controller.look_seconds * self._patience
        for words in self._words.values():
            while words[0] != number and words[_OTHER] != number:
                if time.perf_counter() >= end:
                    self._patience = max(self._patience / 2, _LEAST_PATIENCE)
                    return
        self._patience = 1.0

    def sleep(self, number: int) -> None:
        """Ask the others for a message with their arrays for `number`; those left by now are found."""
        if self._own is not None:
            # stored before the others are looked at once more: see the end of `put`
            self._own_words[_ASLEEP] = number
            self._order()

    def has(self, peer: int, number: int) -> bool:
        """Tell if `peer` has left its array under `number`."""
        if not self._read(peer):
            return False
        # a slot that says "sent" holds nothing: a message brings it
        words = self._words[peer]
        return (words[0] == number and self._boards[peer][8] != _SENT[0]) or (
            words[_OTHER] == number and self._boards[peer][_SLOT + 8] != _SENT[0]
        )

    def given_up(self, peer: int, number: int) -> bool:
        """Tell if `peer`, which had used its slots before, has none for `number` any more but one for a later."""
        if not self._read(peer):
            return False
        # without the busy mark: a slot that is being written has given up its old number already
        numbers = self._words[peer][0] % _BUSY, self._words[peer][_OTHER] % _BUSY
        return number not in numbers and min(numbers) > 0 and max(numbers) > number

    def find(self, peer: int, number: int) -> Left | None:
        """Find the array that `peer` has left, in its memory: it was unchanged if `check` says so afterwards.

        Raises: BadContent when it is no array.
        """
        if not self.has(peer, number):
            return None
        if not LOADS_FIRST:
            self._order()
        board, word = self._boards[peer], 0 if self._words[peer][0] == number else _OTHER
        self._found.append((peer, word))
        code, dimensions, items, *shape = _HEAD.unpack_from(board, 8 * word + 8)
        # a peer writes there what it likes: checked before an array is made of it
        if code >= len(_CODES) or dimensions > _MOST_DIMENSIONS or items * DTYPES[_CODES[code]] > _SLOT - _DATA:
            raise BadContent(peer, named(number), "what it left in memory is no array")
        array = np.ndarray((items,), _CODES[code], board, 8 * word + _DATA)
        session = self._sessions[peer]
        session.bytes_read += array.nbytes
        session.bytes_shared += array.nbytes
        return tuple(shape[:dimensions]), array

    def check(self, number: int) -> None:
        """Check that the arrays found under `number` have been there while they were read.

        Raises: BadContent when a peer that did not wait for us has begun to overwrite one.
        """
        if not LOADS_FIRST:
            self._order()
        self._pending = False
        found, self._found = self._found, []
        for peer, word in found:
            # looked at after the array was read: what was read before a change is whole
            if self._words[peer][word] != number:
                raise BadContent(peer, named(number), GIVEN_UP)

    def _agree(self) -> None:
        """Offer memory to peers that do not read it yet; one that reads it, and has offered its own, gets no messages any
        more.
        """
        self._controller.read()  # no other code would, as long as all awaited arrays lie in slots
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
        """Tell if we read the board of `peer`, as from when it has offered its memory."""
        if peer in self._boards:
            return True
        session = self._sessions.get(peer)
        if session is None or session.peer_board is None or peer in self._foreign:
            return False
        self._boards[peer], self._words[peer] = session.peer_board, session.peer_board.cast("Q")
        return True

    def _order(self) -> None:
        """Order memory: all reads and writes before this are seen before those that come after it."""
        # nothing moves from before the first release to behind the second taking, nor back
        for _ in range(2):
            with self._fence:
                pass


def _head_of(array: Array, shape: tuple[int, ...]) -> bytes:
    """Encode type and shape, or that a message brings the array."""
    if array.dtype.str not in DTYPES or len(shape) > _MOST_DIMENSIONS or array.nbytes > _SLOT - _DATA:
        return _SENT
    return _HEAD.pack(_CODES.index(array.dtype.str), len(shape), array.size, *shape, *(0,) * (_MOST_DIMENSIONS - len(shape)))
