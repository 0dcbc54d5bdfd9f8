"""The driver of an elastic job that may use again what has failed: after a cool-down, or because its state is on disk."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rpc.elastic import CoolDown, Worker
from rpc.elastic.driver import Stage
from rpc.elastic.events import (
    CheckpointSeen,
    Fail,
    Finish,
    NotifyRankZero,
    Pause,
    StartRound,
    StopWorker,
    Tick,
    Warn,
    WorkerEnded,
    WorkerStuck,
)
from tests.rpc.elastic.elastic_job import Job, at, only

from ...statements import covers

REPEATED = "The same failure has come 3 times at the same place, so it would come again."
TWICE_AGAIN = pytest.mark.parametrize("options", [{"cool_down": CoolDown(5.0, 20.0)}, {"resumes": True}], ids=["cool", "kept"])


def names(start: StartRound) -> list[str]:
    return [str(worker) for worker in start.workers]


def fail_all(job: Job, place: tuple[int, int] | None = (0, 0), after: float = 0.0) -> list[Any]:
    """All workers of the round are killed, the highest rank first."""
    job.clock.advance(after)
    return [action for worker in reversed(job.round) for action in job.tell(WorkerEnded(worker, False, -9, place=place))]


def do_not_answer(job: Job, *workers: str) -> list[Any]:
    ended = [WorkerEnded(job.worker(name), False, started=False, agent_lost=True) for name in workers]
    return job.tell(*ended)


@covers("EL-19")
@TWICE_AGAIN
def test_only_the_failed_slot_is_out(options: Any) -> None:
    """The other workers of its host live on, renumbered; nobody is stopped."""
    job = Job(workers=4, **options)
    job.see(a=2, b=2)
    assert job.die("a[0]", code=-9) == []
    old = {name: job.worker(name) for name in ("a[1]", "b[0]", "b[1]")}
    (start,) = job.ready("a[1]", "b[0]", "b[1]")
    assert start.workers == tuple(old.values()) and not start.resume


@covers("EL-19")
@TWICE_AGAIN
def test_a_lost_agent_takes_its_host_out(options: Any) -> None:
    """Nobody lives on where the agent is lost."""
    job = Job(workers=4, **options)
    job.see(a=2, b=2)
    stops = job.tell(WorkerStuck(job.worker("a[1]"), "its host is silent", agent_lost=True))
    assert [str(stop.worker) for stop in only(stops, StopWorker)] == ["a[0]", "a[1]"]
    (start,) = job.ready("b[0]", "b[1]")
    assert names(start) == ["b[0]", "b[1]"]


@covers("EL-19")
def test_a_newcomer_that_cannot_be_reached_harms_no_neighbour() -> None:
    """One call that fails is no proof that the agent is lost, as long as it speaks for another worker."""
    job = Job(workers=1, cool_down=CoolDown(5.0, 20.0))
    job.see(a=1)
    job.see(a=2)
    job.ready()
    assert do_not_answer(job, "a[1]") == []
    (start,) = job.ready("a[0]")
    assert names(start) == ["a[0]"]


@covers("EL-22")
def test_a_slot_is_used_again_after_its_cool_down() -> None:
    """After lo, 2 lo, 4 lo ... at most hi, plus a jitter of at most lo; its neighbour trains on meanwhile."""
    job = Job(workers=2, cool_down=CoolDown(2.0, 5.0))
    job.see(a=2)
    for period in (2.0, 4.0, 5.0, 5.0):
        job.die("a[1]")
        assert only(job.ready("a[0]"), StartRound)
        release = job.driver.deadline
        assert release is not None and period <= release - job.clock.monotonic() <= period + 2.0
        job.clock.advance_to(math.nextafter(release, 0))
        assert job.tell(Tick()) == []
        job.clock.advance_to(release)
        assert only(job.tell(Tick()), NotifyRankZero)
        (start,) = job.ready("a[0]")
        assert start.workers == (Worker(at("a"), 0, 0), Worker(at("a"), 1, start.attempt))


@covers("EL-20", "EL-12")
def test_all_workers_fail_and_the_job_goes_on() -> None:
    """From the file, on all hosts, the spare one, too; nobody of the last round takes part."""
    job = Job(workers=2, high=3, resumes=True)
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("some"))
    job.see(a=1, b=1, c=1)
    warning, start = fail_all(job)[-2:]
    assert warning == Warn("All workers have failed. The job goes on from the state that was kept last.")
    assert start.resume and sorted(names(start)) == ["a[0]", "b[0]", "c[0]"]
    assert {worker.born for worker in start.workers} == {1}


@covers("EL-20")
def test_a_single_worker_that_hangs() -> None:
    """Whoever has given it up, another process takes its slot."""
    job = Job(workers=1, resumes=True)
    job.see(a=1)
    job.tell(CheckpointSeen("some"))
    stop, warning, occupied, start = job.tell(WorkerStuck(Worker(at("a"), 0, 0), "stuck"))
    assert isinstance(stop, StopWorker) and isinstance(warning, Warn) and isinstance(occupied, StopWorker)
    assert start.workers == (Worker(at("a"), 0, 1),) and start.resume


@covers("FD-10", "EL-20")
def test_nothing_was_kept_yet() -> None:
    """Without a file all begin anew, and the log says so."""
    job = Job(resumes=True)
    job.see(a=1, b=1)
    warning, start = fail_all(job)[-2:]
    assert warning.message.endswith("goes on from the beginning, as nothing was kept yet.") and start.resume


@covers("EL-20")
def test_without_a_checkpoint_a_cool_down_does_not_help() -> None:
    """The state is lost with the last worker."""
    job = Job(cool_down=CoolDown(1.0, 1.0))
    job.see(a=1, b=1)
    assert fail_all(job)[-1].message.startswith("All workers have failed.")


@covers("EL-20", "EL-22")
def test_with_a_cool_down_all_wait_for_it() -> None:
    """'for ever' is what a checkpoint takes back, not a period that was asked for."""
    job = Job(resumes=True, cool_down=CoolDown(10.0, 40.0))
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("some"))
    assert isinstance(fail_all(job)[-1], Pause)
    release = job.driver.deadline
    assert release is not None and 10.0 <= release - job.clock.monotonic() <= 20.0
    job.clock.advance_to(release)
    (start,) = job.tell(Tick())
    assert start.resume and len(start.workers) == 1


@covers("EL-20")
def test_a_returned_worker_has_won() -> None:
    """Any SUCCESS ends the job well, whatever has become of the others."""
    job = Job(resumes=True)
    job.see(a=1, b=1)
    job.tell(WorkerEnded(job.worker("a[0]"), True, 0, returned=True))
    assert job.die("b[0]")[-1] == Finish()


@covers("EL-20")
def test_the_last_survivor_fails_in_the_pause() -> None:
    """As if all had failed at the same moment."""
    job = Job(workers=2, low=2, resumes=True)
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("some"))
    job.see(a=1)
    assert isinstance(job.ready()[-1], Pause)
    assert job.die("b[0]") == []
    assert only(job.die("a[0]"), Warn)
    start = job.see(a=1, b=1)[-1]
    assert start.resume and names(start) == ["a[0]", "b[0]"]


@covers("EL-20", "EL-22")
def test_too_few_are_left() -> None:
    """Below `min_workers` the slot that failed is used again, with the state of those that live."""
    job = Job(workers=2, low=2, resumes=True)
    job.see(a=1, b=1)
    job.die("b[0]")
    (start,) = job.ready("a[0]")
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("b"), 0, 1)) and not start.resume
    for _ in range(2):
        job.die("b[0]")
        actions = job.ready("a[0]")
    assert actions[-1].message.startswith(f"Too few workers are left. {REPEATED}\nThe first worker to fail was:")


@covers("EL-20", "FD-20")
@pytest.mark.parametrize("place", [(2, 5), (0, 0)], ids=["signals", "no signals"])
def test_the_same_place_three_times(place: tuple[int, int]) -> None:
    """The same rank at the same epoch and batch, or with nothing else kept: the third time is the last."""
    job = Job(resumes=True)
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("some"))
    assert only(fail_all(job, place), StartRound) and only(fail_all(job, place), StartRound)
    actions = fail_all(job, place)
    assert actions[-1].message.startswith(
        f"All workers have failed. {REPEATED}\nThe first worker to fail was:\nProcess name: b"
    )
    assert job.driver.stage is Stage.OVER


@covers("EL-20", "FD-20")
def test_other_places_are_other_failures() -> None:
    """The job goes on as long as it gets on."""
    job = Job(resumes=True)
    job.see(a=1, b=1)
    for number in range(4):
        job.tell(CheckpointSeen(f"state {number}"))
        assert only(fail_all(job), StartRound)
        assert only(fail_all(job, (1, number)), StartRound)
    for _ in range(4):  # who failed because another one had is no cause
        assert only(fail_all(job, None), StartRound)


@covers("EL-20")
def test_the_reset_limit_holds() -> None:
    """Rounds from the file are counted as all others."""
    job = Job(resumes=True, reset_limit=2)
    job.see(a=1, b=1)
    assert only(fail_all(job, (1, 1)), StartRound) and only(fail_all(job, (1, 2)), StartRound)
    assert "number of resets during elastic job exceeded limit: 2" in fail_all(job, (1, 3))[-1].message


@covers("EL-20", "EL-16")
def test_hosts_that_do_not_answer_are_asked_again() -> None:
    """Whoever answers is used at once, others after 0.5 s, 1 s ... at most 8 s; up to the time-out, counted from
    the loss. A round that never began is no reset."""
    job = Job(resumes=True, reset_limit=1, timeout=100.0)
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("some"))
    fail_all(job)
    begun = job.clock.monotonic()
    pauses, actions = [], do_not_answer(job, "a[0]", "b[0]")
    while not only(actions, Fail):
        assert isinstance(actions[-1], Pause)
        before, deadline = job.clock.monotonic(), job.driver.deadline
        assert deadline is not None
        job.clock.advance_to(deadline)
        actions = job.tell(Tick())
        if only(actions, StartRound):
            pauses.append(deadline - before)
            actions = do_not_answer(job, "a[0]", "b[0]")
    assert pauses[:6] == [0.5, 1.0, 2.0, 4.0, 8.0, 8.0] and max(pauses) == 8.0
    assert (
        actions[-1].message.startswith("Timed out waiting for minimum number of slots") and job.clock.monotonic() == begun + 100
    )


@covers("EL-20")
def test_one_host_answers() -> None:
    """It goes on alone, and is not kept from it by the other one."""
    job = Job(resumes=True)
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("some"))
    fail_all(job)
    assert do_not_answer(job, "a[0]") == []
    start = job.ready("b[0]")[-1]
    assert names(start) == ["b[0]"]
    assert job.see(a=1, b=1, after=1e6) == []


@covers("EL-20", "FD-20")
def test_a_lost_agent_is_no_place_of_the_program() -> None:
    """However often a host is lost, the program has not failed."""
    job = Job(workers=1, resumes=True)
    job.see(a=1)
    for _ in range(4):
        job.tell(WorkerStuck(job.round[0], agent_lost=True))
        deadline = job.driver.deadline
        assert deadline is not None
        job.clock.advance_to(deadline)
        assert only(job.tell(Tick()), StartRound)


@covers("EL-20")
def test_a_host_that_refuses_is_asked_again() -> None:
    """An agent that leaves, or is busy, is no failure of the program."""
    job = Job(workers=1, resumes=True)
    job.see(a=1)
    fail_all(job, (1, 1))
    for pause in (1.0, 2.0, 4.0, 8.0):
        job.tell(WorkerEnded(job.round[0], False, started=False, detail="this worker leaves"))
        deadline = job.driver.deadline
        assert deadline == job.clock.monotonic() + pause
        job.clock.advance_to(deadline)
        assert only(job.tell(Tick()), StartRound)


@covers("EL-20")
def test_nobody_has_ever_started() -> None:
    """Hosts that none of the first workers can be started on are an error of the call."""
    job = Job(resumes=True)
    job.see(a=1, b=1)
    job.tell(CheckpointSeen("of an earlier job"))
    assert do_not_answer(job, "a[0]", "b[0]")[-1].message.startswith("All workers have failed.")
