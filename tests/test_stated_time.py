"""A test that states a time is tried again where it was too late, and only there."""

from __future__ import annotations

import pytest

from .stated_time import TRIES, TooLate, in_time, tried


@pytest.mark.parametrize(("late", "tries"), [(0, 1), (1, 2), (TRIES - 1, TRIES), (TRIES, TRIES)])
def test_what_was_too_late_is_tried_again(late: int, tries: int) -> None:
    took = iter([2.0] * late + [1.0] * TRIES)
    begun: list[float] = []

    def test() -> None:
        begun.append(next(took))
        in_time(begun[-1], 1.0)

    if late < TRIES:
        tried(test)
    else:
        with pytest.raises(TooLate, match=r"it took 2\.000 s, and the stated time is 1 s"):
            tried(test)
    assert len(begun) == tries


def test_what_is_wrong_otherwise_fails_at_once() -> None:
    begun: list[int] = []

    def test() -> None:
        begun.append(1)
        raise AssertionError("wrong")

    with pytest.raises(AssertionError, match="wrong"):
        tried(test)
    assert begun == [1]
    with pytest.raises(TooLate):
        in_time(float("nan"), 1.0)


_BEGUN: list[int] = []


@pytest.mark.alone
def test_a_test_with_the_mark_is_tried_by_pytest() -> None:
    _BEGUN.append(1)
    in_time(TRIES - len(_BEGUN), 0.0)
