"""Windows of a recurrence's backward pass: which steps they cover, and how much memory they take."""

from __future__ import annotations

import numpy as np
import pytest

from nn.arrays import OwnMemory
from nn.operation.recurrent.recurrence import COLUMNS, windows


@pytest.mark.parametrize(
    ("time", "batch", "steps"),
    [
        (5, COLUMNS // 2, [1, 2, 2]),
        (3, COLUMNS // 2 + 1, [1, 1, 1]),
        (3, COLUMNS, [1, 1, 1]),
        (3, 2 * COLUMNS, [1, 1, 1]),
        (7, 1, [7]),
        (1, 3, [1]),
    ],
)
def test_windows_cover_every_step_once_and_stay_in_the_cache(time: int, batch: int, steps: list[int]) -> None:
    """The last steps come first, and no window has more columns than COLUMNS, unless it is one step of a large batch."""
    found = windows(time, batch, 4, 3, np.dtype(np.float32), OwnMemory())
    assert [each.stop - each.start for each in found] == steps
    assert [step for each in reversed(found) for step in range(each.start, each.stop)] == list(range(time))
    assert all(each.columns == each.inputs.shape[1] == (each.stop - each.start) * batch for each in found)
    assert all(np.shares_memory(each.inputs, found[-1].inputs) for each in found)
    assert all(each.columns <= max(batch, COLUMNS) for each in found)
