"""Messages that are small on the wire and would be large in memory, sent past the checks of an honest sender."""

from __future__ import annotations

import resource
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import network.session
from network import NetworkError
from rpc import AbsSimpleExecutor, Communication

META = 1 << 20
REFUSED = META - 16  # empty lists in a message as large as it may be
TAKEN = 700 << 10  # in one that is just small enough to be opened


class Raw(bytes):
    """A frame that leaves as it is."""


def bomb(lists: int, head: bytes = b"\x90") -> Raw:
    """A frame whose value is a list of empty lists: one byte each, and some 70 in memory."""
    meta = b"\x93" + head + b"\x90\xdd" + struct.pack("!I", lists) + b"\x90" * lists
    return Raw(struct.pack("!BBHIQ", 2, 0, 0, len(meta), 0) + meta)


@contextmanager
def dishonest() -> Iterator[None]:
    """Let every session of this process send `Raw` frames."""
    honest = network.session.pack

    def pack(kind: Any, head: Any, value: Any, *rest: Any) -> Any:
        if not isinstance(value, Raw):
            return honest(kind, head, value, *rest)
        packed = honest(kind, (), None, *rest)
        (frame,) = packed.frames
        more = len(value) - sum(map(len, frame))
        return packed._replace(frames=[[value]], overhead=packed.overhead + more)

    network.session.pack = pack
    try:
        yield
    finally:
        network.session.pack = honest


def peak_bytes() -> int:
    """Most memory that this process has had, so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class Bombed(AbsSimpleExecutor):
    """Node 1 sends `bombs`, as values and as parts of group operations; node 0 takes what it can and tells what it had."""

    lists, times = REFUSED, 29

    def run(self, com: Communication) -> Any:
        com.barrier()
        if com.rank == 1:
            with dishonest():
                return self._attack(com)
        before = peak_bytes()
        taken = 0
        try:
            while True:
                _, value = com.get_one(timeout=120.0) or (0, None)
                taken += 1
                del value
        except NetworkError as error:
            return peak_bytes() - before, taken, str(error)

    def _attack(self, com: Communication) -> str:
        value, part = bomb(self.lists), bomb(self.lists, head=b"\x92\x02\x7f")  # of operation 127, which never comes
        try:
            for _ in range(self.times):
                com.controller.post(0, part)
                com.controller.post(0, value)
                com.controller.flush([0], 120.0)
        except NetworkError as error:
            return str(error)
        return "sent"


class JustSmallEnough(Bombed):
    """The bombs can be opened, one by one."""

    lists, times = TAKEN, 10
