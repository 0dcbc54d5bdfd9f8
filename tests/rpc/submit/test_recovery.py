"""What follows when an attempt has failed."""

from __future__ import annotations

from typing import Any

import pytest

from rpc.submit.recovery import Recovery

from ...statements import covers


@pytest.mark.parametrize("policy", ["fail", "redundant"])
def test_other_policies_never_start_again(policy: str) -> None:
    recovery = Recovery(policy, 3)
    assert recovery.give_up([(0, 1, 1)]) == f"on_failure is {policy!r}"
    assert recovery.restarts == 0


@covers("FD-20")
def test_as_often_as_allowed() -> None:
    recovery = Recovery("restart", 2)
    assert [recovery.give_up([(0, 1, batch)]) for batch in range(2)] == ["", ""]
    assert recovery.give_up([(0, 1, 9)]) == "it was started again as often as 'max_restarts' allows, 2"
    assert recovery.restarts == 2
    assert Recovery("restart", 0).give_up([])


@covers("FD-20")
def test_the_same_place_three_times_is_deterministic() -> None:
    """Others in between do not matter; failures at no particular place are no proof."""
    recovery = Recovery("restart", 10)
    place = (1, 2, 7)
    assert [recovery.give_up(places) for places in ([place], [(0, 2, 7)], [place, (0, 3, 1)], [], [], [])] == [""] * 6
    assert recovery.give_up([(0, 2, 7), place]) == "the same failure has come 3 times at the same place, so it would come again"
    assert recovery.restarts == 6


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
