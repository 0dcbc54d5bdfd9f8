"""Actors and first-in-first-out connections between them, in memory. Whoever drives a simulation chooses which connection
delivers next, and where somebody dies, falls silent, or a connection breaks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

END = ("End",)  # the connection was closed by the other side or broke


class Net(ABC):
    """`actors` by name, None for one that is dead or not born; one that is `hung` takes nothing in."""

    def __init__(self, names: Iterable[str]) -> None:
        names = list(names)
        self.actors: dict[str, Any] = dict.fromkeys(names)
        self.hung = dict.fromkeys(names, False)
        self.open = {(one, other): False for one in names for other in names}  # connections, both directions
        self.wires: dict[tuple[str, str], list[Any]] = {pair: [] for pair in self.open}  # what is on its way

    def connect(self, one: str, other: str) -> None:
        for pair in ((one, other), (other, one)):
            self.open[pair] = True
            self.wires[pair].clear()

    def send(self, source: str, target: str, *message: Any) -> None:
        if self.open[source, target]:
            self.wires[source, target].append(message)

    def close(self, source: str, target: str) -> None:
        """`source` hangs up: what it has sent still arrives, what was on its way to it is lost."""
        if self.open[source, target]:
            self.open[source, target] = self.open[target, source] = False
            self.wires[source, target].append(END)
            self.wires[target, source].clear()

    def die(self, name: str) -> None:
        """The actor is gone, and the system closes its connections."""
        self.actors[name] = None
        self.hung[name] = False
        for other in self.actors:
            self.close(name, other)
            self.wires[other, name].clear()

    def cut(self, one: str, other: str) -> None:
        """The connection breaks; what was on its way is lost, and both ends notice."""
        for pair in ((one, other), (other, one)):
            self.open[pair] = False
            self.wires[pair][:] = [END]

    def choices(self) -> list[tuple[str, str]]:
        """Connections that could deliver something now."""
        return [
            pair for pair, wire in self.wires.items() if wire and self.actors[pair[1]] is not None and not self.hung[pair[1]]
        ]

    def deliver(self, wire: tuple[str, str]) -> None:
        """The next message of this connection arrives."""
        self.arrive(*wire, *self.wires[wire].pop(0))

    @abstractmethod
    def arrive(self, source: str, target: str, *message: Any) -> None:
        """What the living actor `target` makes of a message."""
