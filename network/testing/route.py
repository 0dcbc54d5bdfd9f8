"""One way through a proxy: the faults of its two directions, and of its connections as a whole."""

from __future__ import annotations

import contextlib
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from network.nodes import Address

from .fault import LinkFault
from .passage import Passage
from .shape import Shape

Admit = Callable[[socket.socket], Passage | None]


class Mover(Protocol):
    """The proxy, as its routes know it."""

    def changing(self) -> AbstractContextManager[None]:
        """Keep bytes from being moved in the block."""

    def move(self) -> None:
        """Move all bytes that can be moved now; to be called within `changing`."""

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Call `action` after some time."""


class Route:
    """Made by `Proxy.route` and `Proxy.interpose`.

    Attributes: `address` that callers use (None when interposed), `there` and `back` (the `Shape` of what callers send, and of
    what they receive), `passages` (the open connections).
    """

    def __init__(self, proxy: Mover, host: str | None, frames: bool, admit: Admit | None) -> None:
        self._proxy = proxy
        self._frames = frames
        self._admit = admit
        self._own: Counter[str] = Counter()
        self.there = Shape(proxy.changing)
        self.back = Shape(proxy.changing)
        self.passages: list[Passage] = []
        self.address: Address | None = None
        self._holder: socket.socket | None = None
        self._listener: socket.socket | None = None
        if host is not None:
            self._holder = _bound(host, 0)
            self.address = Address(host, self._holder.getsockname()[1])
            self._listen()

    @property
    def counts(self) -> Counter[str]:
        """How often each kind of fault has acted, over both directions and the connections."""
        return self._own + self.there.counts + self.back.counts

    def reset(self) -> None:
        """Reset all connections; new ones are let in."""
        with self._proxy.changing():
            self._own["reset"] += 1
            for passage in self.passages:
                passage.reset()

    def refuse(self, on: bool = True) -> None:
        """Refuse connections, as a host does on which nobody listens; those that are open live on."""
        with self._proxy.changing():
            if on and self._listener is not None:
                self._own["refuse"] += 1
                with contextlib.suppress(OSError):  # the proxy's thread may wait for it, which would keep it open for a moment
                    self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
                self._listener = None
            elif not on and self._listener is None and self._holder is not None:
                self._listen()

    def cut(self, seconds: float | None = None) -> None:
        """Reset all connections and refuse new ones, until `heal` or for `seconds`."""
        with self._proxy.changing():
            self._own["cut"] += 1
            self.refuse()
            for passage in self.passages:
                passage.reset()
        if seconds is not None:
            self._proxy.after(seconds, self.heal)

    def heal(self) -> None:
        """Let connections in again."""
        self.refuse(on=False)

    def inject(self, fault: LinkFault) -> None:
        """Let a fault of a plan begin in direction `there`, and end after its seconds.

        A link that is swallowed for a time is stalled instead, and delivers afterwards, as TCP does after a partition.
        Raises: ValueError for a fault that needs to know frames where they are not.
        """
        shape, lasting = self.there, fault.seconds is not None
        begin_end: dict[str, tuple[Callable[[], None], Callable[[], None]]] = {
            "delay": (lambda: shape.delay(fault.delay, fault.jitter), lambda: shape.delay(0.0)),
            "throttle": (lambda: shape.throttle(fault.rate), lambda: shape.throttle(None)),
            "swallow": (shape.stall, lambda: shape.stall(False)) if lasting else (shape.swallow, lambda: None),
            "cut": (self.cut, self.heal),
            "lose": (lambda: shape.lose(fault.share), lambda: shape.lose(0.0)),
            "duplicate": (shape.duplicate, lambda: shape.duplicate(0)),
            "reorder": (shape.reorder, lambda: shape.reorder(0)),
        }
        if fault.kind in ("lose", "duplicate", "reorder") and not self._frames:
            raise ValueError(f"The fault {str(fault)!r} needs a route that knows frames: pass frames=True.")
        begin, end = begin_end[fault.kind]
        with self._proxy.changing():
            self._proxy.move()  # what was sent before, though the proxy's thread may not have come to it yet
            begin()
        if fault.seconds is not None:
            self._proxy.after(fault.seconds, end)

    @property
    def listening(self) -> list[socket.socket]:
        """The listening socket, while there is one."""
        return [] if self._listener is None else [self._listener]

    def step(self, now: float) -> None:
        """Let callers in, and move the bytes of all connections."""
        for near in self._callers():
            passage = self._admit(near) if self._admit is not None else None
            if passage is None:
                near.close()
            else:
                self.passages.append(passage)
        for passage in self.passages:
            if not passage.closed:
                passage.step(now)
        self.passages[:] = [passage for passage in self.passages if not passage.closed]

    def _callers(self) -> Iterator[socket.socket]:
        while self._listener is not None:
            try:
                yield self._listener.accept()[0]
            except (BlockingIOError, ConnectionAbortedError):
                return

    def _listen(self) -> None:
        if self.address is not None:
            self._listener = _bound(*self.address)
            self._listener.listen(128)
            self._listener.setblocking(False)

    def close(self) -> None:
        """End all connections and give the port back."""
        for passage in self.passages:
            passage.reset()
        for sock in (self._listener, self._holder):
            with contextlib.suppress(OSError):
                if sock is not None:
                    sock.close()


def _bound(host: str, port: int) -> socket.socket:
    """A socket at a port that another one of ours may hold: it stays ours, and refuses, while none of them listens."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((host, port))
    return sock
