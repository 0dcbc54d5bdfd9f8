"""The driver of an elastic job, event by event: what fails, what ends, and what it cannot be told."""

from __future__ import annotations

from typing import Any

import pytest

from network.nodes import Address
from rpc.elastic import ElasticDriver, Worker
from rpc.elastic.driver import Stage
from rpc.elastic.events import (
    DiscoveryFailed,
    Fail,
    Finish,
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
from rpc.errors import InvalidTransition
from tests.rpc.elastic.elastic_job import Job, at, only

from ...statements import covers


@covers("EL-17")
def test_discovery_that_fails() -> None:
    """At the first call it ends the job at once, later it is a warning and the last answer counts."""
    job = Job()
    assert job.tell(DiscoveryFailed("exit code 1.")) == [Fail("The first discovery of hosts failed: exit code 1.")]
    job = Job()
    job.see(a=1, b=1)
    (warning,) = job.tell(DiscoveryFailed("exit code 1."))
    assert isinstance(warning, Warn) and warning.message.endswith("the last answer still counts: exit code 1.")
    assert job.driver.stage is Stage.RUNNING


@covers("EL-19")
@pytest.mark.parametrize("code", [1, -9])
def test_a_failure_takes_its_host_out(code: int) -> None:
    """Exception or kill: the host is blacklisted, its other workers are stopped, the rest go on renumbered."""
    job = Job(workers=4)
    job.see(a=2, b=2)
    (stop,) = job.die("a[1]", code)
    assert stop == StopWorker(Worker(at("a"), 0, 0), "a[0] is stopped: a[1] on the same host has failed.")
    assert job.tell(WorkerEnded(stop.worker, False, -15)) == []
    assert job.ready("b[0]") == []
    (start,) = job.ready("b[1]")
    assert [str(worker) for worker in start.workers] == ["b[0]", "b[1]"]
    assert job.see(a=2, b=2, after=1e6) == []


@covers("EL-19")
def test_a_stopped_worker_holds_nobody_up() -> None:
    """a neighbour on a dead host may never be heard of again; the round does not wait for it."""
    job = Job(workers=4)
    job.see(a=2, b=2)
    job.die("a[1]")
    assert only(job.ready("b[0]", "b[1]"), StartRound)


@covers("EL-27")
def test_a_stuck_worker_is_treated_as_failed() -> None:
    """It is stopped at once; what it says later is answered as to one that was removed."""
    job = Job()
    job.see(a=1, b=1)
    stuck = job.worker("b[0]")
    (stop,) = job.tell(WorkerStuck(stuck, "silent for 10 s"))
    assert stop.worker == stuck
    assert job.tell(WorkerReady(stuck, 0)) == [RemoveWorker(stuck, "b[0] has been removed from elastic job")]
    assert [str(worker) for worker in only(job.ready("a[0]"), StartRound)[0].workers] == ["a[0]"]
    assert job.tell(WorkerReady(stuck, 0)) == [RemoveWorker(stuck, "b[0] has been removed from elastic job")]
    assert job.tell(WorkerStuck(stuck), WorkerEnded(stuck, False, -9)) == []


@covers("EL-20")
def test_success_of_one_ends_the_job() -> None:
    """When every worker has recorded and any has succeeded, all stop and the job has ended well."""
    job = Job(workers=3)
    job.see(a=1, b=1, c=1)
    assert job.tell(WorkerEnded(job.worker("a[0]"), True, 0), WorkerEnded(job.worker("b[0]"), True, 0)) == []
    assert job.ready("c[0]") == [StopWorker(Worker(at("c"), 0, 0), "The job has ended well."), Finish()]
    assert job.tell(WorkerEnded(job.worker("c[0]"), False, -15)) == []


@covers("EL-20")
def test_removed_is_no_success() -> None:
    """a worker that exits 0 after its host was taken away finishes nothing; one whose function returned does."""
    job = Job()
    job.see(a=1, b=1)
    job.see(a=1)
    assert job.tell(WorkerEnded(job.worker("b[0]"), True, 0)) == []
    assert [str(worker) for worker in only(job.ready("a[0]"), StartRound)[0].workers] == ["a[0]"]
    job.see(b=1)
    assert job.tell(WorkerEnded(job.worker("a[0]"), True, 0, returned=True)) == [Finish()]


@covers("EL-20")
def test_exit_zero_without_a_return_is_no_success() -> None:
    """The exit code counts only where nobody knows whether the function returned."""
    job = Job(workers=1)
    job.see(a=1)
    actions = job.tell(WorkerEnded(job.worker("a[0]"), True, 0, returned=False))
    assert isinstance(actions[-1], Fail)


@covers("EL-20", "EL-21")
def test_all_failed() -> None:
    """The error names the first process to fail, by time, its exit code, and the verdict on it."""
    job = Job()
    job.see(a=1, b=1)
    job.tell(WorkerEnded(job.worker("b[0]"), False, 3, "Node(1) crashed in step of epoch 2, batch 5."))
    (fail,) = job.die("a[0]", code=-15)
    assert fail.message == (
        "All workers have failed.\nThe first worker to fail was:\nProcess name: b[0]\nExit code: 3\n"
        "Node(1) crashed in step of epoch 2, batch 5."
    )


@covers("EL-21")
def test_a_process_that_never_was_has_no_exit_code() -> None:
    """What is known is told, and nothing else."""
    job = Job(workers=1)
    job.see(a=1)
    fail = job.tell(WorkerEnded(job.worker("a[0]"), False, detail="The agent of a does not answer.", started=False))[-1]
    assert isinstance(fail, Fail)
    assert fail.message.endswith("The first worker to fail was:\nProcess name: a[0]\nThe agent of a does not answer.")


@covers("EL-19", "EL-20")
def test_one_host_of_several_workers() -> None:
    """Where the only host is blacklisted all its workers have failed, and so has the job."""
    job = Job(workers=3)
    job.see(a=3)
    actions = job.die("a[1]")
    assert [type(action) for action in actions] == [StopWorker, StopWorker, Fail]
    assert "Process name: a[1]" in actions[-1].message


@covers("EL-21")
def test_ports_that_are_not_the_usual_one_are_told() -> None:
    """Several agents of one host have different names."""
    assert str(Worker(Address("h", 5000), 2, 0)) == "h:5000[2]"


@covers("EL-20")
def test_the_reset_limit() -> None:
    """So many rounds follow the first one."""
    job = Job(reset_limit=1)
    job.see(a=1, b=1)
    assert only(job.ready(), StartRound)
    actions = job.ready()
    assert actions[-1].message.endswith("number of resets during elastic job exceeded limit: 1")


@covers("EL-20")
def test_ready_that_dies_while_others_gather() -> None:
    """READY, then FAILURE counts once, in the barrier as well as in a pause."""
    job = Job(workers=3, reset_limit=1)
    job.see(a=1, b=1, c=1)
    assert job.ready("a[0]") == []
    assert job.die("a[0]") == []
    assert job.ready("b[0]") == []
    assert [str(worker) for worker in only(job.ready("c[0]"), StartRound)[0].workers] == ["b[0]", "c[0]"]


@covers("EL-16", "EL-19")
def test_a_survivor_dies_in_the_pause() -> None:
    """It is not counted on any more, and its host is blacklisted."""
    job = Job(workers=3, low=3)
    job.see(a=1, b=1, c=1)
    job.see(a=1, b=1)
    job.ready()
    assert job.die("a[0]") == [Pause("Training waits: there are 1 slot(s) of the 3 that are needed.")]
    job.see(a=1, b=1, d=1, e=1)
    assert job.names == ["b[0]", "d[0]", "e[0]"]


@covers("FD-14")
def test_late_words_of_an_earlier_round() -> None:
    """A READY of attempt k does not count in attempt k + 1, an end counts once."""
    job = Job()
    job.see(a=1, b=1)
    job.ready()
    late = WorkerReady(job.worker("a[0]"), 0)
    assert job.tell(late) == [] and job.ready("b[0]") == []
    assert only(job.ready("a[0]"), StartRound)
    ended = WorkerEnded(job.worker("a[0]"), False, 1)
    job.tell(ended)
    assert job.tell(ended, WorkerEnded(Worker(at("z"), 0, 0), False, 1)) == []


@covers("EL-23")
def test_a_removed_worker_is_told_so() -> None:
    """a living worker without a slot gets rank -1 and the message; its end changes nothing any more."""
    job = Job(workers=2)
    job.see(a=2)
    job.see(a=1)
    remove, start = job.ready()
    gone = Worker(at("a"), 1, 0)
    assert remove == RemoveWorker(gone, "a[1] has been removed from elastic job")
    assert start.workers == (Worker(at("a"), 0, 0),)
    assert job.tell(WorkerEnded(gone, False, 1), WorkerReady(gone, 1))[-1] == remove


@covers("EL-23")
def test_a_slot_is_freed_before_it_is_used_again() -> None:
    """a removed worker that is still there when its slot comes back is stopped."""
    job = Job(workers=2)
    job.see(a=2)
    job.see(a=1)
    job.ready()
    job.see(a=2)
    stop, start = job.ready()
    assert isinstance(stop, StopWorker) and stop.worker == Worker(at("a"), 1, 0)
    assert start.workers == (Worker(at("a"), 0, 0), Worker(at("a"), 1, 2))


@covers("EL-24")
def test_three_rounds_on_two_hosts() -> None:
    """Hosts {L}, {L,R}, {R} with two slots each: sizes 2, 4, 2, and rank 0 began as rank 0, 0, 2."""
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
