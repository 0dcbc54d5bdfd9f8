"""Laws of queues and of order statistics, in virtual time.

A mean is right within 3 standard errors; those of steps that depend on each other are by means of batches of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest

from nn.random import keyed
from parallel_sgd.batch_sync import AsynchronizedSGD
from parallel_sgd.codec import AsyncPS, Codec, SyncPS
from parallel_sgd.engine.channel import Parameter_Server, Wait
from parallel_sgd.engine.exchange import BlockExchange
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.simulation.compute import Exponential
from parallel_sgd.simulation.kernel import Kernel, MemoryChannel, run_kernel
from parallel_sgd.simulation.network import network_of
from parallel_sgd.simulation.platform import Platform
from parallel_sgd.simulation.timeline import Timeline
from parallel_sgd.testing.array_job import ArrayJob
from tests.statements import covers

DELTA, MEAN = 0.5, 1.0
LAW = Exponential(DELTA, MEAN)


def harmonic(number: int) -> float:
    """1 + 1/2 + ... + 1/number."""
    return math.fsum(1 / k for k in range(1, number + 1))


def within(found: Sequence[float], mean: float, batches: int | None = None) -> bool:
    """Tell if the mean of `found` is within 3 standard errors; by means of batches where values depend on each other."""
    values = np.array(found) if batches is None else np.array([np.mean(part) for part in np.array_split(found, batches)])
    return bool(abs(values.mean() - mean) < 3 * values.std(ddof=1) / math.sqrt(len(values)))


class Step:
    """Steps of workers and a server, which ends each step when the answers that it needs are there; others are broken off.

    Args:
        workers: number of workers.
        steps: number of steps.
        enough: tells from the workers that have answered whether the step is over.
    """

    def __init__(self, workers: int, steps: int, enough: Callable[[set[int]], bool]) -> None:
        self.times: list[float] = []
        self._workers, self._steps, self._enough = workers, steps, enough
        self._clock = Timeline()
        self._kernel = kernel = Kernel([*range(workers), Parameter_Server], self._clock)
        self._step, self._there = 0, set[int]()
        for node in range(workers):
            kernel.build(node, cast("Any", lambda channel: _Party(channel, self._work)))
        kernel.build(Parameter_Server, cast("Any", lambda channel: _Party(channel, self._serve)))
        kernel.run()

    def _work(self, party: _Party) -> Iterator[Wait]:
        node = party.node
        for step in range(self._steps):
            end = self._clock.monotonic() + LAW.seconds(node, step, lambda: keyed(1, "law", node, step))  # noqa: B023
            over = lambda: self._step > step  # noqa: E731, B023
            yield Wait(over, end, lambda: "its computing")
            if not over():
                self._there.add(node)
                self._kernel.wake(self._clock.monotonic(), Parameter_Server)
                yield Wait(over, None, lambda: "the end of the step")

    def _serve(self, party: _Party) -> Iterator[Wait]:
        begun = 0.0
        for _ in range(self._steps):
            yield Wait(lambda: self._enough(self._there), None, lambda: "answers")
            self._there.clear()
            self._step += 1
            now = self._clock.monotonic()
            for node in range(self._workers):
                self._kernel.wake(now, node)
            self.times.append(now - begun)
            begun = now


class _Party:
    """A process on a kernel."""

    def __init__(self, channel: MemoryChannel, process: Callable[[_Party], Iterator[Wait]]) -> None:
        self.node, self.exchange = channel.node_id, self
        self.process = process(self)


LAWS = [
    pytest.param(8, lambda there: len(there) == 8, harmonic(8), 2.7179, id="synchronous, 8", marks=pytest.mark.long),
    pytest.param(8, lambda there: len(there) >= 4, harmonic(8) - harmonic(4), 0.6345, id="4 of 8", marks=pytest.mark.long),
    pytest.param(8, lambda there: len({node // 2 for node in there}) == 4, harmonic(4) / 2, 1.0417, id="2-fold, 8"),
    pytest.param(
        100, lambda there: len(there) >= 95, harmonic(100) - harmonic(5), 2.9040, id="95 of 100", marks=pytest.mark.long
    ),
]
"""Workers, when a step is over, and what it takes beside Delta in units of 1 / mu: order statistics of exponential times."""


@pytest.mark.long
@covers("SIM-11")
@pytest.mark.parametrize(("workers", "enough", "form", "published"), LAWS)
def test_steps_take_the_time_of_their_order_statistic(
    workers: int, enough: Callable[[set[int]], bool], form: float, published: float
) -> None:
    assert form == pytest.approx(published, abs=5e-5)
    assert within(Step(workers, 4_000, enough).times, DELTA + MEAN * form)


@dataclass
class TimedJob(ArrayJob):
    """A job of arrays on a virtual clock; `ended` holds the moments at which each worker has had a result."""

    seconds: Callable[[int, int], float] = lambda node, batch: 1.0
    timeline: Timeline = field(default_factory=Timeline)
    latency: float = 0.0
    service: Callable[[int], float] = lambda number: 0.0

    def run(self) -> TimedJob:
        """Run all batches on a star without a limit of bandwidth."""
        self.clock = cast("Any", self.timeline)
        self.ended: dict[int, list[float]] = {node: [] for node in self.assignment.nodes}
        self.served: list[float] = []
        ids = [*self.assignment.nodes, Parameter_Server]
        platform = Platform("star", bandwidth=1e30, latency=self.latency, ports="fifo").fitted(len(ids))
        builds: dict[int, Any] = dict.fromkeys(self.assignment.nodes, self._build)
        builds[Parameter_Server] = self._build_server
        self.kernel = Kernel(ids, self.timeline, network_of(platform, ids))
        self.kernel.costs = self
        run_kernel(self.kernel, builds)
        return self

    def encode(self, codec: Codec, size: int) -> float:
        """Nothing."""
        return 0.0

    def merge(self, codec: Codec, size: int) -> float:
        """The server takes its time for each packet."""
        if codec.node_id >= 0:
            return 0.0
        self.served.append(self.service(len(self.served)))
        return self.served[-1]

    def _train(self, node: int, exchange: BlockExchange) -> Any:
        gradient = np.zeros(self.shapes[0], np.float32)
        for batch in range(self.batches):
            exchange.begin(0, batch)
            self.timeline.charge(self.seconds(node, batch))
            for block in self.assignment.node_2_block[node]:
                exchange.put(0, block, gradient)
            yield from exchange.wait(0)
            exchange.get(0)
            self.ended[node].append(self.timeline.monotonic())
        return {}


def asynchronous(workers: int, steps: int, **given: Any) -> TimedJob:
    """A job of an asynchronous server that has run, with `steps` steps of all workers together."""
    job = TimedJob(
        IIDBlockAssignment(workers),
        batches=steps // workers,
        shapes=((3,),),
        codec=AsyncPS,
        server=AsyncPS,
        sync_type=AsynchronizedSGD,
        timeout=1e15,
        **given,
    )
    return job.run()


@pytest.mark.long
@covers("SIM-11")
@pytest.mark.parametrize(("compute", "latency", "service"), [(1.0, 0.05, 0.01), (1.0, 0.05, 0.5)])
def test_an_asynchronous_server_with_constant_times(compute: float, latency: float, service: float) -> None:
    """The rate is min(W / (t_c + t_net + t_s), 1 / t_s), the mean age of gradients W - 1."""
    workers, steps = 8, 10_000
    # they begin one after the other, as they go on later: all at once would be served one after the other for ever
    period = max(compute + 2 * latency + service, workers * service)
    first = [node * period / workers for node in range(workers)]
    job = asynchronous(
        workers,
        steps,
        latency=latency,
        service=lambda number: service,
        seconds=lambda node, batch: compute + (first[node] if batch == 0 else 0.0),
    )
    moments = sorted(moment for node in job.ended for moment in job.ended[node])
    middle = moments[steps // 10 : -steps // 10]
    rate = (len(middle) - 1) / (middle[-1] - middle[0])
    assert rate == pytest.approx(min(workers / (compute + 2 * latency + service), 1 / service), rel=1e-3)
    ages = job.server_bank.staleness
    assert sum(ages.values()) == steps // workers * workers
    counted = {age: count for age, count in ages.items() if count > workers}
    assert set(counted) == {workers - 1}


@pytest.mark.long
@covers("SIM-11")
def test_a_server_of_workers_with_exponential_times_is_as_busy_as_mm1w_says() -> None:
    """M/M/1//W: p0 = 1 / sum of W! / (W - k)! rho^k (Kleinrock, "Queueing systems", volume 1, 1975, section 3.8)."""
    workers, rho, steps = 4, 0.25, 10_000
    idle = 1 / math.fsum(math.factorial(workers) / math.factorial(workers - k) * rho**k for k in range(workers + 1))
    assert 1 - idle == pytest.approx(0.6893, abs=5e-5)
    thinks, serves = Exponential(0.0, 1.0), Exponential(0.0, rho)
    job = asynchronous(
        workers,
        steps,
        service=lambda number: serves.seconds(0, 0, lambda: keyed(2, "service", number)),
        seconds=lambda node, batch: thinks.seconds(0, 0, lambda: keyed(2, "think", node, batch)),
    )
    moments = np.sort([moment for node in job.ended for moment in job.ended[node]])
    # busy in a stretch between two answers: its services by its length
    edges = np.linspace(0, steps - steps // 20, 31).astype(int)
    served = np.array(job.served)
    busy = [served[a:b].sum() / (moments[b - 1] - (moments[a - 1] if a else 0.0)) for a, b in pairwise(edges)]
    assert within(busy, 1 - idle)


@pytest.mark.long
@covers("SIM-11")
def test_steps_of_the_codec_syncps_take_the_time_of_the_slowest_worker() -> None:
    job = TimedJob(
        IIDBlockAssignment(8),
        batches=10_000,
        shapes=((3,),),
        codec=SyncPS,
        server=SyncPS,
        timeout=1e15,
        seconds=lambda node, batch: LAW.seconds(node, batch, lambda: keyed(3, "law", node, batch)),
    ).run()
    assert within(np.diff(job.ended[0], prepend=0.0).tolist(), DELTA + MEAN * harmonic(8))
