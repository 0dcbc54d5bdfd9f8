"""Both ends of connecting: who is called, who is at the door, and the real handshakes between them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.dial import CONNECT_SECONDS
from network.handshake import ClientHandshake, ServerHandshake

if TYPE_CHECKING:
    from .life import Life

KNOCK = "Knock"  # a connection was made
READY = "Ready"  # the server's first frame


class Calls:
    """Those whom the actor `name` has called and who have not confirmed yet; `deadline` is when they are late."""

    def __init__(self, life: Life, name: str) -> None:
        self._life, self._name = life, name
        self._open: dict[str, ClientHandshake] = {}
        self._until = 0.0

    def __contains__(self, other: str) -> bool:
        return other in self._open

    def __bool__(self) -> bool:
        return bool(self._open)

    def call(self, other: str, handshake: ClientHandshake) -> None:
        self._life.connect(self._name, other)
        self._life.send(self._name, other, KNOCK)
        self._life.send(self._name, other, handshake.start())
        self._open[other] = handshake
        self._until = self._life.now + CONNECT_SECONDS

    def hear(self, other: str, data: bytes) -> None:
        """The next bytes of a handshake."""
        answer = self._open[other].feed(data)
        if answer:
            self._life.send(self._name, other, answer)

    def forget(self, other: str) -> bool:
        """It has confirmed, or is gone; whether it was called."""
        return self._open.pop(other, None) is not None

    @property
    def deadline(self) -> float | None:
        return self._until if self._open else None

    def late(self) -> list[str]:
        """Those that have not answered in time; nobody waits for them any more."""
        if not self._open or self._life.now < self._until:
            return []
        late, self._open = list(self._open), {}
        return late


class Door:
    """Those who have called the actor `name` and have not proven a key yet."""

    def __init__(self, life: Life, name: str) -> None:
        self._life, self._name = life, name
        self._visitors: dict[str, ServerHandshake] = {}

    def knock(self, other: str, handshake: ServerHandshake) -> None:
        self._life.note("connect", self._name)
        self._visitors[other] = handshake

    def greet(self, other: str, data: bytes) -> ServerHandshake | None:
        """The next bytes of a visitor; returns its handshake once it has proven its key."""
        self._life.note("auth", self._name)
        visitor = self._visitors.get(other)
        if visitor is None:
            return None
        answer = visitor.feed(data)
        if answer:
            self._life.send(self._name, other, answer)
        if not visitor.done:
            return None
        del self._visitors[other]
        self._life.send(self._name, other, READY)
        return visitor

    def forget(self, other: str) -> None:
        self._visitors.pop(other, None)

    def __contains__(self, other: str) -> bool:
        return other in self._visitors
