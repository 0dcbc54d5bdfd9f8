"""What agents and drivers say to each other here, and an agent: `rpc.agent.failover` without sockets, processes and disks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rpc import messages
from rpc.agent.standby import content_of, denied
from rpc.lease import lease as who
from rpc.lease.election import Newer
from rpc.machine import Tick
from rpc.messages import Agreed, ClaimJob, Denied, Granted, ProposeAttempt

if TYPE_CHECKING:
    from .cluster import Cluster
    from .driver import Driver

JOB = "job"


@dataclass(frozen=True)
class Config:
    """An attempt: its number, the hosts that take part, by node, and the term in which it was agreed to."""

    attempt: int
    hosts: tuple[int, ...]
    term: int = 0

    @property
    def attempt_state(self) -> str:
        return json.dumps(self.hosts)

    @classmethod
    def of(cls, newer: Newer) -> Config:
        return cls(newer.attempt, tuple(json.loads(newer.attempt_state)), newer.agreed)


@dataclass
class Connection:
    """Between a driver and the agent of a host; an end that is closed may not be known on the other side yet."""

    driver: Driver
    host: int
    at_agent: bool = True
    at_driver: bool = True
    last: dict[bool, float] = field(default_factory=lambda: {True: 0.0, False: 0.0})  # messages keep their order


@dataclass(frozen=True)
class CanCommit:
    config: Config


@dataclass(frozen=True)
class Accepted:
    attempt: int


@dataclass(frozen=True)
class Refused:
    attempt: int
    reason: str


@dataclass(frozen=True)
class KeepManifest:
    config: Config
    place: int


@dataclass(frozen=True)
class Conclude:
    """`config` is the attempt that is ended; None for a node that is told what others know."""

    outcome: str
    config: Config | None


class Agent:
    """The agent of a host: up or down, with what it has on disk."""

    def __init__(self, world: Cluster, host: int) -> None:
        self.world, self.host = world, host
        self.up = True
        self.lives = 0  # how often it was started again
        self.begun = -1  # the newest attempt that it takes part in
        self.since = 0  # the life in which that was
        self.outcome = ""
        self.disk = who.Promise()
        self.lease = who.DriverLease()
        self.standby: Driver | None = None
        self.attempt_state: Config | None = None  # what its standby driver begins with
        self.connections: list[Connection] = []

    def feed(self, event: object) -> list[object]:
        actions = self.lease.handle(event, self.world.now)
        if any(isinstance(action, who.Keep) for action in actions):
            self.disk = self.lease.promise
        if self.lease.deadline is not None:
            self.world.at(self.lease.deadline, self._tick, self.lives, host=self.host)
        for action in actions:
            if isinstance(action, who.StartStandby) and self.attempt_state is not None:
                self.standby = self.world.start_standby(self.host, self.attempt_state)
        return actions

    def _tick(self, life: int) -> None:
        if self.up and life == self.lives:
            self.feed(Tick())

    def content(self) -> tuple[Any, ...]:
        return JOB, self.host, *content_of(self.lease.promise)

    def hear(self, connection: Connection, message: Any) -> None:
        """What a driver says."""
        if not self.up or not connection.at_agent:
            return
        driver = connection.driver
        if message == "bye":
            self.hang_up(connection)
        elif isinstance(message, ClaimJob) and self.begun < 0:
            self.say(connection, Granted(*self.content(), message.term, who.NONE, 0, "unknown", ""))
        elif isinstance(message, ClaimJob):
            answer = self.feed(message)[-1]
            if isinstance(answer, who.Grant):
                self.drop_others(connection)
                told = (message.term, answer.voice, max(self.begun, 0), "running", "")
                self.say(connection, Granted(*self.content(), *told))
            else:
                self.say(connection, self.denied(answer))
        elif isinstance(message, ProposeAttempt):
            answer = self.feed(message)[-1]
            agreed = Agreed(JOB, self.host, message.term, message.attempt)
            self.say(connection, agreed if isinstance(answer, who.Agree) else self.denied(answer))
        elif isinstance(message, CanCommit):
            self.commit(connection, message)
        elif isinstance(message, KeepManifest):
            if self.lease.driver == driver.name and not self.lease.over:
                self.attempt_state = message.config
                config = message.config
                order = (config.attempt, config.term, driver.name, message.place, "", 0, "", config.attempt_state)
                self.feed(messages.KeepManifest(JOB, self.host, *order))
                self.feed(who.Event.MANIFEST_COMPLETE)
        elif isinstance(message, Conclude) and self.lease.driver == driver.name and not self.lease.over:
            self.outcome = message.outcome
            self.feed(who.Event.CONCLUDED)
            if message.config is not None and message.outcome != "left":
                self.world.note_end(self.host, message)

    def say(self, connection: Connection, message: object) -> None:
        self.world.send(connection, message, to_agent=False)

    def denied(self, answer: Any) -> Denied:
        return denied(JOB, self.host, self.lease, answer.reason, self.outcome)

    def commit(self, connection: Connection, order: CanCommit) -> None:
        name, config = connection.driver.name, order.config
        reason = self.lease.objection(name, config.term)
        over = self.outcome not in ("", "left")
        if reason or over or config.attempt <= self.begun:
            self.say(connection, Refused(config.attempt, reason or self.outcome or "it was here before"))
            return
        if self.lease.over:
            self.lease = who.DriverLease(self.lease.promise)
        self.outcome = ""
        self.feed(who.Begun(name, config.term, config.attempt, config.attempt_state))
        self.begun, self.since = config.attempt, self.lives
        self.drop_others(connection)
        self.say(connection, Accepted(config.attempt))

    def drop_others(self, connection: Connection) -> None:
        """Only connections of the driver count."""
        self.connections = [known for known in self.connections if known.driver is connection.driver]
        if connection not in self.connections:
            self.connections.append(connection)

    def hang_up(self, connection: Connection) -> None:
        connection.at_agent = False
        if connection in self.connections:
            self.connections.remove(connection)
            if not self.connections:
                self.feed(who.DriverGone(connection.driver.name))

    def standby_ended(self, standby: Driver) -> None:
        if self.up and self.standby is standby:
            self.standby = None
            self.feed(who.Event.STANDBY_GONE)
