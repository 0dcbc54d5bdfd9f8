"""Execution of a job inside this process: on the clock of the machine, or on the virtual clock of a platform."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import fields, replace
from typing import Final

from network.faults.plan import FaultPlan
from nn.dataset.interface import Arrays
from nn.model import Model
from nn.model.batches import as_type
from nn.progress import Bar
from rpc.support.logs import is_quiet

from ..codec import Codec
from ..codec.choice import choose_codecs, choose_server_codecs
from ..engine.accounts import Figures
from ..engine.batches import BlockFeeder
from ..engine.plan import WorkerPlan
from ..nodes import InProcessNodes
from ..options.job_options import JobOptions
from ..record.simulated import Failure, Simulated
from .codec_time import CodecTime, codec_time_of, measured_codec_time
from .compute import Schedule
from .failures import Disturbed
from .immediate import Immediate
from .kernel import Build, Kernel, Results, run_kernel
from .network import LinkNetwork, network_of
from .nodes import SimulatedNodes
from .order import Arrivals, Recorder, Replayer
from .shared import SharedContainer, SharedPlan, can_share
from .timeline import SkippingClock, Timeline

#: Milliseconds of a limit that is none: a node that is slow on the virtual clock is not lost.
_NO_LIMIT: Final = 1e15
#: Share of a block step that is forward alone, as evaluation is: forward, and twice as much for the two gradients of backward.
_FORWARD: Final = 1 / 3
_STEPS: Final = 5
#: Workers up to which each has a model of its own.
MANY: Final = 16


class Execution:
    """Execution of a job in this process, on the clock of the machine.

    Args:
        shared: whether the workers share a state: one model, and one update for all.
        distinct: most different blocks of a batch, None for all.
        learns: whether the job learns, or only takes its time.

    Attributes:
        monotonic: returns the seconds of the clock.
        simulated: the times, once the job has run on simulated nodes; else None.
    """

    def __init__(self, shared: bool = False, distinct: int | None = None, learns: bool = True) -> None:
        self._distinct, self._learns = distinct, learns
        self._clock = SkippingClock()
        self.monotonic: Callable[[], float] = self._clock.monotonic
        self.simulated: Simulated | None = None
        self.shared = shared
        self._evaluated: tuple[int, Figures] = (-1, {})  # no version of a state is -1
        self._feeder: BlockFeeder | None = None

    def plan(self, plan: WorkerPlan) -> WorkerPlan:
        """Return the plan that the nodes follow here; each has a state of its own, where they share one.

        They take turns, so each waits while all others compute: the limit of waiting is that for all of them.
        """
        self._evaluated, self._feeder = (-1, {}), None
        usual = JobOptions.__dataclass_fields__["ssgd_timeout_limit"].default
        if plan.options.ssgd_timeout_limit == usual:
            limit = self._limit(usual, plan.assignment.node_count)
            plan = replace(plan, options=replace(plan.options, ssgd_timeout_limit=limit))
        if not self.shared:
            return plan
        content = {field.name: getattr(plan, field.name) for field in fields(WorkerPlan)}  # `asdict` would copy the arrays
        return SharedPlan(**content, distinct=self._distinct, learns=self._learns)

    def _limit(self, usual: float, nodes: int) -> float:
        """Return the limit of waiting of some nodes, of which `usual` is that of a node with a machine of its own."""
        return usual * nodes

    def evaluation(self, node: int, plan: WorkerPlan) -> Callable[[Callable[[], Figures]], Figures] | None:
        """Return a function that is called with the evaluation of a node, in its place, or None."""
        container = plan.optimizer
        if not isinstance(container, SharedContainer) or container.state is None:
            return None
        state = container.state

        def once(measure: Callable[[], Figures]) -> Figures:
            if self._evaluated[0] != state.version:  # their models are equal in each version: one evaluation serves all workers
                self._evaluated = (state.version, measure())
            return dict(self._evaluated[1])

        return once

    def feeder(self, make: Callable[[], BlockFeeder]) -> BlockFeeder:
        """Return the source of the samples of a worker: one for all that share a state, which are in the same epoch."""
        if not self.shared:
            return make()
        if self._feeder is None:
            self._feeder = make()
        return self._feeder

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

    Attributes:
        clock: the virtual clock.
        faults: those that are injected.
        start_seconds: from the order to start again until a process trains.
        failures: those after which the job went on.

    Raises: ValueError naming the field that does not fit.
    """

    def __init__(self, nodes: SimulatedNodes, plan: WorkerPlan, model: Model, samples: Arrays) -> None:
        distinct = nodes.distinct if nodes.learns else 1
        super().__init__(is_shared(nodes, plan, model), distinct, nodes.learns)
        self._said = nodes.simulated
        self.clock = self._timeline = Timeline(wall=time.time())
        self.start_seconds = nodes.start_seconds
        self.faults = FaultPlan.parse(str(plan.options.fault), nodes.seed)
        self._seed = nodes.seed
        self.monotonic = self._timeline.monotonic
        self._platform = nodes.platform
        # the parameter server takes the place behind the workers, so theirs do not depend on it
        self._ids = [*nodes.worker_ids, *[node for node, _ in nodes.items() if node < 0]]
        self._speeds = {node: nodes.platform.speed(place) for place, node in enumerate(self._ids)}
        most = nodes.platform.nodes_per_host
        hosts = [self._ids[place : place + most] for place in range(0, len(self._ids), most)]
        # with a core for each node there is nothing to wait for
        self._hosts = [host for host in hosts if len(host) > nodes.platform.cores]
        batches = plan.batches(len(samples[0]))
        self._steps = batches.count * plan.options.epoch * sum(map(len, plan.assignment.node_2_block))
        blocks = {node: sorted(plan.assignment.node_2_block[node]) for node in plan.assignment.nodes}
        schedule = Schedule(batches, blocks, plan.options.epoch)
        self._measured = _compute(nodes, plan, model, samples) if nodes.compute.is_measured else None
        self._compute = nodes.compute.fitted(schedule, self._measured)
        self._arrivals = nodes.arrivals
        self._costs = _codec_time(nodes, plan, model, samples)
        calibration = nodes.platform.calibration
        self._outside = (
            ()
            if calibration is None
            else calibration.outside(
                len(nodes.worker_ids),
                int(model.store.values.size),
                plan.options.block_size,
                {codec.__name__ for codec in _codecs(nodes, plan, model)},
            )
        )
        self._client_steps: Callable[[int, int], Sequence[int]] | None = None
        if plan.options.clients is not None:
            from ..federated.population import steps_of_slots  # noqa: PLC0415 - for a job with clients

            self._client_steps = steps_of_slots(plan.options.clients, plan.options.seed, plan.options.block_size)
        self._networks: list[LinkNetwork] = []
        self._kernel: Kernel | None = None
        self._recorder: Recorder | None = None
        self.failures: list[Failure] = []
        self._evaluation = _FORWARD * len(samples[2]) / plan.options.block_size

    def _limit(self, usual: float, nodes: int) -> float:
        return _NO_LIMIT

    def evaluation(self, node: int, plan: WorkerPlan) -> Callable[[Callable[[], Figures]], Figures] | None:
        """Return a function that evaluates, and lets the time of that pass."""
        seconds = self._compute.median(node) / self._speeds[node] * self._evaluation
        once = super().evaluation(node, plan)

        def timed(measure: Callable[[], Figures]) -> Figures:
            self._timeline.charge(seconds)
            return measure() if once is None else once(measure)

        return timed

    def block(self, node: int) -> Callable[[int, int, int], None] | None:
        """Return a function that lets the time of a block step of a node pass."""
        compute, charge, speed = self._compute.seconds, self._timeline.charge, self._speeds[node]
        progress = self._progress
        calibration = self._platform.calibration
        step = 0.0 if calibration is None else calibration.step / speed
        client_steps = self._client_steps
        begun: tuple[int, int] | None = None
        kernel = self._kernel
        agents = None if kernel is None else kernel.agents

        def passes(epoch: int, batch: int, block: int) -> None:
            nonlocal begun
            if kernel is not None:
                kernel.answers = False
            # a client takes as many steps as its samples fill
            steps = 1 if client_steps is None else client_steps(epoch, batch)[block]
            charge(steps * compute(node, epoch, batch, block) / speed)
            # once in a batch, however many blocks a node has
            if step and begun != (epoch, batch):
                begun = epoch, batch
                charge(step)
            if agents is not None:
                agents.computing(node)
            progress()

        return passes

    def _progress(self) -> None:
        """Show a block step more, with virtual seconds and events a second."""
        bar = self._bar
        if bar.update():
            events = 0 if self._kernel is None else self._kernel.events
            rate = events / max(bar.format_dict["elapsed"], 1e-9)
            bar.set_postfix_str(f"{self._timeline.monotonic():.4g} virtual s, {rate:,.0f} events/s", refresh=False)

    def run(
        self, builds: Mapping[int, Build], classes: Sequence[type], at_end: Callable[[str], AbstractContextManager[None]]
    ) -> Results:
        """Build the nodes and run them to their ends on the virtual clock."""
        with self.watched():
            return run_kernel(self.kernel(classes), builds, at_end)

    @property
    def delay(self) -> float:
        """Seconds of a message from a host to the driver."""
        latencies = [seconds for row in self._platform.latencies for seconds in row]
        # a matrix has no common latency: the driver counts as far away as the farthest hosts
        return self._platform.latency or max(latencies, default=0.0)

    def kernel(self, classes: Sequence[type] = ()) -> Kernel:
        """Return the kernel of an attempt, which goes on with the clock, the count and the digest of the one before.

        Args:
            classes: class table of the values that may travel.
        """
        network = network_of(self._platform, self._ids, self._seed)
        self._networks.append(network)
        kernel = Kernel(
            self._ids, self._timeline, Disturbed(network) if self.faults.faults else network, classes, self._platform.transport
        )
        before, self._kernel = self._kernel, kernel
        if before is not None:
            kernel.events, kernel.digest = before.events, before.digest
        # without any, so that the kernel may hand packets over later (`Kernel.run`)
        kernel.costs = self._costs if self._costs.table() else None
        kernel.answer = 0.0 if self._platform.calibration is None else self._platform.calibration.answer
        recorder = self._recorder = Recorder(self._ids) if self._arrivals is True else None
        kernel.order = Replayer(self._arrivals) if isinstance(self._arrivals, Arrivals) else recorder
        for nodes in self._hosts:
            kernel.share_cores(nodes, self._platform.cores)
        return kernel

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Show the progress of the job while it runs, and keep its times when it has ended."""
        began = time.perf_counter()
        # None: no bar where output is no terminal
        with Bar(total=self._steps, desc="simulated", unit=" block steps", leave=False, disable=is_quiet() or None) as bar:
            self._bar = bar
            yield
        kernel, took = self._kernel, time.perf_counter() - began
        if kernel is None:
            return
        # each attempt has a network of its own
        links: dict[str, tuple[float, float]] = {}
        for network in self._networks:
            for link, size, busy in network.busy():
                before = links.get(link, (0.0, 0.0))
                links[link] = before[0] + size, before[1] + busy
        self.simulated = Simulated(
            self._said,
            kernel.ended,
            kernel.events,
            took,
            self._measured,
            self._costs.table(),
            links,
            kernel.digest.hexdigest(),
            tuple(self.failures),
            None if self._recorder is None else self._recorder.arrivals,
            self._outside,
        )


def execution_of(nodes: InProcessNodes, plan: WorkerPlan, model: Model, samples: Arrays) -> Execution:
    """Return the execution of a job in this process.

    Args:
        nodes: those of the job.
        plan: the plan of the job.
        model: the model of the job.
        samples: those of the job, prepared.

    Raises: ValueError naming the field of simulated nodes that does not fit.
    """
    if isinstance(nodes, SimulatedNodes):
        return SimulatedExecution(nodes, plan, model, samples)
    return Execution(is_shared(nodes, plan, model))


def is_shared(nodes: InProcessNodes, plan: WorkerPlan, model: Model) -> bool:
    """Tell if the workers of a job in this process share a state.

    Args:
        nodes: those of the job.
        plan: the plan of the job.
        model: the model of the job.

    Raises: ValueError where `nodes.shared` asks for it and the job cannot.
    """
    wanted = nodes.shared
    if plan.options.clients is not None:
        return False  # a worker's model is that of the client that it trains
    if isinstance(nodes, SimulatedNodes) and (nodes.distinct is not None or not nodes.learns):
        name, wanted = "distinct" if nodes.learns else "learn", True
        if not can_share(plan, model) or any(len(blocks) > 1 for blocks in plan.assignment.node_2_block):
            raise ValueError(
                f"{name!r} must be {None if nodes.learns else True} for this job: its workers are not in equal states in every "
                f"batch, have callbacks or buffers of their own, or several blocks"
            )
    if wanted and not can_share(plan, model):
        raise ValueError(
            "'shared' must be None or False for this job: its workers are not in equal states in every batch, or have "
            "callbacks or buffers of their own"
        )
    many = len(nodes.worker_ids) > MANY
    return bool(wanted) or (wanted is None and many and can_share(plan, model))


def _codecs(nodes: SimulatedNodes, plan: WorkerPlan, model: Model) -> list[type[Codec]]:
    """Return the classes of the codecs of a job; none where shards have one of their own."""
    if plan.options.op_type.by_shard:
        return []
    variables = len(model.store.variables)
    codecs = list(choose_codecs(plan.codec, plan.default_codec, variables))
    if nodes.has_parameter_server:
        codecs += choose_server_codecs(plan.server_codec, plan.codec, plan.default_codec, variables)
    return codecs


def _codec_time(nodes: SimulatedNodes, plan: WorkerPlan, model: Model, samples: Arrays) -> CodecTime:
    """Return the times of the codecs of a job: given, calibrated, or measured here."""
    codecs = _codecs(nodes, plan, model)
    if nodes.codec_time is None:
        calibration = nodes.platform.calibration
        table = {} if calibration is None else calibration.table()
        # all of them or none: times of two machines cannot be compared
        if codecs and all(codec.__name__ in table for codec in codecs):
            calibrated = codec_time_of({codec.__name__: table[codec.__name__] for codec in codecs})
            if calibrated is not None:
                return calibrated
        return measured_codec_time(plan, model, samples, nodes.has_parameter_server)
    nodes.codec_time.check(codecs)
    return nodes.codec_time


def _compute(nodes: SimulatedNodes, plan: WorkerPlan, model: Model, samples: Arrays) -> float:
    """Return the seconds of a block step: calibrated for such a job, or measured here."""
    calibration = nodes.platform.calibration
    if calibration is not None and calibration.computes(int(model.store.values.size), plan.options.block_size):
        return calibration.compute
    return _block_seconds(model, plan, samples)


def _block_seconds(model: Model, plan: WorkerPlan, samples: Arrays) -> float:
    """Time the block step of a copy of the model, and return the median."""
    copy = deepcopy(model)
    batches = plan.batches(len(samples[0]))
    given = copy._take_samples(samples[0])
    feeder = BlockFeeder(batches, given, copy._take_labels(samples[1], given), plan.order, 0)
    feeder.begin(0)
    found = []
    for _ in range(_STEPS):
        x, y, weight = feeder.deal(0, 0)
        began = time.perf_counter()
        copy.runner.step(tuple([as_type(each, copy.dtype) for each in x]), y, lambda _: None, (0, 0, 0, 0), weight)
        found.append(time.perf_counter() - began)
    return statistics.median(found)
