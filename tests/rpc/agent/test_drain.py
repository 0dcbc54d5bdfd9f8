"""An agent that is told to go: first its jobs, then who wants their files, and never longer than the grace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.agent.drain import Drain, Exit, LeaveAsked, Seen, Stage, StopJobs
from rpc.errors import InvalidTransition
from rpc.liveness.limits import FAREWELL_SECONDS

ASKED = LeaveAsked("Its time is up.", 20.0)


STOP, LATE = [StopJobs("Its time is up.", 16.0)], 7.9 + FAREWELL_SECONDS


@pytest.mark.parametrize(
    "story",
    [
        # an idle agent goes at once; what is said before it is asked to, or after it has gone, changes nothing
        [(1.0, Seen(0, 0, False), []), (2.0, ASKED, STOP), (2.0, Seen(0, 0, False), [Exit()]), (2.1, Seen(0, 0, False), [])],
        # jobs have most of the grace; then the submitter is told, may fetch, and does
        [
            *[(0.0, ASKED, STOP), (0.0, Seen(2, 1, False), 20.0), (5.0, Seen(0, 1, False), 5.0 + FAREWELL_SECONDS)],
            *[(7.9, Seen(0, 1, True), LATE), (LATE - 0.1, Seen(0, 1, False), LATE), (LATE, Seen(0, 1, False), [Exit()])],
        ],
        # who leaves by himself is not waited for
        [(0.0, ASKED, STOP), (1.0, Seen(0, 1, False), 1.0 + FAREWELL_SECONDS), (1.1, Seen(0, 0, False), [Exit()])],
        # one signal may come on two ways: the second word changes nothing
        [
            *[(0.0, ASKED, STOP), (0.5, LeaveAsked("Once more.", 1.0), 20.0), (20.0, Seen(1, 0, False), [Exit()])],
            (20.1, ASKED, []),
        ],
    ],
)
def test_stories(story: list[tuple[float, object, object]]) -> None:
    """What is decided at each moment, or the deadline where that is nothing."""
    leaving = Drain()
    for now, said, expected in story:
        decided = leaving.handle(said, now)
        if isinstance(expected, float):
            assert decided == [] and leaving.deadline == expected
        else:
            assert decided == expected
    assert leaving.deadline is None
    with pytest.raises(InvalidTransition, match="Drain cannot take 5 now"):
        leaving.handle(5, 100.0)


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


@given(st.lists(st.tuples(st.floats(0, 3), st.integers(0, 2), st.integers(0, 2), st.booleans())))
def test_it_goes_exactly_once_and_in_time(looks: list[tuple[float, int, int, bool]]) -> None:
    leaving, now, gone = Drain(), 0.0, 0
    leaving.handle(ASKED, now)
    for step, jobs, visitors, sending in looks:
        now += step
        gone += leaving.handle(Seen(jobs, visitors, sending), now).count(Exit())
        assert gone == (leaving.stage is Stage.GONE) and (gone or now < 20.0)
