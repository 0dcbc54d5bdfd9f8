"""The driver under any sequence of events: what holds in every round."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from network.nodes import Address
from rpc.elastic import CoolDown, ElasticDriver, Host, Worker
from rpc.elastic.driver import Stage
from rpc.elastic.events import (
    Fail,
    Finish,
    HostsSeen,
    Notified,
    NotifyRankZero,
    RemoveWorker,
    StartRound,
    StopWorker,
    Tick,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)

from ...statements import covers

FIRST, LOW, HIGH = 3, 2, 5
HOSTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 2), max_size=6)
ENOUGH = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 2), min_size=LOW, max_size=6)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("see"), HOSTS),
        st.tuples(st.just("ready"), st.integers(0, 4)),
        st.tuples(st.just("all ready"), st.none()),
        st.tuples(st.just("die"), st.integers(0, 4)),
        st.tuples(st.just("stuck"), st.integers(0, 4)),
        st.tuples(st.just("heard"), st.none()),
        st.tuples(st.just("tick"), st.floats(0.1, 20.0)),
    ),
    max_size=40,
)


class Checked:
    """A driver whose every action is judged by what a bystander knows."""

    def __init__(self) -> None:
        self.now = 0.0
        self.driver = ElasticDriver(FIRST, LOW, HIGH, cool_down=CoolDown(5.0, 20.0), now=0.0)
        self.hosts: dict[Address, int] = {}
        self.round: tuple[Worker, ...] = ()
        self.settled: set[Worker] = set()  # have recorded something in this round
        self.gone: set[Worker] = set()
        self.sequence = 0
        self.over = False

    def tell(self, event: Any) -> None:
        for action in self.driver.handle(event, self.now):
            assert not self.over or isinstance(action, (Finish, Fail))
            self._judge(action)

    def play(self, kind: str, argument: Any) -> None:
        worker = self.round[argument % len(self.round)] if self.round and isinstance(argument, int) else None
        if kind == "see":
            self.hosts = {Address(name, 15387): slots for name, slots in argument.items()}
            self.tell(HostsSeen(tuple(Host(*item) for item in self.hosts.items())))
        elif kind == "tick":
            self.now += argument
            self.tell(Tick())
        elif kind == "heard":
            self.tell(Notified(self.sequence))
        elif kind == "all ready":
            for each in self.round:
                self._ready(each)
        elif worker is not None and kind == "ready":
            self._ready(worker)
        elif worker is not None and worker not in self.gone:
            self.gone.add(worker)
            self.settled.add(worker)
            self.tell(WorkerEnded(worker, False, 1) if kind == "die" else WorkerStuck(worker))

    def _ready(self, worker: Worker) -> None:
        if worker in self.round and worker not in self.gone:
            self.settled.add(worker)
            self.tell(WorkerReady(worker, self.driver.attempt))

    def _judge(self, action: Any) -> None:
        if isinstance(action, StartRound):
            self._judge_round(action)
        elif isinstance(action, NotifyRankZero):
            assert action.worker == self.round[0] and action.result
            assert not self.settled
            assert action.sequence in (self.sequence, self.sequence + 1)
            self.sequence = action.sequence
        elif isinstance(action, (StopWorker, RemoveWorker)):
            self.gone.add(action.worker)
            self.settled.add(action.worker)
        elif isinstance(action, (Finish, Fail)):
            self.over = True

    def _judge_round(self, start: StartRound) -> None:
        old = [worker for worker in self.round if worker not in self.gone]
        places = [worker.place for worker in start.workers]
        assert set(self.round) <= self.settled
        assert len(set(places)) == len(places)
        assert (FIRST if not start.attempt else LOW) <= len(places) <= HIGH
        assert len(places) == HIGH or len(places) <= sum(self.hosts.values())
        assert all(self.hosts.get(address, 0) > slot for address, slot in places)
        assert all(worker in old or worker.born == start.attempt for worker in start.workers)
        assert set(old) <= set(start.workers)  # who does not stay was told before
        if start.attempt:
            assert start.workers[0] in old
        hosts, before = (list(dict.fromkeys(w.address for w in workers)) for workers in (start.workers, old))
        assert [address for address in hosts if address in before] == before
        assert hosts == [address for address, _ in dict.fromkeys((w.address, 0) for w in start.workers)]
        self.round, self.settled = start.workers, set()


@covers("EL-10", "EL-11", "EL-13", "EL-15", "EL-19", "EL-23")
@settings(max_examples=150, deadline=None)
@given(EVENTS)
def test_any_sequence_of_events(events: list[tuple[str, Any]]) -> None:
    """In every round all slots exist and differ, no more than `max_np` and no fewer
    than are needed; nobody is left behind in silence; survivors keep their order, one of them leads; nothing begins before
    everybody of the last round has come to an end; only rank 0 is told, by growing numbers, and nothing follows the end."""
    job = Checked()
    job.play("see", {"a": 2, "b": 1})
    for event in events:
        job.play(*event)
    if job.over:
        assert job.driver.stage is Stage.OVER and job.driver.deadline is None
        return
    # it never hangs: with slots enough, the next round begins as soon as all have recorded, or the job ends
    attempt = job.driver.attempt
    job.play("see", dict.fromkeys("abcdefgh", 2))
    job.play("all ready", None)
    assert job.over or job.driver.attempt > attempt


@covers("EL-14", "EL-18", "EL-12")
@settings(max_examples=50, deadline=None)
@given(st.lists(ENOUGH, min_size=1, max_size=8))
def test_any_sequence_of_hosts(sequence: list[dict[str, int]]) -> None:
    """Whatever discovery shows, one after the other, the next round has exactly the slots that are there, up to
    `max_np`, or there was no survivor."""
    job = Checked()
    job.play("see", {"a": 2, "b": 1})
    for hosts in sequence:
        job.play("see", hosts)
        job.play("all ready", None)
        if job.over:
            assert not {Address(name, 15387) for name in hosts} & {worker.address for worker in job.round}
            return
        assert len(job.round) == min(HIGH, sum(hosts.values()))
