"""A time-out that waits for the failure detector: while it has a doubt about a peer, its verdict says more than ours would."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from typing import Final

from .wait import Wait

LOOK_SECONDS: Final = 0.25
MOST_SECONDS: Final = 600.0
"""A detector whose driver has left says nothing of those that only wait for each other."""


def until(wait: Wait, clock: Callable[[], float]) -> Generator[Wait, None, bool]:
    """Yield the wait until it is ready or its deadline has passed; whether it is ready."""
    ready, deadline = wait.ready, wait.deadline
    while not ready():
        if deadline is not None and clock() >= deadline:
            return False
        yield wait
    return True


def await_verdict(
    wait: Wait, timeout: float, clock: Callable[[], float], suspects: Callable[[], Collection[int]]
) -> Generator[Wait, None, bool]:
    """What `wait` waits for is overdue: wait on while the detector suspects a peer; whether it has become ready.

    Who is stuck is ended by its agent, which whoever drives us sees as a loss. A suspect that is well again gets `timeout`
    seconds from then. Where nobody is suspected this takes no time, and never more than ten minutes before the last look.
    """
    end = clock() + MOST_SECONDS
    while suspects() and clock() < end:
        while suspects() and clock() < end:
            if (yield from until(wait._replace(deadline=clock() + LOOK_SECONDS), clock)):
                return True
        if (yield from until(wait._replace(deadline=clock() + timeout), clock)):
            return True
    return False
