"""The policy of a job whose executors are started again."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from network.controller import Controller
from network.errors import NetworkError
from network.keys import Key
from network.nodes import Address
from network.session import Session
from network.transport import wait_sockets
from rpc.messages import Stop, parse
from rpc.submit import coordinator as coordinator_module
from rpc.submit.coordinator import Coordinator
from rpc.submit.restarts import Restarts
from tests.network.wires import talk


@pytest.mark.parametrize(
    ("before", "policy", "number", "words"),
    [
        (None, "shrink", 3, "'on_failure' of a group must be one of 'fail', 'restart', got 'shrink'"),
        (None, "restart", -1, "'max_restarts' must be an integer of 0 or more, got -1"),
        # all groups of a job start again together
        ("restart", "fail", 2, "the same 'on_failure' and 'max_restarts': 'restart' and 2 before, got 'fail' and 2"),
    ],
)
def test_wrong_policies(before: str | None, policy: str, number: Any, words: str) -> None:
    restarts = Restarts()
    for _ in range(2 if before else 0):
        restarts.agree(before or "", 2)
    with pytest.raises(ValueError, match=words):
        restarts.agree(policy, number)
    assert restarts.wanted == (before is not None) and restarts.count == 0


def test_by_default_nothing_follows() -> None:
    restarts = Restarts()
    assert not restarts.wanted
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
    assert not failed.coordinator._starts_again()
    assert len(calls) == 2


def test_a_stop_while_the_next_attempt_starts(failed: Failed, monkeypatch: pytest.MonkeyPatch) -> None:
    """It reaches the nodes of that attempt, of which the one before knew nothing."""

    def next_attempt(attempt: int) -> Coordinator:
        started = Coordinator(failed.com, job=failed.coordinator.job, attempt=attempt)
        started._groups.adopt([0])  # it runs
        return started

    monkeypatch.setattr(coordinator_module, "reconnect", lambda *_: failed.coordinator.stop_executing("Enough."))
    monkeypatch.setattr(failed.coordinator, "_next", next_attempt)
    assert failed.coordinator._starts_again()
    wait_sockets([failed.agent.link], [], 5.0)
    failed.agent.receive()
    message = failed.agent.take()
    assert message is not None and parse(message.value, (Stop,)) == Stop(failed.coordinator.job, "Enough.")
