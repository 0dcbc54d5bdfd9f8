"""The driver of an elastic job, event by event."""

from __future__ import annotations

import math
from typing import Any

import pytest

from network.nodes import Address
from network.testing.clock import VirtualClock
from rpc.errors import InvalidTransition
from rpc.membership import CoolDown, ElasticDriver, Host, HostUpdateResult, Worker
from rpc.membership.driver import Stage
from rpc.membership.rounds import (
    CheckpointSeen,
    DiscoveryFailed,
    Fail,
    Finish,
    HostsSeen,
    Notified,
    NotifyRankZero,
    Pause,
    RemoveWorker,
    StartRound,
    StopWorker,
    SubmitterSeen,
    Tick,
    Warn,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)

ADDED, REMOVED, MIXED = HostUpdateResult.added, HostUpdateResult.removed, HostUpdateResult.mixed


def at(name: str) -> Address:
    return Address(name, 15387)


class Job:
    """A driver, a clock, and shorthand: hosts as {"a": 2}, workers by what they are called, "a[0]"."""

    def __init__(self, workers: int = 2, low: int | None = 1, high: int | None = None, **options: Any) -> None:
        self.clock = VirtualClock(100.0)
        self.driver = ElasticDriver(workers, low, high, now=self.clock.monotonic(), **options)
        self.round: tuple[Worker, ...] = ()

    def tell(self, *events: Any, after: float = 0.0) -> list[Any]:
        self.clock.advance(after)
        actions = [action for event in events for action in self.driver.handle(event, self.clock.monotonic())]
        for action in actions:
            if isinstance(action, StartRound):
                self.round = action.workers
        return actions

    def see(self, after: float = 0.0, **hosts: int) -> list[Any]:
        return self.tell(HostsSeen(tuple(Host(at(name), slots) for name, slots in hosts.items())), after=after)

    def worker(self, name: str) -> Worker:
        return next(worker for worker in self.round if str(worker) == name)

    def ready(self, *names: str) -> list[Any]:
        """These workers, or all of the round, ask for the next one."""
        workers = [self.worker(name) for name in names] or list(self.round)
        return self.tell(*(WorkerReady(worker, self.driver.attempt) for worker in workers))

    def die(self, name: str, code: int = 1, after: float = 0.0) -> list[Any]:
        return self.tell(WorkerEnded(self.worker(name), False, code), after=after)

    @property
    def names(self) -> list[str]:
        """The workers of the round by rank."""
        return [str(worker) for worker in self.round]


def only(actions: list[Any], kind: type) -> list[Any]:
    return [action for action in actions if isinstance(action, kind)]


def test_the_start_waits_for_the_workers_asked_for() -> None:
    """EL-15: the first round waits for `np` slots, though fewer would do later; blank discovery is no hosts yet (EL-17)."""
    job = Job(workers=3, low=1)
    assert job.see() == [Pause("Training waits: there are 0 slot(s) of the 3 that are needed.")]
    assert job.see(a=2) == [Pause("Training waits: there are 2 slot(s) of the 3 that are needed.")]
    assert job.see(a=2) == []
    (start,) = job.see(a=2, b=1)
    assert start == StartRound(0, tuple(Worker(*place, 0) for place in ((at("a"), 0), (at("a"), 1), (at("b"), 0))), 0)


def test_later_rounds_need_only_the_minimum() -> None:
    """EL-15, EL-19: three started, one is enough to go on; the rest continue with ranks renumbered 0..n-1."""
    job = Job(workers=3, low=1)
    job.see(a=1, b=1, c=1)
    job.die("a[0]")
    (start,) = job.ready("b[0]", "c[0]")
    assert [str(worker) for worker in start.workers] == ["b[0]", "c[0]"] and start.attempt == 1
    job.die("c[0]")
    assert only(job.ready("b[0]"), StartRound)[0].workers == (Worker(at("b"), 0, 0),)


