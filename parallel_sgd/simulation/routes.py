"""Routes of messages through a platform: its links, and by which of them the bytes from a node to another pass.

Ring: the shortest way, half round by increasing numbers. Fat tree: two levels; the spine is the target's host modulo the number
of spines (D-mod-k routing), so that flows to different hosts spread. Each host's link carries half of the latency of a star, a
fat tree or a site.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from .platform import ALPHA_BETA, FAT_TREE, HALF, MATRIX, MESH, RING, TWO_SITES, Platform


class Link(NamedTuple):
    """Link in one direction, or of a half duplex platform in both.

    Args:
        name: for reports.
        bandwidth: bytes per second.
        latency: seconds.
    """

    name: str
    bandwidth: float
    latency: float


#: Bytes per second of a link within a host without a limit, as a number that can be shared.
_NO_LIMIT: Final = 1e18


class Route(NamedTuple):
    """Way from a host to another.

    Args:
        links: numbers of its links in their order, none within a host; of an alpha-beta model the first and the last only.
        latency: seconds, of all links together.
        slowest: bytes per second of its slowest link.
    """

    links: tuple[int, ...]
    latency: float
    slowest: float


class Star(NamedTuple):
    """Ports of a plain star.

    Args:
        out: node: number of the link by which its messages leave.
        into: node: number of the link by which messages reach it.
        latency: seconds from a node to another.
        bandwidth: bytes per second of each port.
    """

    out: dict[int, int]
    into: dict[int, int]
    latency: float
    bandwidth: float


class Routes:
    """Links of a platform, and the route of each pair of nodes.

    Args:
        platform: any.
        nodes: ids in the order of their places: the first `nodes_per_host` are on the first host, and so on.

    Attributes: `platform` with its number of hosts, `links` (those that a route has used; their number is their position), and
    `star` (the ports of a plain star, None for other shapes).

    Raises:
        ValueError: The platform has not so many places.
    """

    def __init__(self, platform: Platform, nodes: Sequence[int]) -> None:
        self.platform = platform = platform.fitted(len(nodes))
        self.links: list[Link] = []
        self._hosts = platform.hosts or 1
        self._host = {node: place // platform.nodes_per_host for place, node in enumerate(nodes)}
        self._numbers: dict[str, int] = {}
        self._routes: dict[tuple[int, int], Route] = {}
        self.star: Star | None = None
        if platform.is_plain_star and platform.bandwidth is not None and platform.latency is not None:
            out, into = ({node: self._number(self._port(self._host[node], way)) for node in nodes} for way in ("out", "in"))
            self.star = Star(out, into, platform.latency, platform.bandwidth)

    def between(self, source: int, target: int) -> Route:
        """Return the route from a node to another.

        Args:
            source: id of the sending node.
            target: id of the receiving node.
        """
        first, last = self._host[source], self._host[target]
        if self.star is not None and first != last:  # made anew each time: there may be a million pairs
            out, into, latency, bandwidth = self.star
            return Route((out[source], into[target]), latency, bandwidth)
        found = self._routes.get((first, last))
        if found is None:
            found = self._routes[first, last] = self._found(first, last)
        return found

    def within(self, source: int, target: int) -> Route:
        """Return a route between nodes of a host with a link of its own, on which a fault of the pair shows.

        Args:
            source: id of the sending node.
            target: id of the receiving node.
        """
        platform = self.platform
        bandwidth = platform.local_bandwidth or _NO_LIMIT
        link = Link(f"host {self._host[source]}, {source} to {target}", bandwidth, platform.local_latency)
        return Route((self._number(link),), platform.local_latency, bandwidth)

    def _found(self, source: int, target: int) -> Route:
        if source == target:
            platform = self.platform
            return Route((), platform.local_latency, platform.local_bandwidth or float("inf"))
        links = self._way(source, target)
        latency = 0.0
        for link in links:
            latency += link.latency
        slowest = min(link.bandwidth for link in links)
        # this model shares ports alone; what lies between them counts by its latency and its slowest link
        if self.platform.model == ALPHA_BETA and len(links) > 2:
            links = [links[0], links[-1]]
        return Route(tuple(map(self._number, links)), latency, slowest)

    def _number(self, link: Link) -> int:
        number = self._numbers.setdefault(link.name, len(self.links))  # by name: in half duplex both directions are one link
        if number == len(self.links):
            self.links.append(link)
        return number

    def _way(self, source: int, target: int) -> list[Link]:
        """Return the links from a host to another."""
        platform = self.platform
        if platform.shape == MATRIX:
            pair = Link(f"{source} to {target}", platform.bandwidths[source][target], platform.latencies[source][target])
            # a pair is measured alone, so its ports must limit what several pairs of a host get together
            return [self._measured_port(source, "out"), pair, self._measured_port(target, "in")]
        bandwidth, latency = platform.bandwidth or 0.0, platform.latency or 0.0
        if platform.shape == MESH:
            return [Link(f"{source} to {target}", bandwidth, latency)]
        if platform.shape == RING:
            # the shorter way round; of two equal ones the one that counts up
            step = 1 if 2 * ((target - source) % self._hosts) <= self._hosts else -1
            count = ((target - source) * step) % self._hosts
            hops = [(source + step * hop) % self._hosts for hop in range(count + 1)]
            return [Link(f"{a} to {b}", bandwidth, latency) for a, b in pairwise(hops)]
        return [self._port(source, "out"), *self._inner(source, target), self._port(target, "in")]

    def _port(self, host: int, direction: str) -> Link:
        platform = self.platform
        name = f"port {host}" if platform.duplex == HALF else f"port {host} {direction}"
        return Link(name, platform.bandwidth or 0.0, (platform.latency or 0.0) / 2)

    def _measured_port(self, host: int, direction: str) -> Link:
        """Return a port that is as fast as the fastest of its measured pairs."""
        table = self.platform.bandwidths
        rates = table[host] if direction == "out" else [row[host] for row in table]
        # the latency that was measured is that of the pair
        return Link(f"port {host} {direction}", max(rate for other, rate in enumerate(rates) if other != host), 0.0)

    def _inner(self, source: int, target: int) -> list[Link]:
        """Return the links between the ports of two hosts."""
        platform = self.platform
        if platform.backbone is not None:
            return [Link("backbone", platform.backbone, 0.0)]
        if platform.shape == TWO_SITES:
            near = platform.near or (self._hosts + 1) // 2
            if (source < near) == (target < near):
                return []
            name = "thin link" if platform.duplex == HALF else f"thin link {'there' if source < near else 'back'}"
            return [Link(name, platform.thin_bandwidth or 0.0, platform.thin_latency or 0.0)]
        if platform.shape == FAT_TREE and platform.leaf and platform.spines:
            here, there = source // platform.leaf, target // platform.leaf
            if here != there:
                # by the target alone, as fixed routing tables do: flows to one host meet on one spine
                spine, latency = target % platform.spines, (platform.latency or 0.0) / 2
                names = [f"leaf {here} to spine {spine}", f"spine {spine} to leaf {there}"]
                if platform.duplex == HALF:
                    names = [f"leaf {leaf} and spine {spine}" for leaf in (here, there)]
                return [Link(name, platform.bandwidth or 0.0, latency) for name in names]
        return []
