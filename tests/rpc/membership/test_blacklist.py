"""How long a failing host is left alone."""

from __future__ import annotations

import math

import pytest

from network.nodes import Address
from rpc.membership import Blacklist, CoolDown

A, B = Address("a", 1), Address("b", 1)


def test_without_a_range_never_again() -> None:
    """EL-22: a host that failed is not used again."""
    blacklist = Blacklist()
    blacklist.add(A, 5.0)
    assert blacklist.holds(A, 5.0) and blacklist.holds(A, 1e12)
    assert not blacklist.holds(B, 5.0)
    assert blacklist.next_release(5.0) is None


@pytest.mark.parametrize("seed", range(20))
def test_periods_double_up_to_the_cap(seed: int) -> None:
    """EL-22: the first period is lo, then 2 lo, 4 lo, ... capped at hi, each with a jitter of at most lo."""
    blacklist, now = Blacklist(CoolDown(2.0, 12.0), seed), 100.0
    for period in (2.0, 4.0, 8.0, 12.0, 12.0):
        blacklist.add(A, now)
        release = blacklist.next_release(now)
        assert release is not None and now + period <= release <= now + period + 2.0
        assert blacklist.holds(A, math.nextafter(release, 0)) and not blacklist.holds(A, release)
        assert blacklist.next_release(release) is None
        now = release


def test_neighbours_that_fail_together_count_once() -> None:
    """EL-22: failures during one period have one cause, so the period neither doubles nor starts anew."""
    one, several = Blacklist(CoolDown(2.0, 100.0)), Blacklist(CoolDown(2.0, 100.0))
    one.add(A, 0.0)
    for moment in (0.0, 0.1, 1.9):
        several.add(A, moment)
    assert several.next_release(0.0) == one.next_release(0.0)


def test_hosts_do_not_come_back_together() -> None:
    """EL-22: the jitter differs between hosts, and is the same for the same seed."""

    def releases(seed: int) -> list[float]:
        blacklist, found = Blacklist(CoolDown(10.0, 10.0), seed), []
        for now in range(0, 1000, 100):
            blacklist.add(Address(f"h{now}", 1), now)
            found.append((blacklist.next_release(now) or 0.0) - now)
        return found

    assert len(set(releases(1))) == 10
    assert releases(1) == releases(1) != releases(2)


def test_many_failures_stay_finite() -> None:
    assert CoolDown(1.0, 60.0).seconds(10**6) == 60.0
    assert [CoolDown(1.0, 60.0).seconds(n) for n in (1, 2, 3)] == [1.0, 2.0, 4.0]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 1), (1, math.inf), (math.nan, 1)])
def test_a_range_that_is_none(low: float, high: float) -> None:
    with pytest.raises(ValueError, match=f"CoolDown needs 0 < low <= high, both finite, got {low} and {high}"):
        CoolDown(low, high)
