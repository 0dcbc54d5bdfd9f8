"""The same batch, dealt to another number of workers."""

from __future__ import annotations

from collections.abc import Collection

from .profiles import FixedBlockAssignment, ISetting


def redealt(assignment: ISetting, workers: int) -> ISetting:
    """The blocks of `assignment` dealt to another number of workers, contiguous, with as much of its redundancy as fits.

    The number of blocks stays, so a batch holds the same samples and its result has the same bits.

    Raises: ValueError when there are more workers than blocks.
    """
    if workers == assignment.node_count:
        return assignment
    blocks = assignment.block_count
    if workers > blocks:
        raise ValueError(f"A batch of {blocks} blocks cannot be dealt to {workers} workers; each needs a block")
    fitting: Collection[int] = [r for r in range(1, assignment.redundancy + 1) if workers % r == 0]
    return FixedBlockAssignment(workers, max(fitting), blocks)
