"""When a job has failed: what is said, causes before consequences; what is tried again, with whom, after which wait; and what
a driver hands on for that, which holds no object of the user."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import nn
from network import NodeAssignment
from network.errors import BadContent, NetworkError, PeerLost
from network.faults.plan import FaultPlan
from network.nodes import PARAMETER_SERVER, Address
from network.testing import VirtualClock
from network.transport import wait_sockets
from nn.dataset.transforms import ImageCls
from nn.gradient_descent import SGDOptimizer
from nn.optimizer import OpContainer, PSGDOptimizer
from parallel_sgd import JobFailed, ParallelSGD
from parallel_sgd.codec.plain import Plain
from parallel_sgd.driver.make_manifest import make_manifest
from parallel_sgd.driver.manifest import AttemptState, JobManifest, attempt_resources
from parallel_sgd.driver.membership import DiscoveredNodes, Inbox, SameNodes, Survivors, failure_of
from parallel_sgd.driver.restart_loop import RestartLoop
from parallel_sgd.engine.fault_injection import FaultInjector
from parallel_sgd.engine.job_executor import MISC, MODEL, SAMPLES, SETTING, TRANSFER, describe_node, keep_description
from parallel_sgd.engine.plan import reassigned
from parallel_sgd.engine.socket_channel import can_do_without
from parallel_sgd.engine.worker_executor import WorkerExecutor
from parallel_sgd.errors import places_of
from parallel_sgd.options.spec import JobSpec
from parallel_sgd.profiles import FixedBlockAssignment, IIDBlockAssignment
from rpc.elastic import FunctionDiscovery, Worker
from rpc.errors import Deposed
from rpc.lease import NoMajority
from rpc.liveness.limits import DEPOSED_SECONDS, RETURN_SECONDS, WAIT_SECONDS
from rpc.submit.recovery import AGAIN, DETERMINISTIC, SHRINK, WAIT, Place, Recovery
from rpc.support.files import CONFIGURATION
from rpc.support.logs import get_logger
from rpc.verdict import Verdict
from tests.parallel_sgd.digits_job import plan_of
from tests.parallel_sgd.networks import mlp

from ..statements import covers

# what is said


def verdict(
    node: int, kind: Any, trace: str = "", epoch: int = 2, batch: int = 3, seconds: float = 0.1, **more: Any
) -> Verdict:
    return Verdict(
        "j1", node, 0, kind, ("alpha", "beta", "gamma")[node], 11 + node, "step", epoch, batch, seconds, trace=trace, **more
    )


def crashed(node: int, trace: str, epoch: int = 2, batch: int = 3) -> Verdict:
    return verdict(node, "crashed", trace, epoch, batch)


LOST = f"Traceback ...\n{PeerLost.__module__}.{PeerLost.__qualname__}: Node(2) at a.b:1 is lost: the connection was closed.\n"
REFUSED = f"Traceback ...\n{BadContent.__module__}.BadContent: {BadContent(2, 'Plain, variable 0', 'it is not finite')}"
LATE = "Traceback ...\nTimeoutError: waited 10 s"
OWN = "Traceback ...\nValueError: no"
GONE = "Node(2) at a.b:1 is lost: its connection ended."
STUCK = verdict(1, "stuck", seconds=10.1)
CUT = verdict(2, "cut", batch=1, seconds=2.3)


@covers("SEC-12", "SEC-17", "FD-18", "INV-10", "FLT-27", "SUB-46")
@pytest.mark.parametrize(
    ("failures", "verdicts", "order", "culprits", "said"),
    [
        # what a codec raises is shown, not acted upon by the terminal
        (
            {0: ("failed", "ValueError: \x1b[31mred\x07")},
            *([], [0], [0], r"Job j1 failed. Node(0) failed: ValueError: \x1b[31mred\x07."),
        ),
        (
            {
                0: ("failed", LOST),
                1: ("stopped", "This job has been aborted."),
                2: ("failed", OWN),
                3: ("lost", "its worker ended"),
                4: ("failed", ""),
            },
            *([], [2, 3, 4, 0, 1], None),
            "Job j1 failed. Node(2) failed: ValueError: no. Node(3) lost: its worker ended. Node(4) failed: no reason given. "
            "Node(0) failed: network.errors.PeerLost: Node(2) at a.b:1 is lost: the connection was closed. "
            "Node(1) stopped: This job has been aborted.",
        ),
        # the same cause is told once, whichever nodes met it
        (
            {0: ("failed", OWN), 1: ("failed", "KeyError: 1"), 2: ("failed", OWN), 3: ("failed", OWN)},
            *([], [0, 1, 2, 3], None),
            "Job j1 failed. Node(0), Node(2) and Node(3) failed: ValueError: no. Node(1) failed: KeyError: 1.",
        ),
        # an order to stop is no failure
        (
            {0: ("stopped", "This job has been aborted."), 1: ("stopped", "This job has been aborted.")},
            *([], [0, 1], None, "Job j1 was stopped. Node(0) and Node(1) stopped: This job has been aborted."),
        ),
        # a time-out is a consequence of somebody's silence; the message names the first cause's place
        (
            {0: ("failed", LATE), 1: ("failed", STUCK.reason)},
            *([crashed(0, LATE), STUCK], [1, 0], None),
            "Job j1 failed, first Node(1) on beta, process 12, attempt 1, in epoch 2, batch 3. "
            "Node(1) failed: Stuck, silent for 10.1 s. Node(0) failed: TimeoutError: waited 10 s.",
        ),
        # an agent that is gone leaves no verdict; those of nodes that lost it are not the cause
        (
            {0: ("failed", LOST), 2: ("lost", GONE)},
            *([crashed(0, LOST)], None, [2], f"Job j1 failed. {GONE} Node(0) failed: network.errors.PeerLost"),
        ),
        # who sends what cannot be used is the culprit, not those that refuse it, though they are the first to fail
        ({2: ("failed", LOST), 0: ("failed", REFUSED)}, [crashed(2, LOST), crashed(0, REFUSED)], [0, 2], [2], ""),
        # who is cut off, also when the peer at the other end of the dead link obeys the order to stop first, and is lost to it
        (
            {2: ("failed", LOST), 0: ("stopped", CUT.headline), 1: ("stopped", CUT.headline)},
            *([CUT, crashed(2, LOST, 2, 1)], None, [2], ""),
        ),
    ],
)
def test_the_cause_comes_first(
    failures: Any, verdicts: list[Verdict], order: list[int] | None, culprits: list[int] | None, said: str
) -> None:
    error = JobFailed(failures, {}, "j1", verdicts)
    assert order is None or list(error.failures) == order
    assert culprits is None or error.culprits == culprits
    assert str(error) == said if "\x1b" in said or not verdicts else str(error).startswith(said)
    if STUCK in verdicts:
        assert error.verdicts == verdicts[::-1]


LEFT = {2: ("lost", "its connection ended")}


@covers("FD-20", "SEC-12")
@pytest.mark.parametrize(
    ("verdicts", "others", "places"),
    [
        # bystanders do not count, heard of first or not, and whether or not the one whose doing it is has left a verdict
        ([crashed(0, LOST), crashed(1, LATE), crashed(2, OWN, 2, 4)], {}, {(2, 2, 4)}),
        ([crashed(0, LOST)], LEFT, set()),
        ([crashed(0, LATE), crashed(1, LOST)], LEFT, set()),
        ([crashed(0, LOST), crashed(1, LOST)], {}, set()),
        ([], {}, set()),
        # who sends what cannot be used counts, whoever is the first to refuse it
        ([crashed(0, REFUSED), crashed(2, LOST)], {}, {(2, 2, 3)}),
        ([crashed(1, REFUSED), crashed(0, LOST)], {2: ("stopped", "It was stopped.")}, {(2, 2, 3)}),
        # who waits in vain, where nobody failed by itself
        ([crashed(1, LATE), crashed(0, LATE, 2, 2)], {}, {(1, 2, 3), (0, 2, 2)}),
        ([crashed(0, OWN, 0, 0)], {}, set()),  # before the first batch is no place
    ],
)
def test_places_that_count(verdicts: list[Verdict], others: Any, places: set[Place]) -> None:
    """For the rule of the third failure at the same place."""
    failures = {verdict.node: ("failed", verdict.trace) for verdict in verdicts}
    assert set(places_of(JobFailed({**failures, **others}, {}, "j1", verdicts))) == places


@covers("FD-20")
def test_all_that_failed_by_themselves_count() -> None:
    """An error in everybody's code ends the job the third time, though chance decides who is heard of first."""
    recovery = Recovery("restart", 10)
    said = []
    for first, second in ((0, 1), (1, 0), (0, 1)):
        verdicts = [crashed(first, OWN), crashed(second, OWN)]
        found = places_of(JobFailed({0: ("failed", OWN), 1: ("failed", OWN)}, {}, "j1", verdicts))
        assert set(found) == {(0, 2, 3), (1, 2, 3)}
        said.append(recovery.give_up(found))
    assert said[:2] == ["", ""] and "the same failure has come 3 times" in said[2]


