"""A node that waits shows that it lives: the controller calls before and after each wait, and cuts long ones into slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from network.controller import WAIT_SECONDS, Controller
from network.errors import TimedOut
from network.testing import VirtualClock

from ..statements import covers


class Sleeper:
    """A waiter on which nothing ever happens."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.waits: list[float | None] = []
        self.signs: list[str] = []

    def __call__(self, reading: Sequence[Any], writing: Sequence[Any], timeout: float | None) -> None:
        self.waits.append(timeout)
        self.signs.append("asleep")
        self.clock.advance(timeout or 0.0)


def controller(sleeper: Sleeper) -> Controller:
    return Controller(0, {}, clock=sleeper.clock, wait=sleeper)


@covers("FD-2")
def test_signs_of_a_long_wait() -> None:
    """No slice is longer than a quarter of a second, and a sign comes before and after each."""
    sleeper = Sleeper()
    with controller(sleeper) as com:
        com.on_wait, com.on_resume = lambda: sleeper.signs.append("wait"), lambda: sleeper.signs.append("resume")
        with pytest.raises(TimedOut, match=r"Timed out after 1\.1 s waiting for nothing"):
            com.wait_until(lambda: False, 1.1, lambda: "nothing")
        com.pump(None)
        com.pump(0.0)  # looks, and does not wait
    assert sleeper.waits == [WAIT_SECONDS] * 4 + [pytest.approx(0.1), WAIT_SECONDS]
    assert sleeper.signs == ["wait", "asleep", "resume"] * 6


def test_without_signs_a_wait_is_one() -> None:
    sleeper = Sleeper()
    with controller(sleeper) as com:
        com.pump(1.1)
        com.pump(None)
    assert sleeper.waits == [1.1, None]
