"""Every combination of workers shares one block."""

from __future__ import annotations

from itertools import combinations

from .abstract import AbsBlockAssignment


class IIDBlockAssignment(AbsBlockAssignment):
    """One block for each of the C(n, r) groups of r workers, so each worker computes C(n-1, r-1) blocks.

    With redundancy 1 worker i computes block i. n=4, r=2: 6 blocks, `[[0, 1, 2], [0, 3, 4], [1, 3, 5], [2, 4, 5]]`.
    """

    def deal(self, node_count: int, redundancy: int) -> list[list[int]]:
        """The blocks of each worker, block ids in the lexicographic order of the groups."""
        dealt: list[list[int]] = [[] for _ in range(node_count)]
        for block, group in enumerate(combinations(range(node_count), redundancy)):
            for node in group:
                dealt[node].append(block)
        return dealt
