"""Worker processes as the driver of an elastic job sees them: submitted into the running job, spoken to, heard, ended."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from network.budget import OBJECT_BYTES
from network.controller import Controller
from network.errors import NetworkError, ProtocolError
from network.nodes import NodeAssignment
from network.request import Request
from network.session import Session
from rpc import Coordinator, JobAborted, NodeBusy, SubmissionError, watch_for_silence
from rpc.elastic import Worker
from rpc.messages import FROM_AGENT, Operation, State, StopNode, operations
from rpc.shipping import Bundle
from rpc.support.logs import get_logger

from ..driver.membership import ElasticMembership
from .messages import FROM_WORKER, End

BUSY_SECONDS = 15.0  # for a slot whose last worker is being ended
FREE_SECONDS = 8.0  # for all nodes to be free again at the end
_PAUSE_SECONDS = 0.2
_UNFINISHED = ("starting", "running", "unknown")
_quiet = get_logger("parallel_sgd.elastic.submission")
_quiet.setLevel(logging.ERROR)  # the driver tells of rounds, not of the submission of each worker


@dataclass(frozen=True)
class Task:
    """Data with which every worker of a job is submitted.

    `bundle` has the `ElasticWorker`, packed once; `data` the arguments that are data, by their place; `size` is that of their
    arrays.
    """

    job: str
    title: str
    key_file: str | Path | None
    bundle: Bundle
    data: Mapping[int, Any]
    size: int
    blas_threads: int
    stall: float


@dataclass(frozen=True)
class Running:
    """Event: the worker has started, and its line is open."""

    worker: Worker


@dataclass(frozen=True)
class NotStarted:
    """Event: the worker could not be started; `agent_lost` where its agent could not be reached."""

    worker: Worker
    reason: str
    agent_lost: bool = False


@dataclass(frozen=True)
class Unreachable:
    """Event: the worker's agent, or for a while its process, cannot be reached."""

    reason: str


