"""Failures of simulated nodes: how they come about by a fault plan, and how agents and driver learn of them in virtual time.

The decisions are those on real nodes: a `StallDetector` for each process, which takes the signals of its training, and the
`ClusterMonitor` of the driver. Heartbeats of nodes that are well are no events: the monitor gets them in bulk where all wait.
An agent knows at once that a process has ended, and the driver hears of it after the latency of the platform.
"""

from __future__ import annotations

import math
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from network.errors import PeerLost
from network.faults.fault import LinkFault, ProcessFault
from network.faults.plan import FaultPlan, perform
from rpc import Tick
from rpc.liveness.cluster_monitor import ClusterMonitor
from rpc.liveness.heartbeat import Heartbeat
from rpc.liveness.limits import (
    HEARTBEAT_SECONDS,
    LEAST_LOOK_SECONDS,
    LEAST_STEP_SECONDS,
    LINKS_SECONDS,
    SILENT_SECONDS,
    STACK_LOOK_SECONDS,
    WARN_AT,
    Limits,
)
from rpc.liveness.recorder import Kind, Recorder, Signal
from rpc.liveness.stall_detector import Declare, Signs, StallDetector
from rpc.messages import Verdict
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from ..engine.accounts import EVERY
from ..record.simulated import Failure
from .kernel import Carrier, Gone, Kernel
from .network import LinkNetwork
from .timeline import Timeline

__all__ = ["Disturbed", "Ended", "Nodes"]

_log = get_logger(SUBMIT_LOGGER)
_KINDS: Final = {int(kind): kind for kind in Kind}
_MOST_TRACE: Final = 16 << 10
_STOPPED: Final = ("stopped", "rpc.errors.JobAborted: Another node has failed.")
#: Heartbeats before the limit from which on the driver gets all of them: it must have looked in time before it concludes.
_BEFORE: Final = 2 * SILENT_SECONDS


class Ended(Exception):
    """Error that ends an attempt: its driver has stopped all nodes."""


class Kept(Protocol):
    """Keeper of the checkpoints of a process."""

    dead: bool


class Signals(Recorder):
    """Signals of a simulated process, which its failure detector takes at once.

    Args:
        detector: that of the process.
        clock: tells the virtual seconds of the running node.
        silent: called with the moment of each signal, before the detector takes it.
    """

    def __init__(self, detector: StallDetector, clock: Timeline, silent: Callable[[float], None]) -> None:
        self._detector, self._now, self._silent = detector, clock.monotonic, silent

    def note(self, kind: int, epoch: int, batch: int) -> None:
        now = self._now()
        self._silent(now)  # silence before a signal counts, although it has ended
        self._detector.handle(Signal(_KINDS[kind], epoch, batch, now), now)

    def works(self) -> None:
        now = self._now()
        self._silent(now)
        self._detector.handle(Signs(now, now), now)

    def begins(self, number: int) -> None:
        """Do nothing: simulated processes have no pieces of work."""


class Disturbed(Carrier):
    """Network in which messages of some pairs arrive twice, or change places with the next one.

    Args:
        network: carries the messages.

    Attributes:
        lost: as `Immediate.lost`.
    """

    def __init__(self, network: LinkNetwork) -> None:
        self.network = network
        self.lost: Counter[tuple[int, int, int]] = Counter()
        self._kinds: dict[tuple[int, int], str] = {}
        self._held: dict[tuple[int, int], tuple[float, object]] = {}

    def disturb(self, fault: LinkFault, begins: bool) -> None:
        """Let a fault begin or end.

        Args:
            fault: of the kind `duplicate` or `reorder`.
            begins: whether it begins; else it ends.
        """
        pair = fault.sender, fault.receiver
        if begins:
            self._kinds[pair] = fault.kind
        else:
            self._kinds.pop(pair, None)

    def send(self, now: float, source: int, target: int, size: float, item: object) -> None:
        """Take a packet.

        Args:
            now: moment in seconds at which it leaves.
            source: node that sends it.
            target: node that gets it.
            size: its bytes.
            item: the packet.
        """
        kind = self._kinds.get((source, target))
        # only one is held: the next message overtakes it, and it follows
        if kind == "reorder" and (source, target) not in self._held:
            self._held[source, target] = size, item
            return
        self.network.send(now, source, target, size, item)
        if kind == "duplicate":
            self.lost[source, target, item.key[-1]] -= 1  # type: ignore[attr-defined]
            self.network.send(now, source, target, size, item)
        held = self._held.pop((source, target), None)
        if held is not None:
            self.network.send(now, source, target, *held)

    def release(self, now: float) -> None:
        """Send the messages that no other one has followed: without one to change places with they go as they are.

        Args:
            now: the moment in seconds.
        """
        held, self._held = self._held, {}
        for (source, target), message in held.items():
            self.network.send(now, source, target, *message)

    def next_moment(self) -> float | None:
        return self.network.next_moment()

    def advance(self, now: float) -> list[tuple[float, int, int, object]]:
        return self.network.advance(now)


