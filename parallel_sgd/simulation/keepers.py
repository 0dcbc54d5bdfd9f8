"""Keepers of checkpoints of simulated nodes: a checkpoint is there at once, so that it depends on no thread."""

from __future__ import annotations

from collections.abc import Sequence

from ..checkpoint.keeper import Keeper
from ..checkpoint.state import State
from ..engine.batches import Batches
from ..engine.progress import Part, Position, Progress
from .shared import SharedState

__all__ = ["SharedKeeper", "SimulatedKeeper"]


class SimulatedKeeper(Keeper):
    """Keeper of one simulated process.

    Attributes:
        dead: whether the process was killed: it saves nothing any more.
    """

    dead = False

    def keep(self, progress: Progress, personal: bool, state: State, commit: bool = False) -> None:
        if not self.dead:
            super().keep(progress, personal, state, commit)
            self.writer.flush()  # no thread: what follows may need the checkpoint in the same event


class SharedKeeper(Keeper):
    """Keeper of one of the workers that share a state: one checkpoint stands for those of all at its position.

    Args:
        common: the keeper that writes them.
        state: the shared state.
        begin: the position at which training has begun.

    Attributes:
        dead: as that of `SimulatedKeeper`.
    """

    def __init__(self, common: Keeper, state: SharedState, begin: Position) -> None:
        self._common, self._state, self._begin = common, state, begin
        self.writer = common.writer
        self.dead = False

    def describe(self, batches: Batches, parts: Sequence[Part] = ()) -> None:
        """Fill in the fields of the header that are known once the data are there.

        Args:
            batches: of the data.
            parts: of a training that went on.
        """
        self._common.describe(batches, parts)

    def batches_before(self, position: Position) -> int:
        return self._common.batches_before(position)

    def prepare(self, state: State) -> None:
        self._common.prepare(state)

    def keep(self, progress: Progress, personal: bool, state: State, commit: bool = False) -> None:
        position = progress.position
        # of a worker that has not come as far as another one the state is gone
        is_now = self.batches_before(position) - self.batches_before(self._begin) == self._state.steps
        if is_now and not self.dead and self.writer.tried != position:  # another worker may have written this position
            self._common.keep(progress, personal, state, commit)

    def close(self) -> None:
        """Do nothing: the others may go on."""
