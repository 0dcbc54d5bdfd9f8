"""Times that a contract states, asserted on machines that may stand still for a moment.

A test with the mark `alone` is tried up to three times where all that it finds wrong is that something came late: what the
product takes is the least of them. Whatever else is wrong fails at once.
"""

from __future__ import annotations

from collections.abc import Callable

TRIES = 3


class TooLate(AssertionError):
    """Error of a test: something came after its stated time."""


def in_time(seconds: float, limit: float) -> None:
    """Assert that something took no longer than a stated time.

    Args:
        seconds: that it took.
        limit: the stated time.

    Raises: TooLate.
    """
    if not seconds <= limit:
        raise TooLate(f"it took {seconds:.3f} s, and the stated time is {limit:g} s")


def tried(test: Callable[[], object]) -> None:
    """Run a test again where it was too late, up to three times in all."""
    for left in reversed(range(TRIES)):
        try:
            test()
            return
        except TooLate:
            if not left:
                raise
