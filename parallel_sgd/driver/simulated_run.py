"""Attempts at a job on simulated nodes: the loop of a driver on agents, with waiting left to the kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, cast

from network.request import Request
from nn.dataset.interface import Arrays
from rpc import Coordinator
from rpc.messages import Verdict
from rpc.submit import AGAIN, Recovery

from ..checkpoint.choose import choose
from ..checkpoint.locate import HeldCheckpoints
from ..checkpoint.state import Resumption
from ..checkpoint.store import Store
from ..engine.socket_channel import can_do_without
from ..options.spec import JobSpec
from ..record.simulated import Failure
from ..record.spared import spared
from ..simulation.execution import SimulatedExecution
from ..simulation.failures import Disturbed, Ended, Nodes
from ..simulation.kernel import Build, Kernel, Results, frozen_garbage, run_kernel
from .make_manifest import make_manifest
from .membership import SameNodes
from .restart_loop import Begin, RestartLoop, RunningAttempt

#: Messages one after the other, each of which takes the latency, from the order to start to the first batch: question, answer,
#: order, readiness, start, and the meeting of the nodes.
_MESSAGES: Final = 6

BuildsOf = Callable[[int, Nodes], Mapping[int, Build]]


class SimulatedAttempt:
    """Attempt at a job on simulated nodes; to a `RestartLoop` it is the coordinator and its connections.

    Args:
        job: id of the job.
        number: of the attempt, from 0.
        kernel: runs the nodes.
        agents: those of the nodes.
        builds: as for `run_kernel`.
        execution: that of the job.

    Attributes: as those of `Coordinator`; `results`, those of the nodes that ended well.
    """

    # what a coordinator of real nodes may say, and this one never does
    halted = ended_for = ""
    pressed = False
    connected: Sequence[int] = ()

    def __init__(
        self,
        job: str,
        number: int,
        kernel: Kernel,
        agents: Nodes,
        builds: Mapping[int, Build],
        execution: SimulatedExecution,
    ) -> None:
        self.job, self.attempt = job, number
        self._kernel, self._agents, self._builds, self._execution = kernel, agents, builds, execution
        self.files: dict[int, list[Path]] = {}
        self.results: Results = {}

    @property
    def failures(self) -> dict[int, tuple[str, str]]:
        """State and detail of the nodes that did not end well."""
        return self._agents.failures

    @property
    def verdicts(self) -> list[Verdict]:
        """Verdicts on nodes, causes first."""
        return self._agents.monitor.causes

    @property
    def done(self) -> set[int]:
        """Nodes that have ended well."""
        return set(self.results)

    @property
    def first(self) -> Failure | None:
        """The failure that came first."""
        return self._agents.first

    def join(self, **_: object) -> tuple[Results, bool]:
        """Let the nodes run; return the result of each that ended well, and whether one did not."""
        network = self._kernel.network
        lost = network.lost if isinstance(network, Disturbed) else None
        try:
            self.results = run_kernel(self._kernel, self._builds, spared, *([] if lost is None else [lost]))
        except Ended:
            # virtual time: the driver hears of it a latency later
            self._execution.clock.sleep(self._execution.delay)
        return self.results, bool(self.failures)

    def retrieve(self) -> None:
        """Do nothing: the files are here."""

    def conclude(self, *_: object) -> None:
        """Do nothing: no agent goes on by itself."""

    def close(self) -> None:
        """Do nothing: there are no connections."""


class SimulatedLoop(RestartLoop):
    """Loop of the driver of a job on simulated nodes.

    Args:
        spec: the job.
        samples: loads its data set.
        job: its id.
        execution: runs the attempts.
        builds_of: returns the builds of an attempt, by its number and the agents.

    Attributes:
        lost: state and detail of the nodes that were lost and could be done without.
    """

    def __init__(self, spec: JobSpec, samples: Arrays, job: str, execution: SimulatedExecution, builds_of: BuildsOf) -> None:
        manifest = make_manifest(spec, sum(array.nbytes for array in samples), job)
        membership = SameNodes(spec.options.nodes)
        recovery = Recovery(spec.policy, spec.options.max_restarts)
        # no connections, no folder, and the kernels of this process
        super().__init__(manifest, membership, recovery, Request(), lambda: samples, None, begin=Begin(kernels=""))
        self.clock = execution.clock
        self.lost: dict[int, tuple[str, str]] = {}
        self._spec, self._job, self._execution, self._builds_of = spec, job, execution, builds_of

    def run(self) -> Results:
        """Drive the job to its end, and return the results.

        Raises: JobFailed when nothing more is tried.
        """
        with frozen_garbage(len(self._spec.options.nodes)):  # for all attempts: it takes as long as one of them
            coordinator, results = self.drive()
        self.lost = dict(coordinator.failures)
        return results

    def _start(self) -> RunningAttempt:
        execution, number, nodes = self._execution, self._attempt, self._membership.nodes
        before, self._attempt = self._running, number + 1
        if before is not None:
            # before the kernel of the attempt begins, whose nodes start at this moment
            self.clock.sleep(execution.start_seconds + _MESSAGES * execution.delay)
            first = cast("SimulatedAttempt", before.coordinator).first
            if first is not None:
                # the same failure with the moment at which training goes on, for the table of recoveries
                execution.failures.append(first._replace(resumed=self.clock.monotonic()))
        kernel = execution.kernel()
        agents = kernel.agents = Nodes(
            kernel,
            execution.clock,
            self._job,
            number,
            {node: str(address) for node, address in nodes.items()},
            plan=execution.faults,
            delay=execution.delay,
            stall=self._spec.options.stall_timeout or 0.0,
            together=self._ends_all,
        )
        attempt = SimulatedAttempt(self._job, number, kernel, agents, self._builds_of(number, agents), execution)
        # of a coordinator and its connections the loop needs no more
        coordinator: Any = attempt
        self._running = RunningAttempt(coordinator, cast("Coordinator", coordinator), nodes)
        return self._running

    def _ends_all(self, lost: set[int]) -> bool:
        # whether others can go on decides if all nodes of the attempt end
        return self.recovery.policy in AGAIN or not can_do_without(self._manifest.holders, lost)


def resumptions_of(
    stores: Mapping[int, Store], nodes: Sequence[int], server: int | None, folders: Mapping[int, Path]
) -> dict[int, Resumption]:
    """Choose the newest state that all nodes can go on from, as they do on agents, and return that of each.

    Args:
        stores: their checkpoints.
        nodes: ids of the workers.
        server: the parameter server, if it has checkpoints.
        folders: those of the tables of the nodes.
    """
    held = {node: HeldCheckpoints([store]) for node, store in stores.items()}
    choice = choose({node: found.offers for node, found in held.items()}, nodes, server)
    if choice is None:
        return {}
    loaded: dict[tuple[int, int], Any] = {}
    found: dict[int, Resumption] = {}
    for node, source in choice.sources.items():
        key = source.holder, source.owner
        # shared by workers that take the same: a state is in memory once
        if key not in loaded:
            loaded[key] = held[source.holder].load(source.owner, choice.position)
        found[node] = Resumption(loaded[key], choice.whole, folders.get(node))
    for store in stores.values():
        # as agents do (`agree.begin`): later checkpoints belong to a past that is given up
        with contextlib.suppress(OSError):
            store.cut(choice.position)
    return found
