"""A conversation without I/O: bytes in, bytes out, messages of known length, and a definite end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import TypeAlias

from .errors import NetworkError, ProtocolError

Talk: TypeAlias = Generator[tuple[int, bytes], bytes, bytes]
"""Yields (bytes to read next, bytes to send before that), is sent what was read, returns the bytes to send last."""


class Conversation(ABC):
    """One end of an exchange that a subclass writes down as a generator; it ends by success or by the first fault.

    Attributes: `need`, bytes still missing from the message that is being read, 0 at the end: whoever reads no more than
    that leaves what follows where it is; `leftover`, bytes fed beyond the end, which belong to whatever comes next.
    """

    def __init__(self) -> None:
        self.need = 0
        self.leftover = b""
        self._buffer = bytearray()
        self._talk_so_far: Talk | None = None
        self._end = ""

    @abstractmethod
    def _talk(self) -> Talk:
        """What this end reads and says, from the first byte to the last."""

    def _begin(self) -> bytes:
        """Start the talk and return the bytes to send first."""
        if self._talk_so_far is not None:
            raise ProtocolError("This handshake has been started before; make a new one for each connection.")
        self._talk_so_far = self._talk()
        self.need, first = next(self._talk_so_far)
        return first

    def feed(self, data: bytes | bytearray | memoryview) -> bytes:
        """Take bytes that arrived and return those to send.

        Raises: ProtocolError or Rejected (Refused, where a hint says why). After that, and after the end, every further
        call raises ProtocolError.
        """
        if self._talk_so_far is None:
            raise ProtocolError("The handshake has not been started, so nothing can have arrived.")
        if self._end:
            raise ProtocolError(f"The handshake is over: {self._end}")
        answer = b""
        rest = memoryview(data)
        while rest and self.need:
            taken = rest[: self.need]
            rest = rest[len(taken) :]
            self._buffer += taken
            self.need -= len(taken)
            if not self.need:
                answer += self._advance(self._talk_so_far)
        self.leftover = bytes(rest)
        return answer

    def _advance(self, talk: Talk) -> bytes:
        message = bytes(self._buffer)
        self._buffer.clear()
        try:
            self.need, answer = talk.send(message)
        except StopIteration as end:
            self._end = "it has succeeded, what follows belongs to the session."
            answer = end.value
        except NetworkError as error:
            self._end = str(error)
            raise
        return answer
