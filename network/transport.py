"""What a connection must offer, whatever carries it: non-blocking bytes both ways, and waiting for several at once.

A link never blocks: `send` takes what fits, `receive` gives what is there. Waiting is the job of the transport's *waiter*,
because only it knows what its links wait on (a poll object for sockets, a condition for memory).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol


class Link(ABC):
    """One end of a byte stream."""

    peer: str  # address of the other end, for people
    private: bool  # nobody can stand between its ends: memory, or a Unix socket whose other end the kernel names
    binding: bytes  # what the handshake ties its keys to

    @abstractmethod
    def send(self, buffers: Sequence[bytes | memoryview]) -> int:
        """Take bytes from the front of `buffers`; returns how many, 0 when the stream is full.

        Raises: OSError when the stream has ended.
        """

    @abstractmethod
    def receive(self, buffer: memoryview) -> int | None:
        """Fill the front of `buffer`; returns how many bytes came, 0 at the end of the stream, None when none is there yet.

        Raises: OSError when the stream has broken.
        """

    @abstractmethod
    def finish(self) -> None:
        """Tell the other side that nothing more will be sent; receiving goes on."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the stream; idempotent."""


class Waiter(Protocol):
    """Waits until a link of `reading` has bytes or an end, one of `writing` takes bytes, or `timeout` seconds passed."""

    def __call__(self, reading: Sequence[Link], writing: Sequence[Link], timeout: float | None) -> None:
        """Return at the first event; spurious returns are fine."""
