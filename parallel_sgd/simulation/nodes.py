"""Simulated nodes: workers of a job in this process, on the virtual clock of a platform."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from network.nodes import Address
from nn.extension import checked_call

from ..engine.channel import Parameter_Server
from ..nodes import InProcessNodes, check_ps
from ..options.checks import positive
from ..record.simulated import FEWER_BLOCKS, TIME_ONLY
from .codec_time import CodecTime, codec_time_of
from .compute import MEASURED, Compute, Law, compute_of, time_of
from .order import Arrivals
from .platform import Platform
from .platform_text import platform_of

#: Seconds that an agent takes to start a process of a job again: fork, imports, order, data and model at hand.
START_SECONDS: Final = 1.0


class SimulatedNodes(InProcessNodes):
    """Nodes of a simulated cluster.

    Args:
        platform: the hosts and the network.
        compute: the times of block steps.
        codec_time: the times of codecs; None: they are measured.
        arrivals: the order of arrival that is followed, True to keep it, or None.
        seed: keys the draws of random times.

    Attributes:
        again: makes such nodes in another number, with a parameter server or without.
        start_seconds: after a failure, from the order to start again until a process trains.
        distinct: most different blocks of a batch, None for all.
        learns: whether jobs learn, or only take their time.
    """

    start_seconds = START_SECONDS

    def __init__(
        self, platform: Platform, compute: Compute, codec_time: CodecTime | None, arrivals: Arrivals | bool | None, seed: int
    ) -> None:
        super().__init__()
        self.distinct: int | None = None
        self.learns = True
        self.again: Callable[[int, bool], SimulatedNodes] | None = None
        self.platform, self.compute, self.seed = platform, compute, seed
        self.codec_time, self.arrivals = codec_time, arrivals
        self.simulated = platform.describe()

    @property
    def clock(self) -> str:
        """Text of all that the seconds of a job on these nodes depend on, but for measurements on this machine."""
        times = (self.platform, self.compute, self.codec_time, self.seed, self.start_seconds, self.distinct, self.learns)
        return repr((*times, self.arrivals.turns if isinstance(self.arrivals, Arrivals) else None))

    def resized(self, count: int, ps: bool) -> SimulatedNodes:
        """Return simulated nodes of the same cluster in another number.

        Args:
            count: number of workers, at least 1.
            ps: with a parameter server.
        """
        if self.again is None:
            raise ValueError("simulated nodes can be had in another number only where simulated() has made them")
        return self.again(count, ps)


@checked_call
def simulated(
    count: int,
    platform: Platform | str | Path = "star 1Gbit/s 50us",
    *,
    ps: bool = False,
    compute: float | str | Law | Mapping[Any, float | str | Law] = MEASURED,
    codec_time: float | str | Path | Mapping[str, Any] = MEASURED,
    arrivals: Arrivals | bool | None = None,
    seed: int = 0,
    shared: bool | None = None,
    restart: float | str = START_SECONDS,
    distinct: int | None = None,
    learn: bool = True,
) -> SimulatedNodes:
    """Return `count` simulated nodes (and a parameter server), on which a job computes in this process, with the bits that
    it has on agents, and is timed by a virtual clock.

    Args:
        count: number of workers, at least 1.
        platform: hosts and network: a text such as `star 1Gbit/s 50us`, a TOML file, or a `Platform`.
        ps: with a parameter server.
        compute: seconds of a block step: `measured` (timed here once, then the same for all), a number or a text such as `5ms`,
            a distribution such as `exponential 5ms 2ms`, `trace FILE`, or a dict of these by node, with `default`.
        codec_time: time that codecs take to make a packet and to take one in: `measured` (timed here once), 0, a dict by the
            name of the codec's class such as `{"TopK": {"encode": "20us", "encode_rate": "500MB/s", "merge": "10us",
            "merge_rate": "1GB/s"}}`, with `default`, or a TOML file with such a table `codec_time`.
        arrivals: True keeps the order in which packets arrive, in `result.simulated.arrivals`; such an order is followed.
        seed: keys the draws of the times, never those of training.
        shared: whether workers that are in equal states have one model, as a job of many needs it; None: past 16 workers.
        distinct: most different blocks of a batch, at least 1: past these a worker sends the gradients of another block, which
            saves memory and time, and gives other bits; None: every worker has its own.
        learn: False for the times alone: gradients are computed of one block and sent in every batch, so bytes are of the
            right size, and no parameter changes.
        restart: time that the processes of a node take to start again after a failure, such as `1s`.

    Raises: ValueError or TypeError naming the field, before anything runs.

    >>> with parallel_sgd.simulated(100, "star 100Mbit/s 1ms") as nodes:  # doctest: +SKIP
    ...     result = job.parallel(nodes, codec=Ring)
    >>> result.simulated.seconds  # doctest: +SKIP
    """
    positive("count", count)
    check_ps(ps)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise TypeError(f"'seed' must be an integer, got {seed!r}")
    if shared is not None and not isinstance(shared, bool):
        raise TypeError(f"'shared' must be True, False or None, got {shared!r}")
    if distinct is not None:
        positive("distinct", distinct)
    if not isinstance(learn, bool):
        raise TypeError(f"'learn' must be True or False, got {learn!r}")
    here = [*range(count), Parameter_Server] if ps else [*range(count)]
    if isinstance(arrivals, Arrivals):
        arrivals.check(here)
    elif arrivals is not None and not isinstance(arrivals, bool):
        raise TypeError(f"'arrivals' must be True, or those of an earlier job, got {type(arrivals).__name__}")
    times = compute_of(compute, seed, range(count))
    nodes = SimulatedNodes(platform_of(platform).fitted(len(here)), times, codec_time_of(codec_time), arrivals, seed)
    nodes.shared = shared
    nodes.distinct, nodes.learns = distinct if distinct is None or distinct < count else None, learn  # each has its own anyway
    if not learn:
        nodes.simulated += f"; {TIME_ONLY}"
    elif nodes.distinct is not None:
        nodes.simulated += f"; {nodes.distinct:,} {FEWER_BLOCKS}"
    nodes.start_seconds = time_of("'restart'", restart)
    # all as it was given: laws and platforms are fitted to each number of nodes anew
    nodes.again = lambda number, server: simulated(
        number,
        platform,
        ps=server,
        compute=compute,
        codec_time=codec_time,
        arrivals=arrivals,
        seed=seed,
        shared=shared,
        restart=restart,
        distinct=distinct,
        learn=learn,
    )
    for node_id in here:
        # a port for each node, from 1 on, as the id of a parameter server is -2
        nodes.add(node_id, Address("simulated", node_id + 3))
    return nodes
