"""Network whose links are shared fairly by flows, on the level of flows and not of packets.

After its latency a message is a flow with a rate: the max-min fair share of the links of its route, or in the alpha-beta model
of its two ports. Rates change only when a flow begins or ends, so all that happens at one instant costs one solution. Messages
of a node to another one follow each other on one connection: it is connections that share links.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np

from network.faults.fault import LinkFault

from .arrivals import Arrival, Usage
from .flow_table import FlowTable, Values
from .platform import FACTORS, Platform
from .routes import Route, Routes
from .shaped import ShapedPairs
from .sharing import Floats, max_min

__all__ = ["Flows"]

CROSS_TRAFFIC: Final = 0.05
"""Share of a flow's rate that its acknowledgements take on the way back."""
_TOGETHER: Final = 1e-12  # share of the time by which the ends of flows may differ by rounding
_BELOW: Final = 1 - 1e-9  # share of a level below which a flow is surely settled before it

Pair = tuple[int, int]


class Message(NamedTuple):
    """Message on its way. Those that arrive at one instant are in the order of `sequence`, that of their sending."""

    sequence: int
    source: int
    target: int
    size: float
    item: object

    @property
    def pair(self) -> Pair:
        return self.source, self.target


class Flows:
    """Network of links that are shared fairly.

    Args:
        platform: with ports `fair`.
        nodes: ids of the nodes in the order of their places.
        seed: of the draws of jitter.
    """

    def __init__(self, platform: Platform, nodes: Sequence[int], seed: int = 0) -> None:
        self._platform = platform
        self._factors = FACTORS[platform.factors]
        self._routes = Routes(platform, nodes)
        self._shaped = ShapedPairs(seed)
        self._sequence = 0
        self._heap: list[tuple[float, int, Message | LinkFault]] = []  # ends of latencies, and of faults
        self._local_free: dict[Pair, float] = {}  # when a pair of nodes of one host takes the next message
        self._lines: dict[Pair, deque[Message]] = {}  # behind the flow of each connection that has one
        self._staged: list[Message] = []  # those that wait for a link with a limit
        self._flows = FlowTable[Message]()
        self._now = 0.0  # until when the flows have carried bytes
        self._rates_hold = True
        self._settled_below = math.inf  # the levels below this one are those of the last solution
        self._bandwidth: Floats = np.full(1, math.inf)  # by number of a link plus 1
        self._sizes: list[float] = []  # bytes of each link
        self._shares: list[int] = []  # and its flows

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        pair = self._shaped.get(source, target) if self._shaped else None
        if pair is not None:
            if pair.loses_all:
                pair.count_lost()
                return
            size = pair.size(size)
        route = self._routes.between(source, target)
        self._widen()
        if route.links:
            moment = now + route.latency * self._factors.latency
        else:
            start = max(now, self._local_free.get((source, target), 0.0))
            self._local_free[source, target] = start + size / route.slowest
            moment = start + size / route.slowest + route.latency
        if pair is not None:
            moment = pair.reach(moment)
        for link in route.links:
            self._sizes[link] += size
        self._sequence += 1
        heappush(self._heap, (moment, self._sequence, Message(self._sequence, source, target, size, item)))

    def _widen(self) -> None:
        """Take note of links that a route has used for the first time."""
        more = len(self._routes.links) - len(self._sizes)
        if more:
            self._sizes += [0.0] * more
            self._shares += [0] * more

    def next_moment(self) -> float | None:
        if not self._rates_hold:
            self._solve()
        moment = self._flows.next_end
        if self._heap and self._heap[0][0] < moment:
            moment = self._heap[0][0]
        return None if moment == math.inf else moment

    def advance(self, now: float) -> list[Arrival]:
        arrived: list[Arrival] = []
        while (moment := self.next_moment()) is not None and moment <= now:
            done = self._end_flows(moment) if self._flows.next_end <= moment else []
            while self._heap and self._heap[0][0] <= moment:
                event = heappop(self._heap)[2]
                if isinstance(event, LinkFault):
                    self._reshape(moment, self._shaped.end(event))
                elif not self._routes.between(event.source, event.target).links:
                    done.append(event)
                elif event.pair in self._lines:
                    self._lines[event.pair].append(event)
                else:
                    self._lines[event.pair] = deque()
                    self._begin(moment, event)
            arrived += [(moment, each.source, each.target, each.item) for each in sorted(done)]
        return arrived

    def inject(self, now: float, fault: LinkFault) -> None:
        self._reshape(now, self._shaped.begin(fault))
        if fault.seconds is not None:
            self._sequence += 1
            heappush(self._heap, (now + fault.seconds, self._sequence, fault))

    def busy(self) -> list[Usage]:
        used = zip(self._routes.links, self._sizes, strict=False)
        return sorted(Usage(link.name, size, size / link.bandwidth) for link, size in used if size)

    def _elapse(self, now: float) -> None:
        """Let the flows carry bytes until `now`, when their rates change."""
        if now > self._now:
            self._flows.elapse(now - self._now)
        self._now = now
        self._rates_hold = False

    def _end_flows(self, now: float) -> list[Message]:
        """Take out the flows that end now; the next message of a connection goes on with its rate."""
        flows = self._flows
        ending = flows.ending(now * (1 + _TOGETHER))
        done = [flows.items[column] for column in ending]
        gone, again = [], []
        for column, message in zip(ending, done, strict=True):
            line = self._lines[message.pair]
            if line and self._platform.limit is None:
                follower = line.popleft()
                flows.follow(column, follower, follower.size, now, self._now)
                continue
            gone.append(column)
            for link in self._links(message.pair):
                self._shares[link] -= 1
            if line:
                again.append(line.popleft())
            else:
                del self._lines[message.pair]
        concern = [column for column in gone if self._is_shared(flows.items[column].pair)]
        if concern:
            self._settled_below = min(self._settled_below, float(self._levels()[concern].min()))
            self._elapse(now)
        flows.remove(gone)
        flows.find_next_end()
        if self._platform.limit is not None:
            self._staged += again
            self._relieve(now)
        return done

    def _links(self, pair: Pair) -> tuple[int, ...]:
        """Return the links of which a flow takes a share, those of its acknowledgements included."""
        links = self._routes.between(*pair).links
        if self._platform.cross_traffic:
            links += self._routes.between(pair[1], pair[0]).links
            self._widen()
        return links

    def _is_shared(self, pair: Pair) -> bool:
        """Tell if a flow has, or would have, links that others take a share of."""
        return any(self._shares[link] for link in self._links(pair))

    def _begin(self, now: float, message: Message) -> None:
        """Let the message of a connection without a flow become one, or wait for links with a limit."""
        if self._platform.limit is None:
            self._enter(now, message)
        else:
            self._staged.append(message)
            self._relieve(now)

    def _relieve(self, now: float) -> None:
        """Let those that wait become flows where all their links have room, first come, first served."""
        limit, waiting = self._platform.limit or 0, []
        for message in self._staged:
            if all(self._shares[link] < limit for link in self._routes.between(*message.pair).links):
                self._enter(now, message)
            else:
                waiting.append(message)
        self._staged = waiting

    def _enter(self, now: float, message: Message) -> None:
        pair = message.pair
        route, links = self._routes.between(*pair), self._links(pair)
        bound, alone = self._bound(pair, route), not self._is_shared(pair)
        for link in links:
            self._shares[link] += 1
        rate = 0.0
        if alone and not self._platform.cross_traffic:  # nothing changes for the others, and its share is all
            rate = min(bound, *(self._routes.links[link].bandwidth for link in links)) * self._factors.bandwidth
        else:
            self._elapse(now)
        left, end = message.size + rate * (now - self._now), now + message.size / rate if rate else math.inf
        self._flows.add(message, route.links, links[len(route.links) :], Values(left, rate, end, bound, self._weight(route)))

    def _bound(self, pair: Pair, route: Route) -> float:
        """Return the most of a flow's rate, before the factor."""
        bound, window = route.slowest, self._platform.window
        if window is not None and route.latency > 0.0:
            bound = min(bound, window / (2.0 * route.latency))
        shaped = self._shaped.get(*pair)
        if shaped is not None and shaped.rate is not None:
            bound = min(bound, shaped.rate / self._factors.bandwidth)
        return bound

    def _weight(self, route: Route) -> float:
        """Return the weight of a flow: of the factors of SimGrid 1 / (latency + S / bandwidth of each link)."""
        payload = self._factors.payload
        if payload is None or route.latency == 0.0:
            return 1.0
        penalty = route.latency
        for link in route.links:
            penalty += payload / self._routes.links[link].bandwidth
        return 1.0 / penalty

    def _reshape(self, now: float, pairs: list[Pair]) -> None:
        """Let the flows of pairs have the bounds of their faults now."""
        self._elapse(now)
        self._settled_below = 0.0
        for column, message in enumerate(self._flows.items):
            if message.pair in pairs:
                self._flows.bounds[column] = self._bound(message.pair, self._routes.between(*message.pair))

    def _levels(self) -> Floats:
        """Return the level of each flow: its rate before the factor, by its weight."""
        return self._flows.rates / self._factors.bandwidth / self._flows.weights

    def _capacity(self) -> Floats:
        """Return the bytes per second of each link, with its number of flows; that of number 0 is infinite."""
        if len(self._bandwidth) <= len(self._routes.links):
            self._bandwidth = np.array([math.inf, *(link.bandwidth for link in self._routes.links)])
        fading = self._platform.fading
        if not fading:
            return self._bandwidth
        flows = np.bincount(self._flows.paths.ravel(), minlength=len(self._bandwidth))
        return self._bandwidth * np.maximum(1.0 - fading * np.maximum(flows - 1, 0), fading)

    def _solve(self) -> None:
        """Compute the rates from now on.

        In progressive filling all goes as in the last solution up to the lowest level at which a flow has gone, or at which a
        new one may be settled: a flow that was settled below that level keeps its rate.
        """
        flows, capacity = self._flows, self._capacity()
        paths, takes = flows.paths, np.ones(len(flows.paths))
        if self._platform.cross_traffic:
            paths = np.concatenate([paths, flows.backs])
            takes = np.concatenate([takes, np.full(len(flows.backs), CROSS_TRAFFIC)])
        rates, weights, bounds = flows.rates / self._factors.bandwidth, flows.weights, flows.bounds
        new = np.flatnonzero(rates == 0.0)
        below = 0.0 if self._platform.fading else self._settled_below
        if below and len(new):
            load = np.bincount(paths.ravel(), (takes[:, None] * weights).ravel(), len(capacity))
            at_least = np.minimum((capacity[paths[:, new]] / load[paths[:, new]]).min(axis=0), bounds[new] / weights[new])
            below = min(below, float(at_least.min()))
        keeps = (rates > 0.0) & (rates / weights < below * _BELOW)
        kept, again = keeps.nonzero()[0], (~keeps).nonzero()[0]
        if len(kept):
            capacity = capacity - np.bincount(paths[:, kept].ravel(), (takes[:, None] * rates[kept]).ravel(), len(capacity))
        rates[again] = max_min(paths[:, again], takes, weights[again], bounds[again], capacity)
        flows.set_rates(rates * self._factors.bandwidth, self._now)
        self._settled_below, self._rates_hold = math.inf, True
