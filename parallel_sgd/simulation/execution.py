"""Execution of a job inside this process: on the clock of the machine, or on the virtual clock of a platform."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import replace
from typing import Final

from nn.model import Model
from nn.model.batches import as_type
from rpc.monitor import Monitor

from ..engine.batches import Batches, BlockFeeder
from ..engine.plan import WorkerPlan
from ..engine.training import Samples
from ..options.job_options import JobOptions
from ..record.simulated import Simulated
from .compute import compute_of
from .immediate import Immediate
from .kernel import Build, Kernel, Results, run_kernel
from .network import Network, network_of
from .nodes import MEASURED, SimulatedNodes
from .timeline import SkippingClock, Timeline

#: Milliseconds of a limit that is none: a node that is slow on the virtual clock is not lost.
_NO_LIMIT: Final = 1e15
#: Share of a block step that is forward alone, as evaluation is: forward, and twice as much for the two gradients of backward.
_FORWARD: Final = 1 / 3
_STEPS: Final = 5
_EVALUATED: Final = 1024  # samples of a batch of an evaluation


class Execution:
    """Execution of a job in this process, on the clock of the machine.

    Attributes:
        monotonic: returns the seconds of the clock.
        simulated: the times, once the job has run on simulated nodes; else None.
    """

    def __init__(self) -> None:
        self._clock = SkippingClock()
        self.monotonic: Callable[[], float] = self._clock.monotonic
        self.simulated: Simulated | None = None

    def plan(self, plan: WorkerPlan) -> WorkerPlan:
        """Return the plan that the nodes follow here."""
        return plan

    def monitor(self, node: int) -> Monitor:
        """Return the receiver of the signals of a node."""
        return Monitor()

    def block(self, node: int) -> Callable[[int, int, int], None] | None:
        """Return a function that is called with epoch, batch and block before each block step of a node, or None."""
        return None

    def run(
        self, builds: Mapping[int, Build], classes: Sequence[type], at_end: Callable[[str], AbstractContextManager[None]]
    ) -> Results:
        """Build the nodes and run them to their ends; arguments and errors are those of `run_kernel`."""
        network = Immediate()
        kernel = Kernel(list(builds), self._clock, network, classes)
        return run_kernel(kernel, builds, at_end, network.lost)


class SimulatedExecution(Execution):
    """Execution of a job on the virtual clock of a platform.

    Args:
        nodes: the simulated nodes.
        plan: the plan of the job.
        model: the model of the job, of which a copy is timed.
        samples: those of the job, prepared.

    Raises: ValueError naming the field that does not fit.
    """

    def __init__(self, nodes: SimulatedNodes, plan: WorkerPlan, model: Model, samples: Samples) -> None:
        super().__init__()
        self._timeline = Timeline()
        self.monotonic = self._timeline.monotonic
        self._platform = nodes.platform
        self._ids = [*nodes.worker_ids, *[node for node, _ in nodes.items() if node < 0]]
        self._speeds = {node: nodes.platform.speed(place) for place, node in enumerate(self._ids)}
        self._network: Network = network_of(nodes.platform, self._ids)
        self._measured = _block_seconds(model, plan, samples) if nodes.compute == MEASURED else None
        given = self._measured if self._measured is not None else nodes.compute
        self._compute = compute_of(given, nodes.seed)
        self._evaluation = _FORWARD * _EVALUATED / plan.options.block_size
        self._share = min(1.0, len(samples[2]) / _EVALUATED)

    def plan(self, plan: WorkerPlan) -> WorkerPlan:
        """Return the plan without a limit of waiting, unless the job gives one of its own."""
        usual = JobOptions.__dataclass_fields__["ssgd_timeout_limit"].default
        if plan.options.ssgd_timeout_limit != usual:
            return plan
        return replace(plan, options=replace(plan.options, ssgd_timeout_limit=_NO_LIMIT))

    def monitor(self, node: int) -> Monitor:
        """Return a monitor that lets the time of evaluations pass."""
        seconds = self._compute.seconds(node, 0, 0, 0) / self._speeds[node] * self._evaluation * self._share
        return _Evaluations(self._timeline, seconds)

    def block(self, node: int) -> Callable[[int, int, int], None] | None:
        """Return a function that lets the time of a block step of a node pass."""
        compute, charge, speed = self._compute.seconds, self._timeline.charge, self._speeds[node]

        def passes(epoch: int, batch: int, block: int) -> None:
            charge(compute(node, epoch, batch, block) / speed)

        return passes

    def run(
        self, builds: Mapping[int, Build], classes: Sequence[type], at_end: Callable[[str], AbstractContextManager[None]]
    ) -> Results:
        """Build the nodes and run them to their ends on the virtual clock."""
        began = time.perf_counter()
        kernel = Kernel(list(builds), self._timeline, self._network, classes, self._platform.transport)
        results = run_kernel(kernel, builds, at_end)
        seconds, platform = kernel.ended, self._platform.describe()
        took = time.perf_counter() - began
        links = {link: (size, busy) for link, size, busy in self._network.busy()}
        self.simulated = Simulated(platform, seconds, kernel.events, took, self._measured, links, kernel.digest.hexdigest())
        return results


class _Evaluations(Monitor):
    """Monitor that charges a node for each batch of an evaluation.

    Args:
        timeline: the virtual clock.
        seconds: those of one batch.
    """

    def __init__(self, timeline: Timeline, seconds: float) -> None:
        super().__init__()
        self._timeline, self._seconds = timeline, seconds

    def alive(self) -> None:
        self._timeline.charge(self._seconds)


def execution_of(nodes: object, plan: WorkerPlan, model: Model, samples: Samples) -> Execution:
    """Return the execution of a job in this process.

    Args:
        nodes: those of the job.
        plan: the plan of the job.
        model: the model of the job.
        samples: those of the job, prepared.

    Raises: ValueError naming the field of simulated nodes that does not fit.
    """
    return SimulatedExecution(nodes, plan, model, samples) if isinstance(nodes, SimulatedNodes) else Execution()


def _block_seconds(model: Model, plan: WorkerPlan, samples: Samples) -> float:
    """Time the block step of a copy of the model, and return the median."""
    copy = deepcopy(model)
    options = plan.options
    batches = Batches(len(samples[0]), options.block_size, plan.assignment.block_count)
    feeder = BlockFeeder(batches, copy._take_samples(samples[0]), copy._take_labels(samples[1], len(samples[0])), plan.order, 0)
    feeder.begin(0)
    found = []
    for _ in range(_STEPS):
        x, y, weight = feeder.deal(0, 0)
        began = time.perf_counter()
        copy.runner.step(as_type(x, copy.dtype), y, lambda _: None, (0, 0, 0, 0), weight)
        found.append(time.perf_counter() - began)
    return statistics.median(found)