# what is tried again, and with whom

PLACES = st.tuples(st.integers(1, 2), st.integers(1, 2))


@covers("FD-12", "FD-20", "EL-16", "EL-19")
class Attempts(RuleBasedStateMachine):
    """a job is started again at most `max_restarts` times, by whichever driver, and not after the
    same node has failed three times at the same place; those that failed by themselves, and nobody else, are left out under
    'shrink', the others keep their order, and fewer than `min_workers` do not go on."""

    @initialize(
        policy=st.sampled_from(AGAIN),
        most=st.integers(0, 6),
        workers=st.integers(2, 5),
        fewest=st.integers(1, 3),
        server=st.booleans(),
    )
    def begin(self, policy: str, most: int, workers: int, fewest: int, server: bool) -> None:
        nodes = NodeAssignment()
        for node in [*range(workers), *([-2] if server else [])]:
            nodes.add(node, f"host{node}" if node >= 0 else "hostps")
        self.policy, self.most, self.fewest, self.server = policy, most, min(fewest, workers), server
        self.recovery = Recovery(policy, most)
        self.membership = Survivors(nodes, self.fewest) if policy == SHRINK else SameNodes(nodes)
        self.seen: dict[Place, int] = {}
        self.restarts = 0
        self.over = False

    @rule(first=st.integers(0, 9), second=st.integers(-9, 9), place=PLACES, vanishes=st.booleans(), attempt=st.integers(0, 3))
    def fail(self, first: int, second: int, place: tuple[int, int], vanishes: bool, attempt: int) -> None:
        """One node fails by itself, perhaps a second one with it; all others end because they lost it. An agent that `vanishes`
        leaves no verdict."""
        if self.over:
            return
        nodes = sorted(self.membership.nodes.worker_ids) + ([-2] if self.server else [])
        culprits = {nodes[first % len(nodes)]} | ({nodes[second % len(nodes)]} if second >= 0 else set())
        failures, verdicts = {}, []
        for node in reversed(nodes):  # bystanders may be heard of first
            if node in culprits:
                failures[node] = ("lost", "its connection ended") if vanishes else ("failed", "ValueError: no")
            else:
                lost = PeerLost(min(culprits), "host", "its connection ended")
                failures[node] = ("failed", f"Traceback\nnetwork.errors.PeerLost: {lost}")
            if node not in culprits or not vanishes:
                trace = failures[node][1]
                verdicts.append(Verdict("job", node, attempt, "crashed", "host", 1, "step", *place, 0.1, trace=trace))
        failed = JobFailed(failures, {}, "job", verdicts)
        assert set(failed.culprits) == culprits and set(list(failed.failures)[: len(culprits)]) == culprits
        self._follow(failed, set() if vanishes else {(node, *place) for node in culprits})

    @rule()
    def another_driver_takes_over(self) -> None:
        successor = Recovery(self.policy, self.most)
        successor.load_state_dict(self.recovery.state_dict())
        self.recovery = successor

    def _follow(self, failed: JobFailed, places: set[Place]) -> None:
        before = [self.membership.nodes[node] for node in self.membership.nodes.worker_ids]
        assert places_of(failed) == places
        reason = self.recovery.give_up(places)
        for place in places:
            self.seen[place] = self.seen.get(place, 0) + 1
        again = self.restarts < self.most and all(self.seen[place] < DETERMINISTIC for place in places)
        assert again == (reason == "")
        if not again:
            self.over = True
            return
        self.restarts += 1
        assert self.recovery.restarts == self.restarts <= self.most
        left = (
            [address for rank, address in enumerate(before) if rank not in failed.culprits] if self.policy == SHRINK else before
        )
        reason = self.membership.settle(failed)
        if self.policy == SHRINK and (len(left) < self.fewest or -2 in failed.culprits):
            assert reason
            self.over = True
            return
        assert reason == ""
        after = self.membership.nodes
        assert [after[node] for node in range(len(left))] == left and len(after.worker_ids) == len(left)
        assert (-2 in dict(after.items())) == self.server


