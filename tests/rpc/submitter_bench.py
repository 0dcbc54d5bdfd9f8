"""A submitter on a virtual clock, over real connections with agents and job processes for which the test speaks.

Time passes only while the submitter waits; meanwhile the agents beat and answer, unless they are frozen.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from network.acceptor import Accept, Acceptor, Authenticated
from network.controller import Controller
from network.keys import Key, Keyring
from network.nodes import Address
from network.session import Session
from network.testing import VirtualClock
from network.transport import wait_sockets
from rpc.executable import Resources
from rpc.liveness.limits import HEARTBEAT_SECONDS
from rpc.messages import (
    FROM_SUBMITTER,
    Abort,
    Accepted,
    Answers,
    Asks,
    CanCommit,
    DoCommit,
    Heartbeat,
    Load,
    Loaded,
    Operation,
    Prepared,
    State,
    parse,
)
from rpc.shipping import Bundle
from rpc.submit import connections as lines_module
from rpc.submit.connections import JobMessages
from rpc.submit.event_loop import EventLoop
from rpc.submit.run_folder import RunFolder
from rpc.submit.terminal import ProgressDisplay
from rpc.support.identity import code_key, process_name
from tests.network.wires import talk
from tests.rpc.sent import question

JOB = "20260101-000000-abcdef"
CLUSTER = Key(b"k" * 32)


@dataclass
class FakeAgent:
    """Agent and job process of one node. `freeze_at` is the word that it does not say any more: it is frozen before that;
    or the moment. At `thaw_at` it goes on."""

    node: int
    session: Session
    listener: socket.socket
    door: Acceptor
    freeze_at: str | float = ""
    thaw_at: float = math.inf
    delays: dict[str, float] = field(default_factory=dict)  # seconds before it says a word
    worked: float = 0.0  # as its beats tell
    frozen_since: float | None = None
    has_job: bool = False
    process: Session | None = None
    beat_at: float = 0.0
    todo: list[tuple[float, Operation]] = field(default_factory=list)

    def say(self, operation: Operation, now: float) -> None:
        self.todo.append((now + self.delays.get(type(operation).__name__, 0.0), operation))

    def step(self, now: float) -> list[str]:
        """Read, answer, beat; returns the words that were said."""
        if self.frozen_since is None and isinstance(self.freeze_at, float) and now >= self.freeze_at:
            self.frozen_since = now
        if self.frozen_since is not None and now >= self.thaw_at:
            self.frozen_since, self.freeze_at = None, ""
        if self.frozen_since is not None:
            return []
        self._listen(now)
        said = []
        for when, operation in list(self.todo):
            word = type(operation).__name__
            if now < when:
                continue
            if word == self.freeze_at:
                self.frozen_since = now
                return said
            self.todo.remove((when, operation))
            self._send(operation)
            said.append(word)
        if self.has_job and now >= self.beat_at:
            self.beat_at = now + HEARTBEAT_SECONDS
            self._send(Heartbeat(JOB, self.node, 0, "host", 1, "unwatched", 0, 0, 0.0, 0.0, 60.0, worked=self.worked))
        return said

    def _listen(self, now: float) -> None:
        self.session.receive()
        while (message := self.session.take()) is not None:
            operation = parse(message.value, FROM_SUBMITTER)
            if isinstance(operation, CanCommit):
                self.has_job = True
                self.say(Accepted(JOB, self.node, "host", 1, "", "1"), now)
            elif isinstance(operation, Abort):
                self.todo = [(now, State(JOB, self.node, "aborted", operation.reason))]
                self.has_job = False
        with contextlib.suppress(BlockingIOError):
            while True:
                self.door.add(self.listener.accept()[0])
        for outcome in self.door.step():
            if isinstance(outcome, Authenticated):
                self.process = outcome.session
        if self.process is not None:
            self._listen_to_code(self.process, now)

    def _listen_to_code(self, session: Session, now: float) -> None:
        session.receive()
        while (message := session.take()) is not None:
            operation = parse(message.value, (Load, Answers, DoCommit))
            if isinstance(operation, Load):
                self.say(Loaded("1"), now)
                self.say(Asks(["data"]), now)
            elif isinstance(operation, Answers):
                self.say(Prepared(), now)
            else:  # all have got what they need, and so they meet
                self.say(State(JOB, self.node, "running", ""), now)
        session.send()

    def _send(self, operation: Operation) -> None:
        to_code = isinstance(operation, (Loaded, Asks, Prepared))
        session = self.process if to_code else self.session
        assert session is not None
        session.queue(operation.to_value())
        session.send()


class Bench:
    """Nodes 0 to n-1, and perhaps a parameter server, each with an agent of its own on one host; `submit` to `start` them."""

    def __init__(self, nodes: Sequence[int], directory: Path, at_end: contextlib.ExitStack) -> None:
        self.clock = VirtualClock()
        self.agents: dict[int, FakeAgent] = {}
        self.suspend_at = math.inf  # once, for a minute
        self.late = 0.0  # seconds by which each wait is longer than it was to be, as on a busy machine
        self.said: set[tuple[int, str]] = set()
        clients = {}
        addresses = {}
        for node in nodes:
            ends = at_end.enter_context(talk("tcp"))
            listener = socket.create_server(("127.0.0.1", 0))
            at_end.callback(listener.close)
            listener.setblocking(False)
            key = Keyring((code_key(CLUSTER, JOB, node),))
            terms = Accept({"code": key}, "peer", process_name(JOB, node), {"node": node})
            door = Acceptor(lambda _hello, terms=terms: terms, self.clock)  # type: ignore[misc]
            at_end.callback(door.close)
            self.agents[node] = FakeAgent(node, ends.server, listener, door)
            at_end.callback(self._hang_up, self.agents[node])
            clients[node] = ends.client
            addresses[node] = Address("127.0.0.1", listener.getsockname()[1])
        com = Controller(-1, clients)
        at_end.callback(com.close, graceful=False)
        com.addresses = addresses
        messages = JobMessages(question(JOB), addresses, CLUSTER)
        self.loop = EventLoop(
            com,
            messages,
            (logger := logging.getLogger("submitter bench")),
            self.clock,
            run=RunFolder(directory, JOB, "title"),
            start_limit=60.0,
            collects=False,
            display=ProgressDisplay([], logger),
        )
        at_end.callback(self.loop.connections.close_processes)

    @staticmethod
    def _hang_up(agent: FakeAgent) -> None:
        if agent.process is not None:
            agent.process.close()

    def wait(self, reading: Sequence[Any], writing: Sequence[Any], timeout: float | None) -> None:
        """Instead of a wait for sockets: the agents do what they do within a tenth of a second."""
        now = self.clock.monotonic()
        for agent in self.agents.values():
            self.said.update((agent.node, word) for word in agent.step(now))
        if now >= self.suspend_at:
            self.suspend_at = math.inf
            self.clock.advance(60.0)
        wait_sockets(reading, writing, 0.0)
        self.clock.advance((0.1 if timeout is None else max(0.0, min(timeout, 0.1))) + self.late)

    def submit(self, groups: Sequence[Sequence[int]], limit: float, reply: Callable[[int, str], Any] | None = None) -> None:
        """The three phases. Raises: SubmissionError."""
        for group in groups:
            self.loop.groups.submit(Bundle(b"", b"", (), {}), group, limit, None)
        self.loop.groups.dispatch(Resources(reply or (lambda node, request: request)))


@contextlib.contextmanager
def bench(nodes: Sequence[int], directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    with contextlib.ExitStack() as at_end:
        made = Bench(nodes, directory, at_end)
        monkeypatch.setattr(lines_module, "wait_sockets", made.wait)
        yield made
