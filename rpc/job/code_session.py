"""Session over which a job process gets its code and its data, straight from the submitter."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TypeVar

from network.budget import OBJECT_BYTES
from network.errors import ProtocolError, TimedOut
from network.session import LOOK_SECONDS, Session
from network.transport import SocketLink, wait_sockets

from ..errors import JobAborted
from ..messages import CODE_TO_JOB, Operation, operations

Expected = TypeVar("Expected", bound=Operation)


class CodeSession:
    """Code session, owned by the job's main thread. Without the submitter no job can start, so its loss is JobAborted.

    Args:
        session: the session.
        limit: seconds for each answer.
    """

    def __init__(self, session: Session, limit: float) -> None:
        self._session = session
        self._limit = limit  # seconds for each answer

    def use_classes(self, classes: Sequence[type]) -> None:
        """Let instances of the job's own `classes` come from now on."""
        self._session.use_classes(classes)

    def receive(self, expected: type[Expected]) -> Expected:
        """Wait for the next operation.

        Raises: JobAborted when the submitter is gone, TimedOut, ProtocolError for anything else than `expected`.
        """
        deadline = time.monotonic() + self._limit
        while (operation := next(operations(self._session, CODE_TO_JOB, OBJECT_BYTES), None)) is None:
            self._raise_if_gone()
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"the submitter to send {expected.__name__}", self._limit)
            self._wait(left)
        if not isinstance(operation, expected):
            raise ProtocolError(f"The submitter must send {expected.__name__}, got {type(operation).__name__}.")
        return operation

    def send(self, operation: Operation) -> None:
        """Send an operation, and wait until the system has taken it.

        Raises: JobAborted when the submitter is gone, TimedOut.
        """
        self.check()
        self._session.queue(operation.to_value())
        deadline = time.monotonic() + self._limit
        while not self._session.send() and self._session.lost is None:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimedOut(f"the submitter to take {type(operation).__name__}", self._limit)
            self._wait(left)
            # it may wait for us to read before it reads
            self._session.receive()
        self.check()

    def _wait(self, timeout: float) -> None:
        link = self._session.link
        if isinstance(link, SocketLink):
            wait_sockets([link], [link] if self._session.pending_bytes else [], min(timeout, LOOK_SECONDS))

    def check(self) -> None:
        """Take in the messages that have arrived.

        Raises: JobAborted when the submitter is gone.
        """
        self._session.receive()
        self._raise_if_gone()

    def _raise_if_gone(self) -> None:
        # what had come before the end counts: the last message may be the one that is awaited
        if self._session.lost is not None and not self._session.inbox:
            raise JobAborted(f"The submitter gave up before the start: {self._session.lost}")

    def close(self) -> None:
        """Close the session: the job has started and needs no submitter any more."""
        self._session.close()