def test_surplus_slots_stay_empty() -> None:
    """EL-15: the world never exceeds `max_np`; surplus slots, new, gone or moved, cause no notification and no reset."""
    job = Job(workers=2, low=1, high=3)
    job.see(a=1, b=2)
    assert job.names == ["a[0]", "b[0]", "b[1]"]
    assert job.see(a=1, b=2, c=4) == []
    assert job.see(a=3, b=2, c=1) == []
    assert job.see(b=2, a=1) == []
    assert only(job.see(b=2, a=1, c=1), NotifyRankZero) == []


def test_a_surplus_slot_takes_the_place_of_a_lost_one() -> None:
    """EL-13, EL-15: then there are newcomers, so it is no pure removal."""
    job = Job(workers=2, low=1, high=2)
    job.see(a=1, b=1, c=1)
    assert job.names == ["a[0]", "b[0]"]
    assert job.see(a=1, c=1) == [NotifyRankZero(job.round[0], 1, MIXED)]
    job.ready()
    assert job.names == ["a[0]", "c[0]"]


def test_only_rank_zero_is_told_of_changes() -> None:
    """EL-10, EL-18: one notice for each change, to the current rank 0 only."""
    job = Job()
    job.see(a=1, b=1)
    rank_zero = job.worker("a[0]")
    assert job.see(a=1, b=1, c=1) == [NotifyRankZero(rank_zero, 1, ADDED)]
    assert job.see(a=1, b=1, c=1) == []
    job.tell(Notified(1))
    assert job.see(a=1, b=1) == [NotifyRankZero(rank_zero, 2, REMOVED)]
    job.tell(Notified(2))
    assert job.see(b=1, c=1) == [NotifyRankZero(rank_zero, 3, MIXED)]


def test_a_notice_is_repeated_until_it_is_heard() -> None:
    """EL-10, EL-14: what is lost on the way comes again with the same number; a newer one includes it."""
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


def test_a_notice_ends_with_its_round() -> None:
    """EL-10, EL-15: what a new round takes account of is not told again, though nobody acknowledged it."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1, b=1, c=1)
    job.ready()
    assert job.names == ["a[0]", "b[0]", "c[0]"]
    assert job.driver.deadline is None and job.tell(Tick(), after=5.0) == []


def test_changes_within_a_moment() -> None:
    """EL-14, FLT-18: two changes 50 ms apart both count, with the wall clock set back by an hour between them."""
    job = Job()
    job.see(a=1, b=1)
    assert job.see(a=1, b=1, c=1) == [NotifyRankZero(job.round[0], 1, ADDED)]
    job.tell(Notified(1))
    job.clock.jump_wall(-3600)
    assert job.see(a=1, b=1, c=1, d=1, after=0.05) == [NotifyRankZero(job.round[0], 2, ADDED)]
    (start,) = job.ready()
    assert [str(worker) for worker in start.workers] == ["a[0]", "b[0]", "c[0]", "d[0]"]
    assert start.sequence == 2


def test_rank_zero_dies_before_it_looks() -> None:
    """EL-10: the successor gets what the notice said: the added host is in the round that follows, once."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1, b=1, c=1)
    job.tell(Notified(1))
    assert only(job.die("a[0]"), NotifyRankZero) == []
    (start,) = job.ready("b[0]")
    assert [str(worker) for worker in start.workers] == ["b[0]", "c[0]"] and start.sequence == 1
    assert job.see(a=1, b=1, c=1) == [] == job.tell(Tick(), after=2.0)


