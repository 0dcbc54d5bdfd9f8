"""Networks of simulated nodes: the interface to the kernel, and the packets."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from network.message import Message
from network.wire import Sent

from ..engine.channel import Key


class Parcel(NamedTuple):
    """Packet on its way: packed once, and decoded once, for all its receivers. Its arrays cannot be written to.

    Args:
        key: (attempt, epoch, batch, variable).
        message: the message as its receivers get it.
        size: its bytes.
    """

    key: Key
    message: Message
    size: Sent


#: Moment in seconds, source, target, and the packet.
Arrival = tuple[float, int, int, Parcel]


class Network(Protocol):
    """Network that carries packets between the nodes of a kernel."""

    lost: Counter[tuple[int, int, int]]

    def send(self, now: float, source: int, target: int, size: int, item: Parcel) -> None:
        """Take a packet of `size` bytes that leaves `source` for `target` at `now`."""

    def next_moment(self) -> float | None:
        """Return the moment of the network's next event, or None when nothing is under way."""

    def advance(self, now: float) -> list[Arrival]:
        """Let time pass until `now`, and return the packets that have arrived, in a fixed order."""
