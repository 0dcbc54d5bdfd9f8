"""Choice of the network that a platform names."""

from __future__ import annotations

from collections.abc import Sequence

from .flows import Flows
from .network import Network
from .platform import FAIR, Platform
from .queues import Queues

__all__ = ["network_of"]


def network_of(platform: Platform, nodes: Sequence[int], seed: int = 0) -> Network:
    """Make the network of a platform.

    Args:
        platform: any.
        nodes: ids of the job's nodes in the order of their places, such as workers 0 to 7 and then the parameter server, -2.
        seed: of the draws of jitter.

    Raises:
        ValueError: The platform has too few hosts, or speeds.
    """
    if platform.ports == FAIR:
        return Flows(platform, nodes, seed)
    return Queues(platform, nodes, seed)
