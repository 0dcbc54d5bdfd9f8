"""Both clocks keep what the protocol promises; the virtual one moves only when told."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.clock import Clock, SystemClock
from network.testing import VirtualClock

CLOCKS: list[Clock] = [SystemClock(), VirtualClock()]


@pytest.mark.parametrize("clock", CLOCKS, ids=lambda clock: type(clock).__name__)
def test_monotonic_does_not_go_back(clock: Clock) -> None:
    readings = [clock.monotonic() for _ in range(100)]
    assert readings == sorted(readings)


def test_the_system_clock_reads_the_machine() -> None:
    before = time.monotonic(), time.time()
    read = SystemClock().monotonic(), SystemClock().time()
    after = time.monotonic(), time.time()
    assert before[0] <= read[0] <= after[0]
    assert before[1] <= read[1] <= after[1]


def test_the_virtual_clock_stands_still_until_it_is_told() -> None:
    clock = VirtualClock(monotonic=5.0, wall=1000.0)
    assert (clock.monotonic(), clock.time()) == (5.0, 1000.0)
    clock.advance(2.5)
    assert (clock.monotonic(), clock.time()) == (7.5, 1002.5)


def test_a_jump_of_the_wall_clock_leaves_deadlines_alone() -> None:
    clock = VirtualClock(monotonic=5.0, wall=1000.0)
    clock.jump_wall(-3600.0)
    assert (clock.monotonic(), clock.time()) == (5.0, -2600.0)
    clock.advance(1.0)
    assert (clock.monotonic(), clock.time()) == (6.0, -2599.0)


def test_advance_to_meets_a_moment_exactly_where_adding_the_rest_would_not() -> None:
    now, deadline = 8.9, 30.3
    assert now + (deadline - now) < deadline
    clock = VirtualClock(monotonic=now)
    clock.advance_to(deadline)
    assert clock.monotonic() == deadline


def test_advance_to_a_moment_that_has_passed_changes_nothing() -> None:
    clock = VirtualClock(monotonic=5.0, wall=1000.0)
    clock.advance_to(4.0)
    assert (clock.monotonic(), clock.time()) == (5.0, 1000.0)


@pytest.mark.parametrize("seconds", [-1e-9, -5.0, float("inf"), float("nan")])
def test_time_does_not_run_backwards_or_out(seconds: float) -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match=r"'seconds' must be finite and not negative, got "):
        clock.advance(seconds)
    assert clock.monotonic() == 0.0


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_moments_and_jumps_are_finite(seconds: float) -> None:
    clock = VirtualClock()
    with pytest.raises(ValueError, match=r"'moment' must be finite, got "):
        clock.advance_to(seconds)
    with pytest.raises(ValueError, match=r"'seconds' must be finite, got "):
        clock.jump_wall(seconds)


STEP = st.one_of(
    st.tuples(st.just("advance"), st.floats(0, 1e6)),
    st.tuples(st.just("advance_to"), st.floats(-1e6, 1e6)),
    st.tuples(st.just("jump_wall"), st.floats(-1e9, 1e9)),
)


@given(st.lists(STEP))
def test_no_sequence_of_calls_turns_monotonic_back(steps: list[tuple[str, float]]) -> None:
    clock = VirtualClock()
    for name, amount in steps:
        before = clock.monotonic()
        getattr(clock, name)(amount)
        assert clock.monotonic() >= before
        if name == "jump_wall":
            assert clock.monotonic() == before
