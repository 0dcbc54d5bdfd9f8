"""The driver of an elastic job, event by event: its rounds, and whose hosts they are."""

from __future__ import annotations

import math

import pytest

from rpc.elastic import CoolDown, HostUpdateResult, Worker
from rpc.elastic.driver import Stage
from rpc.elastic.events import (
    CheckpointSeen,
    Fail,
    Notified,
    NotifyRankZero,
    Pause,
    RemoveWorker,
    StartRound,
    StopWorker,
    Tick,
    WorkerReady,
)
from tests.rpc.elastic.elastic_job import Job, at, only

from ...statements import covers

ADDED, REMOVED, MIXED = HostUpdateResult.added, HostUpdateResult.removed, HostUpdateResult.mixed


@covers("EL-15", "EL-17")
def test_the_start_waits_for_the_workers_asked_for() -> None:
    """The first round waits for `np` slots, though fewer would do later; blank discovery is no hosts yet."""
    job = Job(workers=3, low=1)
    assert job.see() == [Pause("Training waits: there are 0 slot(s) of the 3 that are needed.")]
    assert job.see(a=2) == [Pause("Training waits: there are 2 slot(s) of the 3 that are needed.")]
    assert job.see(a=2) == []
    (start,) = job.see(a=2, b=1)
    assert start == StartRound(0, tuple(Worker(*place, 0) for place in ((at("a"), 0), (at("a"), 1), (at("b"), 0))), 0)


@covers("EL-15", "EL-19")
def test_later_rounds_need_only_the_minimum() -> None:
    """Three started, one is enough to go on; the rest continue with ranks renumbered 0..n-1."""
    job = Job(workers=3, low=1)
    job.see(a=1, b=1, c=1)
    job.die("a[0]")
    (start,) = job.ready("b[0]", "c[0]")
    assert [str(worker) for worker in start.workers] == ["b[0]", "c[0]"] and start.attempt == 1
    job.die("c[0]")
    assert only(job.ready("b[0]"), StartRound)[0].workers == (Worker(at("b"), 0, 0),)


@covers("EL-15")
def test_surplus_slots_stay_empty() -> None:
    """The world never exceeds `max_np`; surplus slots, new, gone or moved, cause no notification and no reset."""
    job = Job(workers=2, low=1, high=3)
    job.see(a=1, b=2)
    assert job.names == ["a[0]", "b[0]", "b[1]"]
    assert job.see(a=1, b=2, c=4) == []
    assert job.see(a=3, b=2, c=1) == []
    assert job.see(b=2, a=1) == []
    assert only(job.see(b=2, a=1, c=1), NotifyRankZero) == []


@covers("EL-13", "EL-15")
def test_a_surplus_slot_takes_the_place_of_a_lost_one() -> None:
    """Then there are newcomers, so it is no pure removal."""
    job = Job(workers=2, low=1, high=2)
    job.see(a=1, b=1, c=1)
    assert job.names == ["a[0]", "b[0]"]
    assert job.see(a=1, c=1) == [NotifyRankZero(job.round[0], 1, MIXED)]
    job.ready()
    assert job.names == ["a[0]", "c[0]"]


@covers("EL-10", "EL-18")
def test_only_rank_zero_is_told_of_changes() -> None:
    """One notice for each change, to the current rank 0 only."""
    job = Job()
    job.see(a=1, b=1)
    rank_zero = job.worker("a[0]")
    assert job.see(a=1, b=1, c=1) == [NotifyRankZero(rank_zero, 1, ADDED)]
    assert job.see(a=1, b=1, c=1) == []
    job.tell(Notified(1))
    assert job.see(a=1, b=1) == [NotifyRankZero(rank_zero, 2, REMOVED)]
    job.tell(Notified(2))
    assert job.see(b=1, c=1) == [NotifyRankZero(rank_zero, 3, MIXED)]


@covers("EL-10", "EL-14")
def test_a_notice_is_repeated_until_it_is_heard() -> None:
    """What is lost on the way comes again with the same number; a newer one includes it."""
    job = Job()
    job.see(a=1, b=1)
    (notice,) = job.see(a=1, b=1, c=1)
    assert job.driver.deadline == job.clock.monotonic() + 1.0
    assert job.tell(Tick(), after=0.99) == []
    assert job.tell(Tick(), after=0.01) == [notice]
    assert job.see(a=1, b=1, c=1, after=1.0) == [notice]
    assert job.see(a=1, b=1) == [NotifyRankZero(job.round[0], 2, MIXED)]
    assert job.tell(Notified(1), Tick(), after=1.0) == [NotifyRankZero(job.round[0], 2, MIXED)]
    assert job.tell(Notified(2), Tick(), after=5.0) == []
    assert job.driver.deadline is None


