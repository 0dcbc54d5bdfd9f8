"""Fixed binary tree over block ids, along which sums are merged.

The tree over blocks 0..B-1: a node is the span [low, high) of block ids; it splits at `(low + high + 1) // 2`, so the left half
holds the extra block of an odd span. The sum of a span is sum(left half) + sum(right half), so any worker that holds a whole
span may send its sum in place of the blocks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from typing import TypeVar

Part = TypeVar("Part")
Span = tuple[int, int]
Copy = tuple[Span, int]  # a sum over the blocks of a span, and the node that it is of


class BlockTree:
    """Binary tree over `block_count` blocks; immutable. `parent` and `sibling` map every span but the root; `path` maps each to
    itself and all spans that contain it.
    """

    def __init__(self, block_count: int) -> None:
        if block_count < 1:
            raise ValueError(f"BlockTree 'block_count' must be a positive integer, got {block_count}")
        self.root: Span = (0, block_count)
        # as dictionaries, made once for a job: the merge of a packet looks up spans and computes none
        self.parent: dict[Span, Span] = {}
        self.sibling: dict[Span, Span] = {}
        self.path: dict[Span, tuple[Span, ...]] = {self.root: (self.root,)}
        todo = [self.root]
        while todo:
            span = todo.pop()
            if span[1] - span[0] > 1:
                left, right = halves(span)
                self.parent[left] = self.parent[right] = span
                self.sibling[left], self.sibling[right] = right, left
                self.path[left], self.path[right] = (left, *self.path[span]), (right, *self.path[span])
                todo += [left, right]

    def cover(self, blocks: Collection[int]) -> list[Span]:
        """Return the fewest spans that hold exactly `blocks`: the maximal whole subtrees, in block order."""
        held = sorted(set(blocks))
        spans: list[Span] = []
        # both bounds travel along, so that a cover costs the spans it visits, not the blocks of each
        todo = [(self.root, 0, bisect_left(held, self.root[1]))]  # a span, and the part of `held` within it
        while todo:
            span, first, end = todo.pop()
            if end - first == span[1] - span[0]:
                spans.append(span)
            elif end > first:
                left, right = halves(span)
                middle = bisect_left(held, right[0], first, end)
                # right below left on the stack: spans come out in block order
                todo += [(right, middle, end), (left, first, middle)]
        return spans


def halves(span: Span) -> tuple[Span, Span]:
    """Return the two halves of a span of at least two blocks; the left one takes the extra block of an odd span."""
    low, high = span
    middle = (low + high + 1) // 2
    return (low, middle), (middle, high)


def reduce_tree(parts: Sequence[Part], combine: Callable[[Part, Part], Part]) -> Part:
    """Combine parts in pairs, in the order of the tree over as many blocks."""
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return combine(reduce_tree(parts[:middle], combine), reduce_tree(parts[middle:], combine))


@lru_cache(maxsize=16)
def block_tree(block_count: int) -> BlockTree:
    """Return the tree over `block_count` blocks, shared by all codecs of a worker."""
    return BlockTree(block_count)


# one entry per worker and number of blocks: enough for simulated jobs of 10,000 workers (SIM-20)
@lru_cache(maxsize=1 << 14)
def supplied(block_count: int, blocks: tuple[int, ...]) -> frozenset[Span]:
    """Return the spans with sums that a worker supplies. Every node asks for those of every other one, in each codec.

    Args:
        block_count: number of blocks in all.
        blocks: those of the worker.
    """
    return frozenset(block_tree(block_count).cover(blocks))
