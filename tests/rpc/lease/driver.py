"""The submitter and standby drivers: `restart_loop`, `quorum` and `standby` without sockets and processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rpc.lease.election import Ask, Candidate, Decision, Election, Missing, Propose, Said, Send, Settled, later_term
from rpc.machine import Tick
from rpc.messages import Agreed, Denied, Granted

from .agent import JOB, CanCommit, Conclude, Config, Connection, KeepManifest, Refused

if TYPE_CHECKING:
    from .cluster import Cluster

START_SECONDS = 2.0
RETRY_SECONDS, PAUSE_SECONDS, DEPOSED_SECONDS, WAIT_SECONDS = 30.0, 1.0, 5.0, 600.0
SHA = "0" * 64


class Driver:
    """The submitter (`host` -1), or a standby driver on `host`."""

    def __init__(self, world: Cluster, name: str, host: int, config: Config, *, standby: bool = True) -> None:
        self.world, self.name, self.host = world, name, host
        self.config = config
        self.is_standby = standby  # whether somebody else has begun `config`
        self.alive = True
        self.term = later_term(config.term, name) if standby else 0
        self.links: dict[int, Connection] = {}
        self.election: Election | None = None
        self.known_dead: set[int] = set()
        self.lost: set[int] = set()
        self.done: set[int] = set()
        self.next: Config | None = None
        self.accepted: set[int] = set()
        self.number = config.attempt + 1
        self.step = 0  # what was planned for an earlier step is out of date
        self.since = world.now
        self.deposed: float | None = None
        self.tries = False
        self._then: Callable[[Decision], None] = lambda _: None
        self.state = "claims"
        world.drivers.append(self)

    # ---- bytes

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        step = self.step
        self.world.at(self.world.now + seconds, lambda: act() if self.alive and step == self.step else None, host=self.host)

    def call(self, host: int) -> str:
        """Open a connection, unless there is one; how that goes: "", "refused" or "silent"."""
        link = self.links.get(host)
        agent = self.world.agents[host]
        if link is not None and link.at_driver:
            return ""
        if not self.world.is_open(self.host, host) or host in self.world.stopped:
            return "silent"
        if not agent.up:
            return "refused"
        self.links[host] = Connection(self, host)
        self.world.watch(self.links[host])
        return ""

    def tell(self, host: int, message: object) -> None:
        link = self.links.get(host)
        if link is not None and link.at_driver:
            self.world.send(link, message, to_agent=True)

    def close(self, host: int) -> None:
        link = self.links.pop(host, None)
        if link is not None and link.at_driver:
            self.world.send(link, "bye", to_agent=True)
            link.at_driver = False

    def end(self) -> None:
        """The process ends."""
        self.alive = False
        for host in list(self.links):
            self.close(host)
        if self.host >= 0:
            agent = self.world.agents[self.host]
            self.world.at(self.world.now, lambda: agent.standby_ended(self), host=self.host)

    def lose(self, host: int, *, by_itself: bool) -> None:
        """The connection with an agent has ended, or it is silent."""
        if not self.alive:
            return
        self.links.pop(host, None)
        if by_itself and self.state == "drives":
            self.known_dead.add(host)
        self.react(Missing(host, False))
        if self.state == "starts" and self.next is not None and host in self.next.hosts:
            self.retry()
        if self.state == "drives" and host in self.config.hosts:
            self.lost.add(host)
            self.step += 1
            self.later(0.3, self.settle)  # the others end, too

    def hear(self, host: int, message: Any) -> None:
        if isinstance(message, (Granted, Denied, Agreed)):
            self.react(Said(host, message))
        elif self.state == "starts" and self.next is not None and message.attempt == self.next.attempt:
            if isinstance(message, Refused):
                self.retry()
                return
            self.accepted.add(host)
            if self.accepted >= set(self.next.hosts):
                self.drive(self.next)

    # ---- elections

    def react(self, event: object) -> None:
        if self.election is not None and self.election.deadline is not None:
            self.act(self.election.handle(event, self.world.now))

    def act(self, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, Send):
                self.tell(action.node, action.operation)
            elif isinstance(action, Settled):
                self._then(action.decision)
        if self.election is not None and self.election.deadline is not None:
            self.world.at(self.election.deadline, lambda: self.react(Tick()) if self.alive else None, host=self.host)

    def ask(self, hosts: set[int], then: Callable[[Decision], None]) -> None:
        if self.election is None:
            since = (self.config.term, self.config.attempt)
            standing = (self.is_standby, self.world.elastic, self.world.shrinks)
            candidate = Candidate(JOB, self.name, SHA, self.term, since, *standing)
            self.election = self.world.electorate(candidate, self.config.hosts, self.known_dead)
        self._then = then
        missing = {host: how for host in sorted(hosts) if (how := self.call(host))}
        actions = self.election.handle(Ask(tuple(sorted(hosts))), self.world.now)
        for host, how in missing.items():
            actions += self.election.handle(Missing(host, how == "refused"), self.world.now)
        self.act(actions)
        if not hosts:
            self.react(Tick())

    # ---- standby drivers

    def claim(self) -> None:
        if self.alive:
            self.election = None
            self.ask(set(self.config.hosts), self.claimed)

    def claimed(self, decision: Decision) -> None:
        election = self.election
        assert election is not None
        self.term, self.election = election.term, None
        if decision is Decision.DRIVE:
            self.number = 1 + max([self.config.attempt, *(answer.attempt for answer in election.granted.values())])
            for host in set(self.links) - election.granted.keys():
                self.close(host)
            self.adopt({answer.attempt for answer in election.granted.values()})
            return
        if decision is Decision.OVER:
            outcome = next(answer.outcome for answer in election.denied.values() if answer.outcome not in ("", "left"))
            for host in election.granted:
                self.tell(host, Conclude(outcome, None))
        newer = election.newer if decision is Decision.NEWER else None
        config = None if newer is None else Config.of(newer)
        if config is not None and config not in self.world.parents and config not in self.world.begun:
            self.world.decide(config, self)
        if config is not None and self.host not in config.hosts:
            self.tell(self.host, Conclude("left", None))
        gives_up = decision is Decision.PAUSE and self.world.now - self.since > WAIT_SECONDS
        if gives_up:
            for host in election.granted:
                self.tell(host, Conclude("left", None))
        for host in list(self.links):
            self.close(host)
        if config is not None and self.host in config.hosts:
            self.config = config
            self.later(0.05, self.claim)
        elif decision is Decision.PAUSE and not gives_up:
            self.later(PAUSE_SECONDS * (1 + self.config.hosts.index(self.host)), self.claim)
        else:
            self.end()

    def adopt(self, attempts: set[int]) -> None:
        """Go on with an attempt that somebody else has begun; a later one that was on its way is given up."""
        self.state, self.election, self.is_standby = "drives", None, True
        self.world.say(f"{self.name} adopts {self.config}")
        self.lost = {host for host in self.config.hosts if host not in self.links}
        self.hand_off()
        if self.lost or attempts != {self.config.attempt} or not self.world.is_running(self.config):
            self.later(0.3, self.settle)
        else:
            self.later(self.world.seconds, self.finish)

    # ---- in office

    def hand_off(self) -> None:
        for place, host in enumerate(self.config.hosts):
            self.tell(host, KeepManifest(self.config, place))

    def drive(self, config: Config) -> None:
        """The attempt has begun everywhere."""
        self.world.begin(config, self)
        self.take_office(config)

    def take_office(self, config: Config) -> None:
        left = set(self.config.hosts) - set(config.hosts)
        for host in left:
            self.tell(host, Conclude("left", None))
        self.config, self.next, self.is_standby, self.election = config, None, False, None
        self.state, self.step, self.deposed = "drives", self.step + 1, None
        self.lost, self.known_dead = set(), set()
        for host in left:
            self.close(host)
        self.hand_off()
        gone = {host for host in config.hosts if host not in self.links}
        if gone:
            self.lost = gone
            self.later(0.3, self.settle)
        else:
            self.later(self.world.seconds, self.finish)

    def finish(self) -> None:
        """All nodes have done their work, if they could."""
        if self.world.is_running(self.config) and not self.lost:
            self.conclude("done")
        else:
            self.settle()

    def conclude(self, outcome: str) -> None:
        self.state, self.step = "over", self.step + 1
        self.world.say(f"{self.name} concludes {outcome}")
        for host in list(self.links):
            self.tell(host, Conclude(outcome, self.config))
        self.end()

    def settle(self) -> None:
        """The attempt has failed: choose the nodes of the next one."""
        if self.state != "drives":
            return
        hosts = [host for host in self.config.hosts if host not in self.lost or not self.world.shrinks]
        if self.world.elastic and hosts and self is self.world.submitter:
            hosts += [agent.host for agent in self.world.agents if agent.up and agent.host not in self.config.hosts]
        self.state, self.since, self.tries = "asks", self.world.now, False
        if not hosts:
            self.ask(set(self.config.hosts) - self.lost, lambda d: self.conclude("failed" if d is Decision.DRIVE else "left"))
            return
        self.next = Config(self.number, tuple(hosts))
        self.first()

    def first(self) -> None:
        """One round; those who are lost are asked only where the others are not enough."""
        self.state, self.step = "asks", self.step + 1
        near = self.near
        self.ask(near, lambda decision: self.asked(decision, near))

    @property
    def near(self) -> set[int]:
        """Those that are not lost, and those that are needed all the same."""
        needed = set() if self.next is None else set(self.next.hosts)
        return set(self.config.hosts) - (self.lost - needed)

    def asked(self, decision: Decision, hosts: set[int]) -> None:
        assert self.next is not None and self.election is not None
        if decision is Decision.PAUSE and hosts != set(self.config.hosts):
            everybody = set(self.config.hosts)
            self.ask(everybody, lambda decision: self.asked(decision, everybody))
        elif decision is Decision.DRIVE:
            self._then = self.agreed
            self.next = Config(self.number, self.next.hosts, self.election.term)
            self.act(self.election.handle(Propose(self.next.attempt, self.next.attempt_state), self.world.now))
        else:
            self.hold(decision)

    def hold(self, decision: Decision) -> None:
        """Pause, or leave it to whoever drives."""
        if decision is not Decision.PAUSE:
            self.deposed = self.world.now if self.deposed is None else self.deposed
        limit = WAIT_SECONDS if self.world.shrinks else RETRY_SECONDS
        if self.deposed is not None and self.world.now - self.deposed > DEPOSED_SECONDS:
            self.world.say(f"{self.name} is deposed")
            self.state = "over"
            self.end()
        elif self.world.now - self.since > limit:
            self.conclude("left")
        else:
            self.later(PAUSE_SECONDS, self.first)

    def agreed(self, decision: Decision) -> None:
        assert self.next is not None and self.election is not None
        if decision is not Decision.DRIVE:
            self.hold(decision)
            return
        if not self.tries:
            self.since, self.tries = self.world.now, True  # what was spent in a pause does not count
        self.term = self.election.term
        self.world.decide(self.next, self)
        self.state, self.step, self.accepted = "starts", self.step + 1, set()
        self.number += 1
        if any(self.call(host) for host in self.next.hosts):
            self.retry()
            return
        for host in self.next.hosts:
            self.tell(host, CanCommit(self.next))
        self.later(START_SECONDS, self.retry)

    def retry(self) -> None:
        self.state = "asks"
        if self.world.now - self.since > RETRY_SECONDS:
            self.step += 1
            self.ask(self.near, lambda decision: self.conclude("failed" if decision is Decision.DRIVE else "left"))
        else:
            self.step += 1
            self.later(0.5, self.first)