@covers("EL-10", "EL-15")
def test_a_notice_ends_with_its_round() -> None:
    """What a new round takes account of is not told again, though nobody acknowledged it."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1, b=1, c=1)
    job.ready()
    assert job.names == ["a[0]", "b[0]", "c[0]"]
    assert job.driver.deadline is None and job.tell(Tick(), after=5.0) == []


@covers("EL-14", "FLT-18")
def test_changes_within_a_moment() -> None:
    """Two changes 50 ms apart both count, with the wall clock set back by an hour between them."""
    job = Job()
    job.see(a=1, b=1)
    assert job.see(a=1, b=1, c=1) == [NotifyRankZero(job.round[0], 1, ADDED)]
    job.tell(Notified(1))
    job.clock.jump_wall(-3600)
    assert job.see(a=1, b=1, c=1, d=1, after=0.05) == [NotifyRankZero(job.round[0], 2, ADDED)]
    (start,) = job.ready()
    assert [str(worker) for worker in start.workers] == ["a[0]", "b[0]", "c[0]", "d[0]"]
    assert start.sequence == 2


@covers("EL-10")
def test_rank_zero_dies_before_it_looks() -> None:
    """The successor gets what the notice said: the added host is in the round that follows, once."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1, b=1, c=1)
    job.tell(Notified(1))
    assert only(job.die("a[0]"), NotifyRankZero) == []
    (start,) = job.ready("b[0]")
    assert [str(worker) for worker in start.workers] == ["b[0]", "c[0]"] and start.sequence == 1
    assert job.see(a=1, b=1, c=1) == [] == job.tell(Tick(), after=2.0)


