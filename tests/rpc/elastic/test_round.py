"""What the workers of a round have come to, and which side of a broken network goes on."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpc.elastic import Recorded, Registry, may_go_on
from rpc.elastic.round import Decision, Outcome

from ...statements import covers

READY, SUCCESS, FAILURE, REMOVED = Recorded


def registry(limit: int | None = None, workers: str = "abc") -> Registry:
    made = Registry(limit)
    made.begin(workers)
    return made


def expected(states: tuple[Recorded, ...]) -> Decision:
    if SUCCESS in states:
        return Decision.FINISH
    return Decision.FAIL if set(states) == {FAILURE} else Decision.NEXT_ROUND


@covers("EL-20")
def test_every_combination_in_every_order() -> None:
    """Nothing before every slot has recorded; any SUCCESS stops all; all FAILURE fails; otherwise a new round."""
    for states in itertools.product(Recorded, repeat=3):
        for order in itertools.permutations("abc"):
            round_ = registry()
            for worker in order:
                assert round_.outcome(hosts_left=True).decision is Decision.WAIT
                assert round_.record(worker, states["abc".index(worker)])
            assert round_.outcome(hosts_left=True).decision is expected(states)


@covers("EL-20")
def test_no_host_left() -> None:
    """All hosts blacklisted fails, unless a worker has succeeded."""
    round_ = registry()
    for worker, state in zip("abc", (READY, FAILURE, READY), strict=True):
        round_.record(worker, state)
    assert round_.outcome(hosts_left=False) == Outcome(Decision.FAIL, "All hosts have been blacklisted.")
    won = registry()
    for worker in "abc":
        won.record(worker, SUCCESS)
    assert won.outcome(hosts_left=False).decision is Decision.FINISH


@covers("EL-20")
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_the_limit_of_resets(limit: int) -> None:
    """Exactly `limit` rounds follow the first one, then the job fails with the number."""
    rounds = Registry(limit)
    for _ in range(limit):
        rounds.begin("ab")
        for worker in "ab":
            rounds.record(worker, READY)
        assert rounds.outcome(hosts_left=True) == Outcome(Decision.NEXT_ROUND)
    rounds.begin("ab")
    for worker in "ab":
        rounds.record(worker, READY)
    outcome = rounds.outcome(hosts_left=True)
    assert outcome.decision is Decision.FAIL
    assert outcome.reason.endswith(f"number of resets during elastic job exceeded limit: {limit}")


@covers("EL-20")
def test_ready_may_become_failure_once() -> None:
    """a READY later changed to FAILURE counts once, as FAILURE; the barrier still waits for the others."""
    round_ = registry(workers="ab")
    assert round_.record("a", READY)
    assert round_.record("a", FAILURE)
    assert not round_.record("a", FAILURE)
    assert round_.state("a") is FAILURE
    assert round_.outcome(hosts_left=True).decision is Decision.WAIT
    round_.record("b", FAILURE)
    assert round_.outcome(hosts_left=True) == Outcome(Decision.FAIL, "All workers have failed.")


@covers("EL-20")
@pytest.mark.parametrize("end", [SUCCESS, FAILURE, REMOVED])
def test_an_end_is_an_end(end: Recorded) -> None:
    """What has ended stays as it ended."""
    round_ = registry()
    round_.record("a", end)
    for later in Recorded:
        assert not round_.record("a", later)
    assert round_.state("a") is end


@covers("EL-20")
def test_strangers_and_former_rounds_do_not_count() -> None:
    """Who is not in the round records nothing, and each round begins empty."""
    round_ = registry(workers="ab")
    assert not round_.record("z", SUCCESS)
    assert not round_.begun
    round_.record("a", READY)
    assert round_.begun
    round_.begin("ab")
    assert not round_.begun and round_.state("a") is None


@pytest.mark.parametrize("limit", [-1, True, 1.5])
def test_a_limit_that_is_none(limit: int) -> None:
    with pytest.raises(ValueError, match="'reset_limit' must be an integer of 0 or more, or None, got"):
        Registry(limit)


@pytest.mark.parametrize(
    ("workers", "present", "ended", "submitter", "goes_on"),
    [
        (5, [0, 1, 2], [], False, True),
        (5, [3, 4], [], False, False),
        (4, [0, 1], [], False, False),  # an even split pauses both
        (5, [4], [], True, True),  # the submitter's word replaces counting
        (2, [0], [1], False, True),  # who was seen to die is on no side
        (2, [0], [], False, False),  # silence is no proof of death
        (5, [0, 1], [2], False, False),
        (4, [0, 7, 8, 9], [], False, False),  # newcomers do not count
    ],
)
def test_the_larger_side_goes_on(workers: int, present: list[int], ended: list[int], submitter: bool, goes_on: bool) -> None:
    """Assumption of one membership: a side that is not the majority of the last generation pauses."""
    assert may_go_on(range(workers), present, ended, submitter=submitter) is goes_on


@given(st.lists(st.sampled_from("ABC."), min_size=1), st.data())
def test_never_two_sides(sides: list[str], data: st.DataObject) -> None:
    """Whatever the cut and whatever each side knows of the dead ('.'), at most one side goes on without the submitter."""
    workers = range(len(sides))
    dead = [worker for worker in workers if sides[worker] == "."]
    going = 0
    for side in "ABC":
        known = data.draw(st.sets(st.sampled_from(dead))) if dead else set()
        present = [worker for worker in workers if sides[worker] == side]
        going += may_go_on(workers, present, known, submitter=False)
    assert going <= 1