def test_changes_while_workers_gather_are_in_the_round() -> None:
    """EL-14: what is seen between the first READY and the last needs no notice."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1, b=1, c=1)
    assert job.ready("a[0]") == []
    assert job.see(a=1, b=1, c=1, d=1) == []
    (start,) = job.ready("b[0]")
    assert [str(worker) for worker in start.workers] == ["a[0]", "b[0]", "c[0]", "d[0]"]


def test_the_oldest_host_leads() -> None:
    """EL-11: a,b,c then {d,c,b} gives b,c,d; rank 0 is a worker of the oldest surviving host."""
    job = Job(workers=3)
    job.see(a=1, b=1, c=1)
    job.see(d=1, c=1, b=1)
    job.ready()
    assert job.names == ["b[0]", "c[0]", "d[0]"]


def test_a_host_that_comes_back_is_a_newcomer() -> None:
    """EL-11, EL-22: after its cool-down a host is used again, last in order, and it starts a new process."""
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


def test_a_host_that_is_back_at_once_is_a_newcomer() -> None:
    """EL-11, EL-22: its cool-down is over before the others gather: it is used, by a new process, behind all that lived on."""
    job = Job(workers=3, cool_down=CoolDown(1.0, 1.0))
    job.see(a=1, b=1, c=1)
    job.die("a[0]")
    job.clock.advance(2.0)
    job.ready("b[0]", "c[0]")
    assert job.round == (Worker(at("b"), 0, 0), Worker(at("c"), 0, 0), Worker(at("a"), 0, 1))


def test_a_newcomer_that_never_synchronised_does_not_lead() -> None:
    """EL-11, EL-8: rank 0 holds the state, though an older host, or a lower slot of its own, has a worker that does not."""
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


def test_a_host_that_waited_does_not_overtake() -> None:
    """EL-11: a surplus host that was there early begins as a newcomer, and survivors keep the order of their ranks."""
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


def test_a_survivor_without_the_state_is_no_survivor() -> None:
    """EL-12: the only worker left joined and never synchronised: going on would silently start over."""
    job = Job(workers=1, low=1)
    job.see(a=1)
    job.see(a=1, b=1)
    job.ready()
    job.die("a[0]")
    actions = job.tell(WorkerReady(job.worker("b[0]"), 1, holds=False))
    assert only(actions, Fail)[0].message.startswith("No hosts from previous set remaining, unable to broadcast state.")


def test_no_survivor_of_the_previous_set() -> None:
    """EL-12: all hosts replaced at once: the job fails with the reason, and nobody is left running."""
    job = Job()
    job.see(a=1, b=1)
    job.see(c=1, d=1)
    actions = job.ready()
    assert actions[-1] == Fail("No hosts from previous set remaining, unable to broadcast state.")
    assert {str(action.worker) for action in only(actions, StopWorker)} == {"a[0]", "b[0]"}
    assert job.driver.stage is Stage.OVER and job.see(a=1, b=1) == []


def test_the_last_survivor_dies_in_the_pause() -> None:
    """EL-12: nobody is left to wait for: the job fails at once, not at the elastic time-out."""
    job = Job(workers=3, low=3)
    job.see(a=1, b=1, c=1)
    job.see(a=1)
    assert isinstance(job.ready()[0], Pause)
    assert job.die("b[0]") == [] == job.die("c[0]")
    (fail,) = job.die("a[0]")
    assert fail.message.startswith("No hosts from previous set remaining") and "Process name: a[0]" in fail.message


def test_no_survivor_but_a_checkpoint() -> None:
    """EL-12: with a checkpoint on disk the newcomers resume from it."""
    job = Job()
    job.see(a=1, b=1)
    job.tell(CheckpointSeen())
    job.see(c=1, d=1)
    start = only(job.ready(), StartRound)[0]
    assert start.resume and [str(worker) for worker in start.workers] == ["c[0]", "d[0]"]
    job.see(c=1, d=1, e=1)
    assert not only(job.ready(), StartRound)[0].resume


def test_pause_and_resume() -> None:
    """EL-16, EL-13: below `min_np` training pauses, survivors are kept, and it goes on when slots return."""
    job = Job(workers=2, low=2)
    job.see(a=1, b=1)
    assert job.see(a=1) == [NotifyRankZero(job.round[0], 1, REMOVED)]
    assert job.ready() == [Pause("Training waits: there are 1 slot(s) of the 2 that are needed.")]
    assert job.see(a=1, after=5.0) == [] == job.tell(Tick())
    remove, start = job.see(a=1, c=1, after=5.0)
    assert remove == RemoveWorker(Worker(at("b"), 0, 0), "b[0] has been removed from elastic job")
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("c"), 0, 1))


def test_a_host_that_is_back_in_time_has_lost_nothing() -> None:
    """EL-16: discovery that shows nothing for a moment costs a pause; the same processes go on."""
    job = Job(workers=2, low=2)
    job.see(a=1, b=1)
    job.see()
    job.ready()
    (start,) = job.see(b=1, a=1)
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("b"), 0, 0))


@pytest.mark.parametrize("paused", [False, True])
def test_the_elastic_time_out(paused: bool) -> None:
    """EL-16: at 600 s, not before, it ends with the message: before the first round and in a pause."""
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


def test_a_discovery_that_never_answers_times_out() -> None:
    """EL-16, EL-17."""
    job = Job(timeout=5.0)
    (action,) = job.tell(Tick(), after=5.0)
    assert action.message.endswith("to become available: after 5 s no hosts are known yet.")


def test_discovery_that_fails() -> None:
    """EL-17: at the first call it ends the job at once, later it is a warning and the last answer counts."""
    job = Job()
    assert job.tell(DiscoveryFailed("exit code 1.")) == [Fail("The first discovery of hosts failed: exit code 1.")]
    job = Job()
    job.see(a=1, b=1)
    (warning,) = job.tell(DiscoveryFailed("exit code 1."))
    assert isinstance(warning, Warn) and warning.message.endswith("the last answer still counts: exit code 1.")
    assert job.driver.stage is Stage.RUNNING


@pytest.mark.parametrize("code", [1, -9])
def test_a_failure_takes_its_host_out(code: int) -> None:
    """EL-19: exception or kill: the host is blacklisted, its other workers are stopped, the rest go on renumbered."""
    job = Job(workers=4)
    job.see(a=2, b=2)
    (stop,) = job.die("a[1]", code)
    assert stop == StopWorker(Worker(at("a"), 0, 0), "a[0] is stopped: a[1] on the same host has failed.")
    assert job.tell(WorkerEnded(stop.worker, False, -15)) == []
    assert job.ready("b[0]") == []
    (start,) = job.ready("b[1]")
    assert [str(worker) for worker in start.workers] == ["b[0]", "b[1]"]
    assert job.see(a=2, b=2, after=1e6) == []


def test_a_stopped_worker_holds_nobody_up() -> None:
    """EL-19: a neighbour on a dead host may never be heard of again; the round does not wait for it."""
    job = Job(workers=4)
    job.see(a=2, b=2)
    job.die("a[1]")
    assert only(job.ready("b[0]", "b[1]"), StartRound)


def test_a_stuck_worker_is_treated_as_failed() -> None:
    """EL-27: it is stopped at once; what it says later is answered as to one that was removed."""
    job = Job()
    job.see(a=1, b=1)
    stuck = job.worker("b[0]")
    (stop,) = job.tell(WorkerStuck(stuck, "silent for 10 s"))
    assert stop.worker == stuck
    assert job.tell(WorkerReady(stuck, 0)) == [RemoveWorker(stuck, "b[0] has been removed from elastic job")]
    assert [str(worker) for worker in only(job.ready("a[0]"), StartRound)[0].workers] == ["a[0]"]
    assert job.tell(WorkerReady(stuck, 0)) == [RemoveWorker(stuck, "b[0] has been removed from elastic job")]
    assert job.tell(WorkerStuck(stuck), WorkerEnded(stuck, False, -9)) == []


def test_success_of_one_ends_the_job() -> None:
    """EL-20: when every worker has recorded and any has succeeded, all stop and the job has ended well."""
    job = Job(workers=3)
    job.see(a=1, b=1, c=1)
    assert job.tell(WorkerEnded(job.worker("a[0]"), True, 0), WorkerEnded(job.worker("b[0]"), True, 0)) == []
    assert job.ready("c[0]") == [StopWorker(Worker(at("c"), 0, 0), "The job has ended well."), Finish()]
    assert job.tell(WorkerEnded(job.worker("c[0]"), False, -15)) == []


def test_removed_is_no_success() -> None:
    """EL-20: a worker that exits 0 after its host was taken away finishes nothing; one whose function returned does."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1)
    assert job.tell(WorkerEnded(job.worker("b[0]"), True, 0)) == []
    assert [str(worker) for worker in only(job.ready("a[0]"), StartRound)[0].workers] == ["a[0]"]
    job.see(b=1)
    assert job.tell(WorkerEnded(job.worker("a[0]"), True, 0, returned=True)) == [Finish()]