Attempts.TestCase.settings = settings(max_examples=80, stateful_step_count=15, deadline=None, print_blob=True)
TestAttempts = Attempts.TestCase


LIMIT = 100.0
WORKER = Worker(Address("a", 15387), 0, 0)


def test_what_threads_bring_is_taken_in_its_order() -> None:
    """Its socket is readable when there is something, and nothing comes twice."""
    with contextlib.closing(Inbox()) as inbox:
        assert inbox.take() == []
        thread = threading.Thread(target=lambda: [inbox.put(number) for number in range(100)])
        thread.start()
        found: list[int] = []
        while len(found) < 100:
            wait_sockets([inbox.sock], [], LIMIT)
            found += inbox.take()
        thread.join()
        assert found == list(range(100))
        assert inbox.take() == []


def ended(kind: str, **more: Any) -> Verdict:
    return verdict(0, kind, batch=5, **more)


@covers("EL-21")
@pytest.mark.parametrize(
    ("state", "said", "code", "place"),
    [
        ("failed", None, 1, (0, 0)),
        ("lost", None, None, (0, 0)),
        ("failed", ended("stuck"), -9, (2, 5)),  # its agent has killed it
        ("failed", ended("crashed", signal=11), -11, (2, 5)),
        ("failed", ended("exited", exit_code=3), 3, (2, 5)),
        ("failed", ended("crashed", trace="ValueError: no"), 1, (2, 5)),
        ("failed", ended("crashed", trace="network.errors.PeerLost: Node(1) is lost"), 1, None),  # only because another one had
    ],
)
def test_how_a_worker_failed(state: str, said: Verdict | None, code: int | None, place: tuple[int, int] | None) -> None:
    found = failure_of(WORKER, state, "Traceback\nValueError: no\n", said, agent_lost=state == "lost")
    assert (found.code, found.place, found.returned, found.agent_lost) == (code, place, False, state == "lost")
    assert found.detail == ("ValueError: no" if said is None else said.headline)


