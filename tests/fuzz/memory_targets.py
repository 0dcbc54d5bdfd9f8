"""The target that reads messages whose arrays lie in memory which two processes of one host share."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from network.frames import FrameReader
from network.shared_memory import LEAST_BYTES, PAGES, Outbox, PeerMemory, PeerTable
from network.wire import HEADER, SHARED, Kind, Limits, pack
from tests.network.wires import travelling

from .mutate import bytes_altered, msgpack_altered
from .target import Outcome, Target

LIMITS = Limits(meta=1 << 20, data=1 << 20, message=1 << 20)
COUNT = LEAST_BYTES // 4


@cache
def _memory() -> tuple[Outbox, PeerMemory]:
    """An outbox, and its reader: those of a process that talks to itself."""
    outbox = Outbox()
    return outbox, PeerMemory(outbox.handle)


def _streams() -> Sequence[bytes]:
    outbox, reader = _memory()
    table = PeerTable(reader.handle)
    large, small = np.arange(COUNT, dtype=np.float32), np.arange(3)
    contents: list[object] = [
        large,
        (7, -3, large),
        [large, small, large.astype("c16")],
        {"a": (large, None), "b": [small]},
        3.5,
    ]

    def packed(value: object, *head: int) -> bytes:
        return travelling(pack(Kind.MESSAGE, head, value, leave=lambda arrays: outbox.leave(table, arrays)))

    single = [packed(value, 1, 2) for value in contents]
    known = packed(large, 1) + packed(large, 2)  # whose tail is known then
    offer = travelling(pack(Kind.MEMORY, (), tuple(reader.handle)))
    bye = travelling(pack(Kind.BYE, (), None))
    return [*single, known, offer + b"".join(single) + bye]


Frame = tuple[int, int, int, bytes, int, bytes]


def _frames(data: bytes) -> Iterator[Frame]:
    """Kind, flags, page, meta, bytes of the arrays, and these where they travel."""
    at = 0
    while len(data) - at >= HEADER.size:
        kind, flags, page, meta, size = HEADER.unpack_from(data, at)
        begin = at + HEADER.size
        at = begin + meta + (0 if flags & SHARED else size)
        yield kind, flags, page, data[begin : begin + meta], size, data[begin + meta : at]


def _claims_altered(rng: random.Random, data: bytes) -> bytes:
    """Another page, other bytes, another layout: claims of what is not there, or of what was meant for another message."""
    frames = list(_frames(data))
    at = rng.randrange(len(frames))
    kind, flags, page, meta, size, body = frames[at]
    match rng.randrange(8):
        case 0:
            page = rng.choice((0, 1, page + 1, PAGES - 1, PAGES, 65535, rng.randrange(1 << 16)))
        case 1:
            size = rng.choice(
                (0, 1, size - 1, size + 1, size * 2, 1 << 27, (1 << 27) + 1, (1 << 64) - 1, rng.randrange(1 << 30))
            )
        case 2:
            flags = rng.choice((0, 1, SHARED, SHARED | 1, 255))
        case 3:
            kind = rng.choice((0, 1, 2, 3, 4, 5, 255))
        case 4:
            frames.insert(rng.randrange(len(frames) + 1), rng.choice(frames))
        case 5:
            meta = bytes_altered(rng, meta)
        case _:
            meta = msgpack_altered(rng, meta)
    frames[at] = kind, flags, page & 0xFFFF, meta, size & ((1 << 64) - 1), body
    parts = (HEADER.pack(*start, len(meta), size) + meta + body for *start, meta, size, body in frames)
    made = b"".join(parts)
    return made if rng.randrange(6) else bytes_altered(rng, made)


def _take(data: bytes) -> Outcome:
    reader = FrameReader(None, False, LIMITS)
    reader.memory = _memory()[1]
    reader.feed(data)
    if not reader.messages:
        return "incomplete"
    while reader.messages:
        _ = reader.messages.popleft().value
    return "read"


MEMORY = (Target("frames of shared memory", _streams, _take, alter=(_claims_altered,)),) if sys.platform == "linux" else ()