def test_exit_zero_without_a_return_is_no_success() -> None:
    """EL-20: the exit code counts only where nobody knows whether the function returned."""
    job = Job(workers=1)
    job.see(a=1)
    actions = job.tell(WorkerEnded(job.worker("a[0]"), True, 0, returned=False))
    assert isinstance(actions[-1], Fail)


def test_all_failed() -> None:
    """EL-20, EL-21: the error names the first process to fail, by time, its exit code, and the verdict on it."""
    job = Job()
    job.see(a=1, b=1)
    job.tell(WorkerEnded(job.worker("b[0]"), False, 3, "Node(1) crashed in step of epoch 2, batch 5."))
    (fail,) = job.die("a[0]", code=-15)
    assert fail.message == (
        "All workers have failed.\nThe first worker to fail was:\nProcess name: b[0]\nExit code: 3\n"
        "Node(1) crashed in step of epoch 2, batch 5."
    )


def test_one_host_of_several_workers() -> None:
    """EL-19, EL-20: where the only host is blacklisted all its workers have failed, and so has the job."""
    job = Job(workers=3)
    job.see(a=3)
    actions = job.die("a[1]")
    assert [type(action) for action in actions] == [StopWorker, StopWorker, Fail]
    assert "Process name: a[1]" in actions[-1].message


