"""Connections of the submitter with agents and job processes, and its messages to the nodes of a job over them."""

from __future__ import annotations

import logging
import socket
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from network.clock import Clock
from network.controller import Controller
from network.dial import Target
from network.errors import ProtocolError
from network.keys import Key
from network.nodes import Address
from network.session import LOOK_SECONDS, Session
from network.transport import SocketLink, wait_sockets

from ..dialing import ProcessDialer
from ..messages import CODE_FROM_JOB, FROM_AGENT, Accepted, CanCommit, Load, Operation, operations
from ..shipping import Bundle
from ..support.identity import code_key, host_name, process_name
from ..support.logs import clean
from ..support.processors import share_cores


class Heard(NamedTuple):
    """Event: the agent or the job process of `node` says `operation`."""

    node: int
    operation: Operation


class Opened(NamedTuple):
    """Event: the job process of `node` has answered our call."""

    node: int


class Unreached(NamedTuple):
    """Event: the job process of `node` has not answered, and is not called any more."""

    node: int
    reason: str


class Gone(NamedTuple):
    """Event: the agent of `node` cannot be reached any more."""

    node: int
    reason: str


Event = Heard | Opened | Unreached | Gone


class Connections:
    """Connections of one job. Nothing here blocks but `wait`. A peer that breaks the protocol is hung up on.

    Args:
        com: the connections with the agents, by node.
        names: the nodes' names in messages for people.
        logger: the log.
        clock: of calls and limits.
    """

    def __init__(self, com: Controller, names: dict[int, str], logger: logging.Logger, clock: Clock) -> None:
        self._agents = com.sessions
        self._processes: dict[int, Session] = {}
        self._dialer: ProcessDialer | None = None  # job processes
        self._classes: Sequence[type] = ()  # of those that are called
        self._names, self._logger, self._clock = names, logger, clock
        self._gone: set[int] = set()
        weakref.finalize(self, _close, self._processes)  # for a program that submits and never dispatches

    def tell_agent(self, node: int, operation: Operation) -> None:
        if node in self._agents:
            _tell(self._agents[node], operation)

    def tell_process(self, node: int, operation: Operation) -> None:
        if node in self._processes:
            _tell(self._processes[node], operation)

    def call_processes(self, targets: Mapping[int, Target], classes: Sequence[type], limit: float) -> None:
        """Begin to open a session with each job process; `wait` returns the events of these calls.

        Args:
            targets: how to call the process of each node.
            classes: of the job, instances of which may come over these sessions.
            limit: seconds for all calls together.
        """
        if self._dialer is not None:
            self._dialer.close()
        self._dialer, self._classes = ProcessDialer(targets, limit, self._clock), classes

    def wait(self, timeout: float | None, waker: socket.socket | None = None) -> list[Event]:
        """Move bytes both ways; return the events.

        Waits up to `timeout` seconds, `LOOK_SECONDS` at most, for some, or for `waker`.
        """
        sessions = [s for s in (*self._agents.values(), *self._processes.values()) if s.lost is None]
        # what has come already wakes no poll
        if not any(session.inbox for session in sessions):
            reading: list[Any] = [*(s.link for s in sessions), *([waker] if waker is not None else [])]
            writing: list[Any] = [s.link for s in sessions if s.pending_bytes]
            limit = LOOK_SECONDS if timeout is None else min(timeout, LOOK_SECONDS)
            if self._dialer is not None:
                reading += self._dialer.reading
                writing += self._dialer.writing
                limit = max(0.0, min(limit, self._dialer.next_step - self._clock.monotonic()))
            wait_sockets(reading, writing, limit)
        events: list[Event] = []
        for node, session in self._agents.items():
            # read before its end is told: the last messages count
            events += self._read(node, session, FROM_AGENT)
            if not session.alive and node not in self._gone:
                self._gone.add(node)
                reason = "its worker has ended" if session.left else str(session.lost)
                events.append(Gone(node, reason))
        for node, session in self._processes.items():
            events += self._read(node, session, CODE_FROM_JOB)
        return events + self._call()

    def _call(self) -> list[Event]:
        dialer = self._dialer
        if dialer is None:
            return []
        dialer.step()
        opened, dialer.sessions = dialer.sessions, {}
        for session in opened.values():
            # before their first message is decoded
            session.use_classes(self._classes)
        self._processes.update(opened)
        # taken out, so that each is told once
        failed, dialer.errors = dialer.errors, {}
        if dialer.is_over:
            self._dialer = None
        return [*map(Opened, opened), *(Unreached(node, str(error)) for node, error in failed.items())]

    def _read(self, node: int, session: Session, allowed: Iterable[type[Operation]]) -> list[Heard]:
        events: list[Heard] = []
        try:
            for operation in operations(session, allowed):
                events.append(Heard(node, operation))
        except ProtocolError as error:
            self.hang_up(node, error)
        return events

    def hang_up(self, node: int, error: ProtocolError) -> None:
        """End the conversation with a node that breaks the protocol."""
        self._logger.error("%s broke the protocol: %s", self._names[node], clean(str(error)))
        # the agent's connection, too: it vouches for the process
        self._agents[node].close()

    def unacknowledged(self, node: int) -> int:
        """Tell how many bytes for `node`, its agent and process, have not arrived, though they were sent again and again."""
        sessions = [sessions[node] for sessions in (self._agents, self._processes) if node in sessions]
        return sum(each.link.unacknowledged for each in sessions if isinstance(each.link, SocketLink))

    def close_processes(self) -> None:
        if self._dialer is not None:
            self._dialer.close()
            self._dialer = None
        _close(self._processes)

    @property
    def process_bytes(self) -> tuple[int, int]:
        sessions = self._processes.values()
        return sum(s.bytes_sent for s in sessions), sum(s.bytes_read for s in sessions)


