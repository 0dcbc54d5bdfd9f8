"""The submitter's side of a job: three-phase submission, answering requests, waiting, stopping, bringing the files home."""

from __future__ import annotations

import contextlib
import logging
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from network.clock import SystemClock
from network.controller import Controller
from network.dial import Target, dial
from network.errors import NetworkError, ProtocolError
from network.frames import FrameReader
from network.keys import Key, new_key
from network.session import Session
from network.sockets import wait_sockets
from network.version import VERSION

from . import submission as sub
from .download import Download
from .errors import NodeBusy, SubmissionError
from .executable import AbsExecutable, ReplyPackage
from .identity import new_job_id, process_name
from .logs import SUBMIT_LOGGER, clean
from .messages import (
    CODE_FROM_JOB,
    FROM_AGENT,
    Abort,
    Accepted,
    Answers,
    Asks,
    CanCommit,
    Fetch,
    Load,
    Loaded,
    Operation,
    Prepared,
    Progress,
    Refused,
    State,
    Stop,
    Watch,
    parse,
)
from .progress import ProgressDisplay
from .reclaimer import report_saved
from .shipping import Bundle, pack

GROUP_SLACK_SECONDS, SINGLE_SLACK_SECONDS = 1.0, 0.6
FREE_SECONDS = 2.0
RESULT_FILE = "result.psgd"
_LEAVE_SECONDS = 2.0


class _Group:
    """One submission: its state machine, its bundle, and the limit for answering its requests."""

    def __init__(self, machine: sub.Submission, bundle: Bundle, pre_commit_limit: float) -> None:
        self.machine = machine
        self.bundle = bundle
        self.pre_commit_limit = pre_commit_limit


