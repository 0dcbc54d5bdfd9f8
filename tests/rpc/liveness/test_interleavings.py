"""Interleavings of heartbeats, ends, pauses and losses on a virtual clock, through real recorders, detectors and monitors.

A cluster trains in steps: each node works, sends a message to each other node, and waits for one from each. Hypothesis draws
how long each node works, how long each message and each heartbeat is on its way, when an agent, the driver or the whole machine
is suspended, and one fault or none. Without a fault no node is accused; with one the first verdict is of its kind, names its
node, and comes within its limit.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from network.controller import WAIT_SECONDS
from network.testing import VirtualClock
from rpc import ClusterMonitor
from rpc.liveness.limits import HEARTBEAT_SECONDS, LATE_SECONDS, LOOK_SECONDS, SILENT_SECONDS, STACK_SECONDS
from rpc.liveness.process_monitor import ProcessMonitor
from rpc.liveness.recorder import Kind, Reader, Recorder, make_memory
from rpc.messages import CanCommit, Operation, State
from rpc.verdict import Verdict

from ...statements import covers

LOG = logging.getLogger(__name__)
LOG.setLevel(logging.CRITICAL)  # of what is told of thousands of clusters nobody reads anything
EXAMPLES = int(os.environ.get("FAULT_EXAMPLES", "40"))  # `make faults` tries many more
NO_LOG = Path("/nowhere/Fit.log")
NO_PROCESS = (1 << 22) + 1  # no system gives a process this number
MOST_DELAY, MOST_LATENCY, MOST_PAUSE = 0.6, 0.4, 0.6
"""Seconds of a heartbeat on its way, of a message, and of an agent that is suspended: together less than `SILENT_SECONDS`."""
LEAST_SLEEP = HEARTBEAT_SECONDS + LATE_SECONDS + LOOK_SECONDS  # of the machine: one that is shorter is not seen as such
REACTION = 0.5  # of an agent to a stuck process (FD-2), besides the stack that it takes
EVERYBODY, DRIVER = -1, -2


@dataclass(frozen=True)
class Fault:
    """What happens to `node` in `step`: "stall", "host", or of its message to `peer`: "lost", "never sent"."""

    kind: str
    node: int
    step: int
    peer: int


@dataclass(frozen=True)
class Pause:
    """From `begin` (seconds after the start) an agent, by its node, the driver or everybody is suspended for some `seconds`."""

    actor: int
    begin: float
    seconds: float


@dataclass(frozen=True)
class Plan:
    """What is drawn. Work is told by node and step, in parts of N: `between` steps, in each `step`, and at the `last`."""

    limit: float
    between: list[list[float]]
    step: list[list[float]]
    last: list[float]
    silent: bool  # the last node gives no signals
    farewell: bool  # after its training node 0 sends one more message, for which the others wait
    delays: list[float]  # of each heartbeat in turn, in parts of the most
    latencies: list[float]
    phases: list[float]
    pauses: list[Pause]
    fault: Fault | None

    @property
    def nodes(self) -> range:
        return range(len(self.last))


@st.composite
def plans(draw: st.DrawFn, faulty: bool) -> Plan:
    nodes, steps = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    part = st.floats(0.0, 1.0)

    def rows(most: float) -> list[list[float]]:
        works = st.one_of(st.just(0.0), st.floats(0.0, most))
        return [draw(st.lists(works, min_size=steps, max_size=steps)) for _ in range(nodes)]

    pauses = [
        Pause(node, draw(st.floats(0.0, 40.0)), MOST_PAUSE * draw(part)) for node in range(nodes) if not draw(st.integers(0, 3))
    ]
    if draw(st.booleans()):
        pauses.append(Pause(DRIVER, draw(st.floats(0.0, 40.0)), draw(st.floats(0.0, 8.0))))
    if draw(st.booleans()):
        pauses.append(Pause(EVERYBODY, draw(st.floats(0.0, 40.0)), draw(st.floats(LEAST_SLEEP, 60.0))))
    silent, fault = draw(st.booleans()) and nodes > 2, None
    if faulty:
        kind = draw(st.sampled_from(["stall", "host", "lost", "never sent"]))
        watched = nodes - silent  # a program that never signals is never called stuck
        node = draw(st.integers(0, watched - 1))
        peer = (node + draw(st.integers(1, watched - 1))) % watched
        fault = Fault(kind, node, draw(st.integers(0, steps - 1)), peer)
    return Plan(
        draw(st.sampled_from([0.5, 2.0, 3.0, 10.0])),
        rows(3.0),
        rows(0.9),
        [draw(st.floats(0.0, 3.0)) for _ in range(nodes)],
        silent,
        draw(st.booleans()),
        draw(st.lists(part, min_size=1, max_size=7)),
        draw(st.lists(part, min_size=1, max_size=7)),
        [draw(st.floats(0.0, HEARTBEAT_SECONDS)) for _ in range(nodes)],
        pauses,
        fault,
    )


Await = Callable[[], bool]
Program = Iterator[float | Await]


class Node:
    """A process with its recorder, and the agent that watches it."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster, self.number = cluster, number
        memory = make_memory()
        self.recorder = Recorder(memory, cluster.clock.monotonic)
        self.recorder.links = lambda: [(peer, self.sent[peer], self.got[peer]) for peer in self.peers]
        order = CanCommit(
            "job", "title", number, list(cluster.plan.nodes), 0, "3", "1", 1, 1, 9.0, 9.0, stall=cluster.plan.limit
        )
        order = CanCommit(**{**vars_of(order), "between": 4 * cluster.plan.limit})
        self.guard = ProcessMonitor(order, Reader(memory), NO_LOG, cluster.now)
        self.guard.begin(NO_PROCESS)
        self.peers = [peer for peer in cluster.plan.nodes if peer != number]
        self.sent: Counter[int] = Counter()
        self.got: Counter[int] = Counter()
        self.gone = self.host_gone = False
        self.awaited: Await | None = None
        self.slice = 0  # its number: a timer of an earlier one means nothing
        self.since = cluster.now  # the last signal or sign of life, as the process knows it
        self.program = self.train()

    # ---- the process

    def note(self, kind: Kind, step: int = 0) -> None:
        if not (self.cluster.plan.silent and self.number == self.cluster.plan.nodes[-1]):
            self.recorder.note(kind, 0, step)
        self.since = self.cluster.now

    def train(self) -> Program:
        plan, cluster = self.cluster.plan, self.cluster
        self.note(Kind.STARTED)
        for step in range(len(plan.step[self.number])):
            yield plan.limit * plan.between[self.number][step]
            self.note(Kind.BEGIN, step)
            fault = plan.fault if plan.fault is not None and (plan.fault.node, plan.fault.step) == (self.number, step) else None
            if fault is not None and fault.kind == "stall":
                yield lambda: False  # and `wait` shows nothing
            if fault is not None and fault.kind == "host":
                self.host_gone = True
                yield lambda: False
            yield plan.limit * plan.step[self.number][step]
            for peer in self.peers:
                unlucky = fault is not None and fault.peer == peer
                if not (unlucky and fault is not None and fault.kind == "never sent"):
                    self.send(peer, lost=unlucky)
            yield lambda step=step: all(self.got[peer] > step for peer in self.peers)
            self.note(Kind.END, step)
        steps = len(plan.step[self.number])
        if plan.farewell and self.number:
            yield lambda: self.got[0] > steps
        self.note(Kind.TRAIN_END)
        yield plan.limit * plan.last[self.number]
        if plan.farewell and not self.number:
            for peer in self.peers:
                self.send(peer)
        self.gone = True
        cluster.at(cluster.now, self.look)

    @property
    def is_dead(self) -> bool:
        fault = self.cluster.plan.fault
        stuck = fault is not None and fault.kind == "stall" and fault.node == self.number and self.awaited is not None
        return self.gone or self.host_gone or (stuck and not self.slice)

    def send(self, peer: int, lost: bool = False) -> None:
        self.sent[peer] += 1
        if not lost:
            self.cluster.carry(lambda: self.cluster.nodes[peer].take(self.number))

    def take(self, sender: int) -> None:
        if self.is_dead:
            return
        self.got[sender] += 1
        if self.awaited is not None:
            self.recorder.resumes(True)
            self.go_on()

    def go_on(self) -> None:
        """Go as far as it can be gone now."""
        cluster = self.cluster
        cluster.moved = self.since = cluster.now
        while self.awaited is None or self.awaited():
            self.awaited = None
            item = next(self.program, None)
            if item is None:
                return
            if isinstance(item, float):
                cluster.at(cluster.now + item, self.go_on, is_work=True)
                return
            self.awaited = item
        if not self.is_dead:
            self.wait()

    def wait(self) -> None:
        self.recorder.waits()
        self.since = self.cluster.now
        self.slice += 1
        self.cluster.at(self.cluster.now + WAIT_SECONDS, lambda mine=self.slice: self.end_slice(mine))

    def end_slice(self, mine: int) -> None:
        if self.awaited is not None and mine == self.slice and not self.is_dead:
            self.recorder.resumes(False)
            self.wait()

    # ---- its agent

    def look(self) -> None:
        cluster = self.cluster
        if self.host_gone or cluster.is_paused(self.number, self.look) or self.number in cluster.over:
            return
        for told in self.guard.look(cluster.now):
            cluster.tell(self.number, told)
        if self.gone or self.guard.condemned:
            for told in self.guard.farewell(cluster.now):
                cluster.tell(self.number, told)
            cluster.over.add(self.number)
            self.gone = True
            cluster.tell(self.number, State("job", self.number, "failed" if self.guard.condemned else "done", ""))
        else:
            cluster.at(max(cluster.now, self.guard.deadline) + 1e-6, self.look)