@covers("EL-11", "EL-15", "EL-19", "EL-21")
def test_the_nodes_of_attempts(caplog: pytest.LogCaptureFixture) -> None:
    """They are those that discovery finds, without hosts that failed, numbered anew; the parameter server stays."""
    nodes = NodeAssignment().add(PARAMETER_SERVER, "p").add(0, "a").add(1, "b")
    hosts = ["a", "b"]
    with contextlib.closing(DiscoveredNodes(nodes, FunctionDiscovery(lambda: list(hosts)), 1, 3, "job")) as members:
        assert members.nodes.worker_ids == [0, 1] and members.look() == ""
        hosts.append("c")
        while not (changed := members.look()):
            members._members.wait(seconds=0.05)
        assert changed == "The hosts have changed: workers have come."
        assert members.settle(JobFailed({}, {}, "job", [])) == ""
        assert [str(members.nodes[node]) for node in (0, 1, 2)] == ["a:15387", "b:15387", "c:15387"]
        assert members.settle(JobFailed({1: ("failed", "ValueError: no")}, {}, "job", [])) == ""
        assert [str(members.nodes[node]) for node in (0, 1, PARAMETER_SERVER)] == ["a:15387", "c:15387", "p:15387"]
        reason = members.settle(JobFailed({0: ("failed", "OSError: no"), 1: ("lost", "it is gone")}, {}, "job", []))
        assert reason.endswith("The first worker to fail was:\nProcess name: b[0]\nExit code: 1\nValueError: no")


