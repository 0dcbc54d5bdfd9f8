"""Event loop of the driver of a job: events go to the machines that decide on them, and their decisions are carried out."""

from __future__ import annotations

import errno
import logging
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from network.clock import Clock
from network.controller import Controller
from network.errors import PeerLost, ProtocolError
from network.session import LOOK_SECONDS

from ..errors import InvalidTransition
from ..lease.handoff import HandoffTracker
from ..liveness.cluster_monitor import LIVENESS_MESSAGES, ClusterMonitor
from ..liveness.heartbeat import AgentStates, Heartbeat
from ..liveness.limits import AWAKE_SECONDS, LATE_SECONDS
from ..messages import CODE_FROM_JOB, Fetch, Halted, Lose, Notice, Operation, Progress, Remark, State, Stop, Suspect, Tailed
from ..support.files import RESULT_FILE, read_result
from ..support.logs import DETAIL, HEADLINE, IN_BRIEF, PLAIN, clean
from ..verdict import is_loss
from .connections import Connections, Gone, Heard, JobMessages
from .downloads import FILE_OPERATIONS, Downloads
from .groups import GroupSubmission
from .run_folder import RunFolder
from .submission import HasEnded, IsRunning, Phase, Submission
from .terminal import Interrupts, ProgressDisplay

if TYPE_CHECKING:
    from .tailing import TableTail

MOST_REMARKS = 100
_UNFINISHED = ("starting", "running", "unknown")
# the words in which a session tells that the other end has closed, not that it has fallen silent
_BY_ITSELF = {"it has left", "the connection was closed", os.strerror(errno.ECONNRESET), os.strerror(errno.EPIPE)}


