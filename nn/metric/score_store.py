"""The scores of the samples of one class."""

import numpy as np

from nn.arrays import Array

_FIRST = 1024


class ScoreStore:
    """All scores added so far, in their own precision in one array that grows by doubling, sorted when asked for."""

    def __init__(self) -> None:
        self._room = np.empty(0, np.float32)
        self._count, self._sorted = 0, True

    def __len__(self) -> int:
        return self._count

    def add(self, scores: Array) -> None:
        """Append a copy of scores (n,); a wider type than before widens all, so that none is rounded."""
        total = self._count + len(scores)
        dtype = np.promote_types(self._room.dtype, scores.dtype) if self._count else scores.dtype
        if total > len(self._room) or dtype != self._room.dtype:
            wider = np.empty(max(total, 2 * self._count, _FIRST), dtype)
            wider[: self._count] = self._room[: self._count]
            self._room = wider
        self._room[self._count : total] = scores
        self._sorted &= not len(scores)
        self._count = total

    def ascending(self) -> Array:
        """Return the scores in ascending order, a view that is valid until the next `add`."""
        scores = self._room[: self._count]
        if not self._sorted:
            scores.sort()
            self._sorted = True
        return scores
