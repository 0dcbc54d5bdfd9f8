"""A time-out waits for the failure detector while that has a doubt; where it has none, limits stay what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from network.testing import VirtualClock
from parallel_sgd.codec import Plain
from parallel_sgd.engine.channel import LOOK_SECONDS, MOST_SECONDS, Wait, await_verdict
from parallel_sgd.profiles import IIDBlockAssignment
from parallel_sgd.simulation.kernel import MemoryChannel
from parallel_sgd.testing.array_job import ArrayJob
from rpc.job.peers import Suspects
from rpc.liveness.limits import SUSPECT_SECONDS

from ..statements import covers

T = 2.0


class Overdue:
    """Something that is waited for in virtual time; `doubted` and `ready` are told the seconds since the time-out."""

    def __init__(self, doubted: Callable[[float], bool], ready: Callable[[float], bool]) -> None:
        self.clock = VirtualClock()
        self.start = self.clock.monotonic()
        self._doubted, self._ready = doubted, ready

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self.start

    def run(self) -> tuple[bool, float]:
        """Whether it has become ready, and after how long."""
        wait = Wait(lambda: self._ready(self.seconds), None, lambda: "it")
        process = await_verdict(wait, T, self.clock.monotonic, lambda: [1] if self._doubted(self.seconds) else [])
        while True:
            try:
                asked = next(process)
            except StopIteration as end:
                return end.value, self.seconds
            assert asked.deadline is not None and asked.deadline - self.clock.monotonic() <= T
            self.clock.advance(0.125)


def never(_seconds: float) -> bool:
    return False


@covers("SUB-25", "FD-19")
@pytest.mark.parametrize(
    ("doubted", "ready", "done", "least", "slack"),
    [
        (never, never, False, 0.0, 0.0),  # the limit is exact: not a moment is added
        (lambda t: t < 5.0, never, False, 5.0 + T, LOOK_SECONDS),  # nobody confirms it, and one more T is given
        (lambda t: t < 3.0, lambda t: t >= 4.5, True, 4.5, 0.0),  # well again: the wait goes on, for T
        (lambda t: t < 3.0, lambda t: t >= 2.5, True, 2.5, 0.0),
        (lambda t: True, never, False, MOST_SECONDS, T + LOOK_SECONDS),  # even where nobody would say more
        (lambda t: t < 1.0 or 2.0 < t < 4.0, lambda t: t >= 5.0, True, 5.0, 0.0),  # a second doubt
    ],
)
def test_a_doubt_prolongs_a_wait(
    doubted: Callable[[float], bool], ready: Callable[[float], bool], done: bool, least: float, slack: float
) -> None:
    found, seconds = Overdue(doubted, ready).run()
    assert found == done and least <= seconds <= least + slack


def test_a_doubt_ends_by_itself() -> None:
    clock = VirtualClock()
    suspects = Suspects(clock.monotonic)
    suspects.note(2, 1.5)
    suspects.note(1, 0.5)
    assert suspects() == [1, 2]
    clock.advance(0.5 + SUSPECT_SECONDS)
    assert suspects() == [2]
    suspects.note(2, 0.0)
    assert suspects() == []


@covers("SUB-24", "SUB-25")
@pytest.mark.parametrize("doubt", [0.0, 3.0], ids=["trusted", "suspected"])
def test_the_synchronous_time_out(doubt: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One link loses what worker 1 sends; the rescue comes at T in any case, the error when the doubt ends."""
    job = ArrayJob(IIDBlockAssignment(2), codec=Plain, timeout=T, link=lambda sender, _to, _key: () if sender == 1 else (0.0,))
    start = job.clock.monotonic()
    monkeypatch.setattr(
        MemoryChannel, "suspects", lambda _channel: (1,) if job.clock.monotonic() - start < 2 * T + doubt else ()
    )
    with pytest.raises(
        TimeoutError, match=r"the retry did not help\. Waited [\d.]+ s for variable 1 .*missing block\(s\) 1"
    ) as info:
        job.run()
    waited = job.clock.monotonic() - start
    expected = 2 * T if not doubt else 2 * T + doubt + T
    assert expected <= waited <= expected + LOOK_SECONDS + 0.01
    assert f"Waited {2 * T:g} s" in str(info.value) or doubt
