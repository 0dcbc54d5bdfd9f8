"""The submitter's connections: with the agents for the whole job, and with the job processes until they have started."""

from __future__ import annotations

import logging
import socket
import weakref
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from network.controller import Controller
from network.dial import Target
from network.errors import NetworkError, ProtocolError
from network.session import LOOK_SECONDS, Session
from network.sockets import wait_sockets

from .calling import call_all
from .logs import clean
from .messages import CODE_FROM_JOB, FROM_AGENT, Operation, read_operation


class Heard(NamedTuple):
    """The agent or the job process of `node` says `operation`."""

    node: int
    operation: Operation


class Gone(NamedTuple):
    """The agent of `node` cannot be reached any more."""

    node: int
    reason: str


class Lines:
    """Nothing here blocks but `wait`. Whoever breaks the protocol is hung up on."""

    def __init__(self, com: Controller, names: dict[int, str], logger: logging.Logger) -> None:
        self._agents = com.sessions
        self._processes: dict[int, Session] = {}
        self._names, self._logger = names, logger
        self._gone: set[int] = set()
        weakref.finalize(self, _close, self._processes)  # for a program that submits and never dispatches

    def tell_agent(self, node: int, operation: Operation) -> None:
        """Send to the agent of `node`, if it is still there."""
        if node in self._agents:
            _tell(self._agents[node], operation)

    def tell_process(self, node: int, operation: Operation) -> None:
        """Send to the job process of `node`, if it is still there."""
        if node in self._processes:
            _tell(self._processes[node], operation)

    def call_processes(self, targets: dict[int, Target], classes: Sequence[type], limit: float) -> dict[int, NetworkError]:
        """Open a session with each job process at the same time, within `limit` seconds; returns what failed."""
        sessions, errors = call_all(targets, limit)
        for session in sessions.values():
            session.use_classes(classes)
        self._processes.update(sessions)
        return errors

    def wait(self, timeout: float | None, waker: socket.socket | None = None) -> list[Heard | Gone]:
        """Move bytes both ways; returns what has come of it.

        Waits up to `timeout` seconds, `LOOK_SECONDS` at most, for some, or for `waker`.
        """
        sessions = [s for s in (*self._agents.values(), *self._processes.values()) if s.lost is None]
        writing = [s.link for s in sessions if s.pending_bytes]
        if not any(session.inbox for session in sessions):
            reading = [*(s.link for s in sessions), *([waker] if waker is not None else [])]
            limit = LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS)
            wait_sockets(reading, writing, limit)  # type: ignore[arg-type]
        news: list[Heard | Gone] = []
        for node, session in self._agents.items():
            news += self._read(node, session, FROM_AGENT)
            if not session.alive and node not in self._gone:
                self._gone.add(node)
                reason = "its worker has ended" if session.left else str(session.lost)
                news.append(Gone(node, reason))
        for node, session in self._processes.items():
            news += self._read(node, session, CODE_FROM_JOB)
        return news

    def _read(self, node: int, session: Session, allowed: Iterable[type[Operation]]) -> list[Heard | Gone]:
        news: list[Heard | Gone] = []
        session.send()
        try:
            session.receive()
            while (message := session.take()) is not None:
                news.append(Heard(node, read_operation(message, allowed)))
        except ProtocolError as error:
            self.hang_up(node, error)
        return news

    def hang_up(self, node: int, error: ProtocolError) -> None:
        """End the conversation with a node that breaks the protocol."""
        self._logger.error("%s broke the protocol: %s", self._names[node], clean(str(error)))
        self._agents[node].close()

    def close_processes(self) -> None:
        """The job processes need us no more."""
        _close(self._processes)

    @property
    def process_bytes(self) -> tuple[int, int]:
        """Bytes sent to and read from job processes so far."""
        sessions = self._processes.values()
        return sum(s.bytes_sent for s in sessions), sum(s.bytes_read for s in sessions)


def _tell(session: Session, operation: Operation) -> None:
    if session.lost is None:
        session.queue(operation.to_value())
        session.send()


def _close(sessions: dict[int, Session]) -> None:
    for session in sessions.values():
        session.close()
