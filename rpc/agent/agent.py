"""The agent's loop: one thread, one port, no user code. It survives whatever strangers, submitters and jobs do."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import logging
import os
import platform
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from network.clock import SystemClock
from network.door import Arrived, Door, PassedOn, PassOn, Terms, TurnedAway
from network.errors import NetworkError, ProtocolError
from network.hello import Hello, Hint
from network.keys import find_keys, take_key_from_environment
from network.nodes import Address, is_loopback
from network.session import Session
from network.sockets import MAX_UNIX_PATH, listen_tcp, listen_unix, wait_sockets
from network.version import VERSION

from ..host import host_name
from ..identity import is_job_id
from ..logs import attach_file, clean
from ..messages import (
    FROM_SUBMITTER,
    Abort,
    Accepted,
    CanCommit,
    Fetch,
    FetchEnd,
    Jobs,
    ListJobs,
    Operation,
    Progress,
    Refused,
    State,
    Stop,
    Watch,
    parse,
)
from . import slot
from .jobs import JobFolders, JobRecord
from .retrieval import send_files
from .run import Run
from .settings import AgentSettings, default_work_dir

_STREAM_AHEAD = 4 << 20  # bytes in line for one session before a transfer pauses
_MOST_SESSIONS = 256
_REAP_SECONDS = 0.01
_IDLE_SECONDS = 30.0


class Agent:
    """Listens from the moment it is made; `address` is where. Call `serve_forever`, then `close`."""

    def __init__(self, settings: AgentSettings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        loopback = is_loopback(settings.listen)
        keyring = take_key_from_environment(os.environ)
        if not loopback and settings.key_file is None and keyring is None:
            raise NetworkError(
                f"Listening on {settings.listen} needs an explicit key: make one with 'worker.py --new-key --key-file FILE', "
                f"copy it to every machine, and start with '--key-file FILE'."
            )
        if settings.key_file is not None or keyring is None:
            keyring = find_keys(settings.key_file, os.environ, create=loopback)
        self._keyring = keyring
        self._listeners: list[socket.socket] = [listen_tcp(Address(settings.listen, settings.port))]
        self.address = Address(settings.listen, self._listeners[0].getsockname()[1])
        if settings.listen == "127.0.0.1":
            with contextlib.suppress(NetworkError):  # a host without IPv6
                self._listeners.append(listen_tcp(Address("::1", self.address.port)))
        self._work = Path(settings.work_dir or default_work_dir(self.address.port)).absolute()
        self._lock = self._take_work_dir()
        self._name = f"Worker-{_own_address(settings.listen)}"
        self._log_path = self._work / "log" / f"{self._name} {time.strftime('%Y-%m-%d %H%M')}.log"
        self._log_handler = attach_file(self._log_path)
        self.logger = logging.getLogger(self._name)
        self._unix_path = self._listen_unix()
        self._folders = JobFolders(self._work / "jobs", settings.keep_jobs)
        self._door = Door(self._policy, self._clock)
        self._sessions: list[Session] = []
        self._streams: dict[Session, Iterator[Operation]] = {}
        self._watchers: dict[Run, list[Session]] = {}
        self._runs: list[Run] = []
        self._waker, self._woken = socket.socketpair()
        self._waker.setblocking(False)
        self._stopping = False

    def _take_work_dir(self) -> int:
        """Make the work directory ours alone.

        Raises: NetworkError when another agent uses it or it cannot be made.
        """
        try:
            (self._work / "log").mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._work / "cache").mkdir(mode=0o700, exist_ok=True)
            self._work.chmod(0o700)
            lock = os.open(self._work / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NetworkError(
                f"The work directory {self._work} is used by another worker; choose another --work-dir."
            ) from None
        except OSError as error:
            raise NetworkError(f"The work directory {self._work} cannot be used: {error.strerror}.") from error
        return lock

    def _listen_unix(self) -> str:
        path = self._work / "agent.sock"
        if len(os.fsencode(path)) > MAX_UNIX_PATH:
            self.logger.info("The work directory's path is too long for a Unix socket; peers on this host use TCP.")
            return ""
        self._listeners.append(listen_unix(path))
        return str(path)

    def _policy(self, hello: Hello) -> Terms | PassOn | Hint:
        if hello.job:
            known = any(run.name == hello.job and not run.free for run in self._runs)
            return PassOn(hello.job) if known else Hint.NO_SUCH_JOB
        return Terms({"submitter": self._keyring}, "agent", "", {"version": VERSION})

    # ---- the loop

    def serve_forever(self) -> None:
        """Serve job after job until `stop` is called."""
        self.logger.info("Worker version: %s.", VERSION)
        self.logger.info("Worker started on port: %s", self.address.port)
        if not is_loopback(self._settings.listen):
            self.logger.warning("Connections prove the key and cannot be altered, but they can be read on their way.")
        while not self._stopping:
            self._step()

    def stop(self) -> None:
        """Make `serve_forever` return (from a signal handler or another thread)."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._waker.send(b"!")

    def _step(self) -> None:
        streaming = [s for s in self._streams if s.pending_bytes < _STREAM_AHEAD]
        reading = [*self._listeners, self._woken, *self._door.links, *(s.link for s in self._sessions)]
        reading += [run.pair.sock for run in self._runs if run.pair is not None]
        wait_sockets(
            reading,  # type: ignore[arg-type]
            [s.link for s in self._sessions if s.pending_bytes],  # type: ignore[misc]
            0.0 if streaming else self._patience(),
        )
        self._accept()
        for outcome in self._door.step():
            self._settle(outcome)
        self._watch_runs()
        for session in list(self._sessions):
            self._serve(session)

    def _patience(self) -> float:
        now = self._clock.monotonic()
        deadlines = [run.slot.deadline for run in self._runs] + [self._door.deadline, now + _IDLE_SECONDS]
        if any(run.reaping for run in self._runs):
            deadlines.append(now + _REAP_SECONDS)
        return max(0.0, min(d for d in deadlines if d is not None) - now)

    def _accept(self) -> None:
        for listener in self._listeners:
            for _ in range(64):
                try:
                    visitor, _address = listener.accept()
                except BlockingIOError:
                    break
                except OSError as error:
                    if error.errno in (errno.EMFILE, errno.ENFILE):  # no descriptor left: the visitor waits in the backlog
                        time.sleep(_REAP_SECONDS)
                    break
                self._door.add(visitor)

    def _settle(self, outcome: object) -> None:
        if isinstance(outcome, TurnedAway):
            self.logger.info("A visitor from %s was turned away: %s", clean(outcome.peer), clean(outcome.reason))
            self._audit("turned away", f"{outcome.peer}: {outcome.reason}")
        elif isinstance(outcome, PassedOn):
            for run in self._runs:
                if run.name == outcome.job and not run.free:
                    run.pass_on(outcome)
                    return
            outcome.sock.close()
        elif isinstance(outcome, Arrived):
            self._audit("admitted", f"{outcome.session.link.peer} as {outcome.hello.role}, key {outcome.hello.key_id.hex()}")
            if len(self._sessions) >= _MOST_SESSIONS:
                outcome.session.close()
                return
            self._sessions.append(outcome.session)

    def _watch_runs(self) -> None:
        now = self._clock.monotonic()
        for run in list(self._runs):
            for event in [*run.read(), slot.Tick()]:
                run.handle(event, now)
            if run.free:
                run.wait()
                self._runs.remove(run)
                self._watchers.pop(run, None)
                removed = self._folders.clean_up()
                if removed:
                    self.logger.info("Removed old jobs: %s", ", ".join(removed))
                self.logger.info("Worker restarting...")

    # ---- sessions with submitters

    def _serve(self, session: Session) -> None:
        try:
            session.receive()
            while (message := session.take()) is not None:
                operation = parse(message.value, FROM_SUBMITTER)
                self._obey(session, operation)
            stream = self._streams.get(session)
            while stream is not None and session.lost is None and session.pending_bytes < _STREAM_AHEAD:
                part = next(stream, None)
                if part is None:
                    del self._streams[session]
                    break
                self._send(session, part)
        except ProtocolError as error:
            self.logger.warning("%s broke the protocol: %s", clean(session.link.peer), clean(str(error)))
            self._audit("protocol", f"{session.link.peer}: {error}")
            session.close()
        session.send()
        if session.lost is not None or session.left:
            self._forget(session)

    def _forget(self, session: Session) -> None:
        session.close()
        self._sessions.remove(session)
        self._streams.pop(session, None)
        for run, watchers in self._watchers.items():
            if watchers and watchers[0] is session:  # the first one submitted it
                run.handle(slot.SubmitterGone(), self._clock.monotonic())
            if session in watchers:
                watchers.remove(session)

    def _send(self, session: Session, operation: Operation) -> None:
        if session.lost is None:
            session.queue(operation.to_value())
            session.send()

    def _obey(self, session: Session, operation: Operation) -> None:
        now = self._clock.monotonic()
        if isinstance(operation, CanCommit):
            self._send(session, self._can_commit(session, operation))
        elif isinstance(operation, (Abort, Stop)):
            event = slot.AbortAsked if isinstance(operation, Abort) else slot.StopAsked
            self._audit(type(operation).__name__.lower(), f"job {operation.job} by {session.link.peer}")
            for run in [r for r in self._runs if r.order.job == operation.job]:
                run.handle(event(operation.reason), now)
        elif isinstance(operation, Watch):
            self._watch(session, operation)
        elif isinstance(operation, ListJobs):
            self._send(session, Jobs([_entry(record) for record in self._folders]))
        elif isinstance(operation, Fetch):
            self._audit("retrieve", f"job {operation.job or '(newest)'} by {session.link.peer}")
            self._streams[session] = self._fetch(operation, session)

    def _can_commit(self, session: Session, order: CanCommit) -> Operation:
        problem = self._objection(order)
        if problem:
            return Refused(order.job, order.node, problem, 0.0)
        busy = [run for run in self._runs if not run.free]
        if len(busy) >= self._settings.slots:
            holder = busy[0].record
            since = time.strftime("%H:%M:%S", time.localtime(holder.started))
            return Refused(order.job, order.node, f"busy with job '{clean(holder.title)}' since {since}", holder.started)
        try:
            record = self._folders.create(order.job, order.node, order.title)
            run = Run(
                order,
                record,
                self._folders.folder(record),
                cache=self._work / "cache",
                code_policy=self._settings.code_policy,
                now=self._clock.monotonic(),
                on_tell=self._tell,
                on_progress=self._progress,
                on_audit=self._audit,
            )
        except OSError as error:
            return Refused(order.job, order.node, f"the job process cannot be started: {error.strerror or error}", 0.0)
        self._runs.append(run)
        self._watchers[run] = [session]
        self.logger.info("Job %s (%s) accepted as node %s, process %s.", order.job, clean(order.title), order.node, run.pid)
        self._audit("accepted", f"job {run.name} from {session.link.peer}")
        return Accepted(order.job, order.node, host_name(), self._unix_path, VERSION)

    def _objection(self, order: CanCommit) -> str:
        if not is_job_id(order.job) or len(order.code_key) != 32 or len(order.peer_key) != 32 or order.node not in order.group:
            return "the order is malformed"
        if not 1 <= order.blas_threads <= 4096 or not 0 < order.start_limit <= 86400:
            return "the order has an impossible number of threads or limit"
        here = ".".join(platform.python_version_tuple()[:2])
        if order.python != here:
            return f"it runs Python {here}, the submitter Python {order.python}; code cannot travel between them"
        if order.version != VERSION:
            return f"it runs version {VERSION}, the submitter version {clean(order.version)}; install the same release"
        return ""

    def _tell(self, run: Run, tell: slot.Tell) -> None:
        """Record a state of a job and tell it to everybody who watches."""
        record = run.record
        record.state, record.detail = tell.state, tell.detail
        if tell.state != "running":
            record.ended, record.files = time.time(), list(tell.files)
            level = logging.INFO if tell.state == "done" else logging.WARNING
            detail = tell.detail.strip().splitlines()[-1] if tell.detail.strip() else ""
            self.logger.log(level, "Job %s: %s. %s", run.name, tell.state, clean(detail))
        try:
            self._folders.save(record)
        except OSError as error:
            self.logger.error("The record of job %s cannot be written: %s", run.name, error)
        for session in self._watchers.get(run, []):
            self._send(session, State(record.job, record.node, tell.state, tell.detail[-(48 << 10) :]))

    def _progress(self, run: Run, percent: int) -> None:
        for session in self._watchers.get(run, []):
            self._send(session, Progress(run.record.job, run.record.node, max(0, min(100, percent))))

    def _watch(self, session: Session, request: Watch) -> None:
        record = self._folders.find(request.job)
        if record is None:
            self._send(session, State(request.job, 0, "unknown", "This worker knows no such job."))
            return
        self._send(session, State(record.job, record.node, record.state, record.detail))
        for run in self._runs:
            if run.record is record:
                self._watchers[run].append(session)

    def _fetch(self, request: Fetch, session: Session) -> Iterator[Operation]:
        record = self._record_for(request.job, session)
        if record is None:
            from_what = f"job {clean(request.job)}" if request.job else "any job"
            yield FetchEnd(request.job, "unknown", f"This worker knows nothing of {from_what}.")
            return
        since = record.started
        parts = [self._log_path.with_name(f"{self._log_path.name}.{n}") for n in range(9, 0, -1)]
        logs = [p for p in [*parts, self._log_path] if p.exists() and p.stat().st_mtime >= since]
        yield from send_files(record, self._folders.folder(record), logs)

    def _record_for(self, job: str, session: Session) -> JobRecord | None:
        node = session.caps.get("node")
        return (self._folders.find(job, node) if isinstance(node, int) else None) or self._folders.find(job)

    def _audit(self, event: str, detail: str) -> None:
        """One line of JSON per decision that matters for security; never a key, never data."""
        entry = {"time": round(time.time(), 3), "event": event, "detail": clean(detail)}
        with contextlib.suppress(OSError), open(self._work / "audit.jsonl", "a", encoding="utf-8", opener=_private) as file:
            file.write(json.dumps(entry) + "\n")

    def close(self) -> None:
        """Stop listening, end all job processes, and let go of everything."""
        for listener in self._listeners:
            listener.close()
        if self._unix_path:
            Path(self._unix_path).unlink(missing_ok=True)
        now = self._clock.monotonic()
        for run in self._runs:
            run.handle(slot.AbortAsked("The worker was ended."), now)
            run.kill()
            run.wait()
            run.handle(slot.ProcessGone("the worker was ended"), now)
        for session in self._sessions:
            session.send()
            session.close()
        self._door.close()
        self._waker.close()
        self._woken.close()
        logging.getLogger().removeHandler(self._log_handler)
        self._log_handler.close()
        os.close(self._lock)


def _entry(record: JobRecord) -> dict[str, str | int | float]:
    return {
        "job": record.job,
        "title": record.title,
        "node": record.node,
        "state": record.state,
        "started": record.started,
    }


def _own_address(listen: str) -> str:
    """How this agent calls itself in logs and file names: the host it listens on, or its own address."""
    if listen in ("0.0.0.0", "::", ""):  # noqa: S104  compared, not bound
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # no packet is sent; the kernel picks the address it would use
                return str(probe.getsockname()[0])
        except OSError:
            return socket.gethostname()
    return listen.replace(":", "-")


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
