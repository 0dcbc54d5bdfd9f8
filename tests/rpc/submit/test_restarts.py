"""What follows when an attempt has failed: the policy, whether its executors are started again, and who stops that."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from network.controller import Controller
from network.errors import NetworkError
from network.keys import Key
from network.nodes import Address
from network.session import Session
from network.testing import VirtualClock
from rpc.messages import Stop
from rpc.submit import coordinator as coordinator_module
from rpc.submit.coordinator import Coordinator
from rpc.submit.recovery import Recovery
from rpc.submit.restarts import QUIET_SECONDS, Restarts, Retry
from tests.network.wires import talk

from ...statements import covers
from ..sent import heard

PLACE, AGAIN = (1, 2, 7), "the same failure has come 3 times at the same place, so it would come again"
AS_OFTEN = "it was started again as often as 'max_restarts' allows, {}"


@covers("FD-20")
@pytest.mark.parametrize(
    ("policy", "most", "failures", "told"),
    [
        *((policy, 3, [[(0, 1, 1)]], [f"on_failure is {policy!r}"]) for policy in ("fail", "redundant")),
        ("restart", 2, [[(0, 1, 0)], [(0, 1, 1)], [(0, 1, 9)]], ["", "", AS_OFTEN.format(2)]),
        ("restart", 0, [[]], [AS_OFTEN.format(0)]),
        # others in between do not matter; failures at no particular place are no proof
        ("restart", 10, [[PLACE], [(0, 2, 7)], [PLACE, (0, 3, 1)], [], [], [], [(0, 2, 7), PLACE]], [""] * 6 + [AGAIN]),
    ],
)
def test_whether_it_starts_again(policy: str, most: int, failures: list[list[tuple[int, int, int]]], told: list[str]) -> None:
    recovery = Recovery(policy, most)
    assert [recovery.give_up(places) for places in failures] == told and recovery.restarts == told.count("")


@pytest.mark.parametrize(
    ("policy", "number", "words"),
    [
        *(("restart", number, "'max_restarts' must be an integer of 0 or more, got ") for number in (-1, 1.5, True, "3", None)),
        ("hope", 3, r"'on_failure' must be one of 'fail', .*'restart', 'wait', 'shrink', got 'hope'"),
    ],
)
def test_what_is_refused(policy: str, number: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Recovery(policy, number)


@pytest.mark.parametrize(
    ("before", "policy", "number", "words"),
    [
        (None, "shrink", 3, "'on_failure' of a group must be one of 'fail', 'restart', got 'shrink'"),
        (None, "restart", -1, "'max_restarts' must be an integer of 0 or more, got -1"),
        # all groups of a job start again together
        ("restart", "fail", 2, "the same 'on_failure' and 'max_restarts': 'restart' and 2 before, got 'fail' and 2"),
    ],
)
def test_what_groups_agree_on(before: str | None, policy: str, number: Any, words: str) -> None:
    """By default that nothing follows."""
    restarts = Restarts()
    for _ in range(2 if before else 0):
        restarts.agree(before or "", 2)
    with pytest.raises(ValueError, match=words):
        restarts.agree(policy, number)
    assert restarts.wanted == (before is not None) and restarts.count == 0
    if before is None:
        restarts.agree("fail", 3)
        assert not restarts.wanted and restarts.give_up([]) == "on_failure is 'fail'"


class Failed(NamedTuple):
    """A job whose first attempt has failed, about to start again, and the agent's end of its connection."""

    coordinator: Coordinator
    com: Controller
    agent: Session


@pytest.fixture
def failed(tmp_path: Path) -> Iterator[Failed]:
    with talk("tcp") as end, contextlib.ExitStack() as at_end:
        com = Controller(-1, {0: end.client})
        at_end.callback(com.close, graceful=False)
        com.addresses, com.key = {0: Address("host0", 1)}, Key(b"k" * 32)
        coordinator = Coordinator(com, directory=tmp_path)
        coordinator._restarts.agree("restart", 3)
        coordinator.failures[0] = ("failed", "by itself")
        yield Failed(coordinator, com, end.server)


def test_a_stop_while_agents_are_called_again(failed: Failed, monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread; it ends the patience with agents that cannot be reached."""
    calls = []

    def reconnect(*_: object) -> None:
        calls.append(1)
        if len(calls) == 2:
            failed.coordinator.stop_executing("Enough.")
        assert len(calls) < 4
        raise NetworkError("Nobody is there.")

    monkeypatch.setattr(coordinator_module, "reconnect", reconnect)
    assert not failed.coordinator._starts_again() and len(calls) == 2


def test_a_stop_while_the_next_attempt_starts(failed: Failed, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the nodes of that attempt, of which the one before knew nothing."""

    def next_attempt(attempt: int) -> Coordinator:
        started = Coordinator(failed.com, job=failed.coordinator.job, attempt=attempt)
        started._groups.adopt([0])  # it runs
        return started

    monkeypatch.setattr(coordinator_module, "reconnect", lambda *_: failed.coordinator.stop_executing("Enough."))
    monkeypatch.setattr(failed.coordinator, "_next", next_attempt)
    assert failed.coordinator._starts_again()
    assert heard(failed.agent, Stop) == Stop(failed.coordinator.job, "Enough.")


@pytest.mark.parametrize("failures", [{}, {0: ("failed", "by itself")}])
def test_ctrl_c_in_the_last_instant_of_a_job_is_told(
    failed: Failed, failures: dict[int, tuple[str, str]], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The results stay, and nothing starts again."""
    coordinator = failed.coordinator
    coordinator.failures.clear()
    coordinator.failures.update(failures)
    coordinator._loop.results[0] = 7
    monkeypatch.setattr(coordinator, "_starts_again", lambda: pytest.fail("the program leaves"))
    # all files are home: Ctrl-C is looked at no more
    monkeypatch.setattr(coordinator._end, "wait", lambda *_: signal.raise_signal(signal.SIGINT))
    assert coordinator.join() == ({0: 7}, bool(failures)) and coordinator.pressed
    assert sum("Ctrl-C came when the job had ended by itself" in message for message in caplog.messages) == 1


def test_what_is_waited_for_is_told_before_somebody_asks(caplog: pytest.LogCaptureFixture) -> None:
    """Of a call that soon succeeds a log has a line; one for which all wait is told as a warning, each cause once."""
    clock, causes = VirtualClock(), iter([*["Node 1 is gone."] * 8, *["Node 1 is busy."] * 4])

    def call() -> str:
        for cause in causes:
            raise NetworkError(cause)
        return "done"

    with caplog.at_level("INFO"):
        assert Retry(30.0, NetworkError, clock=clock).call(call) == "done"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "Node 1 is gone. Trying again for up to 30 s."),
        ("WARNING", f"Node 1 is gone. Trying again for up to {30 - QUIET_SECONDS:.0f} s."),
        ("WARNING", "Node 1 is busy. Trying again for up to 26 s."),
    ]
    caplog.clear()
    causes = iter(["Node 1 is gone."] * 2)
    assert Retry(30.0, NetworkError, clock=clock).call(call) == "done"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]
