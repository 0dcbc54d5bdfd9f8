"""The failure detector under hypothesis's hand: three processes that begin, end, save, wait, stop and wake, agents that fall
silent and return, signals that are lost, beats that come twice or from an earlier attempt; two things at once.
"""

from __future__ import annotations

import logging

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from rpc import ClusterMonitor, Tick
from rpc.liveness.limits import LOOK_SECONDS, SILENT_SECONDS, WAITING_SECONDS, WARN_AT, Limits, Phase
from rpc.liveness.recorder import Kind, Signal
from rpc.liveness.stall_detector import Declare, Signs, StallDetector, Warn, Withdraw
from rpc.messages import Heartbeat, Verdict

NODES, ATTEMPT = 3, 2
STEP, START, BETWEEN, SAVE = 5.0, 6.0, 8.0, 7.0
LIMITS = {Phase.STEP: STEP, Phase.START: START, Phase.BETWEEN: BETWEEN, Phase.SAVE: SAVE}
MOMENT = 0.001  # limits are strict: one is exceeded a moment after it is reached
SIGN_SECONDS, BEAT_SECONDS = 0.25, 1.0
KINDS = list(Kind)


class Node:
    """A process, its recorder, and its agent; `shown` is the last sign of life that the agent has seen."""

    def __init__(self, now: float) -> None:
        self.watch = StallDetector(Limits(STEP, START, BETWEEN, SAVE), now)
        self.shown = self.begun_to_wait = self.beaten = now
        self.waits = self.stopped = self.silent_host = self.over = self.known_silent = False
        self.warned = False
        self.declared: Declare | None = None
        self.next_sign = self.next_beat = now


