"""Faults of links in memory: what becomes of each message, in virtual time, and what the engine makes of it."""

from __future__ import annotations

import itertools

import pytest

from network.faults.plan import FaultPlan
from network.testing import VirtualClock
from parallel_sgd.profiles import FixedBlockAssignment
from tests.network.link_faults import LinkFaults
from tests.parallel_sgd.digits_job import ADAM, DigitsJob, mlp, plan_of

from ...statements import covers


def links(text: str, seed: int = 0) -> tuple[LinkFaults, VirtualClock]:
    clock = VirtualClock(100.0)
    return LinkFaults(FaultPlan.parse(text, seed), clock.monotonic), clock


@covers("FLT-9")
def test_delays_are_of_one_direction() -> None:
    link, _ = links("+500ms 0>1")
    assert link(0, 1, (0, 0, 0, 5)) == (0.5,)
    assert link(1, 0, (0, 0, 0, 5)) == link(0, 2, (0, 0, 0, 5)) == (0.0,)
    assert link.messages == {"+500ms 0>1": 1} and link.plan.counts == {"+500ms 0>1": 1}


@covers("INV-13")
def test_messages_of_a_jittery_link_keep_their_order() -> None:
    """The jitter is drawn from the seed, for each link by itself."""
    runs = []
    for seed in (1, 1, 2):
        link, clock = links("+1ms~50ms 0-1", seed)
        arrivals = []
        for number in range(200):
            clock.advance(0.001)
            (delay,) = link(0, 1, (0, 0, number))
            arrivals.append(clock.monotonic() + delay)
        runs.append(arrivals)
        assert arrivals == sorted(arrivals) and len(set(arrivals)) > 20
        assert all(0.001 <= a - (100.001 + 0.001 * n) < 0.0511 for n, a in enumerate(arrivals))
    assert runs[0] == runs[1] != runs[2]


@covers("FLT-7", "FLT-8")
def test_a_time_begins_with_the_step() -> None:
    """From the first message of that step or a later one, for so long, and never again."""
    link, clock = links("cut 0-2@e2.b2 for 3s; swallow 0>1@e1.b2")
    assert link(0, 2, (0, 0, 0)) == link(2, 0, (0, 1, 0)) == (0.0,)
    clock.advance(10)
    assert link(2, 0, (0, 1, 1)) == ()
    clock.advance(2.9)
    assert link(0, 2, (0, 1, 1)) == link(0, 2, (0, 5, 0)) == ()
    assert link(1, 2, (0, 1, 1)) == (0.0,)
    clock.advance(0.1)
    assert link(0, 2, (0, 5, 0)) == link(2, 0, (0, 1, 1)) == (0.0,)
    assert link(0, 1, (0, 0, 0)) == (0.0,), "a message of an earlier step"
    clock.advance(1000)
    assert link(0, 1, (0, 0, 1)) == () and link(1, 0, (0, 0, 1)) == (0.0,)
    assert link.plan.counts == {"cut 0-2@e2.b2 for 3s": 1, "swallow 0>1@e1.b2": 1}
    assert link.messages == {"cut 0-2@e2.b2 for 3s": 3, "swallow 0>1@e1.b2": 1}


def test_attempts() -> None:
    """Links of a later attempt are whole, unless the plan says otherwise; `@a*` begins anew in each."""
    link, clock = links("duplicate 0>1; swallow 1>0@e1.b1@a* for 1s")
    assert link(0, 1, (0, 0, 0)) == (0.0, 0.0) and link(0, 1, (1, 0, 0)) == (0.0,)
    assert link(1, 0, (0, 0, 0)) == ()
    clock.advance(1)
    assert link(1, 0, (0, 0, 0)) == (0.0,) and link(1, 0, (2, 0, 0)) == ()


@covers("FLT-8", "INV-13")
def test_losses_are_drawn_from_the_seed() -> None:
    """The share is met, the same ones are lost again, and another link loses others."""
    runs = [links("lose 0-1 10%", seed)[0] for seed in (5, 5, 6)]
    lost = [[not run(0, 1, (0, 0, n)) for n in range(2000)] for run in runs]
    assert lost[0] == lost[1] != lost[2]
    assert 150 <= sum(lost[0]) <= 250
    assert lost[0] != [not runs[0](1, 0, (0, 0, n)) for n in range(2000)]
    assert all(not links("lose 0>1 100%")[0](0, 1, (0, 0, n)) for n in range(50))


@covers("FLT-10")
def test_neighbours_change_places() -> None:
    """Two messages that leave at the same moment, and each link by itself."""
    link, _ = links("reorder 0>1; +1s 0>1")
    assert [link(0, 1, (0, 0, n)) for n in range(4)] == [(1.001,), (1.0,), (1.001,), (1.0,)]
    assert link(1, 0, (0, 0, 0)) == (0.0,) and link.messages["reorder 0>1"] == 4


def test_faults_of_one_link_add_up() -> None:
    link, _ = links("+1s 0>1; +250ms 0-1; duplicate 0>1")
    assert link(0, 1, (0, 0, 0)) == (1.25, 1.25) and link(1, 0, (0, 0, 0)) == (0.25,)


def test_a_throttle_needs_real_connections() -> None:
    with pytest.raises(ValueError, match=r"'throttle 0>1 1mbit' needs real connections \(Proxy\)"):
        links("kill 0@e1; throttle 0>1 1mbit")


@covers("SUB-22", "SUB-23", "FLT-9", "FLT-10")
def test_delays_and_duplicates_change_no_bit_of_a_training() -> None:
    """Three workers, one link 0.5 s late for two virtual seconds, every packet twice."""
    weights = []
    for text in ("", "+500ms~50ms 0>1@e1.b2 for 2s; duplicate 1-2; duplicate 2>0; reorder 0-2"):
        link, clock = links(text)
        plan = plan_of(FixedBlockAssignment(3, 1, 4), block_size=32, epoch=3, optimizer=ADAM)
        weights += DigitsJob(plan, mlp(), link=link, clock=clock).run().weights()
        assert all(itertools.chain(link.messages.values(), link.plan.counts.values())), "a fault has not fired"
    assert len(weights) == 6 and len(set(weights)) == 1
    assert clock.monotonic() > 102
