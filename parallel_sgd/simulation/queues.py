"""Network of links that take messages first in, first out.

Alpha-beta: a message keeps the first link of its route for size / bandwidth; its first byte is at the last link a latency after
it began there, and keeps that one for size / bandwidth, too, if it is another. A lone message takes latency + size / bandwidth.
Store-and-forward: each link of the route takes the message whole, for size / bandwidth, and it is at the next a latency later.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush, heapreplace
from typing import Any, Final

from network.faults.fault import LinkFault

from .arrivals import Arrival, Usage
from .platform import ALPHA_BETA, STORE_AND_FORWARD, Platform
from .routes import Routes
from .shaped import ShapedPairs

_ARRIVE: Final = -1
_LIFT: Final = -2

Pair = tuple[int, int]
#: (moment, sequence, link that it is at, or _ARRIVE or _LIFT, size, source, target, item, links behind that one, line in which
#: it stands, or None)
_Entry = tuple[float, int, int, float, int, int, Any, tuple[int, ...], Any]


class Queues:
    """Network of links that are first in, first out.

    A throttle, delay or loss holds for messages that leave while it lasts. Where the slowest link of a route is neither its
    first nor its last, or a throttle is slower, a message keeps its last link for the end of its time only.

    Args:
        platform: with ports `fifo`.
        nodes: ids of the nodes in the order of their places.
        seed: of the draws of jitter.
    """

    def __init__(self, platform: Platform, nodes: Sequence[int], seed: int = 0) -> None:
        self._routes = Routes(platform, nodes)
        # on a host of several nodes some messages pass no port
        lonely = platform.model == ALPHA_BETA and platform.nodes_per_host == 1
        self._star = self._routes.star if lonely else None  # all its messages are alike
        self._forwards = platform.model == STORE_AND_FORWARD
        self._free: list[float] = []  # by link: when it takes the next message,
        self._bandwidth: list[float] = []  # bytes per second,
        self._after: list[float] = []  # seconds from its end to the next link,
        self._sizes: list[float] = []  # and bytes until now
        self._pair_free: dict[Pair, float] = {}  # when one within a host, or slower than its ports, takes the next message
        self._shaped = ShapedPairs(seed)
        self._held: dict[Pair, list[tuple[float, object]]] = {}  # messages that wait for the end of a stall
        self._heap: list[_Entry] = []
        # by link of a star: its messages, in their order. The first of each is in the heap, so that it has no more entries than
        # there are links, which makes it the quicker the more messages are under way
        self._lines: list[deque[_Entry]] = []
        self._sequence = 0
        self._widen()

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        if self._star is None or self._shaped:
            self._send_by_route(now, source, target, size, item)
            return
        out, into, latency, bandwidth = self._star
        first, last = out[source], into[target]
        start = self._free[first]
        if start < now:
            start = now
        self._free[first] = start + size / bandwidth
        self._sizes[first] += size
        self._sizes[last] += size
        self._sequence = sequence = self._sequence + 1
        line = self._lines[first]
        self._stand(line, (start + latency, sequence, last, size, source, target, item, (), line))

    def _stand(self, line: deque[_Entry], entry: _Entry) -> None:
        """Put a message behind those of its link."""
        if not line:
            line.append(entry)
            heappush(self._heap, entry)
        elif line[-1] < entry:
            line.append(entry)
        else:  # one without a size has the moment of the one before it, and may have left earlier
            heappush(self._heap, (*entry[:-1], None))

    def _send_by_route(self, now: float, source: int, target: int, size: float, item: object) -> None:
        """Send a message where not all are alike, or where a fault is or was."""
        pair = self._shaped.get(source, target)
        if pair is not None:
            if pair.loses_all:
                pair.count_lost()
                return
            if pair.shape.stalls:
                self._held.setdefault((source, target), []).append((size, item))
                return
            size = pair.size(size)
        message = source, target, size, item
        links, latency, slowest = self._routes.between(source, target)
        self._widen()
        for link in links:
            self._sizes[link] += size
        stores = self._forwards and bool(links)
        moment, pace = now, math.inf if stores else slowest
        if not stores:
            if links:
                moment = max(now, self._free[links[0]])
                self._free[links[0]] = moment + size / self._bandwidth[links[0]]
            moment += latency
        if pair is not None:
            moment = pair.reach(moment)
            pace = min(pace, math.inf if pair.rate is None else pair.rate)
        if pair is not None or not links or pace < self._bandwidth[links[-1]]:
            # no port keeps the messages of the pair in order there
            moment = max(moment, self._pair_free.get((source, target), 0.0))
            self._pair_free[source, target] = moment + size / pace
        if stores:
            self._push(moment + size / pace, links[0], message, links[1:])
        elif len(links) < 2:
            self._push(moment + size / pace, _ARRIVE, message)
        else:
            behind = max(0.0, size / pace - size / self._bandwidth[links[-1]])
            self._push(moment + behind, links[-1], message)

    def _push(self, moment: float, link: int, message: tuple[int, int, float, Any], rest: tuple[int, ...] = ()) -> None:
        source, target, size, item = message
        self._sequence += 1
        heappush(self._heap, (moment, self._sequence, link, size, source, target, item, rest, None))

    def _widen(self) -> None:
        """Take note of links that a route has used for the first time."""
        for link in self._routes.links[len(self._free) :]:
            self._free.append(0.0)
            self._bandwidth.append(link.bandwidth)
            self._after.append(link.latency if self._forwards else 0.0)
            self._sizes.append(0.0)
            self._lines.append(deque())

    def next_moment(self) -> float | None:
        return self._heap[0][0] if self._heap else None

    def advance(self, now: float) -> list[Arrival]:
        heap, free = self._heap, self._free
        arrived: list[Arrival] = []
        while heap and heap[0][0] <= now:
            moment, sequence, link, size, source, target, item, rest, line = heap[0]
            # of the messages of a link the first alone is in the heap, for the others come after it anyway
            if line is not None:
                line.popleft()
                if line:
                    heapreplace(heap, line[0])
                else:
                    heappop(heap)
                if link == _ARRIVE:
                    arrived.append((moment, source, target, item))
                else:
                    start = free[link]
                    if start < moment:
                        start = moment
                    free[link] = done = start + size / self._bandwidth[link]
                    line = self._lines[link]
                    self._stand(line, (done, sequence, _ARRIVE, size, source, target, item, (), line))
            elif link >= 0:
                start = free[link]
                if start < moment:
                    start = moment
                free[link] = done = start + size / self._bandwidth[link]
                following = rest[0] if rest else _ARRIVE
                heapreplace(heap, (done + self._after[link], sequence, following, size, source, target, item, rest[1:], None))
            elif link == _ARRIVE:
                heappop(heap)
                arrived.append((moment, source, target, item))
            else:
                heappop(heap)
                self._lift(moment, item)
        return arrived

    def inject(self, now: float, fault: LinkFault) -> None:
        self._shaped.begin(fault)
        if fault.seconds is not None:
            self._push(now + fault.seconds, _LIFT, (fault.sender, fault.receiver, 0.0, fault))

    def _lift(self, now: float, fault: LinkFault) -> None:
        for source, target in self._shaped.end(fault):
            for size, item in self._held.pop((source, target), ()):
                # as messages that leave now: other faults of the pair may still hold
                self.send(now, source, target, size, item)

    def busy(self) -> list[Usage]:
        used = zip(self._routes.links, self._sizes, strict=False)  # links of routes that no message has taken are behind
        return sorted(Usage(link.name, size, size / link.bandwidth) for link, size in used if size)
