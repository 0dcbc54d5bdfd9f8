"""Networks of a simulation: when bytes that leave a node now arrive at another.

`network_of` makes the one that a platform names. Here are the interface and the networks whose ports are first in, first out:
`UniformPorts` and `Queues`. Those whose ports are shared fairly are in `flows`.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from typing import NamedTuple, Protocol

from .platform import Platform
from .routes import Routes

__all__ = ["Arrival", "Network", "Usage", "network_of"]

Arrival = tuple[float, int, int, object]
"""Arrival of a message: virtual time in seconds, id of its source, of its target, and its item."""


class Usage(NamedTuple):
    """Use of a link until now.

    Args:
        link: its name.
        size: bytes that were given to it.
        seconds: time that these bytes take at its full bandwidth.
    """

    link: str
    size: float
    seconds: float


class Network(Protocol):
    """Network on a virtual clock.

    The kernel drives it: `advance` at each `next_moment` that comes before the kernel's own next event. Calls never go back in
    time.
    """

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        """Let a message leave.

        Args:
            now: virtual time in seconds, not before that of any call before.
            source: id of the sending node.
            target: id of the receiving node, another one.
            size: bytes on the wire.
            item: object that arrives.
        """

    def next_moment(self) -> float | None:
        """Return the virtual time of the network's next event, None when nothing is on its way."""

    def advance(self, now: float) -> list[Arrival]:
        """Let time pass, and return the messages that have arrived, by time, at one time in the order of their sending.

        Args:
            now: virtual time in seconds.
        """

    def busy(self) -> list[Usage]:
        """Return the use of each link, by its name."""


def network_of(platform: Platform, nodes: Sequence[int]) -> Network:
    """Make the network of a platform.

    Args:
        platform: any.
        nodes: ids of the job's nodes in the order of their places, such as workers 0 to 7 and then the parameter server, -2.

    Raises:
        ValueError: The platform has too few hosts, or speeds.
    """
    routes = Routes(platform, nodes)
    return UniformPorts(routes, nodes)


_HEAD, _DONE = 0, 1


class UniformPorts:
    """Alpha-beta network of a star: a duplex port per node, first in, first out, one latency and one bandwidth.

    A message keeps its sender's port for size / bandwidth; its first byte is at the receiver's port a latency after it began
    there, and keeps that one for size / bandwidth, too. A lone message takes latency + size / bandwidth.

    Args:
        routes: those of a platform that is uniform.
        nodes: ids of the nodes.
    """

    def __init__(self, routes: Routes, nodes: Sequence[int]) -> None:
        platform = routes.platform
        self._latency, self._bandwidth = platform.latency or 0.0, platform.bandwidth or 0.0
        self._nodes = tuple(nodes)
        self._out = dict.fromkeys(nodes, 0.0)  # when each port is free
        self._into = dict.fromkeys(nodes, 0.0)
        self._sent: dict[int, float] = dict.fromkeys(nodes, 0)  # bytes
        self._received: dict[int, float] = dict.fromkeys(nodes, 0)
        self._heap: list[tuple[float, int, int, float, int, int, object]] = []
        self._sequence = 0

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        start = self._out[source]
        if start < now:
            start = now
        cost = size / self._bandwidth
        self._out[source] = start + cost
        self._sent[source] += size
        self._received[target] += size
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (start + self._latency, sequence, _HEAD, cost, source, target, item))

    def next_moment(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def advance(self, now: float) -> list[Arrival]:
        heap, into = self._heap, self._into
        arrived: list[Arrival] = []
        while heap and heap[0][0] <= now:
            moment, sequence, stage, cost, source, target, item = heap[0]
            if stage == _HEAD:
                start = into[target]
                if start < moment:
                    start = moment
                into[target] = done = start + cost
                heapreplace(heap, (done, sequence, _DONE, cost, source, target, item))
            else:
                heappop(heap)
                arrived.append((moment, source, target, item))
        return arrived

    def busy(self) -> list[Usage]:
        used = [(f"port {host} out", self._sent[node]) for host, node in enumerate(self._nodes)]
        used += [(f"port {host} in", self._received[node]) for host, node in enumerate(self._nodes)]
        return sorted(Usage(name, size, size / self._bandwidth) for name, size in used)
