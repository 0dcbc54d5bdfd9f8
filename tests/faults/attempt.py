"""One attempt of the submitter of a simulation at a job: it connects, submits, watches, and fetches the files."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from network import VERSION
from network.dial import CONNECT_SECONDS
from network.errors import NetworkError, PeerLost, TimedOut
from network.handshake import ClientHandshake
from network.nodes import Address
from rpc.errors import SubmissionError
from rpc.liveness.cluster_monitor import LIVENESS_MESSAGES, ClusterMonitor
from rpc.messages import (
    Abort,
    Accepted,
    Asks,
    CanCommit,
    Fetch,
    Load,
    Loaded,
    Lose,
    Operation,
    Prepared,
    Progress,
    Refused,
    State,
    Stop,
)
from rpc.submit import submission as sub
from rpc.submit.downloads import FILE_OPERATIONS, Downloads
from rpc.submit.run_folder import RunFolder
from rpc.submit.submission import Phase, Submission
from rpc.support.identity import code_key

from .greetings import READY, Calls

if TYPE_CHECKING:
    from .life import Life

PREPARE_SECONDS = 11.0
START_SECONDS = 60.0
FREE_SECONDS = 2.0
STALL_SECONDS = 3.0  # N
_log = logging.getLogger("tests.faults")
_log.addHandler(logging.NullHandler())
_log.propagate = False


class SimAttempt:
    """`problem` is why it could not start; `has_ended` says that all nodes have ended and that all files are here that come,
    `failures` which have not ended well. With `together` the first such failure ends the job everywhere.
    """

    def __init__(self, life: Life, job: str, number: int, nodes: Mapping[int, Address], together: bool) -> None:
        self.life, self.job, self.attempt, self.nodes, self._together = life, job, number, nodes, together
        self.names = {node: f"Node({node}) at {address}" for node, address in nodes.items()}
        life.workers = sorted(node for node in nodes if node >= 0)
        self.problem: Exception | None = None
        self.has_ended = False
        self.failures: dict[int, tuple[str, str]] = {}
        self.monitor = ClusterMonitor(job, number, _log)
        run = RunFolder(life.directory / "home", job, "title")
        self.downloads = Downloads(run.directory, lambda _: run, self._request_files, _log, life.clock)
        self._calls = Calls(life, "S")
        self._machines: list[Submission] = []
        self._stage = "connecting"
        self._until: float | None = None
        for node, address in nodes.items():
            if life.actors[f"A{node}"] is None:
                self._fail_to_start(PeerLost(node, str(address), "cannot connect: Connection refused"))
                return
            self._calls.call(f"A{node}", ClientHandshake(life.cluster, "submitter", "agent"))

    @property
    def runs(self) -> bool:
        """Whether all nodes have started."""
        return self._stage == "running"

    def _fail_to_start(self, error: Exception) -> None:
        self.problem, self._until = error, None

    def hang_up(self) -> None:
        for name in self.life.actors:
            self.life.close("S", name)
        self.downloads.close()

    # ---- what it hears

    def take(self, source: str, message: Any) -> None:
        node = _node(source)
        if isinstance(message, bytes):
            self._calls.hear(source, message)
        elif message == READY:
            self._calls.forget(source)
            self._connected(source, node)
        elif message == "End":
            self._on_end(source, node)
        elif self._stage != "connecting":
            self._on_operation(node, message)
            self._look_on()

    def _connected(self, source: str, node: int) -> None:
        if source[0] == "J":
            machine = self._machine_of(node)
            if not any(f"J{other}" in self._calls for other in machine.nodes):
                for other in machine.nodes:
                    self.life.send("S", f"J{other}", Load(b"", b"", {}, {}))
        elif not self._calls and self._stage == "connecting":
            self._stage, self._until = "submitting", None
            servers, workers = [n for n in self.nodes if n < 0], sorted(n for n in self.nodes if n >= 0)
            self._groups = [group for group in (servers, workers) if group]
            self._submit_group()

    def _submit_group(self) -> None:
        machine = Submission(self._groups.pop(0), self.names, START_SECONDS)
        self._machines.append(machine)
        self._feed(machine, sub.Started())

    def _on_end(self, source: str, node: int) -> None:
        if self._stage == "connecting":
            error = PeerLost(node, str(self.nodes[node]), "it closed the connection during the handshake")
            self._fail_to_start(error)
        elif source[0] == "A" and node in self.nodes:
            reason = str(PeerLost(node, str(self.nodes[node]), "its connection ended"))
            self._gone(node, self.monitor.explain(node, reason, self.life.now))
            self._look_on()
        elif self._calls.forget(source):
            self._feed(self._machine_of(node), sub.IsLost(node, "its job process closed the connection during the handshake"))
            self._look_on()

    def _machine_of(self, node: int) -> Submission:
        return next(machine for machine in self._machines if node in machine.nodes)

    def _gone(self, node: int, reason: str) -> None:
        machine = next((machine for machine in self._machines if node in machine.nodes), None)
        if machine is not None and node not in machine.ended:
            self.failures.setdefault(node, ("lost", reason))
            self._feed(machine, sub.IsLost(node, reason))
            self._end_others(node)
            for other in self._running():
                self.life.send("S", f"A{other}", Lose(self.job, node, reason))
        elif machine is None and self._stage == "submitting":
            self._give_up(NetworkError(reason))
        self.monitor.ended(node, False, self.life.now)
        self.downloads.give_up(node, reason)

    def _on_operation(self, node: int, operation: Operation) -> None:
        if isinstance(operation, FILE_OPERATIONS):
            self.downloads.take(node, operation)
        elif isinstance(operation, LIVENESS_MESSAGES):
            self.monitor.take(node, operation, self.life.now)
        elif isinstance(operation, State):
            self._on_state(node, operation)
        elif not isinstance(operation, Progress):
            event: Any = {
                Accepted: lambda: sub.HasAccepted(node),
                Refused: lambda: sub.HasRefused(node, operation.reason),  # type: ignore[attr-defined]
                Loaded: lambda: sub.HasLoaded(node),
                Asks: lambda: sub.HasAsked(node, ("data",)),
                Prepared: lambda: sub.HasPrepared(node),
            }[type(operation)]()
            self._feed(self._machine_of(node), event)

    def _on_state(self, node: int, state: State) -> None:
        machine = self._machine_of(node)
        if state.state == "running":
            self._feed(machine, sub.IsRunning(node))
        elif node not in machine.ended:
            self.monitor.ended(node, state.state == "done", self.life.now)
            if state.state != "done":
                self.failures[node] = (state.state, state.detail)
            lines = state.detail.strip().splitlines() or ["no reason given"]
            self._feed(machine, sub.HasEnded(node, state.state, lines[-1]))
            if state.state != "done":
                self._end_others(node)
            if machine.phase is not Phase.FAILED and not (self._together and self.failures):
                self.downloads.expect(node)

    def _request_files(self, node: int) -> None:
        self.life.send("S", f"A{node}", Fetch(self.job))

    def _end_others(self, node: int) -> None:
        if self._together and len(self.failures) == 1:
            self._stop_all(f"{self.names[node]} did not end well, and the job ends together.")

    def _stop_all(self, reason: str) -> None:
        for node in self._running():
            self.life.send("S", f"A{node}", Stop(self.job, reason))

    def _running(self) -> list[int]:
        return [node for machine in self._machines for node in machine.nodes if node not in machine.ended]

    # ---- what it decides

    def _feed(self, machine: Submission, event: object) -> None:
        life = self.life
        for action in machine.handle(event, life.now):
            if isinstance(action, sub.AskCanCommit):
                group = list(machine.nodes)
                order = CanCommit(self.job, "title", action.node, group, self.attempt, platform.python_version(), VERSION, 1, 1,
                                  machine.first_limit + PREPARE_SECONDS + 60.0, START_SECONDS, stall=STALL_SECONDS)  # fmt: skip
                life.send("S", f"A{action.node}", order)
            elif isinstance(action, sub.OpenCodeSession):
                self._open(machine, action.node)
            elif isinstance(action, sub.Answer):
                life.send("S", f"J{action.node}", "Answers")
            elif isinstance(action, sub.SendDoCommit):
                life.send("S", f"J{action.node}", "DoCommit")
            elif isinstance(action, sub.SendAbort):
                life.send("S", f"A{action.node}", Abort(self.job, action.reason))

    def _open(self, machine: Submission, node: int) -> None:
        life = self.life
        if life.actors[f"J{node}"] is None or machine.phase is Phase.FAILED:
            self._feed(machine, sub.IsLost(node, "its job process cannot be reached"))
            return
        self._calls.call(f"J{node}", ClientHandshake(code_key(life.cluster, self.job, node), "code", "peer", f"J{node}"))

    def _look_on(self) -> None:
        """Go on with whatever the machines have come to."""
        phases = [machine.phase for machine in self._machines]
        if self._stage == "submitting" and Phase.FAILED in phases:
            self._give_up(self._failure())
        elif self._stage == "submitting" and phases and phases[-1] not in (Phase.CAN_COMMIT,) and self._groups:
            self._submit_group()
        elif self._stage == "submitting" and phases and not self._groups and phases[-1] is not Phase.CAN_COMMIT:
            self._stage = "starting"
            for machine in self._machines:
                self._feed(machine, sub.Dispatched(PREPARE_SECONDS))
            self._look_on()
        elif self._stage == "starting":
            self._starting(phases)
        elif self._stage == "running":
            self._maybe_home()
        elif self._stage == "freeing" and all(machine.all_free for machine in self._machines):
            self._settle()

    def _starting(self, phases: list[Phase]) -> None:
        if Phase.FAILED in phases:
            self._give_up(self._failure())
        elif all(phase in (Phase.RUNNING, Phase.ENDED) for phase in phases):
            self._stage = "running"
            self.monitor.begin([node for machine in self._machines for node in machine.nodes], self.life.now)
            self._maybe_home()

    def _failure(self) -> SubmissionError:
        machine = sub.failed_first(self._machines)
        assert machine is not None
        return SubmissionError(f"The job was not started: {machine.reason.rstrip('.')}.")

    def _give_up(self, error: Exception) -> None:
        """Take the job back on all nodes, and wait a moment until they are free."""
        self._reason = error
        self._stage, self._until = "freeing", self.life.now + FREE_SECONDS
        for machine in self._machines:
            self._feed(machine, sub.Cancelled(str(error)))
        if all(machine.all_free for machine in self._machines):
            self._settle()

    def _settle(self) -> None:
        """The first cause may be known by now."""
        for machine in self._machines:
            self._feed(machine, sub.Settled())
        self._fail_to_start(self._failure() if isinstance(self._reason, SubmissionError) else self._reason)

    def _maybe_home(self) -> None:
        if self.downloads.open or not all(len(m.ended) == len(m.nodes) for m in self._machines):
            return
        for node, reason in self.downloads.missing.items():
            self.failures.setdefault(node, ("lost", f"{reason.rstrip('.')}. Its files have not come."))
        self.has_ended = True

    # ---- time

    @property
    def deadline(self) -> float | None:
        moments = [self._until, self._calls.deadline]
        if self._stage != "connecting":
            moments += [self.monitor.deadline, self.downloads.deadline, *(machine.deadline for machine in self._machines)]
        return min((moment for moment in moments if moment is not None), default=None)

    def tick(self) -> None:
        self._on_late(self._calls.late())
        if self._stage == "freeing" and self._until is not None and self.life.now >= self._until:
            self._settle()
        if self._stage not in ("submitting", "starting", "running"):
            return
        for machine in self._machines:
            self._feed(machine, sub.Tick())
        for verdict in self.monitor.look(self.life.now):
            if verdict.kind == "silent":
                self.life.close("S", f"A{verdict.node}")
                self._gone(verdict.node, verdict.headline)
            else:
                self._stop_all(verdict.headline)
        self.downloads.check()
        self._look_on()

    def _on_late(self, names: list[str]) -> None:
        """Some that were called have not answered."""
        late = [(node, TimedOut(f"node {node} at {self.nodes[node]} to answer", CONNECT_SECONDS)) for node in map(_node, names)]
        if late and self._stage == "connecting":
            self._fail_to_start(late[0][1])
            return
        for node, error in late:
            self.life.close("S", f"J{node}")
            self._feed(self._machine_of(node), sub.IsLost(node, str(error)))


def _node(name: str) -> int:
    return int(name[1:])
