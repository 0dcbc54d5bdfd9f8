"""A job, its agents, its submitter and its standby drivers on virtual time: the leases and elections of the product decide, and
all that is between them may be late, lost, cut off, stopped or started again. That there is one job is asserted at each step.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from typing import Any

from rpc.lease import lease as who
from rpc.lease.election import Election

from .agent import Agent, Conclude, Config, Connection
from .driver import Driver

STANDBY_SECONDS = 0.7  # that a standby driver needs to come up
GIVE_UP_SECONDS = 10.0  # after which an agent has lost a driver from which it hears nothing
SILENT_SECONDS = 2.5  # after which a driver has lost an agent


class Cluster:
    """`count` agents and a submitter, and `spare` ones that join an `elastic` job when it starts again. `seconds` is how long
    an attempt takes; `shrinks`: nodes that fail are left out."""

    def __init__(
        self,
        seed: int,
        count: int,
        *,
        spare: int = 0,
        shrinks: bool = True,
        elastic: bool = False,
        electorate: Callable[..., Election] = Election,
    ) -> None:
        self.draw = random.Random(seed)
        self.now = 0.0
        self.seconds, self.shrinks, self.elastic, self.electorate = 25.0, shrinks, elastic, electorate
        self.count = itertools.count()
        self._events: list[tuple[float, int, int, Callable[..., object], tuple[Any, ...]]] = []
        self.sides = dict.fromkeys(range(-1, count + spare), 0)
        self.mute: set[tuple[int, int]] = set()  # directions in which nothing gets through
        self.stopped: set[int] = set()
        self._held: dict[int, list[tuple[Callable[..., object], tuple[Any, ...]]]] = {}  # for who is stopped
        self._woken: dict[int, float] = {}
        self._stuck: list[tuple[Connection, object, bool]] = []  # on a link that carries nothing
        self.drivers: list[Driver] = []
        self.log: list[str] = []
        self.chain: list[Config] = []  # the attempts that have begun
        self.begun: set[Config] = set()
        self.parents: dict[Config, Config] = {}
        self.ended = ""
        self._endings: dict[tuple[str, int], set[int]] = {}
        self.agents = [Agent(self, host) for host in range(count + spare)]
        first = Config(0, tuple(range(count)))
        self.submitter = Driver(self, "The submitter/0000000000000000", -1, first, standby=False)
        for agent in self.agents[:count]:
            agent.feed(who.Begun(self.submitter.name, 0, 0, first.attempt_state))
            agent.begun = 0
            self.submitter.call(agent.host)
            agent.connections.append(self.submitter.links[agent.host])
        self.chain.append(first)
        self.begun.add(first)
        self.submitter.take_office(first)

    def start_standby(self, host: int, attempt_state: Config) -> Driver:
        standby = Driver(self, f"Node({host})/{next(self.count):016x}", host, attempt_state)
        self.at(self.now + STANDBY_SECONDS * (1 + self.draw.random()), standby.claim, host=host)
        return standby

    def say(self, text: str) -> None:
        self.log.append(f"{self.now:.2f} {text}")

    # ---- one job

    def decide(self, config: Config, driver: Driver) -> None:
        """Enough nodes of the attempt that the driver knows have agreed to `config`; it need not begin."""
        self.say(f"{driver.name} may begin {config}, after {driver.config}")
        self.parents[config] = driver.config

    def begin(self, config: Config, driver: Driver) -> None:
        """INV-14: an attempt begins where the newest one that still lives has failed, and nowhere else."""
        self.say(f"{driver.name} begins {config}")
        if any(self.agents[host].begun != config.attempt for host in config.hosts) or self._is_dead(config):
            return  # the last word of agents that are gone, or in a later attempt: its processes do not meet any more
        assert not self.ended, f"it was over: {self.ended}\n" + "\n".join(self.log)
        before = self._last_begun(self.parents[config])
        while self.chain[-1] != before and self._is_dead(self.chain[-1]):
            self.chain.pop()
        assert self.chain[-1] == before, "two drivers\n" + "\n".join(self.log)
        self.chain.append(config)
        self.begun.add(config)

    def _last_begun(self, config: Config) -> Config:
        while config not in self.begun:
            config = self.parents[config]
        return config

    def _is_dead(self, config: Config) -> bool:
        """Nobody that took part in it lives on."""
        agents = [self.agents[host] for host in config.hosts]
        return not any(agent.up and agent.since == agent.lives and agent.begun == config.attempt for agent in agents)

    def note_end(self, host: int, end: Conclude) -> None:
        """INV-14: when more than half of an attempt know that it is over, nothing else has begun, or become of it."""
        assert end.config is not None
        known = self._endings.setdefault((end.outcome, end.config.attempt), set())
        known.add(host)
        if 2 * len(known) > len(end.config.hosts):
            self.say(f"the job is over: {end.outcome} of {end.config}")
            assert self.ended in ("", end.outcome), f"{self.ended} and {end.outcome}\n" + "\n".join(self.log)
            assert self.chain[-1] == self._last_begun(end.config), "it had gone on\n" + "\n".join(self.log)
            self.ended = end.outcome

    def is_running(self, config: Config) -> bool:
        """Whether all nodes of an attempt are in it, and reach each other."""
        agents = [self.agents[host] for host in config.hosts]
        there = all(a.up and a.begun == config.attempt and a.since == a.lives and a.host not in self.stopped for a in agents)
        return there and config in self.begun and all(self.is_open(a, b) for a in config.hosts for b in config.hosts)

    # ---- time

    def at(self, when: float, act: Callable[..., object], *arguments: Any, host: int | None = None) -> None:
        """Have something happen, as soon as `host` runs."""
        heapq.heappush(self._events, (when, next(self.count), -2 if host is None else host, act, arguments))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            when, _, host, act, arguments = heapq.heappop(self._events)
            self.now = max(self.now, when)
            if host in self.stopped:
                self._held.setdefault(host, []).append((act, arguments))
            else:
                act(*arguments)
        self.now = max(self.now, until)

    # ---- messages

    def is_open(self, one: int, other: int) -> bool:
        same = one == other or self.sides[one] == self.sides[other]
        return same and (one, other) not in self.mute and (other, one) not in self.mute

    def _carries(self, source: int, target: int) -> bool:
        return source == target or (self.sides[source] == self.sides[target] and (source, target) not in self.mute)

    def send(self, connection: Connection, message: object, *, to_agent: bool) -> None:
        ends = (connection.driver.host, connection.host)
        if not self._carries(*(ends if to_agent else ends[::-1])):
            self._stuck.append((connection, message, to_agent))
            return
        delay = self.draw.random() * (0.3 if self.draw.random() < 0.9 else 2.5)
        if ends[0] == ends[1]:
            delay *= 0.01
        when = max(self.now + delay, connection.last[to_agent] + 1e-6)
        connection.last[to_agent] = when
        self.at(when, self._arrive, connection, message, to_agent, host=ends[to_agent])

    def _arrive(self, connection: Connection, message: object, to_agent: bool) -> None:
        if to_agent:
            self.agents[connection.host].hear(connection, message)
        elif connection.driver.alive and connection.at_driver and connection.driver.links.get(connection.host) is connection:
            if message == "reset":
                connection.at_driver = False
                awake = self.now > self._woken.get(connection.driver.host, -1.0)
                connection.driver.lose(connection.host, by_itself=awake)
            else:
                connection.driver.hear(connection.host, message)

    def watch(self, connection: Connection) -> None:
        """Nothing is heard any more: first the driver gives the other side up, then the agent does."""
        host, driver = connection.host, connection.driver
        if self.is_open(driver.host, host) and host not in self.stopped and driver.host not in self.stopped:
            return
        self.at(self.now + SILENT_SECONDS * (1 + 0.2 * self.draw.random()), self._unheard, connection, host=driver.host)
        if not self.is_open(driver.host, host):  # the kernel of a process that is stopped answers for it
            self.at(self.now + GIVE_UP_SECONDS, self._given_up, connection, host=host)

    def _unheard(self, connection: Connection) -> None:
        host, driver = connection.host, connection.driver
        still = not self.is_open(driver.host, host) or host in self.stopped
        if still and driver.alive and driver.links.get(host) is connection:
            driver.close(host)
            driver.lose(host, by_itself=False)

    def _given_up(self, connection: Connection) -> None:
        if not self.is_open(connection.driver.host, connection.host) and self.agents[connection.host].up:
            self.agents[connection.host].hang_up(connection)

    # ---- faults

    def connections(self) -> list[Connection]:
        found = {id(link): link for driver in self.drivers for link in driver.links.values()}
        found |= {id(link): link for agent in self.agents for link in agent.connections}
        return list(found.values())

    def split(self, sides: dict[int, int], mute: set[tuple[int, int]]) -> None:
        """The network falls apart, or is whole again: what was on its way comes late."""
        self.say(f"network {sides} {sorted(mute)}")
        self.sides, self.mute = dict(sides), mute
        for connection in self.connections():
            self.watch(connection)
        stuck, self._stuck = self._stuck, []
        for connection, message, to_agent in stuck:
            self.send(connection, message, to_agent=to_agent)

    def stop(self, host: int) -> None:
        self.say(f"stop {host}")
        self.stopped.add(host)
        for connection in self.connections():
            if host in (connection.host, connection.driver.host):
                self.watch(connection)

    def wake(self, host: int) -> None:
        if host in self.stopped:
            self.say(f"wake {host}")
            self.stopped.discard(host)
            self._woken[host] = self.now
            for act, arguments in self._held.pop(host, []):
                self.at(self.now, act, *arguments, host=host)

    def reset(self, connection: Connection) -> None:
        """A connection breaks by itself, and what was on its way is lost."""
        self.say(f"reset {connection.driver.name} - {connection.host}")
        connection.at_driver = False
        driver = connection.driver
        self._stuck = [entry for entry in self._stuck if entry[0] is not connection]
        self.at(self.now, self.agents[connection.host].hang_up, connection, host=connection.host)
        self.at(self.now, lambda: self._broken(connection), host=driver.host)

    def _broken(self, connection: Connection) -> None:
        if connection.driver.alive and connection.driver.links.get(connection.host) is connection:
            connection.driver.lose(connection.host, by_itself=False)

    def kill_agent(self, host: int) -> None:
        """The agent ends, and the job process and the standby driver with it; whoever is connected sees it at once, if he
        can."""
        agent = self.agents[host]
        if not agent.up:
            return
        self.say(f"kill agent {host}")
        agent.up = False
        self.stopped.discard(host)
        self._held.pop(host, None)
        if agent.standby is not None:
            agent.standby.end()
            agent.standby = None
        for driver in self.drivers:
            link = driver.links.get(host)
            if link is not None:
                link.at_agent = False
                self.send(link, "reset", to_agent=False)
        agent.connections.clear()

    def start_agent(self, host: int) -> None:
        agent = self.agents[host]
        if not agent.up:
            self.say(f"start agent {host}")
            agent.up, agent.lives, agent.attempt_state = True, agent.lives + 1, None
            agent.lease = who.DriverLease(agent.disk, restarted=True)
            if agent.outcome:
                agent.feed(who.Event.CONCLUDED)

    def kill_submitter(self) -> None:
        if self.submitter.alive:
            self.say("kill submitter")
            self.submitter.end()