def _tell(session: Session, operation: Operation) -> None:
    if session.lost is None:
        session.queue(operation.to_value())
        session.send()


def _close(sessions: dict[int, Session]) -> None:
    for session in sessions.values():
        session.close()


class JobMessages:
    """Maker of the messages of one job. Every node gets a key for its code; its agent derives the keys between nodes.

    Args:
        question: that to the agents, without the parts that differ between nodes and groups.
        addresses: of the nodes.
        cluster: the cluster key.
        others: nodes of the job that are not among `addresses`, and that may call these or be called by them.
        cores: the cores that each agent has reported (`rpc.support.processors`).
    """

    def __init__(
        self,
        question: CanCommit,
        addresses: Mapping[int, Address],
        cluster: Key,
        others: Iterable[int] = (),
        cores: Mapping[int, object] = MappingProxyType({}),
    ) -> None:
        self._question, self._addresses, self._cores = question, addresses, cores
        self.job, self.attempt = question.job, question.attempt
        self.code_keys = {node: code_key(cluster, question.job, node) for node in addresses}
        self._nodes = {*addresses, *others}
        self._roster: dict[int, list[str]] = {}  # of the nodes that have accepted

    def can_commit(self, node: int, group: Sequence[int], prepare_limit: float, modules: Sequence[str]) -> CanCommit:
        host, cores = self._addresses[node].host, self._cores.get(node)
        # of one host as addressed: only there agents share cores
        near = [other for other, address in self._addresses.items() if address.host == host]
        return replace(
            self._question,
            node=node,
            group=list(group),
            jobs_on_host=sum(other == node or share_cores(cores, self._cores.get(other)) for other in near),
            prepare_limit=prepare_limit,
            others=sorted(self._nodes.difference(group)),
            modules=list(modules),
        )

    def note(self, node: int, accepted: Accepted) -> None:
        """Note that the agent of `node` has accepted, and how others on its host may call it.

        Raises: ProtocolError when it speaks for another node.
        """
        if accepted.node != node:
            raise ProtocolError(f"The agent of node {node} accepted in the name of node {accepted.node}.")
        near = accepted.unix_path if accepted.port == self._addresses[node].port else ""  # a proxy shall see the bytes
        self._roster[node] = [str(self._addresses[node]), accepted.host, near]

    def target(self, node: int) -> Target:
        """Make the target of the job process of `node`: where it runs on this host, straight through its agent's Unix
        socket.
        """
        name = process_name(self.job, node)
        _, host, unix_path = self._roster.get(node, ("", "", ""))
        near = unix_path if host == host_name() else ""
        return Target(self._addresses[node], self.code_keys[node], "code", "peer", name, node, unix_path=near)

    def load(self, bundle: Bundle) -> Load:
        """Make the message with the code, and the places of the nodes that have accepted so far."""
        return Load(bundle.objects, bundle.code, self._roster, bundle.sources)
