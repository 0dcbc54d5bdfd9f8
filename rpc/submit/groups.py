"""Groups of a job in the three phases, at the submitter: machines decide, this module acts. A job runs on all nodes or none."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from network.clock import Clock
from network.controller import Controller
from network.dial import Target, dial_all
from network.nodes import Address

from ..agent.checks import too_few_slots
from ..code_closure import OWN_PACKAGES
from ..errors import Deposed, NodeBusy, SubmissionError
from ..executable import AbsExecutable, Resources, content_of
from ..liveness.cluster_monitor import ClusterMonitor
from ..liveness.limits import EXTRA_SECONDS, START_SECONDS, TAKE_BACK_SECONDS
from ..machine import Tick
from ..messages import (
    MAX_MODULES,
    Abort,
    Accepted,
    Answers,
    Asks,
    DoCommit,
    Heartbeat,
    Loaded,
    Operation,
    Prepared,
    Refused,
)
from ..shipping import Bundle, pack
from ..support.logs import clean
from . import submission as sub
from .connections import Connections, Gone, JobMessages, Opened, Unreached

_SMALL_SECONDS = 1.0  # for small packets to be answered, where large ones were not


class GroupSubmission:
    """Submission of the groups of one job, on their way to the start.

    `machines` know how far each group is.

    Args:
        com: sessions with the agents.
        connections: those of the job.
        messages: makes the messages of the job.
        start_limit: seconds for doCommit.
        logger: of the job.
        clock: of all time-outs.
        step: `step(limit)` waits for the next event and brings it here.
        monitor: told which nodes are expected.
    """

    def __init__(
        self,
        com: Controller,
        connections: Connections,
        messages: JobMessages,
        start_limit: float,
        logger: logging.Logger,
        clock: Clock,
        step: Callable[[float | None], None],
        monitor: ClusterMonitor,
    ) -> None:
        self.machines: list[sub.Submission] = []
        self._bundles: dict[int, Bundle] = {}
        self._limits: list[float] = []  # seconds of preCommit, for each machine
        self._com, self._names, self._connections, self._messages = com, monitor.names, connections, messages
        self._start_limit, self._logger, self._clock, self._step = start_limit, logger, clock, step
        self._monitor = monitor
        self._resources: Resources | None = None
        self._ways: dict[sub.Submission, str] = {}  # to the nodes for which they failed
        self._busy = False
        self._driver = ""  # the driver that drives instead of us

    def submit(
        self,
        executable: Callable[..., AbsExecutable] | Bundle,
        nodes: Sequence[int],
        limit: float,
        objects: Mapping[str, Any] | None,
    ) -> None:
        """Submit one group (canCommit).

        Args:
            executable: the class of the executor, or a bundle that was packed before.
            nodes: ids of the group.
            limit: seconds of its preCommit.
            objects: travel with the class.

        Raises: SubmissionError, Deposed, TypeError for code that cannot travel, ValueError for nodes that cannot form a group.
        """
        if not nodes or not self._com.sessions.keys() >= set(nodes):
            raise ValueError(
                f"A working group must be nodes of this connection ({list(self._com.sessions)}), got {list(nodes)}."
            )
        taken = sorted(self._bundles.keys() & set(nodes))
        if taken:
            raise ValueError(f"Nodes {taken} already belong to a group of this job.")
        # before anything is asked: this names the fault, where an agent would only say that it is busy
        self._check_slots()
        with self._all_or_nothing():
            # before the nodes are asked: code that cannot travel must not hold them
            bundle = executable if isinstance(executable, Bundle) else pack_executable(executable, objects)
            hosts = Counter(address.host for address in self._com.addresses.values())
            machine = sub.Submission(nodes, self._names, self._start_limit, max(hosts.values(), default=1))
            self.machines.append(machine)
            self._limits.append(limit)
            self._bundles.update(dict.fromkeys(nodes, bundle))
            # before the question goes out: an agent that never answers is found silent
            self._monitor.expect(nodes, self._clock.monotonic())
            self.feed(machine, sub.Started())
            while machine.phase is sub.Phase.CAN_COMMIT:
                self._raise_failure()
                self._step(None)
            self._raise_failure()

    def _check_slots(self) -> None:
        """Check the slots of agents: two nodes with one address may be meant, or one line of a node file too many."""
        given: dict[Address, list[int]] = {}
        for node, address in self._com.addresses.items():
            given.setdefault(address, []).append(node)
        for address, nodes in given.items():
            slots = self._com.sessions[nodes[0]].caps.get("slots") if nodes[0] in self._com.sessions else None
            if isinstance(slots, int) and len(nodes) > slots:
                raise SubmissionError(
                    f"The job was not started: the worker at {address} cannot take it: {too_few_slots(slots, nodes)}."
                )

    def adopt(self, nodes: Sequence[int]) -> None:
        self.machines.append(sub.Submission.of_running(nodes, self._names))
        self._limits.append(0.0)

    @property
    def awaits_dispatch(self) -> bool:
        return any(machine.phase is sub.Phase.LOADED for machine in self.machines)

    def dispatch(self, resources: Resources) -> None:
        """Start all groups (preCommit and doCommit).

        Raises: SubmissionError, and the errors of `resources.reply`.
        """
        self._resources = resources
        with self._all_or_nothing():
            for machine, limit in zip(self.machines, self._limits, strict=True):
                # all groups first: the nodes of one may wait for answers while another is already served
                self.feed(machine, sub.Dispatched(limit))
            while not all(m.phase in (sub.Phase.RUNNING, sub.Phase.ENDED) for m in self.machines):
                self._raise_failure()
                self._step(None)
        # the job runs: from here on only the agents speak for it
        self._connections.close_processes()

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Take the job back on all nodes after a failed group, an error or Ctrl-C within the block."""
        try:
            yield
        except BaseException as error:
            # looked at before the job is taken back, which makes all of them fail
            has_failed = any(machine.phase is sub.Phase.FAILED for machine in self.machines)
            self._take_back("the submission was interrupted" if isinstance(error, KeyboardInterrupt) else str(error))
            if has_failed and isinstance(error, SubmissionError):
                self._raise_failure()  # the first cause may be known by now
            raise

    def _raise_failure(self) -> None:
        machine = sub.failed_first(self.machines)
        if machine is not None:
            if self._driver:
                # another driver is more than a busy node: this one has to end
                raise Deposed(f"The job is not driven from here any more: {clean(self._driver)}.")
            kind = NodeBusy if self._busy else SubmissionError
            # once: it calls the nodes, which takes a second
            if machine not in self._ways:
                self._ways[machine] = self._way_to(machine.late)
            raise kind(f"The job was not started: {machine.reason.rstrip('.')}{self._ways[machine]}.") from None

    def _way_to(self, late: Sequence[int]) -> str:
        """Describe the way to nodes that were late, where it passes small packets and drops large ones; else ""."""
        # bytes that were sent again and again are the mark of a way that drops large packets
        sizes = {node: size for node in late if (size := self._connections.unacknowledged(node))}
        if not sizes or self._com.key is None:
            return ""
        key = self._com.key
        targets = {node: Target(self._com.addresses[node], key, "submitter", "agent", node_id=node) for node in sizes}
        answered, _ = dial_all(targets, _SMALL_SECONDS)
        for session in answered.values():
            session.close()
        told = [
            f"{self._names[node]} answers small packets, but {sizes[node] / 1e3:.3g} kB have not arrived" for node in answered
        ]
        return f": {', '.join(told)}. The way drops large packets (MTU); 'psgd doctor' tells more" if told else ""

    def _take_back(self, reason: str) -> None:
        """Free all nodes that may have taken the job, and wait for that."""
        for machine in self.machines:
            self.feed(machine, sub.Cancelled(reason))
        deadline = self._clock.monotonic() + TAKE_BACK_SECONDS
        # bounded: a host that is gone frees nothing
        while not all(m.all_free for m in self.machines) and (left := deadline - self._clock.monotonic()) > 0:
            self._step(left)
        for machine in self.machines:
            # only now can the silent ones be named as the cause
            self.feed(machine, sub.Settled())
        self._connections.close_processes()

    # ---- events

    def machine_of(self, node: int) -> sub.Submission | None:
        return next((machine for machine in self.machines if node in machine.nodes), None)

    def classes_of(self, node: int) -> Sequence[type]:
        return self._bundles[node].classes if node in self._bundles else ()

    def bundle_of(self, node: int) -> Bundle:
        return self._bundles[node]

    @property
    def deadlines(self) -> list[float | None]:
        return [machine.deadline for machine in self.machines]

    def excuse(self, since: float) -> None:
        """Tell the machines that the driver has not looked since then."""
        for machine in self.machines:
            self.feed(machine, sub.Unseen(since))

    def tick(self) -> None:
        now = self._clock.monotonic()
        for machine in self.machines:
            for node in machine.nodes if machine.deadline is not None and now >= machine.deadline else ():
                if self._monitor.starves(node, now):
                    self.feed(machine, sub.HasWorked(node))
            self.feed(machine, Tick())

    def note_work(self, node: int, operation: Operation) -> None:
        """Note that the agent of `node` says something: perhaps that the process of a node that is late works."""
        machine = self.machine_of(node)
        # only while a limit is running
        if machine is not None and machine.deadline is not None and isinstance(operation, Heartbeat) and operation.worked > 0:
            self.feed(machine, sub.HasWorked(node))

    def lose(self, machine: sub.Submission, gone: Gone) -> None:
        self.feed(machine, sub.IsLost(gone.node, gone.reason))

    def take_call(self, call: Opened | Unreached) -> None:
        """Take the result of a call: a job process has answered, or cannot be reached: then its agent must still free the
        node.
        """
        machine = self.machine_of(call.node)
        if isinstance(call, Opened):
            # the code, as soon as its process has proven its key
            self._connections.tell_process(call.node, self._messages.load(self._bundles[call.node]))
        elif machine is not None:
            self.feed(machine, sub.IsLost(call.node, call.reason))

    def take(self, machine: sub.Submission, node: int, operation: Operation) -> None:
        if isinstance(operation, Accepted):
            self._messages.note(node, operation)
            self.feed(machine, sub.HasAccepted(node))
        elif isinstance(operation, Refused):
            self._busy = self._busy or operation.busy_since > 0
            self._driver = self._driver or operation.driver
            self.feed(machine, sub.HasRefused(node, clean(operation.reason)))
        elif isinstance(operation, Loaded):
            self.feed(machine, sub.HasLoaded(node))
        elif isinstance(operation, Asks):
            self.feed(machine, sub.HasAsked(node, tuple(operation.requests)))
        elif isinstance(operation, Prepared):
            self.feed(machine, sub.HasPrepared(node))
            self._logger.info("Node(%s) is ready, {%s} is ready.", node, ", ".join(map(str, sorted(machine.prepared))))

    def feed(self, machine: sub.Submission, event: object) -> None:
        # gathered: all processes of a group are called at the same time
        to_call: list[int] = []
        for action in machine.handle(event, self._clock.monotonic()):
            if isinstance(action, sub.AskCanCommit):
                limit, modules = self._prepare_limit(machine), self._bundles[action.node].modules
                self._connections.tell_agent(action.node, self._messages.can_commit(action.node, machine.nodes, limit, modules))
            elif isinstance(action, sub.OpenCodeSession):
                to_call.append(action.node)
            elif isinstance(action, sub.Answer):
                self._answer(action.node, action.requests)
            elif isinstance(action, sub.SendDoCommit):
                self._connections.tell_process(action.node, DoCommit())
            elif isinstance(action, sub.SendAbort):
                self._connections.tell_agent(action.node, Abort(self._messages.job, action.reason))
        if to_call:
            self._call_processes(machine, to_call)

    def _prepare_limit(self, machine: sub.Submission) -> float:
        """Return the seconds from the acceptance until an executor has all it needs; other groups may be submitted in
        between.
        """
        return machine.first_limit + self._limits[self.machines.index(machine)] + EXTRA_SECONDS + START_SECONDS

    def _call_processes(self, machine: sub.Submission, nodes: Sequence[int]) -> None:
        targets = {node: self._messages.target(node) for node in nodes}
        # the machine says when it has taken too long
        self._connections.call_processes(targets, self._bundles[nodes[0]].classes, self._prepare_limit(machine))

    def _answer(self, node: int, requests: Sequence[str]) -> None:
        if self._resources is None:
            raise RuntimeError("Requests are answered once there is something to answer them.")
        contents = []
        for request in requests:
            # the user's function; what it raises ends the submission, see `dispatch`
            reply = self._resources.reply(node, request)
            if reply is not None:  # a request that only tells is answered by nothing
                self._logger.info("Reply requirements to node(%s), type(%s).", node, clean(request))
            contents.append(content_of(reply))
        self._connections.tell_process(node, Answers(contents, self._resources.packages))


def pack_executable(
    executable: Callable[..., AbsExecutable], objects: Mapping[str, Any] | None, modules: Iterable[str] = ()
) -> Bundle:
    """Pack the executor of a group, ready to travel.

    Args:
        executable: the executor.
        objects: travel with it.
        modules: names of modules of ours that its process will import, most needed first.

    Raises: as `shipping.pack`.
    """
    bundle = pack({"executable": executable, "objects": dict(objects or {})})
    # their names let the agent's fork server import them once for all jobs
    named = dict.fromkeys([str(getattr(executable, "__module__", "")), *modules])
    ours = [name for name in named if name.partition(".")[0] in OWN_PACKAGES]
    return replace(bundle, modules=tuple(ours[:MAX_MODULES]))
