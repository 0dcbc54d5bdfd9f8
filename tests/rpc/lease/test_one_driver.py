"""One driver at a time: partitions, stops, restarts, lost and late messages, drawn from a seed, on virtual time."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection

import pytest

from rpc.lease.election import Election
from rpc.lease.lease import LIVING
from rpc.messages import Denied, Granted

from ...statements import covers
from .cluster import Cluster

SCHEDULES = int(os.environ.get("LEASE_SCHEDULES", "2000"))  # `make faults` tries many more
PARTS = 10


def disturb(world: Cluster) -> None:
    """One fault, or the end of some."""
    draw, hosts = world.draw, range(len(world.agents))
    choice = draw.random()
    if choice < 0.35:
        sides = {host: draw.randrange(2) for host in (-1, *hosts)}
        pairs = [(a, b) for a in (-1, *hosts) for b in (-1, *hosts) if a != b]
        mute = set(draw.sample(pairs, draw.randrange(3))) if draw.random() < 0.3 else set()
        world.split(sides, mute)
    elif choice < 0.55:
        world.split(dict.fromkeys((-1, *hosts), 0), set())
    elif choice < 0.70:
        for host in draw.sample((-1, *hosts), draw.randrange(1, len(hosts) + 1)):
            (world.wake if host in world.stopped else world.stop)(host)
    elif choice < 0.80:
        world.kill_agent(draw.choice(hosts))
    elif choice < 0.88:
        world.start_agent(draw.choice(hosts))
    elif choice < 0.97:
        connections = world.connections()
        if connections:
            world.reset(draw.choice(connections))
    else:
        world.kill_submitter()


def heal(world: Cluster) -> None:
    """The network is whole, nobody is stopped, and all agents that were killed are started again."""
    world.split(dict.fromkeys((-1, *range(len(world.agents))), 0), set())
    for host in sorted(world.stopped):
        world.wake(host)
    for agent in world.agents:
        world.start_agent(agent.host)


def play(seed: int, electorate: Callable[..., Election] = Election) -> Cluster:
    """A schedule: up to eight faults within half a minute, then the network heals and nothing more happens."""
    draw = random.Random(seed)
    elastic = draw.random() < 0.25
    spare = draw.randrange(3) if elastic else 0
    world = Cluster(
        seed, draw.randrange(1, 6), spare=spare, shrinks=draw.random() < 0.8, elastic=elastic, electorate=electorate
    )
    for _ in range(draw.randrange(1, 9)):
        world.run(world.now + draw.choice([0.1, 1.0, 3.0, 12.0]) * draw.random())
        disturb(world)
    world.run(world.now + draw.choice([0.0, 5.0, 20.0]))
    heal(world)
    world.run(world.now + 900.0)
    return world


def play_an_end_that_nobody_tells(seed: int, electorate: Callable[..., Election] = Election) -> Cluster:
    """A schedule: the network falls apart, on one side the job may end, and the agents there are down for long. The network is
    whole again before they are back."""
    draw = random.Random(seed)
    world = Cluster(seed, draw.randrange(2, 6), shrinks=draw.random() < 0.8, electorate=electorate)
    hosts = range(len(world.agents))
    world.run(3.0 * draw.random())
    world.split({host: draw.randrange(2) for host in (-1, *hosts)}, set())
    world.run(draw.choice([12.0, 60.0]))
    down = draw.randrange(2)
    if draw.random() < 0.3:
        world.kill_submitter()
    for host in hosts:
        if world.sides[host] == down:
            world.kill_agent(host)
    world.run(world.now + 4.0 * draw.random())
    world.split(dict.fromkeys((-1, *hosts), 0), set())
    world.run(world.now + draw.choice([60.0, 140.0, 700.0]))
    heal(world)
    world.run(world.now + 900.0)
    return world


def play_a_return_to_another_side(seed: int) -> Cluster:
    """A schedule: agents are killed before the eyes of the submitter, which goes on, and start again where it is not seen."""
    draw = random.Random(seed)
    world = Cluster(seed, draw.randrange(3, 6))
    hosts = range(len(world.agents))
    world.run(3.0 * draw.random())
    killed = draw.sample(hosts, draw.randrange(1, len(hosts)))
    away = {host for host in hosts if draw.randrange(2)}
    world.split({host: int(host in away.difference(killed)) for host in (-1, *hosts)}, set())
    world.run(world.now + 2.0 + 1.5 * draw.random())  # about when it gives up those that are silent
    for host in killed:
        world.kill_agent(host)
    world.run(world.now + 5.0)
    world.split({host: int(host in away.union(killed)) for host in (-1, *hosts)}, set())
    for host in killed:
        world.start_agent(host)
    world.run(world.now + 60.0)
    heal(world)
    world.run(world.now + 900.0)
    return world


def assert_brought_to_its_end(world: Cluster) -> None:
    """Where most of the newest attempt's agents have lived on, and have what a standby driver needs, one driver has ended the
    job."""
    agents = [world.agents[host] for host in world.chain[-1].hosts]
    able = [agent for agent in agents if agent.up and agent.since == agent.lives and agent.attempt_state is not None]
    if 2 * len(able) > len(agents) and not world.elastic:
        outcomes = {agent.outcome for agent in able}
        assert outcomes in ({"done"}, {"failed"}, {"left"}, {"done", "left"}, {"failed", "left"}), "\n".join(world.log)


@covers("INV-14", "FLT-25")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.share(12)
def test_at_most_one_driver_begins_or_ends_an_attempt(part: int) -> None:
    """Whatever the network does, and whoever is stopped or started again; and when it is whole again, one of
    them brings the job to its end. `Cluster` asserts the first at each step."""
    ended = 0
    for seed in range(part, SCHEDULES, PARTS):
        world = play(seed)
        assert_brought_to_its_end(world)
        ended += any(agent.outcome == "done" for agent in world.agents)
    assert ended > SCHEDULES / PARTS / 2


@covers("FLT-25")
@pytest.mark.parametrize("seed", [2866, 54048])
def test_a_driver_that_dies_while_an_attempt_begins(seed: int) -> None:
    """Schedules in which a node begins an attempt that it was not asked about, and its driver says no more."""
    assert_brought_to_its_end(play(seed))


@covers("INV-14")
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.share(12)
def test_who_is_gone_may_have_ended_the_job(part: int) -> None:
    """a host that refuses connections says nothing about what its agent knew, however long it is down."""
    ended = 0
    for seed in range(part, SCHEDULES // 8, PARTS):
        world = play_an_end_that_nobody_tells(seed)
        assert_brought_to_its_end(world)
        ended += world.ended == "done"
        assert_brought_to_its_end(play_a_return_to_another_side(seed))
    assert ended > SCHEDULES / PARTS / 20


# ---- what the schedules find


class ReachIsEnough(Election):
    """Who can be reached is with us, whatever he says: how it was decided once."""

    def _is_enough(self) -> bool:
        return 2 * len(self.silent) <= len(self._nodes)


class TheDeadCount(Election):
    """Whoever refuses a connection counts as granting, to everybody."""

    def _is_enough(self) -> bool:
        return super()._is_enough() or 2 * len(self.granted.keys() | self.refused) > len(self._nodes)


class HalfIsEnough(Election):
    """At exactly half a standby driver goes on, too."""

    def _is_enough(self) -> bool:
        return super()._is_enough() or 2 * len(self.granted) >= len(self._nodes)


class NobodyIsAskedAgain(Election):
    """What others have proposed is not looked at."""

    def _newest(self, told: Collection[Granted | Denied]) -> None:
        return None


class NobodyWaitsForTheDead(Election):
    """Where nobody is silent and nobody has another driver, all that live are on our side, so the dead do not matter."""

    def _is_enough(self) -> bool:
        grants = {node for node in self.granted if self._proposal is None or node in self._agreed}
        is_living = any(self.granted[node].voice == LIVING for node in grants)
        is_calm = not (self._candidate.is_elastic or self.silent or self._others or self.granted.keys() - grants)
        return super()._is_enough() or (is_living and is_calm)


@pytest.mark.share(5)
@pytest.mark.parametrize(
    ("flaw", "schedule"),
    [
        (ReachIsEnough, play),
        (TheDeadCount, play),
        (HalfIsEnough, play),
        (NobodyIsAskedAgain, play),
        (NobodyWaitsForTheDead, play_an_end_that_nobody_tells),
    ],
)
def test_a_flaw_is_found(flaw: type[Election], schedule: Callable[[int, type[Election]], Cluster]) -> None:
    for seed in range(2000):
        try:
            schedule(seed, flaw)
        except AssertionError as error:
            assert "two drivers" in str(error) or "it was over" in str(error) or "it had gone on" in str(error)
            return
    raise AssertionError(f"no schedule finds {flaw.__name__}")


def test_agents_that_forget_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is started again without what it had promised would promise it to another one."""
    start = Cluster.start_agent

    def forget(world: Cluster, host: int) -> None:
        start(world, host)
        world.agents[host].lease.restarted = False

    monkeypatch.setattr(Cluster, "start_agent", forget)
    with pytest.raises(AssertionError, match=r"two drivers|it was over|it had gone on"):
        for seed in range(SCHEDULES // 8):
            play_a_return_to_another_side(seed)
