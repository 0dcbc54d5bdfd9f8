"""What the contributions to a result are, and who can supply them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from parallel_sgd.merge import BlockTree, Span, block_tree
from parallel_sgd.profiles import ISetting


class Grain(Enum):
    """Whose values a codec encodes and merges.

    SPANS: sums over whole subtrees of blocks, the first copy of each counts; exact, for what travels as it is.
    WORKERS: the mean over all blocks of a worker; each worker counts as many times as it has blocks.
    BLOCKS: each block by itself, encoded alike by all who hold it; the first copy counts.
    """

    SPANS = "spans"
    WORKERS = "workers"
    BLOCKS = "blocks"

    @property
    def first_copy(self) -> bool:
        """Whether nobody's silence is missed as long as each block comes from somewhere."""
        return self is not Grain.WORKERS


class Units:
    """The contributions of a job, numbered: its workers or its blocks.

    `weights` are those of the workers, by default the number of blocks of each. Raises: ValueError for more or fewer.
    """

    def __init__(self, grain: Grain, assignment: ISetting, weights: Sequence[float] | None = None) -> None:
        self.grain = grain
        self.workers = grain is Grain.WORKERS
        self._assignment = assignment
        self.count = assignment.node_count if self.workers else assignment.block_count
        self.weights = [float(len(blocks)) for blocks in assignment.node_2_block] if self.workers else [1.0] * self.count
        if weights is not None and self.workers:
            if len(weights) != self.count:
                raise ValueError(f"WeightedMean 'weights' has {len(weights)} numbers, the job has {self.count} workers")
            self.weights = list(weights)

    @property
    def tree(self) -> BlockTree:
        """The tree over the contributions."""
        return block_tree(self.count)

    def holders(self, unit: int) -> list[int]:
        """Return the workers that can supply a contribution."""
        return [unit] if self.workers else list(self._assignment.block_2_node[unit])

    def supplies(self, node: int, span: Span) -> bool:
        """Whether a contribution, where it is that of one worker or block, is one of `node`."""
        unit, end = span
        if end != unit + 1 or not 0 <= unit < self.count:
            return False
        return unit == node if self.workers else node in self._assignment.block_2_node[unit]

    def lacking(self, span: Span) -> list[int]:
        """Return the workers that cannot make what a span holds out of their own blocks."""
        if self.workers:
            return [node for node in self._assignment.nodes if node != span[0]]
        return sorted({node for block in range(*span) for node in self._assignment.get_adversary(block)})

    def blocks(self, units: list[int]) -> list[int]:
        """Return the blocks that contributions consist of."""
        if not self.workers:
            return units
        return sorted({block for worker in units for block in self._assignment.node_2_block[worker]})