def test_ports_that_are_not_the_usual_one_are_told() -> None:
    """EL-21: several agents of one host have different names."""
    assert str(Worker(Address("h", 5000), 2, 0)) == "h:5000[2]"


def test_the_reset_limit() -> None:
    """EL-20: so many rounds follow the first one."""
    job = Job(reset_limit=1)
    job.see(a=1, b=1)
    assert only(job.ready(), StartRound)
    actions = job.ready()
    assert actions[-1].message.endswith("number of resets during elastic job exceeded limit: 1")


def test_ready_that_dies_while_others_gather() -> None:
    """EL-20: READY, then FAILURE counts once, in the barrier as well as in a pause."""
    job = Job(workers=3, reset_limit=1)
    job.see(a=1, b=1, c=1)
    assert job.ready("a[0]") == []
    assert job.die("a[0]") == []
    assert job.ready("b[0]") == []
    assert [str(worker) for worker in only(job.ready("c[0]"), StartRound)[0].workers] == ["b[0]", "c[0]"]


def test_a_survivor_dies_in_the_pause() -> None:
    """EL-16, EL-19: it is not counted on any more, and its host is blacklisted."""
    job = Job(workers=3, low=3)
    job.see(a=1, b=1, c=1)
    job.see(a=1, b=1)
    job.ready()
    assert job.die("a[0]") == [Pause("Training waits: there are 1 slot(s) of the 3 that are needed.")]
    job.see(a=1, b=1, d=1, e=1)
    assert job.names == ["b[0]", "d[0]", "e[0]"]


def test_late_words_of_an_earlier_round() -> None:
    """FD-14 for elastic jobs: a READY of attempt k does not count in attempt k + 1, an end counts once."""
    job = Job()
    job.see(a=1, b=1)
    job.ready()
    late = WorkerReady(job.worker("a[0]"), 0)
    assert job.tell(late) == [] and job.ready("b[0]") == []
    assert only(job.ready("a[0]"), StartRound)
    ended = WorkerEnded(job.worker("a[0]"), False, 1)
    job.tell(ended)
    assert job.tell(ended, WorkerEnded(Worker(at("z"), 0, 0), False, 1)) == []


