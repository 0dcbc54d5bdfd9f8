"""How long a driver waits between two attempts, on a clock that waiting alone moves."""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from network.errors import NetworkError
from network.nodes import NodeAssignment
from network.testing import VirtualClock
from parallel_sgd import JobFailed, restart_loop
from parallel_sgd.restart_loop import RestartLoop
from rpc.errors import Deposed
from rpc.lease import NoMajority
from rpc.liveness.limits import DEPOSED_SECONDS, RETURN_SECONDS, WAIT_SECONDS
from rpc.submit import restarts
from rpc.submit.recovery import AGAIN, SHRINK, WAIT, Recovery

from ..statements import covers

FAILED = JobFailed({1: ("lost", "its connection ended")}, {}, "job", [])


class Loop(RestartLoop):
    """Attempts whose nodes agree, and whose next attempt starts, as a test says: `agree` and `start` get the seconds that have
    passed since the failure."""

    def __init__(
        self, policy: str, agree: Callable[[float], None], start: Callable[[float], None], clock: VirtualClock
    ) -> None:
        nodes = NodeAssignment()
        nodes.add(0, "127.0.0.1:1")
        coordinator = SimpleNamespace(retrieve=lambda: None, conclude=self._conclude, connected=())
        self.recovery, self.ended = Recovery(policy, 3), ""
        self._driver, self._collects = "127.0.0.1:1/7", False
        self._running: Any = SimpleNamespace(coordinator=coordinator, nodes=nodes)
        election = SimpleNamespace(granted={})
        self._candidacy: Any = SimpleNamespace(require=lambda: agree(self.seconds), conclude=lambda *_: None, election=election)
        self._manifest: Any = SimpleNamespace(job="job")
        self._run, self._clock, self._begun = None, clock, clock.monotonic()
        self._agrees, self._starts = agree, start

    @property
    def seconds(self) -> float:
        return self._clock.monotonic() - self._begun

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
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualClock:
    made = VirtualClock(100.0)
    time = SimpleNamespace(monotonic=made.monotonic, sleep=made.advance)
    monkeypatch.setattr(restart_loop, "time", time)
    monkeypatch.setattr(restarts, "time", time)
    return made


def until(seconds: float, error: Exception) -> Callable[[float], None]:
    def act(passed: float) -> None:
        if passed < seconds:
            raise error

    return act


at_once = until(0.0, NetworkError(""))
silent = NoMajority("Node(1) at b cannot be reached, and may be going on without us.")
deposed = Deposed("The job is not driven from here any more: somebody else drives it.")


@covers("FLT-25")
@pytest.mark.parametrize("policy", AGAIN)
def test_training_pauses_while_others_may_be_going_on(
    policy: str, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """Under every policy, not only where nodes are left out, silence of too many is waited out for ten minutes."""
    caplog.set_level(logging.INFO)
    loop = Loop(policy, until(WAIT_SECONDS - 1, silent), at_once, clock)
    assert loop.again() == "running" and loop.seconds >= WAIT_SECONDS - 1
    assert [record.getMessage() for record in caplog.records] == [f"Training pauses, for up to {WAIT_SECONDS:.0f} s: {silent}"]


@covers("FLT-25")
@pytest.mark.parametrize("policy", AGAIN)
def test_a_pause_ends(policy: str, clock: VirtualClock) -> None:
    """Then the job is over here, and may go on there."""
    loop = Loop(policy, until(1e9, silent), at_once, clock)
    with pytest.raises(JobFailed, match="could not go on within 600 s"):
        loop.again()
    assert loop.ended == "left" and WAIT_SECONDS <= loop.seconds < WAIT_SECONDS + 5


@covers("EL-16")
@pytest.mark.parametrize("policy", AGAIN)
def test_nodes_that_do_not_come_back(policy: str, clock: VirtualClock) -> None:
    """Nodes that agree and cannot be reached are waited for as the policy says, whatever pauses went before."""
    loop = Loop(policy, until(50.0, silent), until(1e9, NetworkError("Node(1) is lost: cannot connect.")), clock)
    seconds = WAIT_SECONDS if policy == WAIT else RETURN_SECONDS
    with pytest.raises(JobFailed, match=f"not started again within {seconds:g} s: Node"):
        loop.again()
    assert loop.ended == "failed" and 50 + seconds <= loop.seconds < 60 + seconds


@covers("FLT-25")
def test_who_claims_the_job_for_a_moment_is_waited_for(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """a standby driver that gives the job up again ends no attempt, and does not hide why a job has failed."""
    moment = until(DEPOSED_SECONDS - 1, deposed)
    assert Loop(SHRINK, moment, at_once, clock).again() == "running"
    loop = Loop(SHRINK, moment, at_once, clock)
    assert loop.give_up().failures == FAILED.failures and loop.ended == "failed"
    assert "pauses" not in caplog.text


@covers("FLT-25")
def test_who_goes_on_with_the_job_deposes(clock: VirtualClock) -> None:
    """a standby driver that keeps the job is its driver."""
    for act in (Loop.again, Loop.give_up):
        loop = Loop(SHRINK, until(1e9, deposed), at_once, clock)
        with pytest.raises(Deposed):
            act(loop)
        assert loop.ended == "" and loop.seconds < DEPOSED_SECONDS + 1
