"""Three-phase submission in every order of messages and with every loss, on virtual time, through the real state machines.

What must hold at the end, whatever happened (`settle`):
* every surviving agent is free and has told how its job ended, and the next submission works;
* a job process starts only when all of the group have all they need, and no node finishes its work unless all have started;
* if not all started, the job ends on every surviving node as aborted, failed or stopped: that is all that can be had when
  a node dies after it said READY and before it starts, since its last word is on its way to those who start on it;
* what the submitter gives up before doCommit has not run, and after it only where a limit of the start has passed;
* the submitter knows the verdict: not started, with a reason that names the node, or how the job ended on each node;
* after a death everything is over within 2 s, after a silence within the limit + 2 s.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from rpc.liveness.limits import FIRST_PHASE_SECONDS, PER_NODE_SECONDS, ROLL_BACK_SECONDS

from ...statements import covers
from ..simulation import FREE_SECONDS, START_LIMIT, Agent, World, thaw

BAD_ENDS = {"aborted", "failed", "stopped"}


def agents(world: World) -> list[Agent]:
    return [a for name, a in world.actors.items() if isinstance(a, Agent) and not world.hung[name]]


def settle(world: World, lost: tuple[str, ...] = (), limit: float = FREE_SECONDS) -> None:
    """Assert what must hold when nothing moves any more, and that the next submission works."""
    everybody = set(range(world.nodes))
    assert not world.started or world.prepared == everybody
    assert not world.finished or world.started == everybody
    for agent in agents(world):
        assert agent.slot is None, f"{agent} is not free"
        assert agent.freed_at <= limit
        assert not agent.told or agent.told[-1] in BAD_ENDS | {"done"}
        if world.started != everybody:
            assert not agent.told or agent.told[-1] in BAD_ENDS
    if world.last is not None:
        assert world.last.verdict_at <= limit + FREE_SECONDS
        assert world.last.verdict == "ended" or "Node(" in world.last.verdict
        if world.last.verdict == "ended" and world.started != everybody:
            # somebody died between READY and its start: the others had started on its word, and nobody may call it done
            assert world.started
            assert all(state != "done" for state, _ in world.last.machine.ended.values())
    else:
        assert "S" in lost
    if not lost:
        assert world.finished == everybody
        assert world.last is not None
        assert world.last.verdict == "ended"
    resubmit(world)


def resubmit(world: World) -> None:
    for i in range(world.nodes):
        if world.actors[f"A{i}"] is None:
            world.actors[f"A{i}"] = Agent()  # started again
        world.actors[f"A{i}"].busy = False
    world.submit()
    world.run()
    assert world.last is not None
    assert world.last.verdict == "ended", world.last.verdict
    assert world.finished == set(range(world.nodes))


def reachable(start: World) -> Iterator[bytes]:
    """Every state that some order of messages leads to."""
    todo = [start.frozen()]
    seen = set(todo)
    while todo:
        state = todo.pop()
        yield state
        for choice in thaw(state).choices() or [None]:
            world = thaw(state)
            if choice is not None:
                world.deliver(choice)
            elif not world.advance():
                continue
            after = world.frozen()
            if after not in seen:
                seen.add(after)
                todo.append(after)


def is_final(world: World) -> bool:
    return not world.choices() and not world.deadlines()


@covers("SUB-7", "SUB-9")
def test_every_order_of_two_nodes() -> None:
    """All interleavings, exhaustively; every end is the good one."""
    states = ends = 0
    for state in reachable(World(2)):
        states += 1
        world = thaw(state)
        if is_final(world):
            ends += 1
            settle(world)
    assert states > 500
    assert ends


def hurried(draw: random.Random, delays: float) -> World:
    """A submission of two nodes during which time passes though messages are on their way, each step by this chance."""
    world = World(2)
    while True:
        choices = world.choices()
        if choices and draw.random() >= delays:
            world.deliver(draw.choice(choices))
        elif not world.advance() and not choices:
            return world


@pytest.mark.long
@covers("SUB-6", "SUB-9")
def test_what_is_given_up_by_a_limit_has_not_run() -> None:
    """Work is not done twice: where a limit of canCommit or preCommit passes though what it waits for is on its way, however
    late, no executor has started, and none starts. After doCommit was told a start is given up at its own limit alone, at
    which the processes have rolled back by themselves, or reported that they run."""
    draw, phases = random.Random(28), Counter[str]()
    for number in range(3000):
        world = hurried(draw, 0.01 + number % 10 / 50)
        assert world.last is not None
        found = re.fullmatch(r"failed: .* (canCommit|preCommit|doCommit) in time", world.last.verdict)
        phases[found[1] if found else world.last.verdict.partition(":")[0]] += 1
        if found and found[1] != "doCommit":
            assert not world.started and not world.finished
        elif found:
            assert world.last.verdict_at >= START_LIMIT + ROLL_BACK_SECONDS
        elif world.last.verdict == "ended":
            assert world.started
        resubmit(world)
    assert min(phases[phase] for phase in ("canCommit", "preCommit", "doCommit", "ended")) > 50


@covers("SUB-3")
@pytest.mark.parametrize("busy", [(0,), (1,), (0, 1)])
def test_every_order_with_a_busy_node(busy: tuple[int, ...]) -> None:
    """Nothing is started anywhere, the error names the node, and all others are free at once."""
    ends = 0
    for state in reachable(World(3, busy)):
        world = thaw(state)
        assert not world.started
        assert not world.prepared
        if is_final(world):
            ends += 1
            assert world.last is not None
            assert "busy" in world.last.verdict
            assert any(f"Node({node})" in world.last.verdict for node in busy)
            assert world.now == world.last.verdict_at == 0.0  # not one second is lost on the refused ones
            settle(world, lost=("nothing",))
    assert ends


@pytest.mark.long
@covers("SUB-9")
def test_every_loss_in_every_state_of_two_nodes() -> None:
    """Submitter, agent, job process or connection lost in each of all reachable states, then a random order."""
    assert after_each_loss(reachable(World(2)), random.Random(9)) > 3500


def after_each_loss(states: Iterable[bytes], draw: random.Random) -> int:
    """Go on from each state after each loss that there may be, in a random order; returns how many there were."""
    runs = 0
    for state in states:
        for loss in thaw(state).losses():
            world = thaw(state)
            world.lose(*loss)
            world.run(draw)
            settle(world, loss)
            runs += 1
    return runs


@pytest.mark.long
@covers("SUB-7")
def test_random_orders_of_three_nodes() -> None:
    """1,500 random orders of three nodes all come to the good end."""
    draw = random.Random(7)
    for _ in range(1500):
        world = World(3)
        world.run(draw)
        settle(world)


def along(draw: random.Random) -> list[bytes]:
    """The states of three nodes along one random order, one per message."""
    world = World(3)
    states = [world.frozen()]
    while choices := world.choices():
        world.deliver(draw.choice(choices))
        states.append(world.frozen())
    return states


@pytest.mark.share(2)
@covers("SUB-8", "SUB-9", "INV-1", "INV-6", "FLT-20")
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 6))])
def test_every_loss_at_every_message_of_three_nodes(seed: int) -> None:
    """Each single loss after each message of a random order, then another one."""
    draw = random.Random(seed)
    assert after_each_loss(along(draw), draw) > 500


@pytest.mark.long
@covers("SUB-9")
def test_two_losses() -> None:
    """1,500 random orders with two losses at random places."""
    draw = random.Random(2)
    for _ in range(1500):
        world, lost = World(3), []
        for _ in range(2):
            for _ in range(draw.randrange(40)):
                if choices := world.choices():
                    world.deliver(draw.choice(choices))
            if losses := world.losses():
                loss = draw.choice(losses)
                lost += loss
                world.lose(*loss)
        world.run(draw)
        settle(world, tuple(lost))


@covers("SUB-6", "SUB-8", "SUB-9", "FLT-4")
@pytest.mark.parametrize("victim", ["S", "A0", "A2", "J0", "J1", "J2"])
def test_silence_at_every_message(victim: str) -> None:
    """Who falls silent blocks nobody beyond the limit + 2 s, and starts nothing when it wakes."""
    draw, runs = random.Random(victim), 0
    for state in along(draw):
        if thaw(state).actors[victim] is None:
            continue
        world = thaw(state)
        world.hung[victim] = True
        world.run(draw)
        if victim[0] == "J" and len(world.started) == 3:
            continue  # it fell silent at work, which is for the failure detector
        started = set(world.started)
        for agent in agents(world):
            assert agent.slot is None
            assert agent.freed_at <= START_LIMIT + 2.0
        if world.last is not None:
            assert world.last.verdict_at <= START_LIMIT + 2 * FREE_SECONDS
        world.hung[victim] = False
        world.run(draw)
        assert world.started <= started or victim[0] != "J", "a sleeper started alone"
        settle(world, (victim,), limit=world.now)
        runs += 1
    assert runs > 5


@covers("SUB-3", "INV-10")
def test_a_silent_agent_is_named_within_the_first_phase() -> None:
    """The verdict names the node and the phase."""
    world = World(3)
    world.hung["A1"] = True
    world.run()
    assert world.last is not None
    assert world.last.verdict == "failed: Node(1) did not finish canCommit in time"
    assert world.last.verdict_at == FIRST_PHASE_SECONDS + PER_NODE_SECONDS + FREE_SECONDS
    assert [world.actors[f"A{i}"].freed_at for i in (0, 2)] == [FIRST_PHASE_SECONDS + PER_NODE_SECONDS] * 2
