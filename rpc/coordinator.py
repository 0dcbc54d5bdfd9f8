"""The submitter's side of a job: three-phase submission, answering requests, waiting, stopping, bringing the files home."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from network.clock import SystemClock
from network.controller import Controller
from network.errors import ProtocolError
from network.session import Session
from network.version import VERSION

from .calling import call_all
from .collection import FILE_OPERATIONS, Collection
from .errors import InvalidTransition
from .executable import AbsExecutable, ReplyPackage
from .identity import new_job_id
from .interrupts import Interrupts
from .lines import Gone, Lines
from .liveness.lookout import NEWS, Lookout
from .logs import SUBMIT_LOGGER, clean
from .messages import (
    MAX_TEXT,
    Conclude,
    Fetch,
    Granted,
    Halted,
    Lose,
    Notice,
    Operation,
    Progress,
    State,
    Stop,
    Suspect,
    Verdict,
)
from .orders import Orders
from .progress import ProgressDisplay
from .result import RESULT_FILE, read_result
from .shipping import Bundle
from .submission import START_SECONDS, HasEnded, IsRunning, Phase, Submission
from .submitting import Submitting
from .succession.handover import Handover
from .succession.will import Will
from .waiting import Waiting

GROUP_SLACK_SECONDS, SINGLE_SLACK_SECONDS = 1.0, 0.6
_UNFINISHED = ("starting", "running", "unknown")


class Coordinator:
    """Runs executors on the nodes of `com` (from `network.Request().request(nodes)`).

    A group connects with the groups that were submitted before it, so what others need (a parameter server) goes first, and
    stays until they have come. Nothing starts before `resources_dispatch`.

    Args:
        com: sessions with the agents.
        estimate_bandwidth: bytes per second; sets the limit of preCommit.
        logger: where the story of the job is told; default "P-SGD Submit".
        title: what others see while the job keeps their node busy.
        blas_threads: BLAS threads of each job process; 0 for the cores of its host divided by the job's nodes there.
        start_limit: seconds for doCommit.
        directory: where `Node-<i>-Retrieve` folders go.
        job: id of a job that failed and is tried again; default a new one.
        attempt: which attempt at the job this is, counted from 0; its nodes refuse one that they have had.
        stall: seconds of silence within a step beyond which a node counts as stuck; 0 for the default (see `Limits`).
        driver: by which name agents know who drives the job (`succession.will.new_driver`), if it is to be handed on.
        collects: whether `join` fetches files and results; else they stay with the agents.

    Attributes: `job`, its id; `failures`, {node: (state, detail)} of nodes that did not end well; `files`, the saved paths
    of each node; `verdicts`, what the failure detector says, first causes first; `ended_for`, why `look` has ended it.
    """

    def __init__(
        self,
        com: Controller,
        estimate_bandwidth: float = 1048576,
        logger: logging.Logger | None = None,
        *,
        title: str = "job",
        blas_threads: int = 1,
        start_limit: float = START_SECONDS,
        directory: str | Path = ".",
        job: str | None = None,
        attempt: int = 0,
        stall: float = 0.0,
        driver: str = "",
        collects: bool = True,
    ) -> None:
        self.job = job or new_job_id()
        self.attempt = attempt
        self.failures: dict[int, tuple[str, str]] = {}
        self._com = com
        self._bandwidth = estimate_bandwidth
        self._logger = logger or logging.getLogger(SUBMIT_LOGGER)
        self._clock = SystemClock()
        names = {node: f"Node({node}) at {address}" for node, address in com.addresses.items()}
        if com.key is None:
            raise ValueError(
                "Coordinator 'com' must come from network.Request().request(nodes), which knows the cluster's key."
            )
        self._orders = Orders(self.job, title, com.addresses, com.key, blas_threads, start_limit, attempt, stall, driver)
        self._lookout = Lookout(self.job, attempt, self._logger)
        self._lines = Lines(com, names, self._logger)
        self._submitting = Submitting(com, names, self._lines, self._orders, start_limit, self._logger, self._clock, self._step)
        self._collection = Collection(Path(directory), title, self._logger, self._clock)
        self._percent: dict[int, int] = {}  # a fast worker reports before anyone looks
        self._display: ProgressDisplay | None = None
        self._interrupts: Interrupts | None = None
        self._results: dict[int, Any] = {}
        self._end_together = False
        self._look: Callable[[], str] | None = None
        self.ended_for = ""
        self._collects = collects
        self._handover = Handover(self.job, attempt, self._lines.tell_agent, lambda node: com.sessions[node].pending_bytes)
        self._waiting = Waiting(
            self.job, self._step, self._all_home, self.stop_executing, self._handover, self._logger, self._clock
        )
        self._news: list[tuple[int, Operation]] = []  # of an attempt that was taken over
        self._missing: dict[int, str] = {}

    # ---- submission

    def submit_group(
        self,
        executable: Callable[..., AbsExecutable] | Bundle,
        working_group: Iterable[int] | None = None,
        package_size: int = 0,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        """canCommit: put `executable` on the nodes of `working_group` (default: all workers), which will start together.

        `package_size` bytes will be sent to each node later; `objects` travel with the class, as its `shipped`. A bundle is
        what `submitting.pack_executable` has made of both.
        Raises: SubmissionError naming node and reason; then nothing runs anywhere. TypeError for code that cannot travel.
        """
        nodes = sorted({node for node in self._com.sessions if node >= 0} if working_group is None else set(working_group))
        self._submit(executable, nodes, len(nodes) * package_size / self._bandwidth + GROUP_SLACK_SECONDS, objects)
        self._logger.info("Group submission complete ({%s}).", ", ".join(map(str, nodes)))
        for node in nodes:
            self._logger.info("Worker: (%s) in Version: (%s).", node, VERSION)

    def submit_single(
        self,
        executable: Callable[..., AbsExecutable] | Bundle,
        node_id: int,
        package_size: int = 0,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        """canCommit for one node that starts by itself, without waiting for others.

        Raises: as `submit_group`.
        """
        self._submit(executable, [node_id], package_size / self._bandwidth + SINGLE_SLACK_SECONDS, objects)
        self._logger.info("Single node submission complete.")

    def _submit(self, executable: Any, nodes: Sequence[int], limit: float, objects: Mapping[str, Any] | None) -> None:
        first = not self._submitting.machines
        self._submitting.submit(executable, nodes, limit, objects)
        if first and not self.attempt:
            self._logger.info("Job id: %s.", self.job)
            self._logger.info("Coordinator version: %s.", VERSION)

    def resources_dispatch(self, reply: Callable[[int, str], ReplyPackage | Any]) -> None:
        """preCommit and doCommit: answer each request by `reply(node_id, request)`; returns when every executor has started.

        Raises: SubmissionError; then nothing runs anywhere.
        """
        self._submitting.dispatch(reply)
        self._lookout.begin([node for machine in self._machines for node in machine.nodes], self._clock.monotonic())
        self._logger.info("Dispatch complete.")

    def entrust(self, will: Will) -> None:
        """Hand `will` to all agents of the running job, while `join` waits, so that one of them can drive it without us."""
        self._handover.entrust(will, self._running())

    def adopt(
        self,
        groups: Iterable[Sequence[int]],
        granted: Mapping[int, Granted],
        missing: Mapping[int, str],
        early: Iterable[tuple[int, Operation]] = (),
    ) -> None:
        """Instead of a submission: go on with what somebody else has started, with the nodes that have granted it.

        The others are lost. `early` is what the agents have said since. Where a later attempt was on its way, all nodes are
        stopped, to be started again: `ended_for` says so.
        """
        for group in groups:
            self._submitting.adopt(group)
        told = list(early)
        self._news = [(node, said) for node, said in told if isinstance(said, Verdict)]  # an agent tells it before the state
        self._news += [(node, State(self.job, node, said.state, said.detail)) for node, said in granted.items()]
        self._news += [(node, said) for node, said in told if not isinstance(said, Verdict)]
        self._missing = dict(missing)
        if any(said.attempt != self.attempt for said in granted.values()):
            self.ended_for = "Its driver was lost while it was about to start again."
            self.stop_executing(self.ended_for)
        else:
            self._lookout.begin([node for group in groups for node in group], self._clock.monotonic())

    def conclude(self, outcome: str, detail: str = "", report: str = "", nodes: Iterable[int] | None = None) -> None:
        """Tell agents (default: all) how the job is over, so that nobody drives it any more; see `messages.Conclude`."""
        for node in self._com.available_clients if nodes is None else nodes:
            self._lines.tell_agent(node, Conclude(self.job, node, outcome, detail[:MAX_TEXT], report[:MAX_TEXT]))

    def call(self) -> dict[int, Session]:
        """Sessions with the running executors of all nodes, to go on talking with them; there the submitter is the peer -1.

        The caller moves their bytes, and closes them. Raises: NetworkError naming the first node that cannot be reached.
        """
        nodes = [node for machine in self._machines for node in machine.nodes]
        sessions, errors = call_all({node: self._orders.target(node) for node in nodes})
        if errors:
            for session in sessions.values():
                session.close()
            raise next(iter(errors.values()))
        for node, session in sessions.items():
            session.use_classes(self._submitting.classes_of(node))
        return sessions

    # ---- waiting

    def join(
        self, stop_on_interrupt: bool = False, *, end_together: bool = False, look: Callable[[], str] | None = None
    ) -> tuple[dict[int, Any], bool]:
        """Wait for all nodes; returns ({node: result} in the order of ids, error). `error`: a node did not end well.

        Files of every node that ended are saved. Ctrl-C leaves the job running, a second one within 2 s stops it;
        with `stop_on_interrupt` the first does. With `end_together` the first node that does not end well ends the job on all
        others, so that it can be tried again; from then on no files are saved, until `retrieve` is called.
        `look` is called once a second; what it returns, unless "", is the reason for which all nodes are stopped (`ended_for`).
        """
        self._look = look
        self._end_together = end_together
        nodes = [node for machine in self._machines for node in machine.nodes]
        with Interrupts() as interrupts:
            self._interrupts = interrupts
            self._logger.info("Waiting for ({%s}) ...", ", ".join(map(str, sorted(nodes, key=lambda node: (node < 0, node)))))
            self._display = ProgressDisplay([node for node in nodes if node >= 0], self._logger)
            for node, percent in self._percent.items():
                self._display.update(node, percent)
            try:
                self._take_in_adopted()
                self._waiting.wait(interrupts, stop_on_interrupt, None if look is None else self._look_around)
            finally:
                self._interrupts = None
                self._display.close()
                self._collection.close()
        if self.failures:
            self._logger.warning("The job has ended, but not well on every node: {%s}.", ", ".join(map(str, self.failures)))
        else:
            self._logger.info("All the tasks are done.")
        return dict(sorted(self._results.items())), bool(self.failures)

    def _take_in_adopted(self) -> None:
        """What has happened on the nodes before we took over."""
        for node, reason in self._missing.items():
            self._on_gone(Gone(node, reason))
        for node, operation in self._news:
            self._on_operation(node, operation)
        self._news.clear()

    def _look_around(self) -> None:
        """Ask `look` whether the job is to end."""
        if self._look is not None and not self.ended_for:
            self.ended_for = self._look()
            if self.ended_for:
                self.stop_executing(self.ended_for)

    def _all_home(self) -> bool:
        return not self._collection.open and all(len(m.ended) == len(m.nodes) for m in self._machines)

    def retrieve(self) -> None:
        """Save the files of the nodes that have ended and whose files `join` did not save."""
        for machine in self._machines:
            for node in machine.ended:
                if node not in self._collection.files and node in self._com.available_clients:
                    self._fetch(node)
        try:
            while self._collection.open:
                self._step()
        finally:
            self._collection.close()

    def stop_executing(self, reason: str = "It was stopped by the submitter.") -> None:
        """Tell every node to end the job: executors are interrupted at their next send or receive. `join` waits for the end."""
        for node in self._running():
            self._lines.tell_agent(node, Stop(self.job, reason))

    def _running(self) -> list[int]:
        return [node for machine in self._machines for node in machine.nodes if node not in machine.ended]

    # ---- events

    def _step(self, patience: float | None = None) -> None:
        """Wait for bytes or the next deadline, and handle what has happened."""
        now = self._clock.monotonic()
        self._handover.send()
        deadlines = [self._collection.deadline, self._lookout.deadline, *(machine.deadline for machine in self._machines)]
        waits = [deadline - now for deadline in deadlines if deadline is not None]
        timeout = min([*waits, patience] if patience is not None else waits, default=None)
        for event in self._lines.wait(timeout, None if self._interrupts is None else self._interrupts.sock):
            if isinstance(event, Gone):
                self._on_gone(event)
            else:
                self._on_operation(event.node, event.operation)
        self._submitting.tick()
        for verdict in self._lookout.look(self._clock.monotonic()):
            if verdict.kind == "silent":
                self._com.sessions[verdict.node].close()
                self._on_gone(Gone(verdict.node, verdict.headline))
            else:  # a deadlock: all that train wait for each other
                self.stop_executing(verdict.headline)
        self._collection.check()
        for node, reason in self._collection.missing.items():
            self.failures.setdefault(node, ("lost", reason))

    @property
    def _machines(self) -> list[Submission]:
        return self._submitting.machines

    def _on_gone(self, gone: Gone) -> None:
        self._handover.lose(gone.node)
        machine = self._submitting.machine_of(gone.node)
        if machine is not None and gone.node not in machine.ended:
            self.failures.setdefault(gone.node, ("lost", gone.reason))
            self._submitting.lose(machine, gone)
            self._end_others(gone.node)
            for node in self._running():  # a host that vanishes leaves connections behind on which others would wait
                self._lines.tell_agent(node, Lose(self.job, gone.node, gone.reason))
        self._lookout.ended(gone.node, False, self._clock.monotonic())
        self._collection.give_up(gone.node, gone.reason)

    def _on_operation(self, node: int, operation: Operation) -> None:
        machine = self._submitting.machine_of(node)
        if machine is None or getattr(operation, "job", self.job) != self.job:
            return  # of an earlier job over the same connection
        if isinstance(operation, Progress):
            self._percent[node] = operation.percent
            if self._display is not None:
                self._display.update(node, operation.percent)
        elif isinstance(operation, State):
            self._on_state(machine, node, operation)
        elif isinstance(operation, NEWS):
            self._lookout.take(node, operation, self._clock.monotonic())
            if isinstance(operation, Notice) and (operation.node, operation.attempt) == (node, self.attempt):
                self._tell_of(operation)
        elif isinstance(operation, FILE_OPERATIONS):
            self._on_file(node, operation)
        elif self._handover.take(node, operation):
            if isinstance(operation, Halted):
                self.stop_executing(operation.reason)
        else:
            try:
                self._submitting.take(machine, node, operation)
            except (ProtocolError, InvalidTransition) as error:  # one agent out of turn harms its own node only
                self._lines.hang_up(node, ProtocolError(f"Node({node}) spoke out of turn: {error}"))

    def _tell_of(self, notice: Notice) -> None:
        """Let the others know that a node is late, or well again: a time-out of theirs waits for the verdict."""
        # it is warned at half of its limit, so as much again is left until the verdict
        seconds = notice.seconds if notice.kind == "warned" else 0.0
        for node in self._running():
            if node != notice.node:
                self._lines.tell_agent(node, Suspect(self.job, notice.node, seconds))

    def _on_state(self, machine: Submission, node: int, state: State) -> None:
        if state.state == "running":
            self._submitting.feed(machine, IsRunning(node))
        elif state.state not in _UNFINISHED and node not in machine.ended:
            lines = state.detail.strip().splitlines()
            self._lookout.ended(node, state.state == "done", self._clock.monotonic())
            if state.state != "done":
                self.failures[node] = (state.state, state.detail)
            if self._end_together and (state.state == "stopped" or self._lookout.follows(node)):
                self._logger.info("Node(%s) %s: %s", node, state.state, clean(lines[-1]) if lines else "no reason given")
            elif state.state == "left":
                self._logger.warning("Node(%s) left: %s", node, clean(lines[-1]) if lines else "no reason given")
            elif state.state in ("failed", "stopped"):
                self._logger.error("Node(%s) %s:\n%s", node, state.state, state.detail.rstrip())
            self._submitting.feed(machine, HasEnded(node, state.state, clean(lines[-1]) if lines else "no reason given"))
            if state.state != "done":
                self._end_others(node)
            if machine.phase is not Phase.FAILED and not (self._end_together and self.failures):
                self._fetch(node)

    def _end_others(self, node: int) -> None:
        """A node has not ended well: under `end_together` the job ends on all others."""
        if self._end_together and len(self.failures) == 1:
            self.stop_executing(f"Node({node}) at {self._com.addresses[node]} did not end well, and the job ends together.")

    def _fetch(self, node: int) -> None:
        if not self._collects:
            return
        self._collection.expect(node)
        self._lines.tell_agent(node, Fetch(self.job))

    def _on_file(self, node: int, operation: Operation) -> None:
        try:
            if not self._collection.take(node, operation):
                return
            self._take_result(node)
        except ProtocolError as error:
            self._lines.hang_up(node, error)
            self.failures.setdefault(node, ("lost", str(error)))
            return
        self._collection.report(node)
        self._logger.info("Node(%s) is done, {%s} is done.", node, ", ".join(map(str, sorted(self._collection.files))))

    def _take_result(self, node: int) -> None:
        """The result comes as a file; it is returned by `join`, not left in the folder."""
        paths = self._collection.files[node]
        for path in [path for path in paths if path.name == RESULT_FILE]:
            self._results[node] = read_result(path, self._submitting.classes_of(node))
            paths.remove(path)
            path.unlink()

    # ---- accounts

    @property
    def halted(self) -> str:
        """Why somebody has ended the job for good; "" if nobody has."""
        return self._handover.halted

    @property
    def done(self) -> set[int]:
        """The nodes that have ended well."""
        return {node for machine in self._machines for node, (state, _) in machine.ended.items() if state == "done"}

    @property
    def verdicts(self) -> list[Verdict]:
        """What the failure detector says of nodes that did not end well, first causes before what followed from them."""
        return self._lookout.causes

    @property
    def files(self) -> dict[int, list[Path]]:
        """Paths of the saved files of each node."""
        return self._collection.files

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to agents and job processes so far."""
        return self._com.bytes_sent + self._lines.process_bytes[0]

    @property
    def bytes_read(self) -> int:
        """Bytes read from agents and job processes so far."""
        return self._com.bytes_read + self._lines.process_bytes[1]
