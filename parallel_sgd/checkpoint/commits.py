"""What a worker with a state of its own leaves when training ends before its time: `commit_every=`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

from .copies import Copies
from .position import Progress
from .state import State

NEVER: Final = 0


def checked_commits(every: object) -> int:
    """The argument `commit_every`.

    Raises: ValueError for anything but a positive integer.
    """
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"'commit_every' must be a positive number of batches, got {every!r}")
    return every


class Commits:
    """Copies, in memory, of the states after the last two batches that were due; `every` so many batches one is due.

    Two, because workers may be a batch apart when training ends, and then have only the one before in common. The iteration
    begins with the older one.
    """

    def __init__(self, every: int = NEVER) -> None:
        self._every = every
        self._copies = Copies()
        self._kept: deque[tuple[Progress, State]] = deque()

    def due(self, batches: int) -> bool:
        """Whether there is one after so many batches in all."""
        return self._every != NEVER and batches % self._every == 0

    def take(self, progress: Progress, state: State) -> None:
        """Copy the state, in place of the older one."""
        if len(self._kept) == 2:
            self._copies.put_back(self._kept.popleft()[1][0])
        arrays, numbers = state
        self._kept.append((progress, (self._copies.take(arrays), dict(numbers))))

    def __iter__(self) -> Iterator[tuple[Progress, State]]:
        return iter(self._kept)
