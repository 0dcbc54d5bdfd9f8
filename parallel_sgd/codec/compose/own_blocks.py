"""A worker's own blocks of a batch, put together before they are encoded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parallel_sgd.codec.interfaces import Array
from parallel_sgd.merge import Span, TreeSum, block_tree

from .units import Grain


class OwnBlocks:
    """Takes the blocks of one worker as they are computed and gives what it contributes, as flat vectors.

    Sums run along the tree over block ids. What is returned stays valid until `reset`; where `stays` is False it is also
    independent of the content that was put.
    """

    def __init__(self, grain: Grain, node: int, blocks: Sequence[int], block_count: int, stays: bool = True) -> None:
        tree = block_tree(block_count)
        self._grain = grain
        self._node = node
        self._last = blocks[-1]
        self._count = len(blocks)
        self._stays = stays
        self._sums = TreeSum(tree, tops=tree.cover(blocks))
        self._tops: dict[Span, Array] = {}
        self._left = self._count
        self._mean: Array | None = None

    def add(self, block: int, content: Array) -> tuple[Span, Array] | None:
        """Take a block; return a contribution and what it holds when this completed one."""
        flat = content.reshape(-1)
        self._left -= 1
        whole = self._sums.add((block, block + 1), flat, stays=self._stays and block == self._last)
        if whole is not None:
            self._tops[whole[0]] = whole[1]
        if self._grain is Grain.BLOCKS:
            return (block, block + 1), flat
        if self._grain is Grain.SPANS:
            return whole
        return ((self._node, self._node + 1), self.mean()) if not self._left else None

    @property
    def complete(self) -> bool:
        """Whether all blocks of the batch are there."""
        return self._left == 0

    def mean(self) -> Array:
        """Return the mean over all own blocks, which are `complete`."""
        tops = [self._tops[span] for span in sorted(self._tops)]
        if self._count == 1:
            return tops[0]
        if self._mean is None:
            self._mean = np.empty_like(tops[0])
        np.copyto(self._mean, tops[0])
        for top in tops[1:]:
            np.add(self._mean, top, out=self._mean)
        return np.divide(self._mean, self._count, out=self._mean)

    def reset(self) -> None:
        """Make ready for the next batch."""
        self._sums.reset()
        self._tops.clear()
        self._left = self._count
