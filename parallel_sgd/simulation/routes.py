"""Routes of messages through a platform: its links, and by which of them the bytes from a node to another pass.

Ring: the shortest way, half round by increasing numbers. Fat tree: two levels; the spine is the target's host modulo the number
of spines (D-mod-k routing), so that flows to different hosts spread. Each host's link carries half of the latency of a star, a
fat tree or a site.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from .platform import FAT_TREE, HALF, MATRIX, MESH, RING, STAR, TWO_SITES, Platform

__all__ = ["Link", "Routes"]


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


class Routes:
    """Links of a platform, and the route of each pair of nodes.

    Args:
        platform: any.
        nodes: ids in the order of their places: the first `nodes_per_host` are on the first host, and so on.

    Raises:
        ValueError: The platform has not so many places.
    """

    def __init__(self, platform: Platform, nodes: Sequence[int]) -> None:
        self.platform = platform.fitted(len(nodes))
        self.links: list[Link] = []
        self.host = {node: place // platform.nodes_per_host for place, node in enumerate(nodes)}
        self._names: dict[str, int] = {}
        self._routes: dict[tuple[int, int], tuple[int, ...]] = {}

    @cached_property
    def hosts(self) -> int:
        """Number of hosts."""
        return self.platform.hosts or 1

    @property
    def is_uniform(self) -> bool:
        """Whether every message passes a port of its own at each end, both of one bandwidth, with one latency."""
        platform = self.platform
        plain = platform.backbone is None and platform.duplex != HALF and platform.nodes_per_host == 1
        return platform.shape == STAR and plain

    def route(self, source: int, target: int) -> tuple[int, ...]:
        """Return the numbers of the links from a node to another, in their order; none within a host.

        Args:
            source: id of the sending node.
            target: id of the receiving node.
        """
        pair = self.host[source], self.host[target]
        if pair[0] == pair[1]:
            return ()
        found = self._routes.get(pair)
        if found is None:
            found = self._routes[pair] = tuple(self._number(link) for link in self._way(*pair))
        return found

    def _number(self, link: Link) -> int:
        number = self._names.setdefault(link.name, len(self.links))
        if number == len(self.links):
            self.links.append(link)
        return number

    def _way(self, source: int, target: int) -> list[Link]:
        """Return the links from a host to another."""
        platform = self.platform
        if platform.shape == MATRIX:
            return self._measured_way(source, target)
        bandwidth, latency = platform.bandwidth or 0.0, platform.latency or 0.0
        if platform.shape == MESH:
            return [Link(f"{source} to {target}", bandwidth, latency)]
        if platform.shape == RING:
            step = 1 if 2 * ((target - source) % self.hosts) <= self.hosts else -1
            count = ((target - source) * step) % self.hosts
            hops = [(source + step * hop) % self.hosts for hop in range(count + 1)]
            return [Link(f"{a} to {b}", bandwidth, latency) for a, b in pairwise(hops)]
        ends = self._port(source, "out", bandwidth, latency / 2), self._port(target, "in", bandwidth, latency / 2)
        return [ends[0], *self._inner(source, target), ends[1]]

    def _port(self, host: int, direction: str, bandwidth: float, latency: float) -> Link:
        name = f"port {host}" if self.platform.duplex == HALF else f"port {host} {direction}"
        return Link(name, bandwidth, latency)

    def _inner(self, source: int, target: int) -> list[Link]:
        """Return the links between the ports of two hosts."""
        platform = self.platform
        if platform.backbone is not None:
            return [Link("backbone", platform.backbone, 0.0)]
        if platform.shape == TWO_SITES:
            near = platform.near or (self.hosts + 1) // 2
            sites = int(source >= near), int(target >= near)
            if sites[0] == sites[1]:
                return []
            name = "thin link" if platform.duplex == HALF else f"thin link {'there' if sites[1] else 'back'}"
            return [Link(name, platform.thin_bandwidth or 0.0, platform.thin_latency or 0.0)]
        if platform.shape == FAT_TREE and platform.leaf and platform.spines:
            leaves = source // platform.leaf, target // platform.leaf
            if leaves[0] != leaves[1]:
                spine, latency = target % platform.spines, (platform.latency or 0.0) / 2
                up, down = (f"leaf {leaves[0]} to spine {spine}", f"spine {spine} to leaf {leaves[1]}")
                if platform.duplex == HALF:
                    up, down = (f"leaf {leaf} and spine {spine}" for leaf in leaves)
                return [Link(name, platform.bandwidth or 0.0, latency) for name in (up, down)]
        return []

    def _measured_way(self, source: int, target: int) -> list[Link]:
        """Return the ports, each as fast as the fastest of its measured pairs, and the pair between them."""
        rates, latencies = self.platform.bandwidths, self.platform.latencies
        others = range(self.hosts)
        out = max(rates[source][other] for other in others if other != source)
        into = max(rates[other][target] for other in others if other != target)
        pair = Link(f"{source} to {target}", rates[source][target], latencies[source][target])
        return [self._port(source, "out", out, 0.0), pair, self._port(target, "in", into, 0.0)]
