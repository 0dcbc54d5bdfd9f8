"""Who drives a job when drivers die: the real Succession machines of three nodes and the decisions of their heirs, wired by
connections in memory, on virtual time, in every order of messages."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest

from rpc.agent import succession as who
from rpc.agent.succession import LONGEST_PAUSE_SECONDS, PLACE_SECONDS, Succession
from rpc.errors import InvalidTransition
from rpc.messages import Denied, Granted
from rpc.succession.takeover import ANSWER_SECONDS, Decision, decide

START_SECONDS = 0.7  # that an heir needs to come up
PAUSE_SECONDS = 1.0
JOB = "job"


# ---- the machine by itself


def driven(place: int = 0, whole: bool = True) -> Succession:
    machine = Succession("The submitter/a")
    machine.handle(who.Entrusted(place), 0.0)
    if whole:
        machine.handle(who.Inherited(), 0.0)
    return machine


@pytest.mark.parametrize("place", range(3))
def test_seniors_come_first(place: int) -> None:
    """FD-16: when the driver is gone, a node waits for its seniors, then it starts an heir, once."""
    machine = driven(place)
    machine.handle(who.DriverGone("The submitter/a"), 10.0)
    assert machine.deadline == 10.0 + place * PLACE_SECONDS
    assert machine.handle(who.Tick(), machine.deadline) == [who.StartHeir()]
    assert machine.deadline is None and machine.handle(who.Tick(), 100.0) == []


def test_the_first_who_claims_it_gets_it() -> None:
    machine = driven()
    machine.handle(who.DriverGone("The submitter/a"), 10.0)
    assert machine.handle(who.Claimed("Node(1)/b"), 10.1) == [who.Grant("Node(1)/b", True)]
    assert machine.handle(who.Claimed("Node(1)/b"), 10.2) == [who.Grant("Node(1)/b", False)]
    assert machine.handle(who.Claimed("Node(2)/c"), 10.2) == [who.Deny("Node(2)/c", "Node(1) drives it")]
    assert machine.deadline is None


def test_a_driver_that_is_there_is_not_deposed() -> None:
    machine = driven()
    assert machine.handle(who.Claimed("Node(0)/b"), 1.0) == [who.Deny("Node(0)/b", "The submitter drives it")]
    machine.handle(who.DriverGone("Node(0)/b"), 2.0)  # of somebody who does not drive
    assert machine.driver == "The submitter/a" and machine.deadline is None


def test_without_the_estate_nobody_is_started() -> None:
    machine = driven(whole=False)
    machine.handle(who.DriverGone("The submitter/a"), 1.0)
    assert machine.deadline is None
    assert machine.handle(who.Claimed("Node(1)/b"), 2.0) == [who.Grant("Node(1)/b", True)]


def test_an_heir_that_ends_for_nothing_is_started_again_ever_more_rarely() -> None:
    machine = driven()
    machine.handle(who.DriverGone("The submitter/a"), 0.0)
    now, pauses = 0.0, []
    for _ in range(9):
        assert machine.deadline is not None
        pauses.append(machine.deadline - now)
        now = machine.deadline
        assert machine.handle(who.Tick(), now) == [who.StartHeir()]
        machine.handle(who.HeirGone(), now)
    assert pauses == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


def test_heirs_may_end_for_nothing_for_weeks() -> None:
    """While a driver that has lost this node alone drives on, one a minute is denied the job."""
    machine = driven()
    machine.handle(who.DriverGone("The submitter/a"), 0.0)
    for _ in range(14 * 24 * 60):
        assert machine.deadline is not None
        now = machine.deadline
        machine.handle(who.Tick(), now)
        machine.handle(who.HeirGone(), now)
    assert machine.deadline == now + LONGEST_PAUSE_SECONDS


def test_an_heir_of_an_earlier_number_is_the_heir_here() -> None:
    """While it lives nobody else is started; when it dies as the driver, its agent waits a second, and the others do not."""
    machine = driven()
    machine.handle(who.HeirHere(), 1.0)
    machine.handle(who.DriverGone("The submitter/a"), 2.0)
    assert machine.deadline is None
    machine.handle(who.HeirGone(), 3.0)
    assert machine.deadline == 4.0


def test_what_is_over_stays_over() -> None:
    machine = driven()
    machine.handle(who.Concluded(), 1.0)
    machine.handle(who.DriverGone("The submitter/a"), 2.0)
    machine.handle(who.HeirGone(), 3.0)
    assert machine.deadline is None
    assert machine.handle(who.Claimed("Node(1)/b"), 4.0) == [who.Deny("Node(1)/b", "the job is over")]


def test_an_event_of_another_machine_is_refused() -> None:
    with pytest.raises(InvalidTransition, match="Succession cannot take 7 now"):
        driven().handle(7, 0.0)


# ---- the decision of an heir


def grant(node: int, entrusted: int = 0) -> Granted:
    return Granted(JOB, node, entrusted, entrusted, "running", "")


def deny(node: int, outcome: str = "") -> Denied:
    return Denied(JOB, node, "somebody else drives it", outcome)


@pytest.mark.parametrize(
    ("granted", "denied", "gone", "nodes", "expected"),
    [
        ([0, 1, 2], [], [], 3, Decision.DRIVE),
        ([0, 1], [], [], 3, Decision.DRIVE),
        ([0, 1], [2], [], 3, Decision.DRIVE),
        ([0], [], [], 3, Decision.PAUSE),
        ([0], [1], [], 3, Decision.YIELD),
        ([0], [1, 2], [], 3, Decision.YIELD),
        ([1], [], [0], 2, Decision.DRIVE),  # the host answers that there is no agent: its process has ended with it
        ([1], [], [], 2, Decision.PAUSE),  # an even split pauses both sides
        ([1, 2], [], [], 4, Decision.PAUSE),
        ([0], [], [], 1, Decision.DRIVE),
        ([2], [], [0, 1], 3, Decision.DRIVE),
    ],
)
def test_a_majority_decides(granted: list[int], denied: list[int], gone: list[int], nodes: int, expected: Decision) -> None:
    """A side of a broken network that is not the majority of the last generation pauses."""
    said = {node: grant(node) for node in granted}
    assert decide(range(nodes), said, {node: deny(node) for node in denied}, gone, 0) is expected


def test_who_knows_more_goes_first() -> None:
    assert decide(range(3), {0: grant(0), 1: grant(1, 1), 2: grant(2)}, {}, [], 0) is Decision.YIELD


def test_a_node_that_was_left_behind_is_on_no_side() -> None:
    """The driver has died, with its agent, while it started the job again without node 2."""
    assert decide(range(3), {1: grant(1)}, {2: deny(2, "left")}, [0], 0) is Decision.DRIVE
    assert decide(range(3), {1: grant(1)}, {2: deny(2, "left")}, [], 0) is Decision.PAUSE


@pytest.mark.parametrize("outcome", ["done", "failed", "stopped"])
def test_a_job_that_is_over_needs_no_driver(outcome: str) -> None:
    assert decide(range(3), {0: grant(0), 1: grant(1)}, {2: deny(2, outcome)}, [], 0) is Decision.OVER


# ---- three nodes


@dataclass
class Claimant:
    """An heir: its node, and what it has been told."""

    name: str
    home: int
    place: int
    links: set[int] = field(default_factory=set)
    granted: dict[int, Granted] = field(default_factory=dict)
    denied: dict[int, Denied] = field(default_factory=dict)
    gone: set[int] = field(default_factory=set)
    tries: int = 0
    drives: bool = False
    alive: bool = True


class World:
    """Agents with a succession each, drivers with connections. Each message takes as long as `delay()` says, in order per
    connection; `cut` links carry nothing. `drivers` are those that believe to drive, at any time."""

    def __init__(self, nodes: int, delay: Callable[[], float], cut: Sequence[tuple[int, int]] = ()) -> None:
        self.now = 0.0
        self._count = itertools.count()
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._delay = delay
        self._cut = set(cut)
        self._last: dict[tuple[str, int], float] = {}
        self.machines: list[Succession | None] = []
        self.heirs: list[Claimant] = []
        self.log: list[str] = []
        for place in range(nodes):
            self.machines.append(driven(place))
        self.submitter = Claimant("The submitter/a", -1, 0, set(range(nodes)), drives=True)
        self.all = [self.submitter]

    # ---- time and messages

    def at(self, when: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._events, (when, next(self._count), action))

    def send(self, who_: str, node: int, action: Callable[[], object]) -> None:
        when = max(self.now + self._delay(), self._last.get((who_, node), 0.0) + 1e-6)
        self._last[who_, node] = when
        self.at(when, action)

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, action = heapq.heappop(self._events)
            action()
            self.check()
        self.now = until

    def check(self) -> None:
        """Never two drivers: each node has one at most, and a driver needs a majority of the living."""
        drivers = [c for c in self.all if c.drives and c.alive]
        held = [{n for n in c.links if (m := self.machines[n]) is not None and m.driver == c.name} for c in drivers]
        for one, other in itertools.combinations(held, 2):
            assert not one & other
        heirs = [c for c in drivers if c is not self.submitter]
        assert len(heirs) <= 1, f"{[c.name for c in heirs]} drive at the same time: {self.log}"

    # ---- agents

    def feed(self, node: int, event: object) -> list[object]:
        machine = self.machines[node]
        if machine is None:
            return []
        actions = machine.handle(event, self.now)
        if machine.deadline is not None:
            self.at(machine.deadline, lambda: self.feed(node, who.Tick()))
        for action in actions:
            if isinstance(action, who.StartHeir):
                heir = Claimant(f"Node({node})/{len(self.all)}", node, node)
                self.all.append(heir)
                self.at(self.now + START_SECONDS + self._delay(), partial(self.claim, heir))
        return actions

    def hang_up(self, claimant: Claimant, node: int) -> None:
        if node in claimant.links:
            claimant.links.discard(node)
            self.send(claimant.name, node, lambda: self.feed(node, who.DriverGone(claimant.name)))

    def kill(self, claimant: Claimant) -> None:
        """The process ends; its agent sees it, the others lose a connection."""
        claimant.alive = claimant.drives = False
        for node in list(claimant.links):
            self.hang_up(claimant, node)
        if claimant.home >= 0:
            self.send("reaper", claimant.home, lambda: self.feed(claimant.home, who.HeirGone()))

    def kill_heirs(self) -> None:
        """All drivers end at once."""
        for claimant in self.all:
            if claimant.alive:
                self.kill(claimant)

    def kill_agent(self, node: int) -> None:
        """The agent is gone, and its heirs with it."""
        self.machines[node] = None
        for claimant in self.all:
            claimant.links.discard(node)
            if claimant.home == node and claimant.alive:
                self.kill(claimant)

    # ---- heirs

    def claim(self, heir: Claimant) -> None:
        if not heir.alive:
            return
        heir.granted, heir.denied, heir.gone = {}, {}, set()
        for node, machine in enumerate(self.machines):
            if (heir.home, node) in self._cut:
                continue
            if machine is None:
                heir.gone.add(node)
            else:
                heir.links.add(node)
                self.send(heir.name, node, partial(self.answer, heir, node))
        self.at(self.now + ANSWER_SECONDS, partial(self.conclude, heir, heir.tries))

    def answer(self, heir: Claimant, node: int) -> None:
        for action in self.feed(node, who.Claimed(heir.name)):
            if isinstance(action, who.Grant):
                self.send(f"{node}>", self.all.index(heir), partial(self.hear, heir, heir.tries, grant(node)))
            elif isinstance(action, who.Deny):
                self.send(f"{node}>", self.all.index(heir), partial(self.hear, heir, heir.tries, deny(node)))

    def hear(self, heir: Claimant, tries: int, said: Granted | Denied) -> None:
        """The answer of a node; when the last one is there, nobody waits any longer."""
        if tries == heir.tries:
            if isinstance(said, Granted):
                heir.granted[said.node] = said
            else:
                heir.denied[said.node] = said
            if heir.links <= heir.granted.keys() | heir.denied.keys():
                self.conclude(heir, tries)

    def conclude(self, heir: Claimant, tries: int) -> None:
        if not heir.alive or heir.drives or tries != heir.tries:
            return
        heir.tries += 1
        granted = {node: said for node, said in heir.granted.items() if node in heir.links}
        decision = decide(range(len(self.machines)), granted, heir.denied, heir.gone, 0)
        self.log.append(f"{self.now:.2f} {heir.name}: {decision.name}")
        if decision is Decision.DRIVE:
            heir.drives = True
            return
        for node in list(heir.links):
            self.hang_up(heir, node)
        if decision is Decision.PAUSE:
            self.at(self.now + PAUSE_SECONDS + heir.place * PLACE_SECONDS, lambda: self.claim(heir))
        else:
            self.kill(heir)

    @property
    def driver(self) -> Claimant | None:
        return next((c for c in self.all if c.drives and c.alive), None)


def delays(seed: int, most: float = 0.4) -> Callable[[], float]:
    chance = random.Random(seed)
    return lambda: chance.random() * most


def test_the_senior_node_takes_over_and_the_next_after_it() -> None:
    """FD-16, FLT-14, FLT-16: two deaths in a row; each time the most senior node that is left drives within 3 s."""
    world = World(3, lambda: 0.01)
    world.at(1.0, lambda: world.kill(world.submitter))
    world.run(4.0)
    assert world.driver is not None and world.driver.home == 0
    world.at(5.0, lambda: world.kill_agent(0))
    world.run(8.0)
    assert world.driver is not None and world.driver.home == 1


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_in_every_order_of_messages_one_drives_in_the_end(first: int) -> None:
    """The submitter dies, and at a random moment an agent or all heirs; slow and fast messages in any order."""
    for seed in range(first, first + 100):
        lose_two(seed)


def lose_two(seed: int) -> None:
    chance = random.Random(seed)
    world = World(3, delays(seed))
    world.at(1.0, lambda: world.kill(world.submitter))
    victim, moment = chance.randrange(4), 1.0 + 5.0 * chance.random()
    if victim < 3:
        world.at(moment, lambda: world.kill_agent(victim))
    else:
        world.at(moment, world.kill_heirs)
    world.run(40.0)
    assert world.driver is not None and world.driver.home != victim, (seed, world.log)


@pytest.mark.parametrize("node", range(3))
def test_a_submitter_that_has_lost_one_agent_stays(node: int) -> None:
    """The submitter flaps: its connection with one agent breaks; the others deny the job to each heir that is started there."""
    for seed in range(20):
        world = World(3, delays(seed))
        world.at(1.0, partial(world.hang_up, world.submitter, node))
        world.run(60.0)
        assert world.driver is world.submitter
        assert len(world.all) > 2  # an heir has tried, more than once
        others = [world.machines[other] for other in range(3) if other != node]
        assert all(machine is not None and machine.driver == world.submitter.name for machine in others)


def test_a_minority_pauses_until_the_network_is_whole() -> None:
    """Node 0 is cut off from the others: its heir pauses, and the heir of node 1 drives with the majority."""
    world = World(3, lambda: 0.01, cut=[(0, 1), (0, 2), (1, 0), (2, 0)])
    world.at(1.0, lambda: world.kill(world.submitter))
    world.run(30.0)
    assert world.driver is not None and world.driver.home == 1
    assert {line.split(": ")[1] for line in world.log if "Node(0)" in line} == {"PAUSE"}
