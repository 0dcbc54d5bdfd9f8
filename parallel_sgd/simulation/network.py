"""Networks of a simulation: when bytes that leave a node now arrive at another.

`network_of` makes the one that a platform names: `queues.Queues` of links that are first in, first out, or `flows.Flows` of
links that are shared fairly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from network.faults.fault import LinkFault
from network.nodes import PARAMETER_SERVER
from nn.arguments import instance, integer, sequence

from .arrivals import Arrival, Usage
from .flows import Flows
from .platform import FAIR, Platform
from .queues import Queues

__all__ = ["Arrival", "LinkNetwork", "Usage", "network_of"]


class Network(Protocol):
    """Network on a virtual clock.

    The kernel drives it: `advance` at each `next_moment` that is not after the kernel's own next event. Calls never go back in
    time.
    """

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        """Let a message leave. Messages of a node to another one arrive in the order in which they left.

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
        """Let time pass, and return the messages that have arrived, by time, at one time in a fixed order.

        Args:
            now: virtual time in seconds.
        """

    def busy(self) -> list[Usage]:
        """Return the use of each link that was used, by its name."""


class LinkNetwork(Network, Protocol):
    """Network with links that can have faults."""

    def inject(self, now: float, fault: LinkFault) -> None:
        """Let a fault of a link begin, which ends after its seconds.

        Args:
            now: virtual time in seconds.
            fault: a delay, throttle, loss or swallow.

        Raises:
            ValueError: It is of another kind.
        """


def network_of(platform: Platform, nodes: Sequence[int], seed: int = 0) -> LinkNetwork:
    """Make the network of a platform.

    Args:
        platform: any.
        nodes: ids of the job's nodes in the order of their places, such as workers 0 to 7 and then the parameter server, -2.
        seed: of the draws of jitter.

    Raises:
        TypeError: An argument is of another kind.
        ValueError: The platform has too few hosts, or speeds.
    """
    call = "network_of()"
    instance(call, "platform", platform, Platform)
    nodes = [integer(call, "nodes", node, PARAMETER_SERVER) for node in sequence(call, "nodes", nodes, "node ids")]
    seed = integer(call, "seed", seed, 0)
    if platform.ports == FAIR:
        return Flows(platform, nodes, seed)
    return Queues(platform, nodes, seed)
