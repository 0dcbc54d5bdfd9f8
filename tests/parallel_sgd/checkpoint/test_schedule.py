"""When checkpoints are taken."""

from __future__ import annotations

from typing import Any

import pytest

from network.testing import VirtualClock
from parallel_sgd.checkpoint import Position, Schedule, checked_every

EPOCHS, BATCHES = 3, 10


def due(every: Any, start: Position = Position(0, 0), seconds: float = 0.0) -> list[Position]:  # noqa: B008
    """The positions of a run whose batches take so long each."""
    clock = VirtualClock()
    schedule = Schedule(every, EPOCHS, BATCHES, clock.monotonic)
    found = []
    for done in range(start.epoch * BATCHES + start.batch + 1, EPOCHS * BATCHES + 1):
        clock.advance(seconds)
        position = Position(*divmod(done, BATCHES))
        if schedule.due(position):
            found.append(position)
    return found


def test_every_epoch() -> None:
    assert due("epoch") == [(1, 0), (2, 0), (3, 0)]
    assert due("epoch", Position(1, 4)) == [(2, 0), (3, 0)]


def test_every_so_many_batches() -> None:
    """Counted over epochs, from the job's begin wherever training goes on; and the end."""
    assert due(7) == [(0, 7), (1, 4), (2, 1), (2, 8), (3, 0)]
    assert due(7, Position(1, 4)) == [(2, 1), (2, 8), (3, 0)]
    assert due(1000) == [(3, 0)]


@pytest.mark.parametrize(("seconds", "stride"), [(1.0, 4), (0.99, 4), (1.2, 4), (0.5, 8), (2.9, 1), (60.0, 1)])
def test_every_so_many_seconds(seconds: float, stride: int) -> None:
    """Every 2^k-th batch, never later than asked for: workers of slightly different speed save at the same positions."""
    found = [epoch * BATCHES + batch for epoch, batch in due("5s", seconds=seconds)][2:-1]
    assert found == [done for done in range(found[0], EPOCHS * BATCHES) if done % stride == 0]
    assert found


def test_kinds_that_are_equal_on_all_workers() -> None:
    assert [Schedule(every, 1, 1, lambda: 0.0).fixed for every in ("epoch", 3, "5s")] == [True, True, False]


@pytest.mark.parametrize(("given", "plain"), [("epoch", "epoch"), (1, 1), ("2.5s", "2.5s"), (None, None), ("off", None)])
def test_what_may_be_asked_for(given: Any, plain: Any) -> None:
    assert checked_every(given) == plain


@pytest.mark.parametrize("given", [0, -1, True, 2.0, "often", "0s", "-1s", "s", "1 m", [], "epoch "])
def test_what_may_not(given: Any) -> None:
    with pytest.raises(ValueError, match=r"'checkpoint_every' must be 'epoch', a positive number of batches, seconds such as"):
        checked_every(given)