@covers("EL-14")
def test_changes_while_workers_gather_are_in_the_round() -> None:
    """What is seen between the first READY and the last needs no notice."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1, b=1, c=1)
    assert job.ready("a[0]") == []
    assert job.see(a=1, b=1, c=1, d=1) == []
    (start,) = job.ready("b[0]")
    assert [str(worker) for worker in start.workers] == ["a[0]", "b[0]", "c[0]", "d[0]"]


@covers("EL-11")
def test_the_oldest_host_leads() -> None:
    """a,b,c then {d,c,b} gives b,c,d; rank 0 is a worker of the oldest surviving host."""
    job = Job(workers=3)
    job.see(a=1, b=1, c=1)
    job.see(d=1, c=1, b=1)
    job.ready()
    assert job.names == ["b[0]", "c[0]", "d[0]"]


@covers("EL-11", "EL-22")
def test_a_host_that_comes_back_is_a_newcomer() -> None:
    """After its cool-down a host is used again, last in order, and it starts a new process."""
    job = Job(cool_down=CoolDown(10.0, 40.0))
    job.see(a=1, b=1)
    job.die("a[0]")
    job.ready("b[0]")
    assert job.names == ["b[0]"]
    deadline = job.driver.deadline
    assert deadline is not None and 10.0 <= deadline - job.clock.monotonic() <= 20.0
    job.clock.advance_to(math.nextafter(deadline, 0))
    assert job.tell(Tick()) == []
    job.clock.advance_to(deadline)
    assert job.tell(Tick()) == [NotifyRankZero(job.round[0], 1, ADDED)]
    (start,) = job.ready("b[0]")
    assert start.workers == (Worker(at("b"), 0, 0), Worker(at("a"), 0, 2))


@covers("EL-11", "EL-22")
def test_a_host_that_is_back_at_once_is_a_newcomer() -> None:
    """Its cool-down is over before the others gather: it is used, by a new process, behind all that lived on."""
    job = Job(workers=3, cool_down=CoolDown(1.0, 1.0))
    job.see(a=1, b=1, c=1)
    job.die("a[0]")
    job.clock.advance(2.0)
    job.ready("b[0]", "c[0]")
    assert job.round == (Worker(at("b"), 0, 0), Worker(at("c"), 0, 0), Worker(at("a"), 0, 1))


@covers("EL-11", "EL-8")
def test_a_newcomer_that_never_synchronised_does_not_lead() -> None:
    """Rank 0 holds the state, though an older host, or a lower slot of its own, has a worker that does not."""
    job = Job(workers=1, low=1)
    job.see(a=1)
    job.see(a=1, b=1, c=2)
    job.ready()
    assert job.names == ["a[0]", "b[0]", "c[0]", "c[1]"]
    job.die("a[0]")
    words = [WorkerReady(worker, 1, holds=str(worker) == "c[1]") for worker in job.round[1:]]
    assert only(job.tell(*words), StartRound)
    assert job.names == ["c[1]", "c[0]", "b[0]"]
    job.see(b=1, c=2, d=1)
    job.ready()  # all of them hold it now: hosts keep the order that they have
    assert job.names == ["c[0]", "c[1]", "b[0]", "d[0]"]


@covers("EL-11")
def test_a_host_that_waited_does_not_overtake() -> None:
    """a surplus host that was there early begins as a newcomer, and survivors keep the order of their ranks."""
    job = Job(workers=2, low=1, high=2)
    job.see(a=1, b=1)
    job.see(a=1, c=1, b=1)
    job.see(b=1, c=1)
    job.ready()
    assert job.names == ["b[0]", "c[0]"]
    job.see(c=1, b=1, d=1)
    job.see(c=1, d=1)
    job.ready()
    assert job.names == ["c[0]", "d[0]"]


@covers("EL-12")
def test_a_survivor_without_the_state_is_no_survivor() -> None:
    """The only worker left joined and never synchronised: going on would silently start over."""
    job = Job(workers=1, low=1)
    job.see(a=1)
    job.see(a=1, b=1)
    job.ready()
    job.die("a[0]")
    actions = job.tell(WorkerReady(job.worker("b[0]"), 1, holds=False))
    assert only(actions, Fail)[0].message.startswith("No hosts from previous set remaining, unable to broadcast state.")


@covers("EL-12")
def test_no_survivor_of_the_previous_set() -> None:
    """All hosts replaced at once: the job fails with the reason, and nobody is left running."""
    job = Job()
    job.see(a=1, b=1)
    job.see(c=1, d=1)
    actions = job.ready()
    assert actions[-1] == Fail("No hosts from previous set remaining, unable to broadcast state.")
    assert {str(action.worker) for action in only(actions, StopWorker)} == {"a[0]", "b[0]"}
    assert job.driver.stage is Stage.OVER and job.see(a=1, b=1) == []


@covers("EL-12")
def test_the_last_survivor_dies_in_the_pause() -> None:
    """Nobody is left to wait for: the job fails at once, not at the elastic time-out."""
    job = Job(workers=3, low=3)
    job.see(a=1, b=1, c=1)
    job.see(a=1)
    assert isinstance(job.ready()[0], Pause)
    assert job.die("b[0]") == [] == job.die("c[0]")
    (fail,) = job.die("a[0]")
    assert fail.message.startswith("No hosts from previous set remaining") and "Process name: a[0]" in fail.message


@covers("EL-12")
def test_no_survivor_but_a_checkpoint() -> None:
    """With a checkpoint on disk the newcomers resume from it."""
    job = Job()
    job.see(a=1, b=1)
    job.tell(CheckpointSeen())
    job.see(c=1, d=1)
    start = only(job.ready(), StartRound)[0]
    assert start.resume and [str(worker) for worker in start.workers] == ["c[0]", "d[0]"]
    job.see(c=1, d=1, e=1)
    assert not only(job.ready(), StartRound)[0].resume


@covers("EL-16", "EL-13")
def test_pause_and_resume() -> None:
    """Below `min_np` training pauses, survivors are kept, and it goes on when slots return."""
    job = Job(workers=2, low=2)
    job.see(a=1, b=1)
    assert job.see(a=1) == [NotifyRankZero(job.round[0], 1, REMOVED)]
    assert job.ready() == [Pause("Training waits: there are 1 slot(s) of the 2 that are needed.")]
    assert job.see(a=1, after=5.0) == [] == job.tell(Tick())
    remove, start = job.see(a=1, c=1, after=5.0)
    assert remove == RemoveWorker(Worker(at("b"), 0, 0), "b[0] has been removed from elastic job")
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("c"), 0, 1))


@covers("EL-16")
def test_a_host_that_is_back_in_time_has_lost_nothing() -> None:
    """Discovery that shows nothing for a moment costs a pause; the same processes go on."""
    job = Job(workers=2, low=2)
    job.see(a=1, b=1)
    job.see()
    job.ready()
    (start,) = job.see(b=1, a=1)
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("b"), 0, 0))


@covers("EL-16")
@pytest.mark.parametrize("paused", [False, True])
def test_the_elastic_time_out(paused: bool) -> None:
    """At 600 s, not before, it ends with the message: before the first round and in a pause."""
    job = Job(workers=2, low=2)
    if paused:
        job.see(a=1, b=1)
        job.see(a=1)
        job.clock.advance(50.0)
        job.ready()
    else:
        job.see(a=1)
    deadline = job.clock.monotonic() + 600.0
    assert job.driver.deadline == deadline
    job.see(a=1, after=599.0)
    job.clock.advance_to(math.nextafter(deadline, 0))
    assert job.tell(Tick()) == []
    job.clock.advance_to(deadline)
    actions = job.tell(Tick())
    assert actions[-1].message == (
        "Timed out waiting for minimum number of slots to become available: "
        "after 600 s there are 1 slot(s) of the 2 that are needed."
    )
    assert bool(only(actions, StopWorker)) == paused
    assert job.driver.deadline is None


@covers("EL-16", "EL-17")
def test_a_discovery_that_never_answers_times_out() -> None:
    job = Job(timeout=5.0)
    (action,) = job.tell(Tick(), after=5.0)
    assert action.message.endswith("to become available: after 5 s no hosts are known yet.")
