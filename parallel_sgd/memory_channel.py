"""Channels between nodes of one process; packets become bytes and come back, so nothing differs from the wire."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence

from network.frames import FrameReader, Message
from network.wire import Kind, pack

from .channel import Key, Sent

#: What a link does with a packet (sender, receiver, key): the seconds after which each copy arrives; `(0.0,)` is normal,
#: `()` loses it, `(0.0, 0.0)` delivers it twice, `(0.5,)` delays it.
Link = Callable[[int, int, Key], Sequence[float]]


def reliable(_sender: int, _receiver: int, _key: Key) -> Sequence[float]:
    """The link of an ordinary job."""
    return (0.0,)


class Fabric:
    """Connects the channels of `nodes`. Packets wait here until their receiver is driven.

    `classes` is the class table of what may travel beside plain data; `clock` returns monotonic seconds.
    """

    def __init__(
        self, nodes: Sequence[int], clock: Callable[[], float], link: Link = reliable, classes: Sequence[type] = ()
    ) -> None:
        self._clock = clock
        self._link = link
        self._classes = classes
        self._order = 0
        self._waiting: dict[int, list[tuple[float, int, int, Key, bytes]]] = {node: [] for node in nodes}
        self._here = set(nodes)
        self._reader = FrameReader()
        self._reader.classes = classes
        self.lost: Counter[tuple[int, int, int]] = Counter()  # (sender, receiver, variable): packets lost, less those repeated

    def channel(self, node_id: int) -> MemoryChannel:
        """The way of one node to the others."""
        return MemoryChannel(self, node_id)

    def leave(self, node: int) -> None:
        """The node has done its work; what is on its way to it stays in flight."""
        self._here.discard(node)

    def peers(self, node: int) -> set[int]:
        """All others that have not left."""
        return self._here - {node}

    def post(self, sender: int, target: int, key: Key, content: object) -> Sent:
        """Take a packet; its arrays are copied at once.

        Raises: TypeError when the content cannot travel, ValueError when it is too large or there is no such node.
        """
        if target not in self._waiting:
            raise ValueError(f"A packet must go to one of the nodes {sorted(self._waiting)}, got {target}")
        packed = pack(Kind.MESSAGE, key, content, None, self._classes)
        frames = b"".join(packed.buffers)
        copies = self._link(sender, target, key)
        if len(copies) != 1:
            self.lost[sender, target, key[-1]] += 1 - len(copies)
        for delay in copies:
            self._order += 1
            heapq.heappush(self._waiting[target], (self._clock() + delay, self._order, sender, key, frames))
        return Sent(packed.raw, packed.wire, packed.overhead)

    def arrivals(self, node: int) -> list[tuple[int, Message]]:
        """What has arrived at `node` by now, with its sender, in order of arrival."""
        waiting = self._waiting[node]
        arrived: list[tuple[int, Message]] = []
        while waiting and waiting[0][0] <= self._clock():
            _, _, sender, _, frames = heapq.heappop(waiting)
            arrived.append((sender, self._read(frames)))
        return arrived

    def next_arrival(self, node: int) -> float | None:
        """When the next packet for `node` arrives, or None."""
        waiting = self._waiting[node]
        return waiting[0][0] if waiting else None

    def in_flight(self) -> Counter[tuple[int, int, int]]:
        """Packets per (sender, receiver, variable) that were posted and not delivered."""
        flying = Counter(self.lost)
        for node, waiting in self._waiting.items():
            for _, _, sender, key, _ in waiting:
                flying[sender, node, key[-1]] += 1
        return flying

    def _read(self, frames: bytes) -> Message:
        reader = self._reader
        rest = memoryview(frames)
        while rest:
            buffer = reader.buffer()
            count = min(len(buffer), len(rest))
            buffer[:count] = rest[:count]
            reader.advance(count)
            rest = rest[count:]
        return reader.messages.popleft()


class MemoryChannel:
    """The `Channel` of one node of a `Fabric`."""

    def __init__(self, fabric: Fabric, node_id: int) -> None:
        self._fabric = fabric
        self.node_id = node_id

    def peers(self) -> set[int]:
        """All other nodes that have not left."""
        return self._fabric.peers(self.node_id)

    def suspects(self) -> tuple[int, ...]:
        """Nobody watches here."""
        return ()

    def post(self, target: int, key: Key, content: object) -> Sent:
        """Queue one packet."""
        return self._fabric.post(self.node_id, target, key, content)

    def flush(self) -> None:
        """Nothing to push: what is posted is under way."""

    def poll(self) -> None:
        """Nothing to do: what has arrived is handed over at the begin of every turn."""

    def flushed(self) -> bool:
        """Always: posting copied the arrays."""
        return True
