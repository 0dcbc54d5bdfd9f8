"""An agent of a simulation: real records, slot, guard and retrieval; its job process is another actor."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from network import VERSION
from network.handshake import ServerHandshake
from network.keys import Keyring
from rpc.agent import job_state
from rpc.agent.files import send_files
from rpc.agent.store import JobFolders, JobRecord
from rpc.liveness.process_monitor import ProcessMonitor
from rpc.liveness.recorder import Reader, make_memory
from rpc.messages import (
    Abort,
    Accepted,
    CanCommit,
    Fetch,
    Halt,
    Lose,
    Operation,
    Progress,
    Reached,
    Refused,
    State,
    Stop,
    Verdict,
)

from .greetings import KNOCK, Door
from .processes import SimProcess

if TYPE_CHECKING:
    from .life import Life

_NO_PID = 1 << 22  # more than any process id can be
_KEPT_JOBS = 10


class SimRun:
    """A job at its agent."""

    def __init__(self, life: Life, order: CanCommit, record: JobRecord, folders: JobFolders) -> None:
        self.order, self.record = order, record
        self.slot = job_state.JobStateMachine(order.prepare_limit + order.start_limit, life.now)
        self.memory = make_memory()
        folder = folders.folder(record)
        self.guard = ProcessMonitor(order, Reader(self.memory), folder / record.log, life.now)
        self.guard.begin(_NO_PID + 1 + abs(order.node))
        self.has_run = False
        self.watched = True

    @property
    def deadline(self) -> float | None:
        moments = [self.slot.deadline, self.guard.deadline if self.has_run else None]
        return min((moment for moment in moments if moment is not None), default=None)


class SimAgent:
    """Takes one job at a time; `freed_at` is when it was free again."""

    def __init__(self, life: Life, node: int) -> None:
        self.life, self.node = life, node
        self.name, self.child = f"A{node}", f"J{node}"
        self.folders = JobFolders(life.directory / self.name, _KEPT_JOBS, life.clock)
        self.running: SimRun | None = None
        self.freed_at = life.now
        self._door = Door(life, self.name)
        self._submitter = False  # whether it has proven its key

    @property
    def deadline(self) -> float | None:
        return None if self.running is None else self.running.deadline

    def close(self) -> None:
        if self.running is not None:
            self.running.guard.close()

    def forget(self) -> None:
        """Nothing else is held."""

    # ---- what it hears

    def take(self, source: str, message: Any) -> None:
        if source == self.child:
            self._from_child(message)
        elif message == KNOCK:
            self._door.knock(source, ServerHandshake({"submitter": Keyring((self.life.cluster,))}, "agent"))
            self._submitter = False
            self._forsaken()  # whoever calls anew has hung up before
        elif isinstance(message, bytes):
            self._submitter = self._door.greet(source, message) is not None
        elif message == "End":
            self._submitter = False
            self._door.forget(source)
            self._forsaken()
        elif self._submitter:
            self._obey(message)

    def _forsaken(self) -> None:
        """The submitter of the running job is gone."""
        if self.running is not None and self.running.watched:
            self.running.watched = False
            self._decide(job_state.SubmitterGone())

    def _obey(self, operation: Operation) -> None:
        if isinstance(operation, CanCommit):
            self.life.note("canCommit", self.name)
            self._tell(self._accept(operation))
        elif isinstance(operation, Fetch):
            self._fetch(operation.job)
        elif self.running is None:
            return
        elif isinstance(operation, Abort):
            self._decide(job_state.AbortAsked(operation.reason))
        elif isinstance(operation, Stop):
            self._decide(job_state.StopAsked(operation.reason))
        elif isinstance(operation, Lose):
            self.life.send(self.name, self.child, operation)

    def _accept(self, order: CanCommit) -> Accepted | Refused:
        if self.running is not None:
            return Refused(order.job, order.node, f"busy with job '{self.running.record.title}'", 1.0)
        try:
            record = self.folders.create(order.job, order.node, order.title, order.attempt)
        except FileExistsError:
            return Refused(order.job, order.node, "the job process cannot be started: it was here before", 0.0)
        self.running = SimRun(self.life, order, record, self.folders)
        self.life.ends[self.child] = ("exit code 0", 0)
        self.life.actors[self.child] = SimProcess(
            self.life, order, self.running.memory, self.folders.folder(record), record.log
        )
        self.life.connect(self.name, self.child)
        self.life.note("listen", self.child)
        return Accepted(order.job, order.node, "host", 1, "", VERSION)

    def _fetch(self, job: str) -> None:
        record = self.folders.find(job, self.node)
        if record is None:
            return
        parts: Iterator[Operation] = send_files(record, self.folders.folder(record), [])
        self._tell(next(parts))
        self.life.note("retrieve", self.name)
        for part in parts:
            self._tell(part)

    def _from_child(self, message: Any) -> None:
        if message == "End":
            self._decide(job_state.ProcessGone(self.life.ends[self.child][0]))
        elif isinstance(message, Progress):
            self._news(message)
        elif isinstance(message, Reached):
            self._decide(job_state.Reported(message.state, message.detail, tuple(message.files)))

    # ---- what it decides

    def tick(self) -> None:
        self._decide(job_state.Tick())
        self._look()

    def _look(self) -> None:
        running = self.running
        if running is None or not running.has_run:
            return
        for news in running.guard.look(self.life.now, leaving=running.slot.stage is job_state.Stage.LEAVING):
            self._news(news)
            if isinstance(news, Verdict):
                self._decide(job_state.Condemned(news.reason))

    def _decide(self, event: object) -> None:
        running = self.running
        if running is None:
            return
        for action in running.slot.handle(event, self.life.now):
            if isinstance(action, job_state.Kill):
                if self.life.actors[self.child] is not None:
                    self.life.strike(self.child, "kill")
            elif isinstance(action, job_state.OrderHalt):
                self.life.send(self.name, self.child, Halt(action.reason))
            elif isinstance(action, job_state.Tell):
                self._record(running, action)
            else:
                running.guard.close()
                self.running, self.freed_at = None, self.life.now

    def _record(self, running: SimRun, tell: job_state.Tell) -> None:
        record = running.record
        record.state, record.detail = tell.state, tell.detail
        if tell.state == "failed" and running.has_run and running.guard.verdict is None:
            code = self.life.ends[self.child][1]
            self._news(running.guard.failed(self.life.now, tell.detail, code, -1))
        elif tell.state == "done" and running.has_run:
            for news in running.guard.farewell(self.life.now):
                self._news(news)
        if tell.state == "running":
            running.has_run = True
        else:
            record.ended, record.files = self.life.clock.time(), list(tell.files)
        self.folders.save(record)
        self._news(State(record.job, record.node, tell.state, tell.detail))
        self._look()  # its first beat comes at once

    def _news(self, operation: Operation) -> None:
        """Tell the submitter of the running job."""
        if self.running is not None and self.running.watched:
            self._tell(operation)

    def _tell(self, operation: Operation) -> None:
        if self._submitter:
            self.life.send(self.name, "S", operation)
