"""Every worker computes the blocks of its successors too."""

from __future__ import annotations

from .abstract import AbsBlockAssignment


class CyclicAssignment(AbsBlockAssignment):
    """n blocks; worker i computes the blocks i, i+1, ..., i+s modulo n, where s = redundancy - 1 workers may be slow or gone.

    (Tandon et al., "Gradient coding: avoiding stragglers in distributed learning", ICML 2017.) The redundancy need not divide
    n. n=4, r=2: `[[0, 1], [1, 2], [2, 3], [0, 3]]`. The codec `GradCode` sends one coded sum per worker instead of its blocks.
    """

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        """The blocks of each worker, in ascending order."""
        return [sorted((node + ahead) % node_count for ahead in range(redundancy)) for node in range(node_count)]
