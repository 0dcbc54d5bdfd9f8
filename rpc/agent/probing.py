"""Probes of an agent for `psgd doctor`: its own state, and how well it reaches other agents."""

from __future__ import annotations

import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sized

from network import VERSION
from network.errors import ProtocolError
from network.keys import Key
from network.nodes import Address
from network.session import Session

from ..doctor.messages import MOST_PINGED, AgentStatus, Inspect, Measure, Measured, Ping, Pong
from ..doctor.probe import probe
from ..support.identity import host_name
from ..support.logs import clean
from ..support.processors import limit_met
from .checks import python_version
from .event_log import SecurityLog
from .store import WorkDirectory
from .subscribers import deliver

_END_SECONDS = 1.0


class Probes:
    """Probes that answer at once, but for one measurement at a time, which has a thread of its own: a name server or a host
    that is silent must keep no job waiting.

    While a job runs here no bursts are sent; an agent that measures the way to here is told not to.

    Args:
        jobs: those that run now.
        slots: number of slots.
        unix_path: of the socket for peers of this host.
        work: the work directory.
        audit: the audit log.
        wake: called, from any thread, when `step` has something to do.
    """

    def __init__(
        self, jobs: Sized, slots: int, unix_path: str, work: WorkDirectory, audit: SecurityLog, wake: Callable[[], None]
    ) -> None:
        self._jobs, self._slots, self._unix_path, self._work = jobs, slots, unix_path, work
        self._audit, self._wake = audit, wake
        # two names of one agent, or two agents behind one name, show by this
        self._instance = secrets.token_hex(16)
        self._pinged: dict[Session, int] = {}
        self._thread: threading.Thread | None = None
        self._asker: Session | None = None
        self._found: queue.SimpleQueue[tuple[Session, Measured]] = queue.SimpleQueue()
        self._closed = False

    def serve(self, session: Session, asked: Inspect | Ping | Measure, key: Key) -> None:
        """Serve a question; `key` is the one that the session has proven, and with which other agents are called.

        Raises: ProtocolError for a session that sends too much, or asks for a malformed address.
        """
        if isinstance(asked, Ping):
            deliver(session, self._pong(session, len(asked.data)))
        elif isinstance(asked, Inspect):
            deliver(session, self._status())
        else:
            self._measure(session, asked.address, key)

    def _pong(self, session: Session, size: int) -> Pong:
        received = time.time()
        # a sum, so that many small pings cost no more than a large one
        self._pinged[session] = self._pinged.get(session, 0) + size
        if self._pinged[session] > MOST_PINGED:
            raise ProtocolError(f"It has sent more than {MOST_PINGED >> 20} MiB of pings.")
        # both times, so that the asker can take our own delay out of the round trip
        return Pong(self._instance, received, time.time(), len(self._jobs) > 0)

    def _status(self) -> AgentStatus:
        free, unwritable = self._work.room()
        return AgentStatus(
            self._instance,
            host_name(),
            socket.gethostname(),
            VERSION,
            python_version(),
            self._unix_path,
            self._slots,
            len(self._jobs),
            clean(str(self._work.path)),
            free,
            unwritable,
        )

    def _measure(self, session: Session, text: str, key: Key) -> None:
        try:
            address = Address.parse(text)
        except ValueError as error:
            raise ProtocolError(str(error)) from error
        self._audit.write("measure", f"the way to {address} for {session.link.peer}")
        if self._thread is not None and self._thread.is_alive():
            deliver(session, Measured(text, "it measures for somebody else just now; ask again later"))
            return
        # decided at the start: a job that comes meanwhile shares the line for a second
        burst = not self._jobs

        def run() -> None:
            found = probe(address, key, burst=burst, ended=lambda: self._closed)
            self._found.put((session, found))
            self._wake()

        thread = threading.Thread(target=run, name=f"measure {address}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            deliver(session, Measured(text, f"it cannot measure: {limit_met(error) or error}"))
            return
        # only now: without a thread nothing would ever free the place
        self._asker, self._thread = session, thread

    def step(self) -> None:
        """Send the results of measurements."""
        while not self._found.empty():
            session, found = self._found.get()
            if self._thread is not None:
                self._thread.join()  # which ends now: the asker may ask for the next when it has the answer
            self._asker = None
            deliver(session, found)

    def measures_for(self, session: Session) -> bool:
        """Tell if `session` waits for the result of a measurement that goes on."""
        return self._asker is session

    def forget(self, session: Session) -> None:
        self._pinged.pop(session, None)

    def close(self) -> None:
        """Let go of the measurement that is going on, if there is one."""
        self._closed = True
        if self._thread is not None:
            # a daemon: one that hangs in a name server ends with the process
            self._thread.join(_END_SECONDS)
