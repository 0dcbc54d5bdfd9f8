"""Simulated nodes: workers of a job in this process, on the virtual clock of a platform."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from network.nodes import Address

from ..engine.channel import Parameter_Server
from ..nodes import InProcessNodes, check_ps
from ..options.checks import positive
from .platform import Platform
from .platform_text import platform_of

MEASURED = "measured"


class SimulatedNodes(InProcessNodes):
    """Nodes of a simulated cluster.

    Args:
        platform: the hosts and the network.
        compute: the time of a block step, as `simulated` takes it.
        seed: keys the draws of random times.
    """

    def __init__(self, platform: Platform, compute: object, seed: int) -> None:
        super().__init__()
        self.platform, self.compute, self.seed = platform, compute, seed
        self.simulated = platform.describe()


def simulated(
    count: int,
    platform: Platform | str | Path = "star 1Gbit/s 50us",
    *,
    ps: bool = False,
    compute: Any = MEASURED,
    seed: int = 0,
    shared: bool | None = None,
) -> SimulatedNodes:
    """Return `count` simulated nodes (and a parameter server), on which a job computes in this process what it computes on
    agents, to the bit, and is timed by a virtual clock.

    Args:
        count: number of workers, at least 1.
        platform: hosts and network: a text such as `star 1Gbit/s 50us`, a TOML file, or a `Platform`.
        ps: with a parameter server.
        compute: seconds of a block step: `measured` (timed here once, then the same for all), a number or a text such as `5ms`,
            a distribution such as `exponential 5ms 2ms`, `trace FILE`, or one of these by node.
        seed: keys the draws of the times, never those of training.
        shared: whether workers that are in equal states have one model, as a job of many needs it; None: past 16 workers.

    Raises: ValueError or TypeError naming the field, before anything runs.

    >>> with parallel_sgd.simulated(100, "star 100Mbit/s 1ms") as nodes:  # doctest: +SKIP
    ...     result = job.parallel(nodes, codec=Ring)
    >>> result.simulated.seconds  # doctest: +SKIP
    """
    positive("count", count)
    check_ps(ps)
    nodes = SimulatedNodes(platform_of(platform).fitted(count + ps), compute, seed)
    nodes.shared = shared
    for node_id in [*range(count), Parameter_Server] if ps else range(count):
        nodes.add(node_id, Address("simulated", node_id + 3))
    return nodes
