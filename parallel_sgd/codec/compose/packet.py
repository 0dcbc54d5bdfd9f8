"""Packets between composed codecs."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple
from zlib import crc32

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import PayloadError
from parallel_sgd.engine.unusable import Like, check_finite

#: Flags of a packet. DENSE: the payload is the vector itself, not bytes of a pipeline. DOWN: it is merged. ASK: the sender
#: wants the packets of this batch again. RESULT: the whole result, for one that comes late. LACKING: ids of missing blocks.
#: PAST: all of this batch goes past the stages.
DENSE: Final = 1
DOWN: Final = 2
ASK: Final = 4
RESULT: Final = 8
LACKING: Final = 16
PAST: Final = 32

_FLAGS: Final = DENSE | DOWN | ASK | RESULT | LACKING | PAST
_KINDS: Final = frozenset({0, DOWN, ASK, RESULT, LACKING})
# a bool is an int to Python, and would pass as a flag
INTEGERS: Final = frozenset({int})
_BYTES, _IDS, _FLOATS = np.dtype(np.uint8), np.dtype(np.int64), np.dtype(np.float32)


class Packet(NamedTuple):
    """Content of a packet. Batch and variable stand in its key; all but the payload take at most 32 bytes.

    `fingerprint` is that of the sender's composition, `place` counts shards and rounds, [low, high) are the contributions
    that it holds, `size` is the number of elements.
    """

    fingerprint: int
    flags: int
    sender: int
    place: int
    low: int
    high: int
    size: int
    payload: Array | None

    @staticmethod
    def of(content: Any, fingerprint: int, codec: str) -> Packet:
        """Read the content of a packet.

        Raises: PayloadError when another composition has sent it, naming the `codec` that got it.
        """
        # from the wire: the length is looked at before fields get their names
        if not isinstance(content, tuple) or len(content) != len(Packet._fields) or not isinstance(content[0], int):
            raise PayloadError(
                f"{codec} got a packet that no composed codec has sent, of type {type(content).__name__}: all nodes, and "
                f"'codec' and 'ps_codec', must have the same codec for a variable"
            )
        packet = Packet(*content)
        if packet.fingerprint != fingerprint:
            raise PayloadError(
                f"{codec} has the fingerprint {fingerprint:08x}, but a packet of node({packet.sender}) has "
                f"{packet.fingerprint:08x}: all nodes must have the same codec with the same parameters for a variable"
            )
        return packet

    def check(self, like: Like | None, most: int) -> None:
        """See that every field fits a packet of any composition.

        `like` is shape and type of the array that is put for the variable, `most` how many numbers are sent for it.

        Raises: Unusable naming the fault.
        """
        # types before values: comparisons of other types could raise anything
        _, flags, _, place, _, _, size, payload = self
        if not INTEGERS.issuperset(map(type, self[:-1])) or flags & ~_FLAGS or size < 0 or place < 0:
            raise PayloadError(f"it has the fields {str(self[:-1])[:80]}, which no codec sends")
        # a packet is of one kind; DENSE and PAST may come with each
        if flags & ~(DENSE | PAST) not in _KINDS:
            raise PayloadError(f"it has the flags {flags:06b}, which no codec sends together")
        # most: a worker that lied about the size could have this node allocate it
        if like is not None and size > most and not flags & LACKING:
            raise PayloadError(f"it is for {size} numbers, and the variable is {like}")
        if flags & RESULT and (payload is None or not flags & DENSE or (like is not None and size != like.size)):
            raise PayloadError(f"a result must have all numbers of the variable as they are, got {size}")
        if payload is None:
            if flags & LACKING:
                raise PayloadError("it must tell what is missing, and holds nothing")
            return
        if type(payload) is not np.ndarray or payload.ndim != 1:
            raise PayloadError(f"it holds {_shown(payload)}, and must hold a row of numbers")
        if not flags & (DENSE | LACKING):
            if payload.dtype != _BYTES:
                raise PayloadError(f"it holds {_shown(payload)}, and must hold a row of bytes")
            return
        if payload.size != size:
            raise PayloadError(f"it is for {size} numbers, and holds {payload.size}")
        # ids of blocks come as int64; else numbers are of the variable's type, or the float32 of stages
        wanted = _IDS if flags & LACKING else _FLOATS if like is None else like.dtype
        if payload.dtype != wanted and (flags & LACKING or payload.dtype != _FLOATS):
            raise PayloadError(f"it holds {_shown(payload)}, and must hold a row of {wanted}")
        # bytes of a pipeline are checked when they are decoded (`Pipeline.decode`)
        if flags & DENSE:
            check_finite(payload)


def _shown(payload: object) -> str:
    return str(Like.of(payload)) if isinstance(payload, np.ndarray) else type(payload).__name__


def fingerprint_of(identity: object) -> int:
    """Return 32 bits that tell compositions apart, of the data that is equal on all nodes for one composition."""
    # sorted: the order of a dict of arguments is no part of the composition
    return crc32(json.dumps(identity, sort_keys=True).encode())