class Coordinator:
    """Runs executors on the nodes of `com` (from `network.Request().request(nodes)`).

    Args:
        com: sessions with the agents.
        estimate_bandwidth: bytes per second; sets the limit of preCommit.
        logger: where the story of the job is told; default "P-SGD Submit".
        title: what others see while the job keeps their node busy.
        blas_threads: BLAS threads of each job process.
        start_limit: seconds for doCommit.
        directory: where `Node-<i>-Retrieve` folders go.

    Attributes: `job`, its id; `failures`, {node: (state, detail)} of nodes that did not end well; `files`, the saved paths
    of each node.
    """

    def __init__(
        self,
        com: Controller,
        estimate_bandwidth: float = 1048576,
        logger: logging.Logger | None = None,
        *,
        title: str = "job",
        blas_threads: int = 1,
        start_limit: float = sub.START_SECONDS,
        directory: str | Path = ".",
    ) -> None:
        self.job = new_job_id()
        self.failures: dict[int, tuple[str, str]] = {}
        self.files: dict[int, list[Path]] = {}
        self._com = com
        self._bandwidth = estimate_bandwidth
        self._logger = logger or logging.getLogger(SUBMIT_LOGGER)
        self._title = title
        self._blas_threads = blas_threads
        self._start_limit = start_limit
        self._directory = Path(directory)
        self._clock = SystemClock()
        self._names = {node: f"Node({node}) at {session.link.peer}" for node, session in com.sessions.items()}
        self._code_keys = {node: new_key() for node in com.sessions}
        self._peer_key: Key = new_key()
        self._groups: list[_Group] = []
        self._roster = {node: [session.link.peer, "", ""] for node, session in com.sessions.items()}
        self._code: dict[int, Session] = {}
        self._lost: set[int] = set()
        self._busy = False
        self._downloads: dict[int, Download] = {}
        self._reply: Callable[[int, str], Any] | None = None
        self._percent: dict[int, int] = {}  # a fast worker reports before anyone looks
        self._display: ProgressDisplay | None = None
        self._raw_results: dict[int, Any] = {}

    # ---- submission

    def submit_group(
        self,
        executable: Callable[..., AbsExecutable],
        working_group: Iterable[int] | None = None,
        package_size: int = 0,
        objects: Mapping[str, Any] | None = None,
    ) -> None:
        """canCommit: put `executable` on the nodes of `working_group` (default: all workers), which will start together.

        `package_size` bytes will be sent to each node later; `objects` travel with the class, as its `shipped`.
        Raises: SubmissionError naming node and reason; then nothing runs anywhere. TypeError for code that cannot travel.
        """
        nodes = (
            sorted(node for node in self._com.sessions if node >= 0) if working_group is None else sorted(set(working_group))
        )
        limit = len(nodes) * package_size / self._bandwidth + GROUP_SLACK_SECONDS
        self._submit(executable, nodes, limit, objects)
        self._logger.info("Group submission complete ({%s}).", ", ".join(map(str, nodes)))
        for node in nodes:
            self._logger.info("Worker: (%s) in Version: (%s).", node, VERSION)

    def submit_single(
        self,
        executable: Callable[..., AbsExecutable],
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
        unknown = [node for node in nodes if node not in self._com.sessions]
        if unknown or not nodes:
            raise ValueError(
                f"A working group must be nodes of this connection ({list(self._com.sessions)}), got {list(nodes)}."
            )
        taken = {node for group in self._groups for node in group.machine.nodes}
        if taken & set(nodes):
            raise ValueError(f"Nodes {sorted(taken & set(nodes))} already belong to a group of this job.")
        bundle = pack({"executable": executable, "objects": dict(objects or {})})
        if not self._groups:
            self._logger.info("Coordinator version: %s.", VERSION)
        machine = sub.Submission(nodes, self._names, self._start_limit)
        self._groups.append(_Group(machine, bundle, limit))
        self._feed(machine, sub.Started())
        self._drive(lambda: machine.phase is not sub.Phase.CAN_COMMIT)

    def resources_dispatch(self, reply: Callable[[int, str], ReplyPackage | Any]) -> None:
        """preCommit and doCommit: answer each request by `reply(node_id, request)`; returns when every executor has started.

        Raises: SubmissionError; then nothing runs anywhere.
        """
        self._reply = reply
        for group in self._groups:
            self._feed(group.machine, sub.Dispatched(group.pre_commit_limit))
        self._drive(lambda: all(g.machine.phase in (sub.Phase.RUNNING, sub.Phase.ENDED) for g in self._groups))
        for session in self._code.values():
            session.close()
        self._logger.info("Dispatch complete.")

    def _drive(self, done: Callable[[], bool]) -> None:
        """Handle events until `done`; a failed group, an error or Ctrl-C takes the job back on all nodes."""
        try:
            while not done():
                self._raise_failure()
                self._step()
            self._raise_failure()
        except BaseException as error:
            reason = "the submission was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            for group in self._groups:
                self._feed(group.machine, sub.Cancelled(reason))
            self._take_back(reason)
            raise

    def _raise_failure(self) -> None:
        for group in self._groups:
            if group.machine.phase is sub.Phase.FAILED:
                kind = NodeBusy if self._busy else SubmissionError
                raise kind(f"The job was not started: {group.machine.reason}.".replace("..", "."))

    def _take_back(self, reason: str) -> None:
        """Free all nodes that may have taken the job, and wait for that."""
        for group in self._groups:
            if group.machine.phase is sub.Phase.RUNNING:
                for node in group.machine.nodes:
                    self._tell_agent(node, Stop(self.job, reason))
        deadline = self._clock.monotonic() + FREE_SECONDS
        while not all(g.machine.all_free for g in self._groups) and self._clock.monotonic() < deadline:
            with contextlib.suppress(NetworkError):
                self._step(deadline - self._clock.monotonic())
        for session in self._code.values():
            session.close()

    # ---- waiting

    def join(self, stop_on_interrupt: bool = False) -> tuple[dict[int, Any], bool]:
        """Wait for all nodes; returns ({node: result} in the order of ids, error). `error`: a node did not end well.

        Files of every node that ended are saved. Ctrl-C leaves the job running, a second one within 2 s stops it;
        with `stop_on_interrupt` the first does.
        """
        nodes = [node for group in self._groups for node in group.machine.nodes]
        self._logger.info("Waiting for ({%s}) ...", ", ".join(map(str, nodes)))
        self._display = ProgressDisplay([node for node in nodes if node >= 0], self._logger)
        for node, percent in self._percent.items():
            self._display.update(node, percent)
        try:
            self._wait_all(stop_on_interrupt)
        finally:
            self._display.close()
        self._logger.info("All the tasks are done.")
        return dict(sorted(self._raw_results.items())), bool(self.failures)

    def _wait_all(self, stop_on_interrupt: bool) -> None:
        interrupted = False
        while True:
            try:
                while not self._all_home():
                    self._step()
                break
            except KeyboardInterrupt:
                if not (stop_on_interrupt or interrupted or self._second_interrupt()):
                    self._logger.warning(
                        "The job %s goes on without us. Fetch its files later with "
                        "rpc.Reclaimer(com).require_client_log(%r), or psgd-submit --retrieve %s.",
                        self.job,
                        self.job,
                        self.job,
                    )
                    raise
                interrupted = True
                self.stop_executing("It was interrupted.")
        if interrupted:
            raise KeyboardInterrupt

    def _second_interrupt(self) -> bool:
        self._logger.warning("Press Ctrl-C again within %g s to stop the job on all nodes.", _LEAVE_SECONDS)
        deadline = self._clock.monotonic() + _LEAVE_SECONDS
        try:
            while self._clock.monotonic() < deadline and not self._all_home():
                self._step(deadline - self._clock.monotonic())
        except KeyboardInterrupt:
            return True
        return False

    def _all_home(self) -> bool:
        for group in self._groups:
            for node in group.machine.nodes:
                if node not in group.machine.ended:
                    return False
                if node not in self._lost and not (node in self._downloads and self._downloads[node].done):
                    return False
        return True

    def stop_executing(self, reason: str = "It was stopped by the submitter.") -> None:
        """Tell every node to end the job: executors are interrupted at their next send or receive. `join` waits for the end."""
        for group in self._groups:
            for node in group.machine.nodes:
                if node not in group.machine.ended:
                    self._tell_agent(node, Stop(self.job, reason))

    # ---- events

    def _step(self, patience: float | None = None) -> None:
        """Wait for bytes or the next deadline, and handle what has happened."""
        now = self._clock.monotonic()
        deadlines = [g.machine.deadline for g in self._groups if g.machine.deadline is not None]
        waits = [d - now for d in deadlines] + ([patience] if patience is not None else [])
        sessions: list[Session] = [s for s in (*self._com.sessions.values(), *self._code.values()) if s.lost is None]
        links: list[Any] = [s.link for s in sessions]
        wait_sockets(links, [s.link for s in sessions if s.pending_bytes], min(waits, default=None))  # type: ignore[misc]
        for node, session in self._com.sessions.items():
            self._read(node, session, FROM_AGENT, self._on_agent)
            if (session.lost is not None or session.left) and node not in self._lost:
                self._lost.add(node)
                self._feed_node(node, sub.IsLost(node, "its worker ended or the connection with it broke"))
        for node, session in list(self._code.items()):
            self._read(node, session, CODE_FROM_JOB, self._on_job_process)
        for group in self._groups:
            self._feed(group.machine, sub.Tick())

    def _read(
        self,
        node: int,
        session: Session,
        allowed: Iterable[type[Operation]],
        react: Callable[[int, Operation], None],
    ) -> None:
        session.send()
        try:
            session.receive()
            while (message := session.take()) is not None:
                react(node, parse(message.value, allowed))
        except ProtocolError as error:
            self._logger.error("%s broke the protocol: %s", self._names[node], error)
            session.close()

    def _machine_of(self, node: int) -> sub.Submission | None:
        return next((g.machine for g in self._groups if node in g.machine.nodes), None)

    def _feed_node(self, node: int, event: object) -> None:
        machine = self._machine_of(node)
        if machine is not None:
            self._feed(machine, event)
            if isinstance(event, sub.IsLost):
                self.failures.setdefault(node, ("lost", event.reason))

    def _feed(self, machine: sub.Submission, event: object) -> None:
        for action in machine.handle(event, self._clock.monotonic()):
            if isinstance(action, sub.AskCanCommit):
                self._tell_agent(action.node, self._order(action.node, machine.nodes))
            elif isinstance(action, sub.OpenCodeSession):
                self._open_code_session(action.node)
            elif isinstance(action, sub.Answer):
                self._answer(action.node, action.requests)
            elif isinstance(action, sub.SendAbort):
                self._tell_agent(action.node, Abort(self.job, action.reason))

    def _order(self, node: int, group: Sequence[int]) -> CanCommit:
        return CanCommit(
            self.job,
            self._title,
            node,
            list(group),
            0,
            self._code_keys[node].secret,
            self._peer_key.secret,
            ".".join(platform.python_version_tuple()[:2]),
            VERSION,
            self._blas_threads,
            self._start_limit,
        )

    def _tell_agent(self, node: int, operation: Operation) -> None:
        session = self._com.sessions[node]
        if session.lost is None:
            session.queue(operation.to_value())
            session.send()

    def _open_code_session(self, node: int) -> None:
        bundle = next(g.bundle for g in self._groups if node in g.machine.nodes)
        target = Target(
            self._com.addresses[node],
            self._code_keys[node],
            "code",
            "peer",
            process_name(self.job, node),
            node,
            unix_path="",
        )
        try:
            session = dial(target)
        except NetworkError as error:
            self._feed_node(node, sub.IsLost(node, str(error)))
            return
        session.use_classes(bundle.classes)
        self._code[node] = session
        session.queue(Load(bundle.objects, bundle.code, self._roster).to_value())
        session.send()

    def _on_agent(self, node: int, operation: Operation) -> None:
        if isinstance(operation, Accepted):
            self._roster[node] = [str(self._com.addresses[node]), operation.host, operation.unix_path]
            self._feed_node(node, sub.HasAccepted(node))
        elif isinstance(operation, Refused):
            self._busy = self._busy or operation.busy_since > 0
            self._feed_node(node, sub.HasRefused(node, clean(operation.reason)))
        elif isinstance(operation, Progress):
            self._percent[node] = operation.percent
            if self._display is not None:
                self._display.update(node, operation.percent)
        elif isinstance(operation, State):
            self._on_state(node, operation)
        elif node in self._downloads:
            self._on_file(node, operation)

    def _on_state(self, node: int, state: State) -> None:
        machine = self._machine_of(node)
        if machine is None:
            return
        if state.state == "running":
            self._feed(machine, sub.IsRunning(node))
            return
        if state.state != "done":
            self.failures.setdefault(node, (state.state, state.detail))
        started = node in machine.running or machine.phase is sub.Phase.DO_COMMIT
        self._feed(machine, sub.HasEnded(node, state.state, _last_line(state.detail)))
        if state.state in ("failed", "stopped") and started:
            self._logger.error("Node(%s) %s:\n%s", node, state.state, state.detail.rstrip())
        self._downloads[node] = Download(self._directory, node)
        self._tell_agent(node, Fetch(self.job))

    def _on_file(self, node: int, operation: Operation) -> None:
        download = self._downloads[node]
        download.take(operation, self._title)
        if not download.done:
            return
        if download.problem:
            self._logger.warning("Node(%s): %s", node, clean(download.problem))
        result = next((path for path in download.files if path.name == RESULT_FILE), None)
        if result is not None:
            self._raw_results[node] = self._read_result(node, result)
            download.files.remove(result)
            result.unlink()
        self.files[node] = download.files
        report_saved(self._logger, node, download.files)
        done = sorted(n for n, d in self._downloads.items() if d.done)
        self._logger.info("Node(%s) is done, {%s} is done.", node, ", ".join(map(str, done)))

    def _read_result(self, node: int, path: Path) -> Any:
        reader = FrameReader()
        reader.classes = next(g.bundle.classes for g in self._groups if node in g.machine.nodes)
        data = memoryview(path.read_bytes())
        while data:
            buffer = reader.buffer()
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            reader.advance(size)
            data = data[size:]
        return reader.messages.popleft().value

    def _on_job_process(self, node: int, operation: Operation) -> None:
        if isinstance(operation, Loaded):
            self._feed_node(node, sub.HasLoaded(node))
        elif isinstance(operation, Asks):
            self._feed_node(node, sub.HasAsked(node, tuple(operation.requests)))
        elif isinstance(operation, Prepared):
            machine = self._machine_of(node)
            self._feed_node(node, sub.HasPrepared(node))
            if machine is not None:
                ready = ", ".join(map(str, sorted(machine.prepared)))
                self._logger.info("Node(%s) is ready, {%s} is ready.", node, ready)

    def _answer(self, node: int, requests: Sequence[str]) -> None:
        if self._reply is None:
            return
        contents = []
        for request in requests:
            self._logger.info("Reply requirements to node(%s), type(%s).", node, clean(request))
            reply = self._reply(node, request)
            contents.append(reply.content if isinstance(reply, ReplyPackage) else reply)
        session = self._code[node]
        if session.lost is None:
            session.queue(Answers(contents).to_value())
            session.send()

    def watch(self, job: str) -> None:
        """Ask every agent to tell what happens to `job` from now on."""
        for node in self._com.available_clients:
            self._tell_agent(node, Watch(job))

    @property
    def bytes_sent(self) -> int:
        """Bytes sent to agents and job processes so far."""
        return self._com.bytes_sent + sum(s.bytes_sent for s in self._code.values())

    @property
    def bytes_read(self) -> int:
        """Bytes read from agents and job processes so far."""
        return self._com.bytes_read + sum(s.bytes_read for s in self._code.values())


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no reason given"
