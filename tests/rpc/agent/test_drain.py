"""An agent that is told to go: first its jobs, then who wants their files, and never longer than the grace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.agent.drain import Drain, Exit, LeaveAsked, Seen, Stage, StopJobs
from rpc.errors import InvalidTransition
from rpc.liveness.limits import FAREWELL_SECONDS

ASKED = LeaveAsked("Its time is up.", 20.0)


def test_an_idle_agent_goes_at_once() -> None:
    leaving = Drain()
    assert leaving.deadline is None and leaving.handle(Seen(0, 0, False), 1.0) == []
    assert leaving.handle(ASKED, 2.0) == [StopJobs("Its time is up.", 16.0)]
    assert leaving.handle(Seen(0, 0, False), 2.0) == [Exit()]
    assert leaving.deadline is None and leaving.handle(Seen(0, 0, False), 2.1) == []


def test_jobs_have_most_of_the_grace_and_the_rest_is_for_their_files() -> None:
    leaving = Drain()
    leaving.handle(ASKED, 0.0)
    assert leaving.handle(Seen(2, 1, False), 0.0) == [] and leaving.deadline == 20.0
    assert leaving.handle(Seen(0, 1, False), 5.0) == []  # the submitter is told, and may fetch
    assert leaving.deadline == 5.0 + FAREWELL_SECONDS
    assert leaving.handle(Seen(0, 1, True), 7.9) == []  # it does
    assert leaving.handle(Seen(0, 1, False), 7.9 + FAREWELL_SECONDS - 0.1) == []
    assert leaving.handle(Seen(0, 1, False), 7.9 + FAREWELL_SECONDS) == [Exit()]


def test_who_leaves_by_himself_is_not_waited_for() -> None:
    leaving = Drain()
    leaving.handle(ASKED, 0.0)
    assert leaving.handle(Seen(0, 1, False), 1.0) == []
    assert leaving.handle(Seen(0, 0, False), 1.1) == [Exit()]


@pytest.mark.parametrize("seen", [Seen(1, 0, False), Seen(0, 9, True)], ids=["a job that hangs", "a visitor without end"])
def test_nothing_lasts_longer_than_the_grace(seen: Seen) -> None:
    leaving = Drain()
    leaving.handle(ASKED, 0.0)
    now = 0.0
    while leaving.deadline is not None:
        assert now < 20.0
        now = leaving.deadline if seen.jobs else min(leaving.deadline, now + FAREWELL_SECONDS / 2)
        gone = leaving.handle(seen, now)
    assert gone == [Exit()] and now == 20.0


def test_the_second_word_changes_nothing() -> None:
    """One signal may come on two ways."""
    leaving = Drain()
    leaving.handle(ASKED, 0.0)
    assert leaving.handle(LeaveAsked("Once more.", 1.0), 0.5) == [] and leaving.deadline == 20.0
    assert leaving.handle(Seen(1, 0, False), 20.0) == [Exit()]
    assert leaving.handle(ASKED, 20.1) == []
    with pytest.raises(InvalidTransition, match="Drain cannot take 5 now"):
        leaving.handle(5, 1.0)


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2), st.integers(0, 2), st.booleans())))
def test_it_goes_exactly_once_and_in_time(looks: list[tuple[float, int, int, bool]]) -> None:
    leaving, now, gone = Drain(), 0.0, 0
    leaving.handle(ASKED, now)
    for step, jobs, visitors, sending in looks:
        now += step
        gone += leaving.handle(Seen(jobs, visitors, sending), now).count(Exit())
        assert gone == (leaving.stage is Stage.GONE) and (gone or now < 20.0)
