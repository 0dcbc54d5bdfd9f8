"""Server of an agent for submitters: their sessions, their requests, and the files that they fetch."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from network.errors import ProtocolError
from network.keys import Key
from network.session import Session
from network.transport import Link

from ..doctor.messages import FROM_DOCTOR
from ..messages import (
    FROM_DRIVER,
    FROM_SUBMITTER,
    Abort,
    CanCommit,
    ClaimJob,
    Conclude,
    Examine,
    Fetch,
    FetchEnd,
    Jobs,
    KeepManifest,
    ListJobs,
    Lose,
    ManifestPart,
    Operation,
    Progress,
    ProposeAttempt,
    State,
    Stop,
    StopNode,
    Subscribe,
    Suspect,
    Tail,
    Tailed,
    operations,
)
from ..support.logs import clean
from . import job_state
from .event_log import SecurityLog, logs_between
from .failover import DriverLeases
from .files import kept_names, send_diagnostics, send_files, tail
from .probing import Probes
from .process_table import ProcessTable
from .store import JobFolders, JobRecord
from .subscribers import Subscribers, deliver

MOST_SESSIONS = 256
_STREAM_AHEAD = 4 << 20  # bytes in line for one session before a transfer pauses
_END = object()
_Send = Callable[[JobRecord, Path, Sequence[Path]], Iterator[Operation | None]]


class Traffic(NamedTuple):
    """Traffic of sessions, in bytes."""

    sent: int = 0
    received: int = 0

    def and_of(self, sessions: Iterable[Session]) -> Traffic:
        """Return the sum of this and the traffic of `sessions`."""
        sent, received = self
        for session in sessions:
            sent, received = sent + session.bytes_sent, received + session.bytes_read
        return Traffic(sent, received)


class RequestHandler:
    """Handler of submitters' requests at an agent.

    Args:
        runs: the job processes.
        folders: folders of the jobs.
        leases: drivers of the jobs.
        subscribers: sessions that hear of the jobs.
        audit: the agent's audit log.
        logger: the agent's log.
        logs: folder of the agent's own logs; those written while a job ran go with the files of the job.
        probes: measurements for `psgd doctor`.
    """

    def __init__(
        self,
        runs: ProcessTable,
        folders: JobFolders,
        leases: DriverLeases,
        subscribers: Subscribers,
        audit: SecurityLog,
        logger: logging.Logger,
        logs: Path,
        probes: Probes,
    ) -> None:
        self._processes, self._folders, self._audit, self._logger, self._logs = runs, folders, audit, logger, logs
        self._leases, self._subscribers, self._probes = leases, subscribers, probes
        self._sessions: list[Session] = []
        self._keys: dict[Session, Key] = {}
        self._streams: dict[Session, Iterator[Operation | None]] = {}
        self._past = Traffic()  # of sessions that have ended

    @property
    def traffic(self) -> Traffic:
        """Traffic of all sessions, those that have ended and those that are open."""
        return self._past.and_of(self._sessions)

    @property
    def reading(self) -> list[Link]:
        return [session.link for session in self._sessions]

    @property
    def writing(self) -> list[Link]:
        return [session.link for session in self._sessions if session.pending_bytes]

    @property
    def sending(self) -> bool:
        return bool(self._streams) or bool(self.writing)

    @property
    def hurried(self) -> bool:
        """Whether a transfer can go on at once, so that no wait is needed."""
        return any(session.pending_bytes < _STREAM_AHEAD for session in self._streams)

    def admit(self, session: Session, key: Key) -> None:
        """Serve `session`, which has proven `key`, from now on.

        Where there are too many, the idle session gives way that has asked for nothing for the longest; without one the new
        session is closed.
        """
        if len(self._sessions) >= MOST_SESSIONS:
            # the keys are in the order of the last request, see `_serve`
            idle = next(filter(self._is_idle, self._keys), None)
            # all are at work: one more caller must not cost another one its job
            if idle is None:
                session.close()
                return
            self._audit.write("turned away", f"{idle.link.peer} was idle, and others call")
            idle.close()
            self._let_go(idle)
        self._sessions.append(session)
        self._keys[session] = key

    def _is_idle(self, session: Session) -> bool:
        """Tell if nothing is under way over a session: no job that it started, drives or watches, no answer, no transfer."""
        busy = session in self._streams or session.pending_bytes or self._subscribers.has(session)
        return not busy and not self._probes.measures_for(session)

    def _let_go(self, session: Session) -> None:
        self._sessions.remove(session)
        # counters of a service may not fall when a session ends
        self._past = self._past.and_of([session])
        del self._keys[session]
        self._streams.pop(session, None)
        for holder in (self._subscribers, self._processes, self._leases, self._probes):
            holder.forget(session)

    def step(self) -> None:
        for session in list(self._sessions):
            try:
                self._serve(session)
            except ProtocolError as error:
                self._logger.warning("%s broke the protocol: %s", clean(session.link.peer), clean(str(error)))
                self._audit.write("protocol", f"{session.link.peer}: {error}")
                session.close()
            except Exception:  # whatever one submitter causes, the others are served
                self._logger.exception("Serving %s failed", clean(session.link.peer))
                session.close()
            # one that has said BYE asks for nothing more; its queued answers went with `send`
            if session.lost is not None or session.left:
                session.close()
                self._let_go(session)
        self._probes.step()

    def _serve(self, session: Session) -> None:
        for operation in operations(session, FROM_SUBMITTER):
            self._keys[session] = self._keys.pop(session)  # those that have asked for nothing for the longest stand first
            self._obey(session, operation)
        stream = self._streams.get(session)
        while stream is not None and session.lost is None and session.pending_bytes < _STREAM_AHEAD:
            # a sentinel: None is a part, too, see `send_diagnostics`
            part = next(stream, _END)
            if part is _END:
                del self._streams[session]
            elif isinstance(part, Operation):
                deliver(session, part)
                continue
            break  # or it has much to read first, and others come before that
        session.send()

    def _obey(self, session: Session, operation: Operation) -> None:
        if isinstance(operation, CanCommit):
            deliver(session, self._processes.take(operation, session, self._keys[session]))
        elif isinstance(operation, Abort):
            self._audit.write("abort", f"job {operation.job} by {session.link.peer}")
            self._processes.end(operation.job, job_state.AbortAsked(operation.reason))
        elif isinstance(operation, Stop):
            self._audit.write("stop", f"job {operation.job} by {session.link.peer}")
            self._leases.halt(operation.job, operation.reason, session)  # first: no driver may start it again after its end
            self._processes.end(operation.job, job_state.StopAsked(operation.reason))
        elif isinstance(operation, FROM_DRIVER):
            self._serve_driver(session, operation)
        elif isinstance(operation, FROM_DOCTOR):
            self._probes.serve(session, operation, self._keys[session])
        elif isinstance(operation, StopNode):
            self._audit.write("stop", f"node {operation.node} of job {operation.job} by {session.link.peer}")
            self._processes.end(operation.job, job_state.StopAsked(operation.reason), operation.node)
        elif isinstance(operation, (Lose, Suspect)):
            self._processes.pass_on(operation)
        elif isinstance(operation, Subscribe):
            self._watch(session, operation.job)
        elif isinstance(operation, ListJobs):
            deliver(session, Jobs([self._entry(record) for record in self._folders]))
        elif isinstance(operation, Tail):
            record = self._folders.find(operation.job, operation.node)
            gained = record and tail(record, self._folders.folder(record), operation.places, operation.samples)
            deliver(session, gained or Tailed(operation.job, operation.node, {}, {}))
        elif isinstance(operation, (Fetch, Examine)):
            # two streams over one session could not be told apart
            if session in self._streams:
                raise ProtocolError("It asked for files before it had those it asked for.")
            self._audit.write("retrieve", f"job {operation.job or '(newest)'} by {session.link.peer}")
            if isinstance(operation, Examine):
                self._processes.write_down(operation.job)  # so that the event log, one of the files, has them
                record = self._folders.find(operation.job, operation.node)
                self._streams[session] = self._fetch(operation.job, record, send_diagnostics)
            else:
                self._streams[session] = self._fetch(operation.job, self._record(operation.job, session), send_files)

    def _serve_driver(self, session: Session, operation: Operation) -> None:
        answer: Operation | None = None
        if isinstance(operation, KeepManifest):
            answer = self._leases.hand_off(operation, session)
        elif isinstance(operation, ManifestPart):
            answer = self._leases.part(operation, session)
        elif isinstance(operation, ClaimJob):
            for said in self._leases.claim(operation, session, self._keys[session]):
                deliver(session, said)
        elif isinstance(operation, ProposeAttempt):
            answer = self._leases.propose(operation, session)
        elif isinstance(operation, Conclude):
            self._audit.write("conclude", f"job {operation.job}: {operation.outcome}, by {session.link.peer}")
            for node in self._leases.conclude(operation, session):
                reason = f"The job goes on without this node. {operation.detail}".rstrip()
                self._processes.end(operation.job, job_state.StopAsked(reason), node)
        if answer is not None:
            deliver(session, answer)

    def _watch(self, session: Session, job: str) -> None:
        record = self._record(job, session)
        if record is None:
            deliver(session, State(job, 0, "unknown", "This worker knows no such job."))
            return
        standing = self._leases.standing(record)
        if standing is not None:  # first, so that the end of a process is not taken for that of its job
            deliver(session, standing)
        deliver(session, State(record.job, record.node, record.state, record.detail))
        for run in self._processes:
            if run.record is record and run.percent:
                deliver(session, Progress(record.job, record.node, run.percent, run.note))
        # after what there is to tell now, so that later events come behind it
        named = session.caps.get("node")
        self._subscribers.add(session, record.job, named if isinstance(named, int) else None)

    def _entry(self, record: JobRecord) -> dict[str, str | int | float | list[int] | list[str]]:
        standing = self._leases.standing(record)
        return {
            "job": record.job,
            "title": record.title,
            "node": record.node,
            "state": record.state,
            "started": record.started,
            "attempt": record.attempt,
            "driver": "" if standing is None else standing.driver,
            "outcome": record.outcome,
            "nodes": record.nodes,
            "kept": kept_names(self._folders.folder(record)),
        }

    def _record(self, job: str, session: Session) -> JobRecord | None:
        """Find the newest record of `job` ("" for any); where this agent ran several nodes of it, that of the session's
        node.
        """
        node = session.caps.get("node")
        return self._folders.newest(job, node if isinstance(node, int) else None)

    def _fetch(self, job: str, record: JobRecord | None, send: _Send) -> Iterator[Operation | None]:
        if record is None:
            what = f"job {clean(job)}" if job else "any job"
            yield FetchEnd(job, "unknown", f"This worker knows nothing of {what}.")
            return
        # a job that runs has no end yet
        logs = logs_between(self._logs, record.started, record.ended or math.inf)
        yield from send(record, self._folders.folder(record), logs)

    def close(self) -> None:
        """Send the bytes that go out at once, and close all sessions."""
        for session in self._sessions:
            session.send()
            session.close()
        self._sessions.clear()
        self._streams.clear()