class EventLoop:
    """Loop that moves the bytes of one attempt by `step`, and keeps its books.

    Attributes: `failures`, {node: (state, detail)} of nodes that did not end well; `results` of the others, by node; its parts:
    `connections`, `monitor`, `groups`, `downloads`, `handoffs`; during a wait, `interrupts` and, from `show` to `hide`, the
    display; `end_together`, whether the first node that does not end well ends the job on all others; `known_dead`, the nodes
    whose agents have ended while we were connected with them; `tables`, where they are read.

    Args:
        com: sessions with the agents.
        messages: makes the messages of the job.
        logger: of the job.
        clock: of all time-outs.
        run: the folder of the run.
        start_limit: seconds for doCommit.
        collects: whether the files of the nodes are fetched.
        display: shows the progress.
    """

    def __init__(
        self,
        com: Controller,
        messages: JobMessages,
        logger: logging.Logger,
        clock: Clock,
        *,
        run: RunFolder,
        start_limit: float,
        collects: bool,
        display: ProgressDisplay,
    ) -> None:
        names = {node: f"Node({node}) at {address}" for node, address in com.addresses.items()}
        self.failures: dict[int, tuple[str, str]] = {}
        self.results: dict[int, Any] = {}
        self.interrupts: Interrupts | None = None
        self.end_together = self._ends = self._wanted = False
        self.known_dead: set[int] = set()
        self._told: dict[tuple[str, str], int] = {}  # how a node ended: which did first
        self._stepped = clock.monotonic()
        self.connections = Connections(com, names, logger, clock)
        self.monitor = ClusterMonitor(
            messages.job,
            messages.attempt,
            logger,
            names,
            causes_first=True,
            lives=lambda node: com.lives(com.addresses[node]),
            state=AgentStates(),
        )
        self.groups = GroupSubmission(com, self.connections, messages, start_limit, logger, clock, self.step, self.monitor)
        self.downloads = Downloads(run.directory, lambda _: run, self._request_files, logger, clock)
        self.handoffs = HandoffTracker(
            messages.job, messages.attempt, self.connections.tell_agent, lambda node: com.sessions[node].pending_bytes
        )
        self._com, self._job, self._attempt, self._collects = com, messages.job, messages.attempt, collects
        self._logger, self._clock = logger, clock
        self._progress: dict[int, Progress] = {}  # a fast worker reports before anyone looks
        self._begun: set[int] = set()  # nodes that have begun their first batch, or are done
        self._display, self._shows = display, False
        self.remarks: deque[tuple[int, str]] = deque(maxlen=MOST_REMARKS)  # node and sentence, the newest
        self.tables: TableTail | None = None

    @property
    def machines(self) -> list[Submission]:
        return self.groups.machines

    @property
    def nodes(self) -> list[int]:
        return [node for machine in self.machines for node in machine.nodes]

    @property
    def running(self) -> list[int]:
        return [node for machine in self.machines for node in machine.nodes if node not in machine.ended]

    @property
    def all_home(self) -> bool:
        return not self.downloads.open and not self.running

    def show(self) -> None:
        self._shows = True
        self._display.begin(node for node in self.nodes if node >= 0)
        for node, told in self._progress.items():
            self._display.update(node, told.percent, told.note)
        if self.tables is not None:
            self.tables.begin(node for node in self.nodes if node >= 0)

    def let_end_together(self, end_together: bool) -> None:
        """Set whether the first node that does not end well ends the job on all others; it may have ended before anyone
        waited.
        """
        self.end_together = end_together
        for node in list(self.failures):
            self._end_others(node)

    def hide(self) -> None:
        """Hide the display; the attempt is over, so the lines that were held back are logged."""
        self.monitor.named()
        self._shows = False

    def watch(self) -> None:
        self.monitor.begin(self.nodes, self._clock.monotonic())

    def catch_up(self, missing: Mapping[int, str], early: list[tuple[int, Operation]]) -> None:
        """Take in the events before we took the job over."""
        for node, reason in missing.items():
            self._on_gone(Gone(node, reason))
        for node, operation in early:
            self.hear(node, operation)

    def retrieve(self) -> None:
        for machine in self.machines:
            for node in machine.ended:
                if node not in self.downloads.files and node in self._com.available_clients:
                    self._fetch(node)
        try:
            while self.downloads.open:
                self.step()
        finally:
            self.downloads.close()

    def stop(self, reason: str, *, is_wanted: bool = False) -> None:
        """Tell all nodes to stop. With `is_wanted`, a node that hears of it after it has lost one that obeyed at once has
        not failed.
        """
        self._wanted |= is_wanted
        for node in self.running:
            self.connections.tell_agent(node, Stop(self._job, reason))

    # ---- events

    def step(self, limit: float | None = None) -> None:
        """Wait for bytes or the next deadline, and handle the events."""
        now = self._clock.monotonic()
        # before waiting: there may be room in the line of an agent now
        self.handoffs.send()
        if self.tables is not None and self._shows:
            # where all end together another attempt may follow: what the tables of this one still get counts there
            # tables of an attempt before, or a part of those that are carried on, lie there until the node has begun
            self.tables.ask({} if self.end_together else self.failures, self._begun)
        deadlines = [self.downloads.deadline, self.monitor.deadline, *self.groups.deadlines]
        waits = [deadline - now for deadline in deadlines if deadline is not None]
        timeout = min([*waits, limit] if limit is not None else waits, default=None)
        for event in self.connections.wait(timeout, None if self.interrupts is None else self.interrupts.sock):
            if isinstance(event, Gone):
                if self._has_ended_by_itself(event.node):
                    self.known_dead.add(event.node)
                # with the place of its last heartbeat, which is the last that is known of it
                self._on_gone(Gone(event.node, self.monitor.explain(*event, self._clock.monotonic())))
            elif isinstance(event, Heard):
                # a job process speaks for itself, its agent for all of its nodes
                if not isinstance(event.operation, CODE_FROM_JOB):
                    self.monitor.hear(self._mates(event.node), self._clock.monotonic())
                    self.groups.note_work(event.node, event.operation)
                self.hear(event.node, event.operation)
            else:
                self.groups.take_call(event)
        woke = self._clock.monotonic()
        # this process was suspended: its absence must not count as a wait of the nodes
        if woke - self._stepped > LATE_SECONDS + (LOOK_SECONDS if timeout is None else min(max(0.0, timeout), LOOK_SECONDS)):
            self.groups.excuse(self._stepped)
        self._stepped = woke
        # after the events: a message that came in time counts, though it was read late
        self.groups.tick()
        for node, reason in self.monitor.missing(self._clock.monotonic()):
            machine = self.groups.machine_of(node)
            has_started = machine is not None and machine.phase is Phase.RUNNING
            self._on_gone(Gone(node, f"{self.monitor.names[node]} is lost: {reason}." if has_started else reason))
        for verdict in self.monitor.look(self._clock.monotonic()):
            if verdict.kind == "silent":
                # its connection stands, but nothing comes over it: no call shall wait for it
                self._com.sessions[verdict.node].close()
                self._on_gone(Gone(verdict.node, verdict.headline), is_told=True)
            else:  # all that train wait: for each other, or for messages that a dead link does not bring
                self.stop(verdict.headline)
        self.downloads.check()
        for node, reason in self.downloads.missing.items():
            told = reason if reason.startswith("its files") else f"{reason.rstrip('.')}. Its files have not come."
            # the first reason counts: a node that failed did so before its files were missing
            self.failures.setdefault(node, ("lost", told))

    def step_until(self, is_over: Callable[[], bool], seconds: float) -> None:
        deadline = self._clock.monotonic() + seconds
        while not is_over() and (left := deadline - self._clock.monotonic()) > 0:
            self.step(left)

    def _mates(self, node: int) -> Iterator[int]:
        """List the nodes of the agent that has `node`: it speaks for all of them."""
        address = self._com.addresses[node]
        return (other for other, others in self._com.addresses.items() if others == address)

    def _has_ended_by_itself(self, node: int) -> bool:
        """Tell if the connection with an agent has ended at its side, and we have not slept before we saw it."""
        lost = self._com.sessions[node].lost
        ended = lost is None or (isinstance(lost, PeerLost) and lost.reason in _BY_ITSELF)
        # a driver that slept may find a connection that ended long ago, after the job had another driver
        return ended and self._clock.monotonic() - self._stepped < AWAKE_SECONDS

    def _on_gone(self, gone: Gone, *, is_told: bool = False) -> None:
        self.handoffs.lose(gone.node)
        machine = self.groups.machine_of(gone.node)
        if machine is not None and gone.node not in machine.ended:
            if machine.phase is Phase.RUNNING and not is_told:  # before, the error of the submission says it
                self._logger.error("%s", clean(gone.reason))
                self.monitor.named()
            self.failures.setdefault(gone.node, ("lost", gone.reason))
            self.groups.lose(machine, gone)
            self._end_others(gone.node)
            for node in self.running:  # a host that vanishes leaves connections behind on which others would wait
                self.connections.tell_agent(node, Lose(self._job, gone.node, gone.reason))
        self.monitor.ended(gone.node, False, self._clock.monotonic())
        self.downloads.give_up(gone.node, gone.reason)

    def hear(self, node: int, operation: Operation) -> None:
        """Give an agent's message to the machine that decides on it."""
        machine = self.groups.machine_of(node)
        if machine is None or getattr(operation, "job", self._job) != self._job:
            return  # of an earlier job over the same connection
        if isinstance(operation, Progress):
            self._progress[node] = operation
            self._begun.add(node)
            if self._shows:
                self._display.update(node, operation.percent, operation.note)
        elif isinstance(operation, Remark):
            level = logging.INFO if operation.over else logging.WARNING
            self._logger.log(level, "Node(%s): %s", node, clean(operation.text), extra=PLAIN if operation.over else HEADLINE)
            self.remarks.append((node, clean(operation.text)))
        elif isinstance(operation, Tailed):
            if self.tables is not None:
                self.tables.take(node, operation)
        elif isinstance(operation, LIVENESS_MESSAGES):
            self.monitor.take(node, operation, self._clock.monotonic())
            if isinstance(operation, Heartbeat) and operation.attempt == self._attempt and operation.epoch:
                self._begun.add(node)
            # of this attempt and in its own name
            if isinstance(operation, Notice) and (operation.node, operation.attempt) == (node, self._attempt):
                self._tell_of(operation)
        elif isinstance(operation, FILE_OPERATIONS):
            self._on_file(node, operation)
        elif self.handoffs.take(node, operation):
            if isinstance(operation, Halted):
                self.stop(operation.reason, is_wanted=True)
        else:
            try:
                if isinstance(operation, State):
                    self._on_state(machine, node, operation)
                else:
                    self.groups.take(machine, node, operation)
            except (ProtocolError, InvalidTransition) as error:  # one agent out of turn harms its own node only
                self.connections.hang_up(node, ProtocolError(f"Node({node}) spoke out of turn: {error}"))

    def _tell_of(self, notice: Notice) -> None:
        """Let the others know that a node is late, or well again: a time-out of theirs waits for the verdict."""
        # it is warned at half of its limit, so as much again is left until the verdict
        seconds = notice.seconds if notice.kind == "warned" else 0.0
        for node in self.running:
            if node != notice.node:
                self.connections.tell_agent(node, Suspect(self._job, notice.node, seconds))

    def _on_state(self, machine: Submission, node: int, state: State) -> None:
        if state.state == "running":
            self.groups.feed(machine, IsRunning(node))
        elif state.state not in _UNFINISHED and node not in machine.ended:
            # it has lost one that obeyed the order to stop before it heard of it
            if self._wanted and state.state == "failed" and is_loss(state.detail):
                state = replace(state, state="stopped")
            lines = state.detail.strip().splitlines()
            # before the machine hears of it: from here on no heartbeat is expected
            self.monitor.ended(node, state.state == "done", self._clock.monotonic())
            if state.state == "done":
                self._begun.add(node)
            else:
                self.failures[node] = (state.state, state.detail)
            last = clean(lines[-1]) if lines else "no reason given"
            before = machine.phase
            self.groups.feed(machine, HasEnded(node, state.state, last))
            # by an order, of a person or of the job itself, which is no fault of the node
            ordered = state.state == "stopped" and (self.end_together or self._wanted)
            if (
                ordered
                or (self.end_together and self.monitor.follows(node))
                or (before is not Phase.RUNNING and machine.cause_is_open)
            ):
                self.monitor.tell_of_bystander(f"Node({node}) {state.state}: {last}")
            elif state.state == "left":
                self._logger.warning("Node(%s) left: %s", node, last)
            elif state.state in ("failed", "stopped"):
                # many nodes fail alike: the whole text once, then a line for each
                first = self._told.setdefault((state.state, last), node)
                if first == node:
                    shown = last if self.monitor.follows(node) else state.detail.rstrip()
                    has_more = "\n" in shown  # a traceback, which who made the job must see if nothing is tried again
                    # a line of a node that lost another one tells nothing beside the verdict on that one
                    told = any(verdict.node == node or not has_more for verdict in self.monitor.verdicts)
                    brief = told and (self.end_together or not has_more)
                    self._logger.error("Node(%s) %s:\n%s", node, state.state, shown, extra=DETAIL if brief else None)
                    if brief and has_more:
                        self._logger.error("Node(%s) %s: %s", node, state.state, last, extra=IN_BRIEF)
                else:
                    extra = DETAIL if self.monitor.verdicts else None
                    self._logger.error("Node(%s) %s as node(%s) did: %s", node, state.state, first, last, extra=extra)
            if state.state != "done":
                self._end_others(node)
            # not under `end_together`: the next attempt needs the agents sooner than these files
            if machine.phase is not Phase.FAILED and not (self.end_together and self.failures):
                self._fetch(node)

    def _end_others(self, node: int) -> None:
        """End the job on all other nodes under `end_together`, as a node has not ended well."""
        # once: the order goes to all
        if self.end_together and not self._ends:
            self._ends = True
            self.stop(f"Node({node}) at {self._com.addresses[node]} did not end well, and the job ends together.")

    def _fetch(self, node: int) -> None:
        if not self._collects:
            return
        self.downloads.expect(node)

    def _request_files(self, node: int) -> None:
        self.connections.tell_agent(node, Fetch(self._job))

    def _on_file(self, node: int, operation: Operation) -> None:
        try:
            if not self.downloads.take(node, operation):
                return
            # before it is told: a result that cannot be read makes the node a failure
            self._take_result(node)
        except ProtocolError as error:
            self.connections.hang_up(node, error)
            self.failures.setdefault(node, ("lost", str(error)))
            return
        self.downloads.report(node)
        self._tell_of_end(node)

    def _tell_of_end(self, node: int) -> None:
        """Log that the files of a node are here; only one that has ended well counts as done."""
        ended = {other: state for machine in self.machines for other, (state, _) in machine.ended.items()}
        done = sorted(other for other in self.downloads.files if ended.get(other) == "done" and other not in self.failures)
        if node in done:
            self._logger.info("Node(%s) is done, {%s} is done.", node, ", ".join(map(str, done)))
        else:
            state = self.failures.get(node, (ended.get(node, ""), ""))[0]
            self._logger.info("Node(%s) is not done (%s); what it has left is saved.", node, state)

    def _take_result(self, node: int) -> None:
        """Read the result, which comes as a file; it is returned by `join`, not left in the folder.

        A worker that has done its work has one, be it None; of a parameter server nothing is needed but its logs.
        """
        paths = self.downloads.files[node]
        for path in [path for path in paths if path.name == RESULT_FILE]:
            self.results[node] = read_result(path, self.groups.classes_of(node))
            paths.remove(path)
            # it is returned by `join`; in the folder it would be a file that no program reads
            path.unlink()
        machine = self.groups.machine_of(node)
        state = "" if machine is None else machine.ended.get(node, ("", ""))[0]
        if state == "done" and node >= 0 and node not in self.results:
            problem = self.downloads.problems.get(node) or "it is not among its files."
            self.failures.setdefault(node, ("lost", f"It has ended without its result: {problem}"))
            self._logger.error("Node(%s) has ended without its result: %s", node, problem)
