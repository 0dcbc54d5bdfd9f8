"""The driver of an elastic job under hypothesis's hand: hosts come and go, workers die in a round that forms, are ready and
then fail, end well or are removed, fall silent, come back late, do not start; what failed cools down, or is used again when all
is lost; discovery fails.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from network.nodes import Address
from rpc import Tick
from rpc.elastic import (
    CheckpointSeen,
    CoolDown,
    DiscoveryFailed,
    ElasticDriver,
    Fail,
    Finish,
    Host,
    HostsSeen,
    Notified,
    NotifyRankZero,
    Pause,
    RemoveWorker,
    Stage,
    StartRound,
    StopWorker,
    Warn,
    Worker,
    WorkerEnded,
    WorkerReady,
    WorkerStuck,
)

NO_SURVIVOR = "No hosts from previous set remaining, unable to broadcast state."
FIRST, LOW, HIGH, RESETS = 3, 2, 5, 12
COOL = CoolDown(5.0, 20.0)
TIMEOUT = 100.0
HOSTS = st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 2), max_size=6)
CHOICE = st.integers(0, 9)
ENDS = (
    "All workers have failed.",
    "All hosts have been blacklisted.",
    "The number of resets during elastic job exceeded limit: 12",
    NO_SURVIVOR,
    "Timed out waiting for minimum number of slots to become available",
    "The first discovery of hosts failed",
    "Too few workers are left.",
)
PLACES = st.sampled_from([None, (0, 0), (1, 1), (1, 2), (2, 1)])


class Membership(RuleBasedStateMachine):
    """See the module, and `_judge` for what must hold. Nothing is used again that has failed; a host fails as a whole."""

    options: ClassVar[dict[str, Any]] = {}
    by_slot = resumes = False

    def __init__(self) -> None:
        super().__init__()
        self.now = 50.0
        self.driver = ElasticDriver(FIRST, LOW, HIGH, reset_limit=RESETS, timeout=TIMEOUT, seed=1, now=self.now, **self.options)
        self.hosts: dict[Address, int] = {}
        self.round: tuple[Worker, ...] = ()
        self.alive: set[Worker] = set()
        self.fenced: set[Worker] = set()  # stopped, removed or given up: nothing they say counts
        self.settled: set[Worker] = set()  # have recorded something in this round
        self.blamed: dict[Any, list[float]] = {}  # when a slot or a host has failed: one entry for each cool-down
        self.asked: set[Any] = set()  # those that took nobody, and may or may not be used again: nobody knows when
        self.returned = self.checkpoint = self.fell = self.gives_back = self.void = self.started = False
        self.again = False  # what has failed may be used again in the round that begins
        self.rounds = self.resets = self.sequence = 0
        self.waits_since = self.now
        self.over: Any = None

    # ---- what may happen

    @initialize()
    def begin(self) -> None:
        self.see({"a": 2, "b": 1})

    @rule(hosts=HOSTS)
    def see(self, hosts: dict[str, int]) -> None:
        self.hosts = {Address(name, 15387): slots for name, slots in hosts.items()}
        self._tell(HostsSeen(tuple(Host(*item) for item in self.hosts.items())))

    @rule()
    def discovery_fails(self) -> None:
        """EL-17: a later failure is a warning, and the last answer stays."""
        actions = self._tell(DiscoveryFailed("exit code 3"))
        assert self.over or [type(action) for action in actions] == [Warn]

    @rule(choice=CHOICE, late=st.booleans(), holds=st.booleans())
    def ready(self, choice: int, late: bool, holds: bool) -> None:
        """A worker asks for the next round; `late`: its word was on its way when this round began."""
        worker = self._pick(self.round, choice)
        if worker is not None and worker in self.alive:
            if late and worker not in self.fenced:
                assert self._tell(WorkerReady(worker, self.driver.attempt - 1, holds)) == []
            else:
                self._counts(worker)
                self._tell(WorkerReady(worker, self.driver.attempt, True))

    @rule()
    def all_ready(self) -> None:
        for worker in self.round:
            if worker in self.alive and worker not in self.fenced and self.over is None:
                self._counts(worker)
                self._tell(WorkerReady(worker, self.driver.attempt))

    @rule(choice=CHOICE, code=st.sampled_from([-9, 1, 3]), place=PLACES)
    def die(self, choice: int, code: int, place: Any) -> None:
        """A process ends badly: of the round, also when it was ready; of an earlier one; or one that was given up."""
        worker = self._pick(sorted(self.alive), choice)
        if worker is not None:
            self.alive.discard(worker)
            if worker in self.round and worker not in self.fenced:
                self.settled.add(worker)
                if self.hosts.get(worker.address, 0) > worker.slot:
                    self._blame(worker)
            self._tell(WorkerEnded(worker, False, code, returned=False, place=place))

    @rule(choice=CHOICE, agent_lost=st.booleans())
    def do_not_start(self, choice: int, agent_lost: bool) -> None:
        """EL-20: a host refuses a worker, or does not answer; the round comes to nothing."""
        worker = self._pick([each for each in self.round if each.born == self.driver.attempt], choice)
        if worker is not None and worker in self.alive and worker not in self.settled:
            self.alive.discard(worker)
            self.settled.add(worker)
            if self.hosts.get(worker.address, 0) > worker.slot:
                self.void = True
                neighbours = [each for each in self.round if each.address == worker.address and self._counting(each)]
                self._blame(worker, agent_lost=agent_lost and not neighbours, takes=False)
            self._tell(WorkerEnded(worker, False, returned=False, started=False, agent_lost=agent_lost))

    @rule(choice=CHOICE)
    def end_after_removal(self, choice: int) -> None:
        """EL-20: who was removed, or was stopped, exits with 0, which is no success."""
        worker = self._pick(sorted(self.alive & self.fenced), choice)
        if worker is not None:
            self.alive.discard(worker)
            self._tell(WorkerEnded(worker, True, 0))

    @rule(choice=CHOICE, agent_lost=st.booleans())
    def fall_silent(self, choice: int, agent_lost: bool) -> None:
        """EL-27: the detector gives a worker up, and it may be alive."""
        worker = self._pick(self.round, choice)
        if worker is not None and worker in self.alive and worker not in self.fenced:
            self._blame(worker, agent_lost=agent_lost)
            self._tell(WorkerStuck(worker, agent_lost=agent_lost))

    @precondition(lambda self: self.rounds > 3)
    @rule(choice=CHOICE)
    def finish(self, choice: int) -> None:
        """A function has returned."""
        worker = self._pick(self.round, choice)
        if worker is not None and worker in self.alive and worker not in self.fenced:
            self.alive.discard(worker)
            self._counts(worker)
            self.returned = True
            self._tell(WorkerEnded(worker, True, 0, returned=True))

    @rule()
    def hear_notice(self) -> None:
        self._tell(Notified(self.sequence))

    @rule()
    def save(self) -> None:
        self.checkpoint = True
        self._tell(CheckpointSeen())

    @rule(seconds=st.one_of(st.floats(0.1, 3.0), st.floats(3.0, 60.0)))
    def pass_time(self, seconds: float) -> None:
        """Every deadline on the way is kept, to the moment."""
        end = self.now + seconds
        while (moment := self.driver.deadline) is not None and moment <= end:
            self.now = max(self.now, moment)
            self._tell(Tick())
            after = self.driver.deadline
            assert after is None or after > self.now, "a deadline that does not go away"
        self.now = end

    # ---- how it is told

    def _pick(self, workers: Any, choice: int) -> Worker | None:
        return workers[choice % len(workers)] if workers else None

    def _counts(self, worker: Worker) -> None:
        if worker in self.round and worker not in self.fenced:
            self.settled.add(worker)
            self.started = True

    def _counting(self, worker: Worker) -> bool:
        return worker in self.alive and worker not in self.fenced

    def _blame(self, worker: Worker, *, agent_lost: bool = False, takes: bool = True) -> None:
        """EL-19: its host fails, and all that run there are given up; or its slot, and no other worker."""
        self.fell = True
        whole = agent_lost or not self.by_slot
        where = worker.address if whole else worker.place
        self.blamed.setdefault(where, []).append(self.now)
        if self.resumes and (agent_lost or not takes):
            self.asked.add(where)
        for other in self.round:
            if other == worker or (whole and other.address == worker.address):
                self.fenced.add(other)
                self.settled.add(other)

    def _looks_again(self) -> bool:
        """EL-20: whether what has failed may be used again: nobody is left, or too few slots are."""
        old = [worker for worker in self.round if self._counting(worker)]
        slots = [(address, slot) for address, count in self.hosts.items() for slot in range(count)]
        return (self.fell and not old) or sum(map(self._is_free, slots)) < LOW

    def _is_free(self, place: Any) -> bool:
        """EL-22: a slot that has not failed, or has cooled down, on such a host."""
        for where in (place, place[0]):
            times = self.blamed.get(where, [])
            if times and ("cool_down" not in self.options or self.now < times[-1] + COOL.seconds(len(times)) - 1e-9):
                return False
        return True

    def _tell(self, event: Any) -> list[Any]:
        was_over = self.over
        actions = self.driver.handle(event, self.now)
        # before the actions, by which workers that live leave: they hold their slots until then
        self.again = self.resumes and (self.gives_back or self._looks_again())
        assert was_over is None or actions == [], "nothing follows the end"
        for action in actions:
            assert self.over is None, "nothing follows the end"
            self._judge(action)
        if self.resumes and self.driver.stage is Stage.WAITING:
            self.gives_back = self.gives_back or self._looks_again()
        return actions

    # ---- what must hold

    def _judge(self, action: Any) -> None:
        if isinstance(action, StartRound):
            self._judge_round(action)
        elif isinstance(action, NotifyRankZero):
            """EL-10, EL-14: only rank 0 is told, by growing numbers, and only while the round is undisturbed."""
            assert action.worker == self.round[0] and action.result and not self.settled
            assert action.sequence in (self.sequence, self.sequence + 1)
            self.sequence = action.sequence
        elif isinstance(action, StopWorker):
            assert action.worker in self.alive
            self.fenced.add(action.worker)
            self.settled.add(action.worker)
        elif isinstance(action, RemoveWorker):
            assert action.message == f"{action.worker} has been removed from elastic job"
            self.fenced.add(action.worker)
            self.settled.add(action.worker)
        elif isinstance(action, Finish):
            assert self.returned and set(self.round) <= self.settled
            self.over = action
        elif isinstance(action, Fail):
            self._judge_failure(action.message)
            self.over = action
        elif isinstance(action, Pause):
            assert self.driver.stage is Stage.WAITING
        else:
            assert isinstance(action, Warn)

    def _judge_round(self, start: StartRound) -> None:
        """EL-11, EL-12, EL-13, EL-15, EL-19, EL-20, EL-22: a round begins when everybody of the last one has come to an end. It
        has the slots that there are, no more than `max_np` and no fewer than are needed; living workers stay, one of them leads
        unless the state comes from the disk, or all failed before there was one; nobody who was given up takes part; no slot
        and no host that has failed does before it has cooled down, or before all is lost."""
        old = [worker for worker in self.round if self._counting(worker)]
        again = self.again
        places = [worker.place for worker in start.workers]
        assert set(self.round) <= self.settled
        assert len(set(places)) == len(places)
        assert (FIRST if not start.attempt else LOW) <= len(places) <= HIGH
        assert all(self.hosts.get(address, 0) > slot for address, slot in places)
        assert not self.fenced & set(start.workers)
        assert all(worker in old or worker.born == start.attempt for worker in start.workers)
        if start.attempt:
            assert start.workers[0] in old or (start.resume and (self.checkpoint or (again and not old)))
        used = [worker.place for worker in start.workers if not self.asked & {worker.place, worker.address}]
        assert all(map(self._is_free, used)) or again
        assert self.blamed or len(places) == min(HIGH, sum(self.hosts.values()))
        hosts, before = (list(dict.fromkeys(w.address for w in workers)) for workers in (start.workers, old))
        assert set(old) <= set(start.workers), "who does not stay was told before"
        assert [address for address in hosts if address in before] == before, "survivors keep their order"
        assert hosts == [address for address, _ in itertools.groupby(w.address for w in start.workers)]
        if again:
            self.asked -= {where for worker in start.workers for where in (worker.place, worker.address)}
            self.blamed = {where: times for where, times in self.blamed.items() if where in self.asked}
        self.resets += bool(self.rounds) and not self.void
        assert start.attempt == self.rounds and self.resets <= RESETS
        self.rounds += 1
        self.fell = self.gives_back = self.void = False
        self.alive.update(start.workers)
        self.round, self.settled = start.workers, set()

    def _judge_failure(self, message: str) -> None:
        """EL-12, EL-16, EL-20, EL-21: one of the known ends; a failure that came first is named."""
        assert message.startswith(ENDS), message
        if self.blamed:
            assert "Process name: " in message
        if self.resumes and self.started and message.startswith(ENDS[:2]):
            assert "the same failure has come 3 times at the same place" in message.lower()
        if message.startswith(NO_SURVIVOR):
            assert not self.checkpoint
        if message.startswith("Timed out"):
            assert self.driver.stage is Stage.OVER and f"after {TIMEOUT:g} s" in message

    @invariant()
    def waits_only_with_a_limit(self) -> None:
        """EL-16, INV-1: as long as it waits, there is a moment at which it gives up, or goes on."""
        if self.driver.stage is Stage.WAITING:
            assert self.driver.deadline is not None and self.driver.deadline <= self.now + TIMEOUT

    def teardown(self) -> None:
        """It never hangs: with slots enough the next round begins once all have recorded, or the job ends."""
        if self.over is None:
            attempt = self.driver.attempt
            self.see(dict.fromkeys("ghijkl", 2))
            self.all_ready()
            assert self.over is not None or self.driver.attempt > attempt


class Cooling(Membership):
    """What failed is used again after a while; a slot fails by itself unless the agent of its host is lost."""

    options: ClassVar[dict[str, Any]] = {"cool_down": COOL}
    by_slot = True


class Resuming(Membership):
    """The state outlives all workers, so what failed is used again when nothing else is left."""

    options: ClassVar[dict[str, Any]] = {"resumes": True}
    by_slot = resumes = True


for machine in (Membership, Cooling, Resuming):
    machine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None, print_blob=True)
TestMembership, TestCooling, TestResuming = Membership.TestCase, Cooling.TestCase, Resuming.TestCase


def test_workers_that_discovery_takes_away_are_not_lost() -> None:
    """Two live while a slot has failed, and their hosts go: the next round begins elsewhere from the checkpoint, and the slot
    that has failed stays out, for not all is lost."""
    state = Resuming()
    state.begin()
    state.save()
    state.die(0, -9, None)
    state.see({"a": 1, "c": 1, "d": 1})
    for _ in range(2):
        state.all_ready()
        assert [(worker.address.host, worker.slot) for worker in state.round] == [("c", 0), ("d", 0)]
    state.teardown()