@covers("EL-16", "EL-17")
def test_hosts_that_do_not_come() -> None:
    def broken() -> str:
        raise LookupError("no such rack")

    with pytest.raises(JobFailed, match=r"The first discovery of hosts failed: .*LookupError: no such rack"):
        DiscoveredNodes(NodeAssignment().add(0, "a"), FunctionDiscovery(broken), 1, None, "job")


@covers("EL-19")
def test_a_fault_of_a_link_to_a_node_that_is_gone_is_left_alone() -> None:
    """The next attempt has fewer workers, so a connection that was to be cut may not be there."""
    inject = FaultInjector(FaultPlan.parse("cut 0-1@e1.b1; nan 0@e1.b2"), 0, 0, {})
    assert [inject(0, 0), inject(0, 1)] == [False, True]


# how long a driver waits between two attempts, on a clock that waiting alone moves

FAILED = JobFailed({1: ("lost", "its connection ended")}, {}, "job", [])


class Loop(RestartLoop):
    """Attempts whose nodes agree, and whose next attempt starts, as a test says: `agree` and `start` get the seconds that have
    passed since the failure."""

    def __init__(
        self, policy: str, agree: Callable[[float], None], start: Callable[[float], None], clock: VirtualClock
    ) -> None:
        nodes = NodeAssignment()
        nodes.add(0, "127.0.0.1:1")
        coordinator = SimpleNamespace(retrieve=lambda: None, conclude=self._conclude, connected=(), remedy="")
        self.recovery, self.ended = Recovery(policy, 3), ""
        self._driver, self._collects = "127.0.0.1:1/7", False
        self._running: Any = SimpleNamespace(coordinator=coordinator, nodes=nodes)
        election = SimpleNamespace(granted={})
        self._candidacy: Any = SimpleNamespace(require=lambda: agree(self.seconds), conclude=lambda *_: None, election=election)
        self._manifest: Any = SimpleNamespace(job="job")
        self._run, self.clock, self._begun = None, clock, clock.monotonic()
        self._agrees, self._starts = agree, start

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self._begun

    def _conclude(self, outcome: str, *_: object) -> None:
        self.ended = outcome

    def _agree(self, running: Any) -> None:
        self._agrees(self.seconds)

    def _start(self) -> Any:
        self._starts(self.seconds)
        return "running"

    def _failed(self, coordinator: Any, reason: str = "") -> JobFailed:
        return JobFailed(FAILED.failures, {}, "job", [], reason)

    def again(self) -> Any:
        return self._again(FAILED)

    def give_up(self) -> JobFailed:
        return self._give_up(self._running.coordinator, "")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(100.0)


def until(seconds: float, error: Exception) -> Callable[[float], None]:
    def act(passed: float) -> None:
        if passed < seconds:
            raise error

    return act


