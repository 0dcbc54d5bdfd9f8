"""Schedule of a node's checkpoints: the arguments `checkpoint_every` and `commit_every`, and the positions that they mean."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

from ..engine.progress import Position

EPOCH: Final = "epoch"
OFF: Final = "off"
AUTO: Final = "auto"
Every = Literal["epoch", "auto", "off"] | str | int | None
NEVER: Final = 0
_SECONDS = re.compile(r"(\d+(?:\.\d+)?) *s")


def checked_every(every: Every) -> Every:
    """Return the argument `checkpoint_every` in its plain form.

    Args:
        every: "epoch", a number of batches, seconds as in "30s", or None or "off" for never.

    Returns: the same, None for "off".

    Raises: ValueError for anything else.
    """
    if every is None or (isinstance(every, str) and every == OFF):
        return None
    # True is an int, and would mean every batch
    if isinstance(every, int) and not isinstance(every, bool) and every >= 1:
        return every
    if isinstance(every, str) and (every == EPOCH or _seconds(every) > 0):
        return every
    raise ValueError(
        f"'checkpoint_every' must be 'epoch', a positive number of batches, seconds such as '30s', or None, got {every!r}"
    )


def _seconds(text: str) -> float:
    match = _SECONDS.fullmatch(text)
    return float(match[1]) if match else 0.0


def checked_commits(every: object) -> int:
    """Check the argument `commit_every`, and return it: `every` so many batches a worker copies its state.

    Raises: ValueError for anything but a positive integer.
    """
    if isinstance(every, bool) or not isinstance(every, int) or every < 1:
        raise ValueError(f"'commit_every' must be a positive number of batches, got {every!r}")
    return every


Kept = int | tuple[int, int] | None
"""Argument `keep_every`: epochs from one checkpoint that stays to the next; or completed epochs and batches of a position that
stays besides the end of each epoch, as `psgd verify` asks for."""


def keeps(every: Kept) -> Callable[[Position], bool]:
    """Return the meaning of `keep_every`: a function that tells whether the checkpoint of a position stays."""
    if isinstance(every, tuple):
        return lambda position: position.batch == 0 or position == every
    return lambda position: every is not None and position.batch == 0 and position.epoch % every == 0


class Schedule:
    """Positions at which there is a checkpoint; the end of the last epoch is always one of them.

    Under seconds it is every 2^k-th batch, with the largest k that keeps them: workers that differ a little in speed save at
    the same positions all the same. The other kinds are `fixed`: equal on all workers at any speed.

    Args:
        every: "epoch", a number of batches, or seconds as in "30s".
        epochs: number of epochs of the training.
        batches: number of batches in an epoch.
        clock: returns monotonic seconds.
        keeps: tells whether the checkpoint of a position shall stay; each such position has a checkpoint.
    """

    def __init__(
        self,
        every: str | int,
        epochs: int,
        batches: int,
        clock: Callable[[], float],
        keeps: Callable[[Position], bool] = lambda _: False,
    ) -> None:
        # by seconds the positions differ between runs, and may differ between workers
        self.fixed = not (isinstance(every, str) and every != EPOCH)
        self._every, self._keeps = every, keeps
        self._end = Position(epochs, 0)
        self._batches = batches
        self._seconds = 0.0 if self.fixed else _seconds(str(every))
        self._clock = clock
        self._began: tuple[int, float] | None = None

    def due(self, position: Position) -> bool:
        """Tell whether there is a checkpoint at `position`."""
        # always: the end is the state that people keep, and what a longer training goes on from
        if position == self._end or self._keeps(position):
            return True
        if self._every == EPOCH:
            return position.batch == 0
        done = position.epoch * self._batches + position.batch
        if self.fixed:
            return done % int(self._every) == 0
        return done % self._stride(done) == 0

    def on_all(self, position: Position) -> bool:
        """Tell whether all workers save at this `position`, if one does."""
        return self.fixed or self._keeps(position)

    def _stride(self, done: int) -> int:
        """Return the batches from one checkpoint to the next, by the speed so far, without the first batch, which is slow."""
        now = self._clock()
        if self._began is None:
            self._began = (done, now)
            # no speed is known yet; `done` is never a multiple of this, so there is no checkpoint here
            return done + 1
        first, began = self._began
        # two looks at a coarse clock may be equal
        passed = max(now - began, 1e-9)
        fitting = max(1.0, self._seconds * (done - first) / passed)
        # the largest power of two: a worker that is a little faster gets the same one, or twice it, whose multiples are shared
        return 1 << (int(fitting).bit_length() - 1)