class Detector(RuleBasedStateMachine):
    """See the module, and `_judge` and `_judge_cluster` for what must hold."""

    @initialize()
    def begin(self) -> None:
        self.now = 100.0
        self.nodes = [Node(self.now) for _ in range(NODES)]
        self.cluster = ClusterMonitor("job", ATTEMPT, logging.getLogger(__name__))
        self.cluster.begin(range(NODES), self.now)
        self.deadlock: Verdict | None = None
        self.settled = False  # somebody's failure is known
        for node in self.nodes:
            self._give(node, Kind.STARTED)
            self._beat(node)

    # ---- what may happen

    @rule(number=st.integers(0, NODES - 1), choice=st.integers(0, 9), lost=st.integers(0, 9))
    def signal(self, number: int, choice: int, lost: int) -> None:
        """A process goes on to another phase, in any order, for a program may signal nonsense; a tenth of the signals is lost,
        and the next look finds a later one."""
        node = self.nodes[number]
        if not node.stopped and node.watch.phase is not Phase.ENDED and node.declared is None and lost:
            node.waits = False
            self._give(node, KINDS[choice % len(KINDS)])

    @rule(number=st.integers(0, NODES - 1))
    def wait_for_peers(self, number: int) -> None:
        node = self.nodes[number]
        if not node.stopped and not node.waits and node.watch.phase in (Phase.STEP, Phase.START):
            node.waits, node.begun_to_wait, node.next_sign = True, self.now, self.now

    @rule(number=st.integers(0, NODES - 1), stopped=st.booleans())
    def stop_or_wake(self, number: int, stopped: bool) -> None:
        """SIGSTOP and SIGCONT; who wakes in a wait goes on to show it."""
        self.nodes[number].stopped = stopped

    @rule(number=st.integers(0, NODES - 1), silent=st.booleans())
    def cut_or_mend(self, number: int, silent: bool) -> None:
        """The host vanishes from the network, or is back."""
        self.nodes[number].silent_host = silent

    @rule(number=st.integers(0, NODES + 3), attempt=st.sampled_from([ATTEMPT - 1, ATTEMPT + 1, ATTEMPT]))
    def stray_beat(self, number: int, attempt: int) -> None:
        """FD-14, FD-15: a beat of another attempt, or of nobody; it keeps nobody alive."""
        if attempt != ATTEMPT or number >= NODES:
            self._hear(Heartbeat("job", number, attempt, "host", 1, Phase.STEP.value, 9, 9, 0.0, 0.0, STEP))

    @rule(number=st.integers(0, NODES - 1), well=st.booleans())
    def end(self, number: int, well: bool) -> None:
        """FD-5: the job has ended on a node, well or badly."""
        node = self.nodes[number]
        if not node.over and not node.known_silent:
            node.over, self.settled = True, self.settled or not well
            self.cluster.ended(number, well, self.now)

    @rule(seconds=st.one_of(st.floats(0.01, 1.0), st.floats(1.0, 12.0)))
    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            moments = [self.cluster.deadline]
            for node in self.nodes:
                if not node.over:
                    moments += [node.watch.deadline, node.next_beat, node.next_sign if self._shows(node) else None]
            known = min((moment for moment in moments if moment is not None), default=end)
            self.now = min(end, max(known, self.now + MOMENT))
            for number, node in enumerate(self.nodes):
                self._look_at(number, node)
            for found in self.cluster.look(self.now):
                self._judge_cluster(found)
            self._nobody_is_overlooked()

    # ---- how it is told

    def _shows(self, node: Node) -> bool:
        return node.waits and not node.stopped and not node.over

    def _give(self, node: Node, kind: Kind) -> None:
        node.shown = self.now
        for action in node.watch.handle(Signal(kind, 0, 0, self.now), self.now):
            self._judge(node, action)

    def _look_at(self, number: int, node: Node) -> None:
        if node.over:
            return
        if self._shows(node) and self.now >= node.next_sign:
            node.shown = node.next_sign = self.now
            node.next_sign += SIGN_SECONDS
            for action in node.watch.handle(Signs(self.now, node.begun_to_wait), self.now):
                self._judge(node, action)
        for action in node.watch.handle(Tick(), self.now):
            self._judge(node, action)
        if self.now >= node.next_beat:
            node.next_beat = self.now + BEAT_SECONDS
            if not node.silent_host:
                self._beat(node, number)

    def _beat(self, node: Node, number: int | None = None) -> None:
        number = self.nodes.index(node) if number is None else number
        watch = node.watch
        node.beaten = self.now
        place = (watch.phase.value, watch.epoch, watch.batch, 0.0)
        self._hear(Heartbeat("job", number, ATTEMPT, "host", 1, *place, watch.waiting(self.now), watch.step_limit))

    def _hear(self, heartbeat: Heartbeat) -> None:
        self.cluster.take(heartbeat.node, heartbeat, self.now)

    # ---- what must hold

    def _judge(self, node: Node, action: object) -> None:
        """FD-2, FD-3, FD-17, FD-19: a process is declared once, after more than the limit of its phase and at most half a
        second more without any sign, and was warned of at half of it. A warning is taken back when there is a sign, and only
        then; nobody is declared after its end."""
        silent = self.now - node.shown
        assert node.declared is None
        if isinstance(action, Declare):
            assert action.limit == LIMITS[action.phase]
            assert action.limit < silent <= action.limit + 0.5
            assert action.silent == silent and node.warned
            node.declared = action
        elif isinstance(action, Warn):
            assert not node.warned and LIMITS[action.phase] * WARN_AT < silent <= LIMITS[action.phase] * WARN_AT + 0.5
            node.warned = True
        else:
            assert isinstance(action, Withdraw)
            assert node.warned and silent == 0.0
            node.warned = False

    def _judge_cluster(self, found: Verdict) -> None:
        """FD-2, FD-9: a silent host has not beaten for more than 2.5 s and at most 3 s. In a deadlock all that train have
        waited longer than a step may take, and no failure explains it."""
        if found.kind == "silent":
            node = self.nodes[found.node]
            assert not node.over and not node.known_silent
            assert SILENT_SECONDS < self.now - node.beaten <= 3.0
            node.known_silent = self.settled = True
            return
        assert found.kind == "deadlock" and self.deadlock is None and not self.settled
        self.deadlock = found
        for number in map(int, found.detail.rpartition("nodes ")[2].rstrip(".").split(", ")):
            assert self.nodes[number].beaten - self.nodes[number].begun_to_wait > STEP - WAITING_SECONDS

    def _nobody_is_overlooked(self) -> None:
        """INV-9: who has shown nothing beyond its limit is declared, and who has not beaten for 3 s is known to be silent."""
        for node in self.nodes:
            limit = LIMITS.get(node.watch.phase)
            if not node.over and node.declared is None and limit is not None:
                assert self.now - node.shown <= limit + 0.5
            if not node.over and not node.known_silent:
                assert self.now - node.beaten <= SILENT_SECONDS + 2 * LOOK_SECONDS


Detector.TestCase.settings = settings(max_examples=80, stateful_step_count=25, deadline=None, print_blob=True)
TestDetector = Detector.TestCase
