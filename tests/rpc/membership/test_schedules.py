"""The driver of an elastic job under hypothesis's hand: hosts come and go, workers die in a round that forms, are ready and
then fail, end well or are removed, fall silent, come back late; hosts cool down, discovery fails, the submitter leaves.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from network.nodes import Address
from rpc.membership import CoolDown, ElasticDriver, Host, Worker
from rpc.membership.driver import NO_SURVIVOR, Stage
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
)


class Membership(RuleBasedStateMachine):
    """See the module, and `_judge` for what must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 50.0
        self.driver = ElasticDriver(FIRST, LOW, HIGH, cool_down=COOL, reset_limit=RESETS, timeout=TIMEOUT, seed=1, now=self.now)
        self.hosts: dict[Address, int] = {}
        self.round: tuple[Worker, ...] = ()
        self.alive: set[Worker] = set()
        self.fenced: set[Worker] = set()  # stopped, removed or given up: nothing they say counts
        self.settled: set[Worker] = set()  # have recorded something in this round
        self.blamed: dict[Address, list[float]] = {}  # when a worker of a host has failed: one entry for each cool-down
        self.returned = self.checkpoint = False
        self.rounds = self.sequence = 0
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

    @rule(choice=CHOICE, code=st.sampled_from([-9, 1, 3]))
    def die(self, choice: int, code: int) -> None:
        """A process ends badly: of the round, also when it was ready; of an earlier one; or one that was given up."""
        worker = self._pick(sorted(self.alive), choice)
        if worker is not None:
            self.alive.discard(worker)
            if worker in self.round and worker not in self.fenced:
                self.settled.add(worker)
                if self.hosts.get(worker.address, 0) > worker.slot:
                    self._blame(worker)
            self._tell(WorkerEnded(worker, False, code, returned=False))

    @rule(choice=CHOICE)
    def end_after_removal(self, choice: int) -> None:
        """EL-20: who was removed, or was stopped, exits with 0, which is no success."""
        worker = self._pick(sorted(self.alive & self.fenced), choice)
        if worker is not None:
            self.alive.discard(worker)
            self._tell(WorkerEnded(worker, True, 0))

    @rule(choice=CHOICE)
    def fall_silent(self, choice: int) -> None:
        """EL-27: the detector gives a worker up, and it may be alive."""
        worker = self._pick(self.round, choice)
        if worker is not None and worker in self.alive and worker not in self.fenced:
            self._blame(worker)
            self._tell(WorkerStuck(worker))

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

    @rule(present=st.booleans())
    def submitter(self, present: bool) -> None:
        self._tell(SubmitterSeen(present))

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

    def _blame(self, worker: Worker) -> None:
        """EL-19: its host fails, and all that run there are given up, so that nobody fails on a host that cools down."""
        self.blamed.setdefault(worker.address, []).append(self.now)
        for other in self.round:
            if other.address == worker.address:
                self.fenced.add(other)
                self.settled.add(other)

    def _tell(self, event: Any) -> list[Any]:
        was_over = self.over
        actions = self.driver.handle(event, self.now)
        assert was_over is None or actions == [], "nothing follows the end"
        for action in actions:
            assert self.over is None, "nothing follows the end"
            self._judge(action)
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
        """EL-11, EL-13, EL-15, EL-19, EL-20, EL-22: a round begins when everybody of the last one has come to an end. It
        has the slots that there are, no more than `max_np` and no fewer than are needed; living workers stay, one of them leads
        unless the state comes from the disk; nobody who was given up takes part, and no host that cools down."""
        old = [worker for worker in self.round if worker in self.alive and worker not in self.fenced]
        places = [worker.place for worker in start.workers]
        assert set(self.round) <= self.settled
        assert len(set(places)) == len(places)
        assert (FIRST if not start.attempt else LOW) <= len(places) <= HIGH
        assert all(self.hosts.get(address, 0) > slot for address, slot in places)
        assert not self.fenced & set(start.workers)
        assert all(worker in old or worker.born == start.attempt for worker in start.workers)
        if start.attempt:
            assert start.workers[0] in old or (start.resume and self.checkpoint)
        for worker in start.workers:
            times = self.blamed.get(worker.address, [])
            assert not times or self.now >= times[-1] + COOL.seconds(len(times)) - 1e-9
        assert start.attempt == self.rounds and start.attempt <= RESETS
        self.rounds += 1
        self.alive.update(start.workers)
        self.round, self.settled = start.workers, set()

    def _judge_failure(self, message: str) -> None:
        """EL-12, EL-16, EL-20, EL-21: one of the known ends; a failure that came first is named."""
        assert message.startswith(ENDS), message
        if self.blamed:
            assert "Process name: " in message
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
            self.submitter(True)
            attempt = self.driver.attempt
            self.see(dict.fromkeys("ghijkl", 2))
            self.all_ready()
            assert self.over is not None or self.driver.attempt > attempt


Membership.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None, print_blob=True)
TestMembership = Membership.TestCase
