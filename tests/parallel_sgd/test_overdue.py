"""A time-out waits for the failure detector while that has a doubt; where it has none, limits stay what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from network.testing import VirtualClock
from parallel_sgd.channel import LOOK_SECONDS, MOST_SECONDS, Wait, await_verdict
from parallel_sgd.codec import Plain
from parallel_sgd.in_process_scheduler import MemoryChannel
from parallel_sgd.profiles import IIDBlockAssignment
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


@covers("SUB-25")
def test_nobody_is_suspected() -> None:
    """The limit is exact: not a moment is added."""
    assert Overdue(never, never).run() == (False, 0.0)


@covers("SUB-25", "FD-19")
def test_a_suspect_that_stays_one() -> None:
    """The doubt ends by itself when nobody confirms it, and one more T is given."""
    done, seconds = Overdue(lambda t: t < 5.0, never).run()
    assert not done and 5.0 + T <= seconds <= 5.0 + T + LOOK_SECONDS


@covers("FD-19")
def test_a_suspect_that_is_well_again() -> None:
    """The wait goes on, and succeeds within T of the recovery."""
    assert Overdue(lambda t: t < 3.0, lambda t: t >= 4.5).run() == (True, 4.5)
    assert Overdue(lambda t: t < 3.0, lambda t: t >= 2.5).run() == (True, 2.5)


def test_a_doubt_that_never_ends() -> None:
    """No wait without a limit: not even where the detector has nobody who would say more."""
    done, seconds = Overdue(lambda t: True, never).run()
    assert not done and MOST_SECONDS <= seconds <= MOST_SECONDS + T + LOOK_SECONDS


def test_a_second_doubt() -> None:
    done, seconds = Overdue(lambda t: t < 1.0 or 2.0 < t < 4.0, lambda t: t >= 5.0).run()
    assert (done, seconds) == (True, 5.0)


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
