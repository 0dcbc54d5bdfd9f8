"""What travels between composed codecs."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple
from zlib import crc32

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.codec.pipeline import PayloadError

#: Flags of a packet. DENSE: the payload is the vector itself, not what a pipeline wrote. DOWN: it is merged. ASK: the sender
#: wants the packets of this batch again. RESULT: the whole result, for one that comes late. LACKING: ids of what is missing.
#: PAST: all of this batch goes past the stages.
DENSE: Final = 1
DOWN: Final = 2
ASK: Final = 4
RESULT: Final = 8
LACKING: Final = 16
PAST: Final = 32

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


class Packet(NamedTuple):
    """The content of a packet. Batch and variable stand in its key; all but the payload take at most 32 bytes.

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


def fingerprint_of(description: str) -> int:
    """Return 32 bits that tell compositions apart; the addresses in `<object at 0x...>` do not count."""
    return crc32(_ADDRESS.sub("", description).encode())
