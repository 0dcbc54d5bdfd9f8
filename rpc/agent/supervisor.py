"""Supervisor of one job process of an agent: it starts, watches and ends it, as the state machine decides."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from network.acceptor import Forwarded
from network.errors import ProtocolError
from network.hello import Hint
from network.keys import Key
from network.session import Session

from ..errors import JobAborted
from ..liveness.limits import LEFT_SECONDS
from ..liveness.process_monitor import ProcessMonitor
from ..liveness.recorder import Reader, make_memory
from ..messages import (
    FROM_JOB_PROCESS,
    Advanced,
    Begin,
    CanCommit,
    Halt,
    Lose,
    Operation,
    Reached,
    SecurityEvent,
    Suspect,
    Took,
    Visitor,
    Warned,
)
from ..process_channel import ProcessChannel, make_channel
from ..protocol import is_node
from ..support.identity import code_key, peer_key, peer_keys
from ..support.logs import get_logger
from ..verdict import signal_name
from . import job_state
from .checks import threads_of
from .children import COULD_NOT_FORK, ChildProcesses, ForkedProcess, JobProcess, child_environment, kill_group
from .event_log import EventLog
from .kernel_sets import KernelSets
from .output import JobOutput
from .store import JobRecord

MOST_UNTAKEN = 64  # visitors sent to the process that it has not taken yet
_MOST_READ = 256  # operations of one process per round, so that a talkative one cannot hold up the others

logger = get_logger(__name__)


@dataclass(frozen=True)
class Surroundings:
    """Resources that the job processes of an agent share.

    Args:
        slots: how many processes there may be.
        cache: folder of data that outlives jobs.
        code_policy: see `rpc.shipping.load`.
        output_limit: bytes of one process's output that its log keeps.
        port: port of the agent.
        unix_path: its socket for peers on this host, "" for none.
        children: starts the processes.
        kernels: sets of BLAS kernels of this host.
    """

    slots: int
    cache: Path
    code_policy: str
    output_limit: int
    port: int
    unix_path: str
    children: ChildProcesses
    kernels: KernelSets


class Supervisor:
    """Job process and its slot. `percent` and `note` are its progress.

    Args:
        order: the order of the submitter.
        record: the record of the job.
        folder: its folder.
        submitter: the session that started it.
        cluster: the key that the submitter has proven.
        surroundings: shared resources.
        now: monotonic seconds.
        tell: called as `tell(supervisor, said)` with each new state, and each message of the process or its monitor: progress,
            heartbeats, notices, a verdict, a line for the audit log.

    Raises: OSError when it cannot be started.
    """

    def __init__(
        self,
        order: CanCommit,
        record: JobRecord,
        folder: Path,
        submitter: Session,
        cluster: Key,
        surroundings: Surroundings,
        now: float,
        tell: Callable[[Supervisor, Operation | job_state.Tell], None],
    ) -> None:
        self.order = order
        self.record = record
        self.submitter = submitter
        self.percent, self.note = 0, ""
        # from acceptance: the submitter prepares and ships within these limits
        self.slot = job_state.JobStateMachine(order.prepare_limit + order.start_limit, now)
        self.free = False
        self._tell, self._children = partial(tell, self), surroundings.children
        self._reaped: float | None = None
        self._untaken = 0
        self._order_to_halt: str | None = None
        self._exit_code = -1
        self._has_run = False
        # what is opened from here on is closed again where a later step fails: a job that cannot start must leave nothing open
        memory = make_memory()
        self.events = EventLog(folder, order.attempt)
        self._monitor = ProcessMonitor(order, Reader(memory), folder / record.log, now)
        try:
            self.output = JobOutput(folder / record.log, surroundings.output_limit)
            try:
                environment = child_environment(os.environ, threads_of(order)) | surroundings.kernels.environment(order.kernels)
                self._process, ours = _start(self._children, environment, order.modules, folder, self.output, memory)
            except BaseException:
                self.output.close()
                raise
        except BaseException:
            self._monitor.close()
            raise
        # until a process is forked, the work of its fork server is its sign of life
        self._monitor.begin(self._process.busy_pid if isinstance(self._process, ForkedProcess) else self._process.pid)
        self.events.note("accepted", host=socket.gethostname(), **_told(order))
        self._is_begun = False
        self.channel: ProcessChannel | None = ProcessChannel(ours, FROM_JOB_PROCESS)
        # derived here, so that the process never sees the cluster's key
        keys = peer_keys(cluster, order.job, order.node, [*order.group, *order.others])
        self._cluster, self._callers = cluster, {key.id: node for node, key in keys.items()}
        self._send(
            Begin(
                order.job,
                order.title,
                order.node,
                order.group,
                order.attempt,
                code_key(cluster, order.job, order.node).secret,
                {node: key.secret for node, key in keys.items()},
                order.prepare_limit,
                order.start_limit,
                str(surroundings.cache),
                surroundings.code_policy,
            )
        )

    @property
    def name(self) -> str:
        """Name for which connections to this process ask."""
        return self.record.name

    @property
    def deadline(self) -> float | None:
        deadlines = [self.slot.deadline, self._monitor.deadline]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def heartbeat_at(self) -> float:
        """Time of the newest heartbeat, before the first one that of the start (monotonic seconds)."""
        return self._monitor.heartbeat_at

    @property
    def sign_at(self) -> float | None:
        """Time of the newest sign of work (monotonic seconds), None of a process that gives none now."""
        return self._monitor.sign_at

    def _send(self, operation: Operation, connection: socket.socket | None = None) -> bool:
        if self.channel is None:
            return False
        try:
            self.channel.send(operation, connection.fileno() if connection else None)
        except OSError:  # gone, which `read` will see, or hung with a full pair, which its limit will end
            return False
        return True

    def pass_on(self, visitor: Forwarded) -> None:
        """Give a connection to the job process, or turn it away when too many are waiting there."""
        if self._untaken >= MOST_UNTAKEN:
            with contextlib.suppress(OSError):
                visitor.sock.send(bytes([Hint.FULL]))
        elif self._send(Visitor(visitor.data, visitor.seconds, visitor.peer, *self._caller_of(visitor)), visitor.sock):
            self._untaken += 1
        visitor.sock.close()  # our copy; the process has its own

    def _caller_of(self, visitor: Forwarded) -> tuple[int, bytes]:
        """Identify the calling node by the key that it is going to prove, and return it with the key that it shares with
        ours: it is known then, whichever id it claims. A node that came later than ours is not among those known: then by
        its claim.
        """
        hello = visitor.hello
        own, claimed = self.order.node, hello.caps.get("node")
        caller = self._callers.get(hello.key_id, claimed if is_node(claimed) else own)
        if hello.role != "peer" or caller == own:
            return own, b""
        return caller, peer_key(self._cluster, self.order.job, own, caller).secret

    def tell_of_peer(self, message: Lose | Suspect) -> None:
        """Tell the process that another node of the job is lost, or late."""
        if isinstance(message, Lose):
            self.events.note("lost", node=message.node, reason=message.reason)
        self._send(message)

    def write_down(self) -> None:
        """Put the last signals of the process into the event log, once."""
        self.events.note_signals(self._monitor.recent)
        self._monitor.recent.clear()

    def read(self, now: float) -> list[object]:
        """Take in the messages of the process up to `now`; return events for `handle`."""
        events: list[object] = []
        # before its messages: its log is complete when its end is told
        self.output.take()
        if not self._is_begun and self._process.pid:
            self._is_begun = True
            self._monitor.begin(self._process.pid)
            self.events.note("started", pid=self._process.pid)
        for _ in range(_MOST_READ):
            # a forked process may speak before its server has told its pid: it is heard when it is known which process speaks
            if self.channel is None or (not self._is_begun and self._process.returncode is None):
                break
            try:
                received = self.channel.receive()
            except BlockingIOError:
                break
            except (ProtocolError, OSError) as error:
                logger.error("Job %s: its process spoke out of turn and is ended: %s", self.name, error)
                received = None
            if received is None:
                self._hang_up()
                break
            operation, connection = received
            if connection is not None:  # no operation of a job process needs one
                connection.close()
            events += self._take(operation)
            if isinstance(operation, Reached) and operation.state == "failed":
                return events  # an order to stop that has come meanwhile is heard before the end of the process is seen
        # its last words are in the channel still when it has ended, so the end counts when the channel is empty
        if self.channel is None and (code := self._process.poll()) is not None and self._nothing_left(now):
            self.output.close()
            events.append(job_state.ProcessGone(_how(self._process, code), code < 0))
        return events

    def _nothing_left(self, now: float) -> bool:
        """Tell if the processes that the job process, which has ended, has started are gone too, or cannot be ended."""
        left = self._children.end_adopted()
        self._reaped = now if self._reaped is None else self._reaped
        if left and now < self._reaped + LEFT_SECONDS:
            return False
        if left:
            # in an uninterruptible wait; the slot is worth more than waiting for a device
            self._children.give_up(left)
            logger.warning("Job %s has left processes that cannot be ended: %s.", self.name, ", ".join(map(str, sorted(left))))
        return True

    def _take(self, operation: Operation) -> list[object]:
        if isinstance(operation, Took):
            self._untaken = max(0, self._untaken - 1)
        elif isinstance(operation, (Advanced, SecurityEvent, Warned)):
            if isinstance(operation, Advanced):
                self.percent, self.note = operation.percent, operation.note
            self._tell(operation)
        elif isinstance(operation, Reached):
            state, detail, self._exit_code = operation.state, operation.detail, operation.exit_code
            if self._order_to_halt is not None and state == "failed":
                # it may have failed because the others had stopped before it heard of the order
                state, detail = "stopped", str(JobAborted(self._order_to_halt))
            return [job_state.Reported(state, detail, tuple(operation.files))]
        return []

    def look(self, now: float) -> None:
        """Check whether the process makes progress up to `now`, and tell subscribers the findings."""
        if self.free:
            return
        monitor = self._monitor
        leaving = self.slot.stage is job_state.Stage.LEAVING
        # before the executor runs its silence has another meaning: imports and data take as long as they take
        for operation in monitor.look(now, leaving=leaving) if self._has_run else monitor.look_at_start(now):
            self._tell(operation)
        if monitor.condemned:
            self.handle(job_state.Condemned(monitor.condemned), now)

    def keep_alive(self, now: float) -> list[Operation]:
        """Return the heartbeat that is due at `now`; called from another thread while that of the agent waits for its disk."""
        if self.free:
            return []
        return self._monitor.keep_alive(now) if self._has_run else self._monitor.look_at_start(now)

    def handle(self, event: object, now: float) -> None:
        if self.free:
            return
        for action in self.slot.handle(event, now):
            if isinstance(action, job_state.Kill):
                kill_group(self._process)
            elif isinstance(action, job_state.OrderHalt):
                self._order_to_halt = action.reason
                self._send(Halt(action.reason))
            elif isinstance(action, job_state.Tell):
                self._pass_on_state(action, now)
            elif isinstance(action, job_state.Free):
                self.free = True
                self._monitor.close()

    def _pass_on_state(self, tell: job_state.Tell, now: float) -> None:
        """Pass a state on; a failure of a job that has run goes with a verdict."""
        if tell.state == "failed" and self._has_run and self._monitor.verdict is None:
            # None while it still runs: the failure was its own report
            code = self._process.returncode
            self._tell(self._monitor.failed(now, tell.detail, code, self._exit_code))
        # its last signals may answer a warning that still stands: it is taken back before the end is told
        elif tell.state == "done" and self._has_run:
            for operation in self._monitor.farewell(now):
                self._tell(operation)
        elif tell.state != "running" and self._has_run:
            self._monitor.catch_up(now)
        self._has_run = self._has_run or tell.state == "running"
        self._tell(tell)

    def _hang_up(self) -> None:
        """End the children of the process, which has ended, or must; its exit code stays as it was."""
        # its group, too: helpers of the process hold its ports and memory
        kill_group(self._process)
        if self.channel is not None:
            self.channel.close()
            self.channel = None

    def end(self) -> None:
        self._hang_up()
        self._process.wait()
        self.output.close()


def _start(
    children: ChildProcesses, environment: dict[str, str], modules: Sequence[str], folder: Path, output: JobOutput, memory: int
) -> tuple[JobProcess, socket.socket]:
    """Start a job process with its output in the job's log; also return our end of the pair with it. `memory` is its
    recorder's.
    """
    ours, theirs = make_channel()
    try:
        process = children.start_job(environment, modules, folder, theirs.fileno(), memory, output.theirs)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # else connections in flight would outlive a dead process
    output.started()
    return process, ours


def _told(order: CanCommit) -> dict[str, Any]:
    return {name: value for name, value in asdict(order).items() if name not in ("job", "attempt")}


def _how(process: JobProcess, code: int) -> str:
    if code == COULD_NOT_FORK and isinstance(process, ForkedProcess):
        return f"its process could not be forked: {process.problem}".removesuffix(": ")
    return f"exit code {code}" if code >= 0 else f"killed by signal {-code} ({signal_name(-code)})"