class Nodes:
    """Agents of the nodes of an attempt, and the knowledge of their driver.

    Args:
        kernel: runs the nodes.
        clock: its clock.
        job: id of the job.
        attempt: number of the attempt, from 0.
        names: of the hosts, by node.
        plan: faults that are injected.
        delay: seconds of a message from an agent to the driver.
        stall: as `parallel(stall_timeout=)`; 0 for the default.
        together: tells, by the nodes that are lost, whether all others are stopped.

    Attributes: `failures`, as the coordinator of an attempt has them; `first`, the failure that came first; `monitor`;
    `keepers`, those of the checkpoints by node; `stops`, when all nodes are stopped, as soon as that is certain.
    """

    def __init__(
        self,
        kernel: Kernel,
        clock: Timeline,
        job: str,
        attempt: int,
        names: Mapping[int, str],
        *,
        plan: FaultPlan,
        delay: float,
        stall: float,
        together: Callable[[set[int]], bool],
    ) -> None:
        self._kernel, self._clock, self._job, self._attempt, self._names = kernel, clock, job, attempt, names
        self._plan, self._delay, self._together = plan, delay, together
        self._limits = Limits(stall=stall)
        # shorter silence has no consequence: most turns need not ask a detector
        self._brief = WARN_AT * (stall or LEAST_STEP_SECONDS)
        self._stopped: set[int] = set()
        self._fell: dict[int, float] = {}
        # NaN: no moment is before it, nor after it
        self._beating = math.nan  # until when heartbeats come in bulk
        self.failures: dict[int, tuple[str, str]] = {}
        self.first: Failure | None = None
        self.keepers: dict[int, Kept] = {}
        self.stops = math.inf
        self.monitor = ClusterMonitor(job, attempt, _log, names, causes_first=True)
        now = clock.monotonic()
        self.detectors = {node: StallDetector(self._limits, now) for node in names}
        for detector in self.detectors.values():
            detector.handle(Signal(Kind.STARTED, 0, 0, now), now)
        self.monitor.begin(names, now)

    def signals(self, node: int) -> Signals:
        """Return the recorder of a node, for its `Monitor`."""
        return Signals(self.detectors[node], self._clock, partial(self._silent, node))

    # ---- faults

    def inject(self, node: int) -> Callable[[int, int], bool]:
        """Return the injector of a node (`training.Faults`)."""

        def injected(epoch: int, batch: int) -> bool:
            spoiled: list[bool] = []
            # first: a fault of the process may end the turn
            for link in self._plan.links_at(node, epoch, batch, self._attempt):
                self._disturb(link)
            for fault in self._plan.at(node, epoch, batch, self._attempt):
                if fault.kind == "kill" or (fault.kind in ("stop", "hang") and fault.seconds is None):
                    self._strike(fault)
                elif fault.kind in ("stop", "hang"):
                    self._clock.charge(fault.seconds or 0.0)
                else:
                    perform(fault, poison=lambda: spoiled.append(True))
            return bool(spoiled)

        return injected

    def _strike(self, fault: ProcessFault) -> None:
        """Kill a process, or let it stand still for ever.

        Raises: Gone.
        """
        node, now = fault.node, self._clock.monotonic()
        self._kernel.halt(node)
        if node in self.keepers:
            self.keepers[node].dead = True
        if fault.kind == "kill":
            self._kernel.act(now, partial(self._killed, node))
        else:
            if fault.kind == "stop":
                self._stopped.add(node)
            self._fell[node] = now
            # what its detector will conclude is known now, for nothing comes from it any more
            self._silent(node, math.inf)
        raise Gone(str(fault))

    def _disturb(self, link: LinkFault) -> None:
        now, network = self._clock.monotonic(), self._kernel.network
        if link.kind == "cut":
            # both ends see that a connection was reset
            for node, peer in ((link.sender, link.receiver), (link.receiver, link.sender)):
                self._kernel.act(now, partial(self._cut_off, node, peer))
        elif not isinstance(network, Disturbed):
            raise TypeError(f"Faults of links need a network that can be disturbed, got {type(network).__name__}")
        elif link.kind in ("duplicate", "reorder"):
            self._kernel.act(now, partial(network.disturb, link, True))
            if link.seconds is not None:
                self._kernel.act(now + link.seconds, partial(network.disturb, link, False))
        else:
            self._kernel.act(now, lambda: network.network.inject(now, link))

    def _cut_off(self, node: int, peer: int) -> None:
        if node not in self._fell:
            self.failed(node, PeerLost(peer, self._names[peer], "its connection was reset"))

    def computing(self, node: int) -> None:
        """Spare a node the computing of a block that ends when all have been stopped: it would have no effect.

        Raises: Gone.
        """
        if self._clock.monotonic() > self.stops:
            self._kernel.halt(node)
            raise Gone("It is stopped while it computes.")

    # ---- what the agents see

    def begins(self, node: int, moment: float) -> None:
        """Note that a node begins a turn.

        Args:
            node: the node.
            moment: of the turn, in seconds.
        """
        detector = self.detectors[node]
        if moment - detector.silent_since > self._brief:
            detector.handle(Signs(moment, moment), moment)  # it has shown all the time that it waits

    def computes(self, node: int, until: float) -> None:
        """Note that a node computes.

        Args:
            node: the node.
            until: end of its computing, in seconds.
        """
        self._silent(node, until)

    def _silent(self, node: int, until: float) -> None:
        """Have the detector look at a process that shows nothing until a moment."""
        detector = self.detectors[node]
        if until - detector.silent_since <= self._brief:
            return
        while (deadline := detector.deadline) is not None and deadline + LEAST_LOOK_SECONDS < until:
            now = deadline + LEAST_LOOK_SECONDS
            for action in detector.handle(Tick(), now):
                if isinstance(action, Declare):
                    # an agent looks twice before it is sure of a stack; a stopped process writes none
                    stack = 0.0 if node in self._stopped else 2 * STACK_LOOK_SECONDS
                    self._fell.setdefault(node, detector.silent_since)
                    self._kernel.act(now + stack, partial(self._declared, node, action))

    def _declared(self, node: int, found: Declare) -> None:
        if node in self.failures:
            return
        if node in self.keepers:
            self.keepers[node].dead = True
        detail = f"Silent for longer than its limit of {found.limit:.1f} s."
        self._lost(node, self._verdict(node, "stuck", seconds=found.silent, detail=detail), detail)

    def _killed(self, node: int) -> None:
        verdict = self._verdict(node, "crashed", signal=int(signal.SIGKILL))
        self._lost(node, verdict, "killed by signal 9 (SIGKILL)")

    def failed(self, node: int, error: BaseException) -> None:
        """Take note of an error that has ended a process.

        Args:
            node: id of its node.
            error: the error.
        """
        now = self._clock.monotonic()
        self._fell.setdefault(node, now)
        if isinstance(error, SystemExit):
            code = error.code if isinstance(error.code, int) else 1
            verdict, told = self._verdict(node, "exited", exit_code=code), f"exit code {code}"
        else:
            # the last lines of a trace tell the error
            told = "".join(traceback.format_exception(type(error), error, error.__traceback__))[-_MOST_TRACE:]
            verdict = self._verdict(node, "crashed", detail=str(error)[:1024], trace=told, exit_code=1)
        self._kernel.act(now, partial(self._lost, node, verdict, told))

    def _verdict(self, node: int, kind: str, *, seconds: float = 0.0, detail: str = "", **more: object) -> Verdict:
        seen = self.detectors[node]
        place = (self._names[node], 0, seen.phase.value, seen.epoch, seen.batch)
        return Verdict(self._job, node, self._attempt, kind, *place, seconds, detail, **more)  # type: ignore[arg-type]

    def _lost(self, node: int, verdict: Verdict, told: str) -> None:
        now = self._clock.monotonic()
        self._fell.setdefault(node, now)
        self._kernel.remove(node)
        if self._together({*self.failures, node}):
            # the driver hears of it after a delay, and its order to stop takes another one
            self.stops = min(self.stops, now + 2 * self._delay)
        self._kernel.act(now + self._delay, partial(self._heard, node, verdict, told))

    # ---- what the driver knows

    def _heard(self, node: int, verdict: Verdict, told: str) -> None:
        now = self._clock.monotonic()
        self.monitor.take(node, verdict, now)
        self._note(verdict, now)
        self.failures[node] = "failed", told
        if self._together(set(self.failures)):
            self._kernel.act(now + self._delay, self._stop)
        else:
            self._kernel.do_without(node)

    def _note(self, verdict: Verdict, now: float) -> None:
        if self.first is None:
            self.first = Failure(verdict.node, verdict.kind, self._fell.get(verdict.node, now), now)

    def _stop(self) -> None:
        for node in self.detectors:
            self.failures.setdefault(node, _STOPPED)
        raise Ended

    def idle(self, now: float, until: float) -> None:
        """Let the driver draw its conclusions where all nodes wait in vain.

        Args:
            now: the moment in seconds.
            until: the next moment at which anything happens.
        """
        if isinstance(self._kernel.network, Disturbed):
            self._kernel.network.release(now)
        if self._beating >= now or (waiting := self._kernel.waiting()) is None or not waiting:
            return
        if self._kernel.network.next_moment() is not None:  # a packet that is on its way will wake a node
            return
        limit = max(self.detectors[node].step_limit for node in waiting)
        if until > now + limit:
            self._beating = until
            self._kernel.act(now + max(0.0, limit - _BEFORE), partial(self._beat, now))

    def _beat(self, since: float) -> None:
        """Give the driver a heartbeat of each node, all of which have waited `since`."""
        now, nodes = self._clock.monotonic(), self._kernel.waiting()
        if self._beating < now or not nodes or self._kernel.network.next_moment() is not None:
            return
        links = self._links() if now - since > LINKS_SECONDS else {}
        for node in nodes:
            seen = self.detectors[node]
            place = (self._names[node], 0, seen.phase.value, seen.epoch, seen.batch)
            beat = Heartbeat(
                self._job, node, self._attempt, *place, now - since, now - since, seen.step_limit, links.get(node, [])
            )
            self.monitor.take(node, beat, now)
        found = self.monitor.look(now)
        for verdict in found:
            self._fell.setdefault(verdict.node, since)
            self._note(verdict, now)
            self.failures.setdefault(verdict.node, ("lost", verdict.headline))
        if found:
            self._kernel.act(now + self._delay, self._stop)
        else:
            self._kernel.act(now + HEARTBEAT_SECONDS, partial(self._beat, since))

    def _links(self) -> dict[int, list[list[int]]]:
        """Return, by node, for each peer the packets that were sent to it and that have come from it."""
        found: dict[int, list[list[int]]] = {}
        for node, participant in self._kernel.participants().items():
            counts: dict[int, list[int]] = {}
            entries = participant.exchange.bank.accounts.entries()
            for entry in (entry for entry in entries if entry.peer != EVERY):  # rows of all links together name no peer
                counts.setdefault(entry.peer, [entry.peer, 0, 0])[1 if entry.direction == "sent" else 2] += entry.packets
            found[node] = list(counts.values())
        return found