def test_a_removed_worker_is_told_so() -> None:
    """EL-23: a living worker without a slot gets rank -1 and the message; its end changes nothing any more."""
    job = Job(workers=2)
    job.see(a=2)
    job.see(a=1)
    remove, start = job.ready()
    gone = Worker(at("a"), 1, 0)
    assert remove == RemoveWorker(gone, "a[1] has been removed from elastic job")
    assert start.workers == (Worker(at("a"), 0, 0),)
    assert job.tell(WorkerEnded(gone, False, 1), WorkerReady(gone, 1))[-1] == remove


def test_a_slot_is_freed_before_it_is_used_again() -> None:
    """EL-23: a removed worker that is still there when its slot comes back is stopped."""
    job = Job(workers=2)
    job.see(a=2)
    job.see(a=1)
    job.ready()
    job.see(a=2)
    stop, start = job.ready()
    assert isinstance(stop, StopWorker) and stop.worker == Worker(at("a"), 1, 0)
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("a"), 1, 2))


def test_three_rounds_on_two_hosts() -> None:
    """EL-24: hosts {L}, {L,R}, {R} with two slots each: sizes 2, 4, 2, and rank 0 began as rank 0, 0, 2."""
    job = Job(workers=2)
    began: dict[Worker, int] = {}
    sizes, ranks, rounds = [], [], []
    for hosts in ({"L": 2}, {"L": 2, "R": 2}, {"R": 2}):
        start = only(job.see(**hosts), StartRound) or only(job.ready(), StartRound)
        for rank, worker in enumerate(job.round):
            began.setdefault(worker, rank)
        sizes.append(len(job.round))
        ranks.append(began[job.round[0]])
        rounds.append(start[0].attempt + 1)
    assert (sizes, ranks, rounds) == ([2, 4, 2], [0, 0, 2], [1, 2, 3])


def test_a_minority_without_the_submitter_pauses() -> None:
    """No split brain: a driver that reaches 2 of 5 workers waits for the submitter's word, or for proof that others died."""
    job = Job(workers=5)
    job.see(a=1, b=1, c=1, d=1, e=1)
    job.tell(SubmitterSeen(False))
    silent = [job.worker(f"{name}[0]") for name in "cde"]
    job.tell(*(WorkerStuck(worker) for worker in silent))
    (pause,) = job.ready("a[0]", "b[0]")
    assert pause == Pause("Training waits: 3 of 5 workers of the last round are out of reach, and may go on.")
    assert job.tell(Tick(), after=5.0) == []
    assert only(job.tell(WorkerEnded(silent[0], False), WorkerEnded(silent[1], False)), StartRound)
    assert job.names == ["a[0]", "b[0]"]


def test_a_minority_with_the_submitter_goes_on() -> None:
    job = Job(workers=3)
    job.see(a=1, b=1, c=1)
    job.tell(SubmitterSeen(False), WorkerStuck(job.worker("b[0]")), WorkerStuck(job.worker("c[0]")))
    assert isinstance(job.ready("a[0]")[0], Pause)
    assert only(job.tell(SubmitterSeen(True)), StartRound)


@pytest.mark.parametrize("numbers", [(2, 0, None), (2, 3, None), (2, 1, 1), (0, None, None)])
def test_numbers_that_do_not_fit(numbers: Any) -> None:
    with pytest.raises(ValueError, match="An elastic job needs 1 <= min_workers <= workers <= max_workers, got"):
        ElasticDriver(*numbers, now=0.0)
    with pytest.raises(ValueError, match="'timeout' of an elastic job must be a number of seconds > 0, got 0"):
        ElasticDriver(1, timeout=0, now=0.0)


def test_what_cannot_be() -> None:
    """Style 9."""
    with pytest.raises(InvalidTransition, match="ElasticDriver cannot take rubbish now"):
        Job().tell("rubbish")
