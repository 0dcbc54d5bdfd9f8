"""What the workers of a round have come to."""

from __future__ import annotations

import itertools

import pytest

from rpc.elastic import Recorded, Registry

from ...statements import covers

READY, SUCCESS, FAILURE, REMOVED = Recorded


def registry(limit: int | None = None, workers: str = "abc") -> Registry:
    made = Registry(limit)
    made.begin(workers)
    return made


def expected(states: tuple[Recorded, ...]) -> str:
    if SUCCESS in states:
        return "finish"
    return "fail" if set(states) == {FAILURE} else "next round"


@covers("EL-20")
def test_every_combination_in_every_order() -> None:
    """Nothing before every slot has recorded; any SUCCESS stops all; all FAILURE fails; otherwise a new round."""
    for states in itertools.product(Recorded, repeat=3):
        for order in itertools.permutations("abc"):
            round_ = registry()
            for worker in order:
                assert round_.outcome(hosts_left=True).decision.value == "wait"
                assert round_.record(worker, states["abc".index(worker)])
            assert round_.outcome(hosts_left=True).decision.value == expected(states)


@covers("EL-20")
def test_no_host_left() -> None:
    """All hosts blacklisted fails, unless a worker has succeeded."""
    round_ = registry()
    for worker, state in zip("abc", (READY, FAILURE, READY), strict=True):
        round_.record(worker, state)
    lost = round_.outcome(hosts_left=False)
    assert (lost.decision.value, lost.reason) == ("fail", "All hosts have been blacklisted.")
    won = registry()
    for worker in "abc":
        won.record(worker, SUCCESS)
    assert won.outcome(hosts_left=False).decision.value == "finish"


@covers("EL-20")
@pytest.mark.parametrize("end", [SUCCESS, FAILURE, REMOVED])
def test_an_end_is_an_end(end: Recorded) -> None:
    """What has ended stays as it ended."""
    round_ = registry()
    round_.record("a", end)
    for later in Recorded:
        assert not round_.record("a", later)


@covers("EL-20")
def test_strangers_and_former_rounds_do_not_count() -> None:
    """Who is not in the round records nothing, and each round begins empty."""
    round_ = registry(workers="ab")
    assert not round_.record("z", SUCCESS)
    assert not round_.begun
    round_.record("a", READY)
    assert round_.begun
    round_.begin("ab")
    assert not round_.begun


@pytest.mark.parametrize("limit", [-1, True, 1.5])
def test_a_limit_that_is_none(limit: int) -> None:
    with pytest.raises(ValueError, match="'reset_limit' must be an integer of 0 or more, or None, got"):
        Registry(limit)
