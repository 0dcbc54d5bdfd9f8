"""Network of links that are shared fairly by flows, on the level of flows and not of packets.

After its latency a message is a flow with a rate: the max-min fair share of the links of its route, or in the alpha-beta model
of its two ports. Rates change only when a flow begins or ends, so all that happens at one instant costs one solution. Messages
of a node to another one follow each other on one connection: it is connections that share links.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from operator import attrgetter
from typing import Final

import numpy as np

from network.faults.fault import LinkFault

from .arrivals import Arrival, Usage
from .flow_table import Flow, FlowTable
from .platform import FACTORS, Platform
from .routes import Route, Routes
from .shaped import ShapedPairs
from .sharing import Floats, max_min, sum_by_link

CROSS_TRAFFIC: Final = 0.05
"""Share of a flow's rate that its acknowledgements take on the way back."""
_TOGETHER: Final = 1e-12  # share of the time by which the ends of flows may differ by rounding
_BELOW: Final = 1 - 1e-9  # share of a level below which a flow is surely settled before it
_END, _START, _LIFT = range(3)  # at one instant links become free before others take them

Pair = tuple[int, int]


class Flows:
    """Network of links that are shared fairly.

    A flow that shares none of its links has all of its bound, so its end is an event; only the rates of those that share some
    are solved, in the table.

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
        self._heap: list[tuple[float, int, int, Flow | LinkFault]] = []  # (moment, kind, sequence, ..)
        self._local_free: dict[Pair, float] = {}  # when a pair of nodes of one host takes the next message
        self._lines: dict[Pair, deque[Flow] | None] = {}  # behind the flow of each connection that has one
        self._staged: list[Flow] = []  # those that wait for a link with a limit
        self._alone: dict[int, Flow] = {}  # link: its only flow, which is in no table
        self._entering: list[Flow] = []  # the table at this instant
        self._table = FlowTable()
        self._now = 0.0  # until when the flows of the table have carried bytes
        self._rates_hold = True
        self._settled_below = math.inf  # the levels below this one are those of the last solution
        self._bandwidth: Floats = np.full(1, math.inf)  # by number of a link plus 1
        self._sizes: list[float] = []  # bytes of each link,
        self._shares: list[int] = []  # and its flows

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        pair = self._shaped.get(source, target) if self._shaped else None
        if pair is not None:
            if pair.loses_all:  # connections of TCP would send again for ever, and nothing would arrive
                pair.count_lost()
                return
            size = pair.size(size)
        route = self._routes.between(source, target)
        earliest = now
        if pair is not None and not route.links:
            route = self._routes.within(source, target)
            earliest = max(now, self._local_free.get((source, target), 0.0))  # behind those that left before the fault
        if len(self._sizes) < len(self._routes.links):
            self._widen()
        if route.links:
            moment = earliest + route.latency * self._factors.latency
            for link in route.links:
                self._sizes[link] += size
        else:
            start = max(now, self._local_free.get((source, target), 0.0))
            self._local_free[source, target] = start + size / route.slowest
            moment = start + size / route.slowest + route.latency
        if pair is not None:
            moment = pair.reach(moment)
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (moment, _START, sequence, Flow(sequence, source, target, size, item, route)))

    def _widen(self) -> None:
        """Take note of links that a route has used for the first time."""
        more = len(self._routes.links) - len(self._sizes)
        self._sizes += [0.0] * more
        self._shares += [0] * more

    def next_moment(self) -> float | None:
        if not self._rates_hold:
            self._solve()
        heap, moment = self._heap, self._table.next_end
        # ends of flows that have been joined by others since: the table has others for them
        while heap and heap[0][1] == _END and isinstance(heap[0][3], Flow) and not heap[0][3].is_alone:
            heappop(heap)
        if heap and heap[0][0] < moment:
            moment = heap[0][0]
        return None if moment == math.inf else moment

    def advance(self, now: float) -> list[Arrival]:
        arrived: list[Arrival] = []
        heap = self._heap
        while (moment := self.next_moment()) is not None and moment <= now:
            done = self._end_in_table(moment) if self._table.next_end <= moment else []
            while heap and heap[0][0] <= moment:
                _, kind, _, event = heappop(heap)
                if isinstance(event, LinkFault):
                    self._reshape(moment, self._shaped.end(event))
                elif kind == _START and event.route.links:
                    self._begin(moment, event)
                elif kind == _START or self._end_alone(moment, event):
                    done.append(event)
            self._fill_table(moment)
            done.sort(key=attrgetter("sequence"))  # in the order of sending, which does not depend on that of the table
            arrived += [(moment, flow.source, flow.target, flow.item) for flow in done]
        return arrived

    def inject(self, now: float, fault: LinkFault) -> None:
        self._reshape(now, self._shaped.begin(fault))
        self._fill_table(now)
        if fault.seconds is not None:
            self._sequence += 1
            heappush(self._heap, (now + fault.seconds, _LIFT, self._sequence, fault))

    def busy(self) -> list[Usage]:
        used = zip(self._routes.links, self._sizes, strict=False)  # links of routes that no message has taken are behind
        return sorted(Usage(link.name, size, size / link.bandwidth) for link, size in used if size)

    def _begin(self, now: float, flow: Flow) -> None:
        """Let a message follow those of its connection, or become a flow: its latency has passed."""
        pair = flow.source, flow.target
        if pair in self._lines:
            line = self._lines[pair]
            if line is None:
                line = self._lines[pair] = deque()
            line.append(flow)
            return
        self._lines[pair] = None
        if self._platform.limit is None:
            self._enter(now, flow)
        else:
            self._staged.append(flow)
            self._relieve(now)

    def _relieve(self, now: float) -> None:
        """Let those that wait become flows where all their links have room, first come, first served."""
        limit, waiting = self._platform.limit or 0, []
        for flow in self._staged:
            if all(self._shares[link] < limit for link in flow.route.links):
                self._enter(now, flow)
            else:
                waiting.append(flow)
        self._staged = waiting

    def _links(self, flow: Flow) -> tuple[int, ...]:
        """Return the links of which a flow takes a share, those of its acknowledgements included."""
        return flow.route.links + self._back(flow) if self._platform.cross_traffic else flow.route.links

    def _back(self, flow: Flow) -> tuple[int, ...]:
        links = self._routes.between(flow.target, flow.source).links
        self._widen()
        return links

    def _enter(self, now: float, flow: Flow) -> None:
        """Let a message become a flow: alone, or in the table with those with which it shares links."""
        links, shares, is_alone = self._links(flow), self._shares, not self._platform.cross_traffic
        for link in links:
            is_alone = is_alone and not shares[link]
            shares[link] += 1
        # a flow that a fault stops has no end: the table keeps it
        if is_alone and (rate := self._bound(flow) * self._factors.bandwidth):
            flow.rate, flow.end, flow.is_alone = rate, now + flow.size / rate, True
            for link in links:
                self._alone[link] = flow
            heappush(self._heap, (flow.end, _END, flow.sequence, flow))
            return
        for link in links:
            if link in self._alone:
                self._join(now, self._alone[link])
        self._entering.append(flow)

    def _join(self, now: float, flow: Flow) -> None:
        """Let a flow that was alone go on in the table."""
        flow.is_alone, flow.left = False, flow.rate * (flow.end - now)
        for link in flow.route.links:
            del self._alone[link]
        self._entering.append(flow)

    def _fill_table(self, now: float) -> None:
        flows, self._entering = self._entering, []
        if flows:
            self._elapse(now)
            backs = [self._back(flow) for flow in flows] if self._platform.cross_traffic else []
            self._table.add(flows, backs, [*map(self._bound, flows)], [self._weight(flow.route) for flow in flows])

    def _end_alone(self, now: float, flow: Flow) -> bool:
        """End a flow that is alone, and let the next message of its connection follow; return False for one that is not."""
        if not flow.is_alone:
            return False
        for link in flow.route.links:
            del self._alone[link]
        self._follow(now, [flow])
        return True

    def _follow(self, now: float, ended: list[Flow]) -> None:
        """Free the links of flows that have ended, and let the next messages of their connections become flows."""
        followers = []
        for flow in ended:
            for link in self._links(flow):
                self._shares[link] -= 1
            line = self._lines[flow.source, flow.target]
            if line:
                followers.append(line.popleft())
            else:
                del self._lines[flow.source, flow.target]
        if self._platform.limit is None:
            for follower in followers:
                self._enter(now, follower)
        else:
            self._staged += followers
            self._relieve(now)

    def _end_in_table(self, now: float) -> list[Flow]:
        """Take out the flows of the table that end now; the next message of a connection goes on with its rate."""
        table = self._table
        ending = table.ending(now * (1 + _TOGETHER))
        done = [table.flows[column] for column in ending]
        gone = []
        for column, flow in zip(ending, done, strict=True):
            line = self._lines[flow.source, flow.target]
            if line and self._platform.limit is None:
                table.follow(column, line.popleft(), now, self._now)
            else:
                gone.append(column)
        if gone:
            ended, levels = [table.flows[column] for column in gone], self._levels(gone)
            self._follow(now, ended)
            for flow, level in zip(ended, levels, strict=True):
                if any(self._shares[link] for link in self._links(flow)):  # which have more from now on
                    self._settled_below = min(self._settled_below, float(level))
                    self._elapse(now)
            table.remove(gone)
        table.find_next_end()
        return done

    def _elapse(self, now: float) -> None:
        """Let the flows of the table carry bytes until `now`, when their rates change."""
        if now > self._now:
            self._table.elapse(now - self._now)
        self._now = now
        self._rates_hold = False

    def _bound(self, flow: Flow) -> float:
        """Return the most of a flow's rate, before the factor."""
        bound, latency, window = flow.route.slowest, flow.route.latency, self._platform.window
        if window is not None and latency > 0.0:
            bound = min(bound, window / (2.0 * latency))
        shaped = self._shaped.get(flow.source, flow.target) if self._shaped else None
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
        # each once, though it stands under each of its links
        for flow in {flow.sequence: flow for flow in self._alone.values() if flow.pair in pairs}.values():
            self._join(now, flow)
        self._fill_table(now)
        self._elapse(now)
        self._settled_below = 0.0  # bounds have changed anywhere, so no level of the last solution holds
        for column, flow in enumerate(self._table.flows):
            if flow.pair in pairs:
                self._table.bounds[column] = self._bound(flow)

    def _levels(self, columns: list[int]) -> Floats:
        """Return the levels of flows: their rates before the factor, by their weights."""
        return self._table.rates[columns] / self._factors.bandwidth / self._table.weights[columns]

    def _capacity(self) -> Floats:
        """Return the bytes per second of each link, with its number of flows; that of number 0 is infinite."""
        if len(self._bandwidth) <= len(self._routes.links):
            self._bandwidth = np.array([math.inf, *(link.bandwidth for link in self._routes.links)])
        fading = self._platform.fading
        if not fading:
            return self._bandwidth
        flows = np.bincount(self._table.paths.ravel(), minlength=len(self._bandwidth))
        # a share is left for any number of flows, so that each ends at some time
        return self._bandwidth * np.maximum(1.0 - fading * np.maximum(flows - 1, 0), fading)

    def _solve(self) -> None:
        """Compute the rates from now on.

        In progressive filling all goes as in the last solution up to the lowest level at which a flow has gone, or at which a
        new one may be settled: a flow that was settled below that level keeps its rate.
        """
        table, capacity = self._table, self._capacity()
        paths, takes = table.paths, np.ones(len(table.paths))
        if self._platform.cross_traffic:
            paths = np.concatenate([paths, table.backs])
            takes = np.concatenate([takes, np.full(len(table.backs), CROSS_TRAFFIC)])
        rates, weights, bounds = table.rates / self._factors.bandwidth, table.weights, table.bounds
        new = (rates == 0.0).nonzero()[0]
        # with fading a link changes with each flow, so no rate of before can be kept
        below = 0.0 if self._platform.fading else self._settled_below
        if below and len(new):
            load, ways = sum_by_link(paths, takes, weights, len(capacity)), paths[:, new]
            at_least = np.minimum(np.minimum.reduce(capacity[ways] / load[ways]), bounds[new] / weights[new])
            below = min(below, float(at_least.min()))
        keeps = (rates > 0.0) & (rates < below * _BELOW * weights)
        kept, again = keeps.nonzero()[0], (~keeps).nonzero()[0]
        if len(kept):
            capacity = capacity - sum_by_link(paths[:, kept], takes, rates[kept], len(capacity))
        rates[again] = max_min(paths[:, again], takes, weights[again], bounds[again], capacity)
        table.set_rates(rates * self._factors.bandwidth, self._now)
        self._settled_below, self._rates_hold = math.inf, True