def vars_of(order: CanCommit) -> dict[str, object]:
    return {name: getattr(order, name) for name in order.__dataclass_fields__}


class Cluster:
    """Nodes, their driver, and the time; `moved` is when a process last went on."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.clock = plan, VirtualClock(1000.0)
        self._events: list[tuple[float, int, bool, Callable[[], None]]] = []
        self._count = itertools.count()
        self._delays, self._latencies = itertools.cycle(plan.delays), itertools.cycle(plan.latencies)
        self._arrives: Counter[int] = Counter()  # when the last operation of each agent does
        self._inbox: list[tuple[int, Operation]] = []
        self.over: set[int] = set()  # nodes whose agents have told of their end
        self.ended: set[int] = set()  # and whose driver has heard of it
        self.moved = self.changed = self.now
        self.found: list[Verdict] = []
        self.monitor = ClusterMonitor("job", 0, LOG)
        self.nodes = [Node(self, number) for number in plan.nodes]
        for node, phase in zip(self.nodes, plan.phases, strict=True):
            self.at(self.now, node.go_on)
            self.at(self.now + phase, node.look)
        self.monitor.begin(plan.nodes, self.now)
        self.at(self.now, self.drive)
        for pause in plan.pauses:
            if pause.actor == EVERYBODY:
                self.at(self.now + pause.begin, lambda seconds=pause.seconds: self.sleep(seconds))

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    def at(self, moment: float, action: Callable[[], None], *, is_work: bool = False) -> None:
        heapq.heappush(self._events, (moment, next(self._count), is_work, action))

    def sleep(self, seconds: float) -> None:
        """Suspend the whole machine: work takes so much longer, and all that was due meanwhile is due at its end."""
        wakes = self.now + seconds
        self._events = [
            (moment + seconds if is_work else max(moment, wakes), number, is_work, action)
            for moment, number, is_work, action in self._events
        ]
        heapq.heapify(self._events)
        for node in self.nodes:
            node.since += seconds
        self.moved += seconds

    def is_paused(self, actor: int, action: Callable[[], None]) -> bool:
        """Whether an actor is suspended; then it acts afterwards."""
        for pause in self.plan.pauses:
            begin = 1000.0 + pause.begin
            if pause.actor == actor and begin <= self.now < begin + pause.seconds:
                self.at(begin + pause.seconds, action)
                return True
        return False

    def carry(self, deliver: Callable[[], None]) -> None:
        self.at(self.now + MOST_LATENCY * next(self._latencies), deliver)

    def tell(self, node: int, told: Operation) -> None:
        """An agent says something to the driver, in order."""
        self._arrives[node] = moment = max(self._arrives[node], self.now + MOST_DELAY * next(self._delays))  # type: ignore[assignment]
        self.at(moment, lambda: (self._inbox.append((node, told)), self.hear())[1])

    def hear(self) -> None:
        if self.is_paused(DRIVER, self.hear):
            return
        inbox, self._inbox = self._inbox, []
        for node, told in inbox:
            if isinstance(told, State):
                self.ended.add(node)
                self.changed = self.now
                self.monitor.ended(node, told.state == "done", self.now)
            else:
                self.monitor.take(node, told, self.now)
        self.found = list(self.monitor.verdicts)

    def drive(self) -> None:
        if self.is_paused(DRIVER, self.drive):
            return
        self.hear()
        if not self.found:
            self.monitor.look(self.now)
            self.found = list(self.monitor.verdicts)
        self.at(self.now + LOOK_SECONDS, self.drive)

    def run(self, limit: float) -> None:
        """Let time pass until there is a verdict or the job is over."""
        try:
            while not self.found and len(self.ended) < len(self.nodes):
                moment, _, _, action = heapq.heappop(self._events)
                assert moment <= 1000.0 + limit, "it never ended"
                self.clock.advance_to(max(moment, self.now))
                action()
        finally:
            for node in self.nodes:
                node.recorder.close()
                node.guard.close()


def one_slow_worker() -> Plan:
    """Build the story in which nodes 0 and 1 wait for node 2, rightly; when it goes on, the last steps take less than a
    heartbeat, and the heartbeat of node 1 tells of its last wait when those of the others have told of their end."""
    return Plan(
        limit=3.0,
        between=[[0.0], [0.0], [1.4]],
        step=[[0.0]] * 3,
        last=[0.0] * 3,
        silent=False,
        farewell=False,
        delays=[0.0],
        latencies=[0.0],
        phases=[0.25, 0.15, 0.25],
        pauses=[],
        fault=None,
    )


@covers("FD-3", "FD-4", "FD-5", "INV-9")
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True)
@given(plans(faulty=False))
@example(one_slow_worker())
def test_nobody_is_accused_without_a_fault(plan: Plan) -> None:
    cluster = Cluster(plan)
    cluster.run(600.0)
    assert cluster.found == []


@covers("FD-2", "FD-5", "FD-9", "FLT-27", "INV-9")
@settings(max_examples=EXAMPLES, deadline=None, print_blob=True)
@given(plans(faulty=True))
def test_a_fault_is_found_within_its_limit_and_nobody_else_is_accused(plan: Plan) -> None:
    """The limits are those of the tables, more what the plan lets heartbeats, agents, driver and machine be late."""
    fault, cluster = plan.fault, Cluster(plan)
    assert fault is not None
    cluster.run(1200.0)
    first, node = cluster.found[0], cluster.nodes[fault.node]
    late = MOST_DELAY + sum(pause.seconds for pause in plan.pauses)
    if fault.kind == "stall":
        assert (first.kind, first.node) == ("stuck", fault.node) and first.seconds > plan.limit
        assert cluster.now - node.since <= plan.limit + REACTION + STACK_SECONDS + late
    elif fault.kind == "host":
        assert (first.kind, first.node) == ("silent", fault.node) and first.seconds > SILENT_SECONDS
        assert cluster.now - node.since <= 3.0 + late
    else:
        # of a sender that has ended nobody knows any more what it has sent
        is_known = fault.kind == "lost" and not node.gone
        expected = ("cut", {fault.node, fault.peer}) if is_known else ("deadlock", set(plan.nodes) - cluster.ended)
        assert first.kind == expected[0] and first.node in expected[1] and first.seconds > plan.limit
        known = max(cluster.moved + plan.limit, max(cluster.moved, cluster.changed) + SILENT_SECONDS + late)
        assert cluster.now <= known + HEARTBEAT_SECONDS + 2 * LOOK_SECONDS + late