class WorkerHandle:
    """Handle of one worker process at the driver.

    The worker starts in a helper thread; `deliver` gets Running or NotStarted from there. Until then nothing else may be
    called. `others` are the nodes of the job that the worker may call.

    Attributes: `worker`, `node`, `place` once it is known, `fenced` when no message of the worker counts any more.
    """

    def __init__(
        self,
        worker: Worker,
        node: int,
        task: Task,
        deliver: Callable[[Running | NotStarted], None],
        others: Sequence[int] = (),
    ) -> None:
        self.worker, self.node, self._others = worker, node, others
        self.place: Sequence[str] | None = None
        self.fenced = self.ended = False
        self._task, self._deliver = task, deliver
        self._com: Controller | None = None
        self._line: Session | None = None
        self._gone = False
        self._given_up = threading.Event()
        # so that `stop` or `close` finds its connections, or its thread finds it given up
        self._handing_over = threading.Lock()
        # in the context of the job, which says how much is shown
        self._thread = threading.Thread(target=copy_context().run, args=(self._start,), name=f"start {worker}", daemon=True)
        self._thread.start()

    # ---- its own thread

    def _start(self) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._submit()
                self._deliver(Running(self.worker))
            except Exception as error:  # noqa: BLE001  of any error: the driver decides on the next step
                # a slot of the same job is being cleared: busy for a moment
                if isinstance(error, NodeBusy) and time.monotonic() < deadline and not self._given_up.wait(_PAUSE_SECONDS):
                    continue
                agent_lost = isinstance(error, NetworkError) and not isinstance(error, SubmissionError)
                self._deliver(NotStarted(self.worker, str(error), agent_lost))
            return

    def _check_slots(self, slots: object) -> None:
        """Refuse an agent that has fewer slots than discovery, or the nodes, say: no waiting helps there."""
        if isinstance(slots, int) and self.worker.slot >= slots:
            has, wanted = f"{slots} slot{'s' if slots > 1 else ''}", self.worker.slot + 1
            raise SubmissionError(
                f"The worker at {self.worker.address} has {has}, and {wanted} of the job are to run there: start it with "
                f"'psgd worker --slots {wanted}', or name it less often."
            )

    def _submit(self) -> None:
        task = self._task
        com = Request().request(NodeAssignment(key_file=task.key_file).add(self.node, self.worker.address))
        try:
            # asked again: the job may have moved on while the agent kept us waiting
            self._check_wanted()
            self._check_slots(com.sessions[self.node].caps.get("slots"))
            coordinator = Coordinator(
                com,
                logger=_quiet,
                title=task.title,
                blas_threads=task.blas_threads,
                job=task.job,
                stall=task.stall,
                others=self._others,
                collects=False,
            )
            coordinator.submit_single(task.bundle, self.node, task.size)
            coordinator.resources_dispatch(lambda _node, _request: dict(task.data))
            line = coordinator.call()[self.node]
            # both lines: a host that is cut off sends no end of a connection
            watch_for_silence(line)
            watch_for_silence(com.sessions[self.node])
            # under the lock, so that `stop` finds either the connections or a start that gives up
            with self._handing_over:
                self._check_wanted(line)
                self._line, self._com = line, com
        except BaseException:
            with contextlib.suppress(NetworkError):
                # the agent may have started it: nothing of a failed start may stay
                com.send_one(self.node, StopNode(task.job, self.node, "It could not be started.").to_value(), 1.0)
            com.close()
            raise

    def _check_wanted(self, line: Session | None = None) -> None:
        if self._given_up.is_set():
            if line is not None:
                line.close()
            raise JobAborted("It was given up before it had started.")

    # ---- the driver's thread, once it runs

    @property
    def sessions(self) -> list[Session]:
        """Sessions that `hear` reads: the worker's line, and its agent's."""
        if self._com is None or self._line is None or self._gone:
            return []
        return [self._line, self._com.sessions[self.node]]

    def say(self, message: Operation) -> None:
        if self._line is not None and self._line.alive:
            with contextlib.suppress(NetworkError):
                self._line.queue(message.to_value())
                self._line.send()

    def stop(self, reason: str) -> None:
        """Have the agent end the process, or do not start it."""
        with self._handing_over:
            self._given_up.set()
        if self._com is not None and not self.ended:
            with contextlib.suppress(NetworkError):
                # to the agent: the process may hear nothing
                session = self._com.sessions[self.node]
                session.queue(StopNode(self._task.job, self.node, reason).to_value())
                session.send()

    def hear(self) -> list[Operation | Unreachable]:
        """Return the messages of the worker and its agent, the worker's first; none after the State of a process that has
        ended, or Unreachable of the agent.

        With that State the connections are closed: a long job may see many workers come and go.
        """
        if not self.sessions:
            return []
        line, agent = self.sessions
        # the worker first: its result comes before the end of its process
        heard: list[Operation | Unreachable] = [*_read(line, FROM_WORKER)]
        for operation in _read(agent, FROM_AGENT):
            if not isinstance(operation, State):
                heard.append(operation)
            elif (operation.job, operation.node) == (self._task.job, self.node) and operation.state not in _UNFINISHED:
                self.ended = self._gone = True
                heard.append(operation)
        if not agent.alive and not self._gone:
            self._gone = True
            heard.append(Unreachable(f"its agent cannot be reached any more: {agent.lost or 'it has left'}"))
        if self.ended:
            # descriptors are few, workers may come and go for days
            self.close()
        return heard

    @property
    def is_cut_off(self) -> bool:
        """Whether the line is lost though the agent has not said why."""
        return self._line is not None and not self._line.alive and not self._gone

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be expected: it never started, its process has ended, or its agent is gone."""
        return self.ended or self._gone

    def close(self) -> None:
        """Let go of the connections; a worker that is being started is given up. Idempotent."""
        with self._handing_over:
            self._given_up.set()
        if self._line is not None:
            self._line.close()
        if self._com is not None:
            self._com.close(graceful=False)

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)


def _read(session: Session, allowed: Sequence[type[Operation]]) -> list[Operation]:
    """Return the messages that have arrived; of a session that breaks the protocol, those that came before."""
    said: list[Operation] = []
    # a hostile or broken worker costs its own messages
    with contextlib.suppress(ProtocolError):
        said.extend(operations(session, allowed, OBJECT_BYTES))
    return said


class WorkerPool:
    """Handles of all workers that were ever started. Events of their threads go to the inbox of `members`."""

    def __init__(self, task: Task, members: ElasticMembership) -> None:
        self._task, self._members = task, members
        self._handles: dict[Worker, WorkerHandle] = {}

    def __iter__(self) -> Iterator[WorkerHandle]:
        return iter(list(self._handles.values()))

    def __getitem__(self, worker: Worker) -> WorkerHandle:
        return self._handles[worker]

    def start(self, worker: Worker) -> None:
        """Start a worker, unless it was started before; no other worker ever gets its node id."""
        if worker not in self._handles:
            others = [handle.node for handle in self if not handle.ended]  # it calls those that were started before it
            self._handles[worker] = WorkerHandle(worker, len(self._handles), self._task, self._members.inbox.put, others)

    def sessions(self) -> list[Session]:
        return [session for handle in self for session in handle.sessions]

    def dismiss(self, returned: Collection[Worker], silent: Collection[Worker]) -> None:
        """End all processes, wait until their nodes are free, and close all connections.

        Workers that have `returned` end by themselves; the driver does not wait for `silent` ones, on silent hosts.
        """
        for handle in self:
            if handle.worker in returned:
                handle.say(End())
            else:
                handle.stop("The job has ended.")
        deadline = time.monotonic() + FREE_SECONDS
        while (left := deadline - time.monotonic()) > 0:
            # starts that fail late must not be waited for
            for item in self._members.inbox.take():
                if isinstance(item, NotStarted):
                    self[item.worker].ended = True
            staying = [handle for handle in self if handle.worker not in silent and not handle.is_over]
            if not staying:
                break
            self._members.wait(self.sessions(), left)
            for handle in self:
                handle.hear()
        for handle in self:
            handle.join(max(0.0, deadline - time.monotonic()))
            handle.close()
