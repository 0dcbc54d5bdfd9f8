"""No split brain: of the sides of a broken network at most one goes on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rpc.membership import may_go_on


def test_the_larger_side_goes_on() -> None:
    """Assumption of one membership: a side that is not the majority of the last generation pauses."""
    workers = range(5)
    assert may_go_on(workers, [0, 1, 2], [], submitter=False)
    assert not may_go_on(workers, [3, 4], [], submitter=False)
    assert not may_go_on(range(4), [0, 1], [], submitter=False)  # an even split pauses both


def test_the_submitters_word_replaces_counting() -> None:
    assert may_go_on(range(5), [4], [], submitter=True)


def test_who_has_ended_is_on_no_side() -> None:
    """Two workers of which one was seen to die go on with one; silence is no proof of death."""
    assert may_go_on([0, 1], [0], [1], submitter=False)
    assert not may_go_on([0, 1], [0], [], submitter=False)
    assert not may_go_on(range(5), [0, 1], [2], submitter=False)


def test_newcomers_do_not_count() -> None:
    assert not may_go_on(range(4), [0, 7, 8, 9], [], submitter=False)


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
