"""The block assignments: which blocks each worker computes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import ClassVar

from nn.arguments import integer
from nn.extension import checked_call
from parallel_sgd.engine.block_tree import Span, halves
from parallel_sgd.record.bounds import MOST_BLOCKS

from .abstract import AbsBlockAssignment


class IIDBlockAssignment(AbsBlockAssignment):
    """One block for each of the C(n, r) groups of r workers, so each worker computes C(n-1, r-1) blocks.

    With redundancy 1 worker i computes block i. n=4, r=2: 6 blocks, `[[0, 1, 2], [0, 3, 4], [1, 3, 5], [2, 4, 5]]`.
    """

    forms: ClassVar[tuple[str, ...]] = ("iid",)

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        dealt: list[list[int]] = [[] for _ in range(node_count)]
        for block, group in enumerate(combinations(range(node_count), redundancy)):
            for node in group:
                dealt[node].append(block)
        return dealt


class DuplicateAssignment(AbsBlockAssignment):
    """n/r blocks, one per worker; groups of r neighbours hold the same one. n=4, r=2: `[[0], [0], [1], [1]]`."""

    forms: ClassVar[tuple[str, ...]] = ("duplicate",)

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        """Return the one block of each worker.

        Raises: ValueError when the workers do not fall into groups of `redundancy`.
        """
        if node_count % redundancy:
            raise ValueError(
                f"DuplicateAssignment 'redundancy' must divide the number of workers, got {redundancy} for {node_count}"
            )
        return [[node // redundancy] for node in range(node_count)]


class CyclicAssignment(AbsBlockAssignment):
    """n blocks; worker i computes the blocks i, i+1, ..., i+s modulo n, where s = redundancy - 1 workers may be slow or gone.

    (Tandon et al., "Gradient coding: avoiding stragglers in distributed learning", ICML 2017.) The redundancy need not divide
    n. n=4, r=2: `[[0, 1], [1, 2], [2, 3], [0, 3]]`. The codec `GradCode` sends one coded sum per worker instead of its blocks.
    """

    forms: ClassVar[tuple[str, ...]] = ("cyclic",)

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        # sorted: workers compute in the order of the ids, as the tree adds
        return [sorted((node + ahead) % node_count for ahead in range(redundancy)) for node in range(node_count)]


class FixedBlockAssignment(AbsBlockAssignment):
    """`blocks` blocks, dealt contiguous to n/r groups of r neighbours; the largest share is as small as possible.

    Shares are whole subtrees of the merge tree where that keeps them even, so most workers send one sum per variable.
    4 blocks, n=2, r=1: `[[0, 1], [2, 3]]`; 4 blocks, n=3: `[[0, 1], [2], [3]]`.

    Args:
        node_count: n, the number of workers.
        redundancy: r, the number of workers that compute each block; must divide n.
        blocks: number of blocks in a batch, at least n/r and at most `MOST_BLOCKS`.

    Raises: ValueError when the numbers do not fit.
    """

    forms: ClassVar[tuple[str, ...]] = ("fixed",)

    def __init__(self, node_count: int, redundancy: int = 1, blocks: int = 4) -> None:
        if isinstance(blocks, bool) or not isinstance(blocks, int) or blocks < 1:
            raise ValueError(f"FixedBlockAssignment 'blocks' must be a positive integer, got {blocks!r}")
        if blocks > MOST_BLOCKS:
            raise ValueError(f"FixedBlockAssignment 'blocks' must be at most {MOST_BLOCKS}, got {blocks}")
        self._dealt_blocks = blocks
        super().__init__(node_count, redundancy)

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        """Return the blocks of each worker.

        Raises: ValueError when the workers do not fall into groups of `redundancy`, or a group would be left without a block.
        """
        if node_count % redundancy:
            raise ValueError(
                f"FixedBlockAssignment 'redundancy' must divide the number of workers, got {redundancy} for {node_count}"
            )
        groups, blocks = node_count // redundancy, self._dealt_blocks
        if groups > blocks:
            raise ValueError(
                f"FixedBlockAssignment 'blocks' must be at least {groups}, a block for each of {node_count} workers "
                f"with redundancy {redundancy}, got {blocks}"
            )
        # as even as possible: ceil(blocks / groups)
        shares = _shares((0, blocks), groups, -(-blocks // groups))
        return [list(range(*shares[node // redundancy])) for node in range(node_count)]

    @staticmethod
    @checked_call
    def of(blocks: int = 4) -> FixedBlocks:
        """Return an `assignment_type` with so many `blocks` per batch.

        Example: `parallel(..., assignment_type=FixedBlockAssignment.of(8))`.
        """
        return FixedBlocks(blocks)


@dataclass(frozen=True)
class FixedBlocks:
    """`FixedBlockAssignment` with its number of blocks: plain data that can be called with `(node_count, redundancy)`.

    Args:
        blocks: number of blocks in a batch, from the number of groups of workers to `MOST_BLOCKS`.

    Attributes: `forms`, the names that `--block-assignment` takes for it.
    """

    blocks: int = 4
    forms: ClassVar[tuple[str, ...]] = ("fixed:BLOCKS",)

    def __post_init__(self) -> None:
        # whether there are enough of them the assignment tells, which knows the workers
        if not isinstance(self.blocks, int):
            integer("FixedBlockAssignment", "blocks", self.blocks, 1)

    def __call__(self, node_count: int, redundancy: int = 1) -> FixedBlockAssignment:
        """Return the assignment for `node_count` workers, `redundancy` of which compute each block.

        Raises: ValueError when the numbers do not fit.
        """
        return FixedBlockAssignment(node_count, redundancy, self.blocks)


def _shares(span: Span, groups: int, largest: int) -> list[Span]:
    """Cut `span` into contiguous shares of at most `largest` blocks, along the merge tree as long as that is possible."""
    if groups == 1:
        return [span]
    left, right = halves(span)
    left_size, right_size = left[1] - left[0], right[1] - right[0]
    # so many groups that each of the left blocks finds room, and the right ones too
    fewest = max(-(-left_size // largest), groups - right_size)
    most = min(left_size, groups - -(-right_size // largest))
    if fewest <= most:
        left_groups = min(max(groups // 2, fewest), most)
        return _shares(left, left_groups, largest) + _shares(right, groups - left_groups, largest)
    size = span[1] - span[0]
    # no cut along the tree keeps the shares even, so the span is cut into equal parts
    cuts = [span[0] + size * group // groups for group in range(groups + 1)]
    return list(pairwise(cuts))
