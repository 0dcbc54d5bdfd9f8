"""Hosts as text, in order, compared and dealt; those that are left alone for a while; and what workers have come to."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.nodes import DEFAULT_PORT, Address
from rpc.elastic import (
    Blacklist,
    CoolDown,
    Host,
    HostUpdateResult,
    Recorded,
    Registry,
    classify,
    deal,
    order_hosts,
    parse_hosts,
)

from ...statements import covers

A, B, C, D = (Address(name, DEFAULT_PORT) for name in "abcd")
ADDRESSES = st.sampled_from([A, B, C, D])
INTEGER = "'slots' must be an integer from 0 to 4096, got"


@covers("EL-17")
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" \n\t\n", []),
        ("a", [Host(A)]),
        ("a slots=3\nb:1\n", [Host(A, 3), Host(Address("b", 1))]),
        ("  b   slots=2  \n\n[::1]:5 slots=1", [Host(B, 2), Host(Address("::1", 5))]),
        ("a\nb\na\na:15387 slots=1", [Host(A), Host(B)]),
        ("a slots=0\nb", [Host(B)]),
        ("a\nb slots=two", rf"Line 2 of the hosts: {INTEGER} 'two' in 'b slots=two'"),
        ("a slots=-1", rf"Line 1 .*{INTEGER} '-1'"),
        ("a slots=4097", rf"Line 1 .*{INTEGER} '4097'"),
        ("a slots=", rf"Line 1 .*{INTEGER} ''"),
        ("\n\na b c", r"Line 3 of the hosts: A host is written 'host\[:port\] \[slots=n\]', got 'a b c'"),
        ("a cores=2", r"Line 1 .* got 'a cores=2'"),
        ("a:99999", r"Line 1 of the hosts: The port of an address must be a number from 0 to 65535, got 'a:99999'"),
        ("a slots=1\na slots=2", r"Line 2 of the hosts: a:15387 has slots=2 here and slots=1 above"),
    ],
)
def test_lines_of_hosts(text: str, found: list[Host] | str) -> None:
    """One `host[:port] [slots=n]` per line, blank output is no host yet, duplicates count once. An error names the line, what
    is expected and what it holds."""
    if isinstance(found, list):
        assert parse_hosts(text) == found
    else:
        with pytest.raises(ValueError, match=found):
            parse_hosts(text)


@covers("EL-11")
@given(st.lists(ADDRESSES, unique=True), st.lists(ADDRESSES, unique=True))
def test_the_order_of_any_hosts(previous: list[Address], available: list[Address]) -> None:
    """All available ones and no others, survivors before newcomers, both in the order they had."""
    survivors = [address for address in previous if address in available]
    assert order_hosts(previous, available) == survivors + [address for address in available if address not in previous]


@covers("EL-18")
@pytest.mark.parametrize(
    ("before", "after", "number"),
    [
        ({A: 1}, {A: 1, B: 1}, 2),
        ({A: 1}, {A: 2}, 2),
        ({A: 1, B: 1}, {A: 1}, 1),
        ({A: 2}, {A: 1}, 1),
        ({A: 1}, {B: 1}, 3),
        ({A: 2, B: 1}, {A: 1, B: 2}, 3),
        ({A: 1, B: 1}, {B: 1, A: 1}, 0),
        ({}, {}, 0),
    ],
)
def test_what_a_change_is_called(before: dict[Address, int], after: dict[Address, int], number: int) -> None:
    """More is added, less is removed, both is mixed, the same is none: by their numbers, as they travel; results of several
    looks are joined by `|`."""
    kinds = HostUpdateResult
    assert classify(before, after) is (kinds.no_update, kinds.removed, kinds.added, kinds.mixed)[number] is kinds(number)
    assert kinds.removed | kinds.added is kinds.mixed


@covers("EL-15")
def test_slots_are_dealt_host_by_host() -> None:
    """Ranks follow hosts and slots, never more than the maximum."""
    hosts = [Host(A, 2), Host(B, 2)]
    assert deal(hosts) == [(A, 0), (A, 1), (B, 0), (B, 1)]
    assert deal(hosts, 3) == [(A, 0), (A, 1), (B, 0)]
    assert deal(hosts, 3, keep={(A, 0), (B, 0), (B, 1)}) == [(A, 0), (B, 0), (B, 1)]
    assert deal([Host(B, 1)], 3, keep={(A, 0)}) == [(B, 0)]


@covers("EL-15")
@given(st.dictionaries(ADDRESSES, st.integers(0, 3)), st.integers(1, 9), st.data())
def test_whoever_can_stay_stays(slots: dict[Address, int], maximum: int, data: st.DataObject) -> None:
    """Full use up to the maximum; no living worker makes room for a new one; host by host."""
    hosts = [Host(address, count) for address, count in slots.items()]
    places = [(host.address, index) for host in hosts for index in range(host.slots)]
    keep = data.draw(st.sets(st.sampled_from(places), max_size=maximum)) if places else set()
    dealt = deal(hosts, maximum, keep)
    assert len(dealt) == min(len(places), maximum) and keep <= set(dealt)
    assert dealt == [place for place in places if place in dealt]


# ---- hosts that have failed


@covers("EL-22")
def test_without_a_range_never_again() -> None:
    """a host that failed is not used again."""
    blacklist = Blacklist()
    blacklist.add(A, 5.0)
    assert blacklist.holds(A, 5.0) and blacklist.holds(A, 1e12)
    assert not blacklist.holds(B, 5.0)
    assert blacklist.next_release(5.0) is None


@covers("EL-22")
@pytest.mark.parametrize("seed", range(20))
def test_periods_double_up_to_the_cap(seed: int) -> None:
    """The first period is lo, then 2 lo, 4 lo, ... capped at hi, each with a jitter of at most lo. Failures during one have one
    cause, so that the period neither doubles nor starts anew."""
    blacklist, now = Blacklist(CoolDown(2.0, 12.0), seed), 100.0
    for period in (2.0, 4.0, 8.0, 12.0, 12.0):
        blacklist.add(A, now)
        release = blacklist.next_release(now)
        assert release is not None and now + period <= release <= now + period + 2.0
        blacklist.add(A, now + 1.9)
        assert blacklist.next_release(now) == release
        assert blacklist.holds(A, math.nextafter(release, 0)) and not blacklist.holds(A, release)
        assert blacklist.next_release(release) is None
        now = release


@covers("EL-22")
def test_hosts_do_not_come_back_together() -> None:
    """The jitter differs between hosts, and is the same for the same seed."""

    def releases(seed: int) -> list[float]:
        blacklist, found = Blacklist(CoolDown(10.0, 10.0), seed), []
        for now in range(0, 1000, 100):
            blacklist.add(Address(f"h{now}", 1), now)
            found.append((blacklist.next_release(now) or 0.0) - now)
        return found

    assert len(set(releases(1))) == 10
    assert releases(1) == releases(1) != releases(2)


def test_many_failures_stay_finite() -> None:
    assert [CoolDown(1.0, 60.0).seconds(n) for n in (1, 2, 3, 10**6)] == [1.0, 2.0, 4.0, 60.0]


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 1), (1, math.inf), (math.nan, 1)])
def test_a_range_that_is_none(low: float, high: float) -> None:
    with pytest.raises(ValueError, match=f"CoolDown needs 0 < low <= high, both finite, got {low} and {high}"):
        CoolDown(low, high)


# ---- the workers of a round

READY, SUCCESS, FAILURE, REMOVED = Recorded


def registry(*states: Recorded) -> Registry:
    """Of three workers, the first of which have come to these states."""
    made = Registry()
    made.begin("abc")
    for worker, state in zip("abc", states, strict=False):
        made.record(worker, state)
    return made


@covers("EL-20")
def test_every_combination_in_every_order() -> None:
    """Nothing before every slot has recorded; any SUCCESS stops all; all FAILURE fails; otherwise a new round."""
    for states in itertools.product(Recorded, repeat=3):
        expected = "finish" if SUCCESS in states else "fail" if set(states) == {FAILURE} else "next round"
        for order in itertools.permutations("abc"):
            round_ = registry()
            for worker in order:
                assert round_.outcome(hosts_left=True).decision.value == "wait"
                assert round_.record(worker, states["abc".index(worker)])
            assert round_.outcome(hosts_left=True).decision.value == expected


@covers("EL-20")
def test_no_host_left() -> None:
    """All hosts blacklisted fails, unless a worker has succeeded."""
    lost = registry(READY, FAILURE, READY).outcome(hosts_left=False)
    assert (lost.decision.value, lost.reason) == ("fail", "All hosts have been blacklisted.")
    assert registry(SUCCESS, SUCCESS, SUCCESS).outcome(hosts_left=False).decision.value == "finish"


@covers("EL-20")
def test_what_counts() -> None:
    """What has ended stays as it ended. Who is not in the round records nothing, and each round begins empty."""
    for end in (SUCCESS, FAILURE, REMOVED):
        round_ = registry(end)
        assert not any(round_.record("a", later) for later in Recorded)
    round_ = registry()
    assert not round_.record("z", SUCCESS) and not round_.begun
    round_.record("a", READY)
    assert round_.begun
    round_.begin("ab")
    assert not round_.begun


@pytest.mark.parametrize("limit", [-1, True, 1.5])
def test_a_limit_that_is_none(limit: int) -> None:
    with pytest.raises(ValueError, match="'reset_limit' must be an integer of 0 or more, or None, got"):
        Registry(limit)
