"""Where an agent serves submitters: their sessions, what they ask for, and the files that they fetch."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from pathlib import Path

from network.errors import ProtocolError
from network.keyring import Key
from network.session import Session
from network.transport import Link

from ..logs import clean
from ..messages import (
    FROM_SUBMITTER,
    Abort,
    CanCommit,
    Fetch,
    FetchEnd,
    Jobs,
    ListJobs,
    Lose,
    Operation,
    State,
    Stop,
    Watch,
    parse,
)
from . import slot
from .agent_logs import logs_between
from .audit import AuditLog
from .delivery import deliver
from .jobs import JobFolders, JobRecord
from .retrieval import send_files
from .runs import Runs

MOST_SESSIONS = 256
_STREAM_AHEAD = 4 << 20  # bytes in line for one session before a transfer pauses


class Desk:
    """`logs` is the folder of the agent's own logs; what was written while a job ran goes with the files of the job."""

    def __init__(self, runs: Runs, folders: JobFolders, audit: AuditLog, logger: logging.Logger, logs: Path) -> None:
        self._runs, self._folders, self._audit, self._logger, self._logs = runs, folders, audit, logger, logs
        self._sessions: list[Session] = []
        self._keys: dict[Session, Key] = {}
        self._streams: dict[Session, Iterator[Operation]] = {}

    @property
    def reading(self) -> list[Link]:
        """What to poll for bytes."""
        return [session.link for session in self._sessions]

    @property
    def writing(self) -> list[Link]:
        """What to poll for room."""
        return [session.link for session in self._sessions if session.pending_bytes]

    @property
    def hurried(self) -> bool:
        """Whether a transfer can go on at once, so nobody should wait."""
        return any(session.pending_bytes < _STREAM_AHEAD for session in self._streams)

    def admit(self, session: Session, key: Key) -> None:
        """Serve a session, which has proven `key`, from now on, unless there are too many."""
        if len(self._sessions) >= MOST_SESSIONS:
            session.close()
        else:
            self._sessions.append(session)
            self._keys[session] = key

    def step(self) -> None:
        """Read, obey and send, for every session; one that misbehaves is closed and harms nobody else."""
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
            if session.lost is not None or session.left:
                session.close()
                self._sessions.remove(session)
                del self._keys[session]
                self._streams.pop(session, None)
                self._runs.forget(session)

    def _serve(self, session: Session) -> None:
        session.receive()
        while (message := session.take()) is not None:
            self._obey(session, parse(message.value, FROM_SUBMITTER))
        stream = self._streams.get(session)
        while stream is not None and session.lost is None and session.pending_bytes < _STREAM_AHEAD:
            part = next(stream, None)
            if part is None:
                del self._streams[session]
                break
            deliver(session, part)
        session.send()

    def _obey(self, session: Session, operation: Operation) -> None:
        if isinstance(operation, CanCommit):
            deliver(session, self._runs.take(operation, session, self._keys[session]))
        elif isinstance(operation, Abort):
            self._audit.write("abort", f"job {operation.job} by {session.link.peer}")
            self._runs.end(operation.job, slot.AbortAsked(operation.reason))
        elif isinstance(operation, Stop):
            self._audit.write("stop", f"job {operation.job} by {session.link.peer}")
            self._runs.end(operation.job, slot.StopAsked(operation.reason))
        elif isinstance(operation, Lose):
            self._runs.pass_on(operation)
        elif isinstance(operation, Watch):
            self._watch(session, operation.job)
        elif isinstance(operation, ListJobs):
            deliver(session, Jobs([_entry(record) for record in self._folders]))
        elif isinstance(operation, Fetch):
            if session in self._streams:
                raise ProtocolError("It asked for files before it had those it asked for.")
            self._audit.write("retrieve", f"job {operation.job or '(newest)'} by {session.link.peer}")
            self._streams[session] = self._fetch(operation.job, self._record(operation.job, session))

    def _watch(self, session: Session, job: str) -> None:
        record = self._record(job, session)
        if record is None:
            deliver(session, State(job, 0, "unknown", "This worker knows no such job."))
            return
        deliver(session, State(record.job, record.node, record.state, record.detail))
        for run in self._runs:
            if run.record is record and session not in run.watchers:
                run.watchers.append(session)

    def _record(self, job: str, session: Session) -> JobRecord | None:
        """The newest record of `job` ("" for any); where this agent ran several nodes of it, that of the session's node."""
        node = session.caps.get("node")
        return (self._folders.find(job, node) if isinstance(node, int) else None) or self._folders.find(job)

    def _fetch(self, job: str, record: JobRecord | None) -> Iterator[Operation]:
        if record is None:
            what = f"job {clean(job)}" if job else "any job"
            yield FetchEnd(job, "unknown", f"This worker knows nothing of {what}.")
            return
        logs = logs_between(self._logs, record.started, record.ended or math.inf)
        yield from send_files(record, self._folders.folder(record), logs)

    def close(self) -> None:
        """Send what goes out at once, and close all sessions."""
        for session in self._sessions:
            session.send()
            session.close()
        self._sessions.clear()
        self._streams.clear()


def _entry(record: JobRecord) -> dict[str, str | int | float]:
    return {
        "job": record.job,
        "title": record.title,
        "node": record.node,
        "state": record.state,
        "started": record.started,
    }
