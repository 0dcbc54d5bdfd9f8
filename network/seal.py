"""Seals on frames: HMAC-SHA256 over an implicit 64-bit sequence number and the frame.

    mac_i = HMAC-SHA256(key, u64(i) || part_0 || part_1 || ...)        i = 0, 1, 2, ...

The number is counted on both sides and never sent, so a frame that is replayed, dropped, reordered or taken from
another session does not verify. Parts are hashed one after the other without being joined; the first of them, the
frame's header, carries the lengths of the others, so the same bytes cannot be cut in two ways. One key seals one
direction of one session.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Iterable

from .errors import ProtocolError

MAC_SIZE = 32
"""Bytes of a seal."""

_SEQUENCE = struct.Struct("!Q")
_SEQUENCE_END = 1 << 64


class _Seals:
    """The series of seals that both ends compute alike."""

    __slots__ = ("_keyed", "_sequence")

    def __init__(self, key: bytes, first: int = 0) -> None:
        # keying hashes two blocks; a copy of the keyed state costs less and the key itself is not kept
        self._keyed = hmac.new(key, digestmod="sha256")
        self._sequence = first

    def _next(self, parts: Iterable[bytes | bytearray | memoryview]) -> bytes:
        if self._sequence >= _SEQUENCE_END:
            raise ProtocolError("This session has used up its 2**64 sequence numbers; open a new one.")
        state = self._keyed.copy()
        state.update(_SEQUENCE.pack(self._sequence))
        self._sequence += 1
        for part in parts:
            state.update(part)
        return state.digest()


class Sealer(_Seals):
    """Seals what this side sends; `first` is the first sequence number."""

    __slots__ = ()

    def seal(self, parts: Iterable[bytes | bytearray | memoryview]) -> bytes:
        """The 32-byte seal of the next frame; each part is bytes or a contiguous one-dimensional buffer.

        Raises ProtocolError when all sequence numbers are used.
        """
        return self._next(parts)


class Opener(_Seals):
    """Checks the seals of what arrives; after the first wrong one every later frame is refused too."""

    __slots__ = ("_broken",)

    def __init__(self, key: bytes, first: int = 0) -> None:
        super().__init__(key, first)
        self._broken = False

    def verify(self, parts: Iterable[bytes | bytearray | memoryview], mac: bytes | bytearray | memoryview) -> None:
        """Raise ProtocolError unless `mac` seals `parts` as the next frame of this session."""
        self._broken = self._broken or not hmac.compare_digest(self._next(parts), mac)
        if self._broken:
            raise ProtocolError(
                "A frame's seal does not verify: it was altered, replayed, reordered or comes from another session."
            )