at_once = until(0.0, NetworkError(""))
silent = NoMajority("Node(1) at b cannot be reached, and may be going on without us.")
unreachable = NetworkError("Node(1) is lost: cannot connect.")
deposed = Deposed("The job is not driven from here any more: somebody else drives it.")


@covers("FLT-25", "EL-16")
@pytest.mark.parametrize("policy", AGAIN)
def test_training_pauses_while_others_may_be_going_on(
    policy: str, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Under every policy, not only where nodes are left out, silence of too many is waited out for ten minutes; then the job is
    over here, and may go on there. Nodes that agree and cannot be reached are waited for as the policy says, whatever pauses
    went before."""
    caplog.set_level(logging.INFO)
    loop = Loop(policy, until(WAIT_SECONDS - 1, silent), at_once, clock)
    assert loop.again() == "running" and loop.seconds >= WAIT_SECONDS - 1
    assert caplog.messages == [f"Training pauses, for up to {WAIT_SECONDS:.0f} s: {silent}"]
    seconds = WAIT_SECONDS if policy == WAIT else RETURN_SECONDS
    for pause, start, words, outcome, least in (
        (1e9, at_once, "could not go on within 600 s", "left", WAIT_SECONDS),
        (50.0, until(1e9, unreachable), f"not started again within {seconds:g} s: Node", "failed", 50 + seconds),
    ):
        loop = Loop(policy, until(pause, silent), start, clock)
        with pytest.raises(JobFailed, match=words):
            loop.again()
        assert loop.ended == outcome and least <= loop.seconds < least + (5 if outcome == "left" else 10)


@covers("FLT-25")
def test_who_claims_the_job_for_a_moment_is_waited_for(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A standby driver that gives the job up again ends no attempt, and does not hide why a job has failed; one that keeps the
    job is its driver."""
    moment = until(DEPOSED_SECONDS - 1, deposed)
    assert Loop(SHRINK, moment, at_once, clock).again() == "running"
    loop = Loop(SHRINK, moment, at_once, clock)
    assert loop.give_up().failures == FAILED.failures and loop.ended == "failed"
    assert "pauses" not in caplog.text
    for act in (Loop.again, Loop.give_up):
        loop = Loop(SHRINK, until(1e9, deposed), at_once, clock)
        with pytest.raises(Deposed):
            act(loop)
        assert loop.ended == "" and loop.seconds < DEPOSED_SECONDS + 1


# what is handed on


class Mine(Plain):
    """A codec of the user."""


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> JobSpec:
    """Of a job with code of its own, for two workers."""
    found: list[JobSpec] = []

    def take(spec: JobSpec, *_: object) -> None:
        found.append(spec)
        raise InterruptedError

    monkeypatch.setattr("parallel_sgd.job.run_on_agents", take)
    nodes = NodeAssignment().add(0, "127.0.0.1").add(1, "127.0.0.1")
    blocks = FixedBlockAssignment.of(blocks=4)
    with pytest.raises(InterruptedError):
        ParallelSGD(mlp(), nn.dataset.Digits(), ImageCls()).parallel(
            nodes, redundancy=2, codec=Mine, assignment_type=blocks, on_failure="redundant", directory=tmp_path
        )
    return found[0]


def test_the_modules_of_a_job_are_named(spec: JobSpec) -> None:
    """Agents import them before they fork its processes: the executor's, those of its parts, none of the user's."""
    first, *others = make_manifest(spec, 1234, "job-1").workers.modules
    assert first == WorkerExecutor.__module__
    of_model = {"nn.model.sequential", "nn.layer.core", "nn.loss.cross_entropy", "nn.metric.accuracy"}
    of_data = {"nn.dataset.toy", "nn.dataset.transforms.images", "nn.dataset.plan.fitting", "nn.dataset.plan.steps"}
    assert of_model | of_data | {"parallel_sgd.batch_sync.sync.synchronized"} <= {*others}
    assert all(name in sys.modules or importlib.util.find_spec(name) for name in others) and __name__ not in others
    assert spec.model_file is spec.model_file, "it is made once"


def test_a_manifest_travels_unchanged(spec: JobSpec, tmp_path: Path) -> None:
    """What depends on the attempt is data: the code bundle is the same for all, number and workers go with the settings."""
    made = make_manifest(spec, 1234, "job-1")
    content = made.to_bytes()
    assert content == make_manifest(spec, 1234, "job-1").to_bytes()
    (tmp_path / "manifest").write_bytes(content)
    read = JobManifest.read(tmp_path / "manifest")
    assert read.workers == type(made.workers)(made.workers.objects, made.workers.code, ())
    assert read.server is made.server is None, "a job without a parameter server has no code for one"
    (tmp_path / "manifest").write_bytes(replace(made, server=made.workers).to_bytes())
    assert JobManifest.read(tmp_path / "manifest").server == read.workers
    assert b"Mine" in read.workers.code  # the user's code is bytes here; nobody has loaded it
    assert read.to_bytes() == content
    assert (read.job, read.policy, read.options.mission_title) == ("job-1", "redundant", "P-SGD")
    assert can_do_without(read.holders, {1}) and not can_do_without(read.holders, {0, 1})
    resources = read.resources
    samples = (np.ones(3, np.float32),) * 4
    first = attempt_resources(resources, 0, 2, 1e6, lambda: samples)
    second = attempt_resources(resources, 1, 1, 1e6, lambda: samples)
    assert (first(0, SETTING)["attempt"], first(0, SETTING)["workers"]) == (0, 2)
    assert (second(0, SETTING)["attempt"], second(0, SETTING)["workers"]) == (1, 1)
    assert first(0, MISC)["start_seconds"] > second(0, MISC)["start_seconds"]
    assert (first(0, MODEL) == np.frombuffer(spec.model_file, np.uint8)).all()
    assert len(first(1, SAMPLES)) == 4
    assert first(0, TRANSFER)["codec"] == "Mine"
    assert reassigned(spec.plan.assignment, 1).node_2_block == [[0, 1, 2, 3]]


def test_an_attempt_state_says_where_and_how_often() -> None:
    nodes = NodeAssignment().add(-2, "there:7").add(0, "here:8")
    recovery = Recovery("restart", 5)
    for _ in range(DETERMINISTIC - 1):
        assert recovery.give_up([(0, 1, 2)]) == ""
    state = AttemptState.from_json(AttemptState.of(3, nodes, recovery, "Haswell").to_json())
    assert (state.attempt, state.kernels) == (3, "Haswell")
    assert {node: str(address) for node, address in state.assignment().items()} == {-2: "there:7", 0: "here:8"}
    standby = Recovery("restart", 5)
    standby.load_state_dict(state.recovery)
    assert standby.restarts == DETERMINISTIC - 1
    assert "the same failure has come 3 times" in standby.give_up([(0, 1, 2)])


def test_parameters_are_named(tmp_path: Path) -> None:
    """Also those whose keys JSON does not know."""
    parameters = {"bits": 4, ("x", 1): 2.5, None: 1}
    plan = plan_of(IIDBlockAssignment(2), optimizer=OpContainer(PSGDOptimizer, SGDOptimizer), codec_extra_parameters=parameters)
    described = describe_node(0, 0, {"misc_package": {"epochs": 1}, "extra_package": [4, 2.5, 1]}, plan)
    assert described["codec_parameters"] == {"bits": 4, "('x', 1)": 2.5, "None": 1}
    assert described["settings"] == {"misc_package": {"epochs": 1}}
    keep_description(tmp_path, described, get_logger("test"))
    assert "('x', 1)" in (tmp_path / CONFIGURATION).read_text()
