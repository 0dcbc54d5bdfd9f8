"""The policy of a job whose executors are started again."""

from __future__ import annotations

from typing import Any

import pytest

from rpc.restarts import Restarts


@pytest.mark.parametrize(
    ("policy", "number", "words"),
    [
        ("shrink", 3, "'on_failure' of a group must be one of 'fail', 'restart', got 'shrink'"),
        ("restart", -1, "'max_restarts' must be an integer of 0 or more, got -1"),
    ],
)
def test_wrong_policies(policy: str, number: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Restarts().agree(policy, number)


def test_groups_agree() -> None:
    """All groups of a job start again together."""
    restarts = Restarts()
    restarts.agree("restart", 2)
    restarts.agree("restart", 2)
    with pytest.raises(ValueError, match="the same 'on_failure' and 'max_restarts': 'restart' and 2 before, got 'fail' and 2"):
        restarts.agree("fail", 2)
    assert restarts.wanted and restarts.count == 0


def test_by_default_nothing_follows() -> None:
    restarts = Restarts()
    assert not restarts.wanted
    restarts.agree("fail", 3)
    assert not restarts.wanted and restarts.give_up([]) == "on_failure is 'fail'"
