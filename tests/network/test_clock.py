"""Both clocks keep what the protocol promises; the virtual one moves only when told."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from network.clock import SystemClock
from network.testing import VirtualClock


def test_the_system_clock_reads_the_machine() -> None:
    before = time.monotonic(), time.time()
    readings = [SystemClock().monotonic() for _ in range(100)]
    assert readings == sorted(readings) and before[0] <= readings[0]
    assert before[1] <= SystemClock().time() <= time.time()


def test_the_virtual_clock_moves_as_it_is_told_and_deadlines_never_jump() -> None:
    clock = VirtualClock(monotonic=5.0, wall=1000.0)
    for move, argument, now in (
        ("advance", 0.0, (5.0, 1000.0)),
        ("advance", 2.5, (7.5, 1002.5)),
        ("jump_wall", -3600.0, (7.5, -2597.5)),
        ("advance_to", 4.0, (7.5, -2597.5)),  # a moment that has passed
        ("advance_to", 8.5, (8.5, -2596.5)),
    ):
        getattr(clock, move)(argument)
        assert (clock.monotonic(), clock.time()) == now
    now, deadline = 8.9, 30.3
    assert now + (deadline - now) < deadline
    clock = VirtualClock(monotonic=now)
    clock.advance_to(deadline)
    assert clock.monotonic() == deadline  # exactly, where adding the rest would not meet it


@pytest.mark.parametrize(
    ("move", "arguments", "message"),
    [
        ("advance", (-1e-9, -5.0, float("inf"), float("nan")), "'seconds' must be finite and not negative"),
        ("advance_to", (float("inf"), float("nan")), "'moment' must be finite"),
        ("jump_wall", (float("inf"), float("nan")), "'seconds' must be finite"),
    ],
)
def test_time_does_not_run_backwards_or_out(move: str, arguments: tuple[float, ...], message: str) -> None:
    clock = VirtualClock()
    for argument in arguments:
        with pytest.raises(ValueError, match=f"{message}, got "):
            getattr(clock, move)(argument)
    assert clock.monotonic() == 0.0


STEPS = {"advance": st.floats(0, 1e6), "advance_to": st.floats(-1e6, 1e6), "jump_wall": st.floats(-1e9, 1e9)}


@given(st.lists(st.one_of(*(st.tuples(st.just(name), amounts) for name, amounts in STEPS.items()))))
def test_no_sequence_of_calls_turns_monotonic_back(steps: list[tuple[str, float]]) -> None:
    clock = VirtualClock()
    for name, amount in steps:
        before = clock.monotonic()
        getattr(clock, name)(amount)
        assert clock.monotonic() == before if name == "jump_wall" else clock.monotonic() >= before
