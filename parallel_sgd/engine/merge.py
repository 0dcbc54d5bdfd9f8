"""Merging along the fixed binary tree over block ids (`block_tree`), in the arithmetic of the arrays themselves, so that bits
depend neither on arrival order nor on the node that summed each part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce

import numpy as np

from nn.arrays import Array, empty

from .block_tree import BlockTree, Copy, Span, block_tree, halves
from .unusable import Unusable

# uses that the memory of a partial sum allows: read it, write into it, write into it and use it again afterwards
# in order of preference: a sum is written into the memory that allows most
_READ_ONLY, _GIVEN, _OWN = 0, 1, 2


class TreeSum:
    """Partial sums of one value, combined as soon as both halves of a span are there, up to the spans in `tops`.

    Adding a span that is already covered changes nothing and is counted in `duplicates`. Buffers are reused after `reset`.

    Args:
        tree: the tree over the blocks.
        tops: spans at which adding ends; by default the root.
    """

    def __init__(self, tree: BlockTree, tops: Iterable[Span] | None = None) -> None:
        self._tree = tree
        self._tops = frozenset([tree.root] if tops is None else tops)
        self._parts: dict[Span, tuple[Array, int]] = {}  # the sum of a span, and the use that its memory allows
        # all parts of one value have one shape and type, so any spare buffer fits
        self._spare: list[Array] = []
        #: Spans added since `reset`, in that order, with their nodes; a wider span replaces those within it.
        self.copies: list[Copy] = []
        self.duplicates = 0

    def add(
        self, span: Span, value: Array, stays: bool, given: bool = False, node: int | None = None
    ) -> tuple[Span, Array] | None:
        """Add the sum over `span`; return a top and its sum (valid until `reset`) when this completed it.

        Args:
            span: blocks [low, high) of the sum.
            value: the sum.
            stays: promises that `value` remains unchanged until `reset`; otherwise it is copied where it must be kept.
            given: leaves `value` to this object, which may then write its sums into it: an array that came over the wire has no
                other owner.
            node: id of the node that made the sum, for `copies`.

        Raises: ValueError when `span` is no node of the tree, Unusable (a ValueError) when shapes differ.
        """
        tree, parts = self._tree, self._parts
        path = tree.path.get(span)
        if path is None:
            raise ValueError(f"A partial sum must cover a subtree of the blocks {tree.root}, got {span}")
        if parts:
            # this span or a wider one is there: a second copy after a rescue, or of a redundant worker (SUB-23)
            if not parts.keys().isdisjoint(path):
                self.duplicates += 1
                return None
            # a wider sum replaces the parts of it that came before, so that no block counts twice
            if span[1] - span[0] > 1:
                self._forget_inside(span)
        if node is not None:
            self.copies.append((span, node))
        # an array in memory shared with its sender can be read only
        use = _GIVEN if given and value.flags.writeable else _READ_ONLY
        # climbs as long as the sibling is there: at most log2(blocks) additions, and each addition once
        while span not in self._tops:
            sibling = tree.sibling[span]
            found = parts.pop(sibling, None)
            if found is None:
                if not (use or stays):
                    value, use = self._copy(value), _OWN
                parts[span] = (value, use)
                return None
            other, other_use = found
            if other.shape != value.shape:
                raise Unusable(f"it has the shape {value.shape}, and what it is to be added to {other.shape}")
            # a tuple of bounds is smaller where it lies further left
            left, right = (other, value) if sibling < span else (value, other)
            if other_use > use:
                out, out_use, rest, rest_use = other, other_use, value, use
            elif use:
                out, out_use, rest, rest_use = value, use, other, other_use
            else:
                out, out_use, rest, rest_use = self._buffer(value), _OWN, value, use
            # left + right has the bits of right + left, so only the place of the sum depends on the order of arrival
            np.add(left, right, out=out)
            if rest_use == _OWN:
                self._spare.append(rest)
            value, use, span = out, out_use, tree.parent[span]
        if not (use or stays):
            value, use = self._copy(value), _OWN
        parts[span] = (value, use)
        return span, value

    @property
    def lacks(self) -> int:
        """Number of blocks that no partial sum covers yet."""
        low, high = self._tree.root
        return high - low - sum(end - begin for begin, end in self._parts)

    def missing(self) -> list[int]:
        """Return the blocks that no partial sum covers yet."""
        return [block for block in range(*self._tree.root) if not any(low <= block < high for low, high in self._parts)]

    def reset(self) -> None:
        """Forget all sums and reuse their buffers."""
        self.copies.clear()
        if self._parts:
            for value, use in self._parts.values():
                if use == _OWN:
                    self._spare.append(value)
            self._parts.clear()

    def _copy(self, value: Array) -> Array:
        copy = self._buffer(value)
        np.copyto(copy, value)
        return copy

    def _buffer(self, like: Array) -> Array:
        return self._spare.pop() if self._spare else empty(like.shape, like.dtype)

    def _forget_inside(self, span: Span) -> None:
        # few: a span stays only as long as its sibling is lacking
        inside = [part for part in self._parts if span[0] <= part[0] and part[1] <= span[1]]
        for part in inside:
            value, use = self._parts.pop(part)
            if use == _OWN:
                self._spare.append(value)


class Division:
    """Division of sums over `count` blocks."""

    def __init__(self, count: int) -> None:
        self._count = count
        # the reciprocal of a power of two is exact: multiplying by it gives the bits of the division, at twice its speed
        self._share = None if count & (count - 1) else 1 / count

    def __call__(self, total: Array, out: Array) -> Array:
        """Return the mean, in `out`, which may be `total`."""
        if self._share is not None and total.dtype.kind == "f":
            return np.multiply(total, self._share, out=out)
        return np.divide(total, self._count, out=out)


class BlockMean(TreeSum):
    """Mean over all blocks: the sum at the root divided by their number, `block_count`."""

    def __init__(self, block_count: int) -> None:
        super().__init__(block_tree(block_count))
        self._count = block_count
        self._divide = Division(block_count)
        self._mean: tuple[Array, int] | None = None

    def mean_with(
        self, span: Span, value: Array, stays: bool, given: bool = False, node: int | None = None, begins: bool = False
    ) -> Array | None:
        """Add a sum as `add` does, after `reset` where this `begins` another sum, and return the mean when this completed the
        sum; it remains valid until the next one is complete.

        Args:
            span: blocks [low, high) of the sum.
            value: the sum.
            stays: as for `add`.
            given: as for `add`.
            node: as for `add`.
            begins: forget the sum before.
        """
        # before the new sum: the parts of the one before would count as duplicates
        if begins:
            self.reset()
        done = self.add(span, value, stays, given, node)
        if done is None:
            return None
        # the mean of one block is the block: there is nothing to divide
        if self._count == 1:
            return done[1]
        root, total = done
        use = self._parts[root][1]
        if use:  # divide in place; the buffer of the mean before holds the next sum
            # `_mean` is the array that was returned last: it may be read until this call, not longer
            if self._mean is not None and self._mean[1] == _OWN:
                self._spare.append(self._mean[0])
            self._parts[root], self._mean = (total, _READ_ONLY), (total, use)
        elif self._mean is None:
            self._mean = empty(total.shape, total.dtype), _OWN
        return self._divide(total, self._mean[0])

    def mean_so_far(self) -> Array | None:
        """Return the mean over the blocks that are there, in new memory; None where there are none.

        Its bits depend on which blocks these are, not on the order in which they came.
        """
        if not self._parts:
            return None
        spans = sorted(self._parts)
        # in the order of blocks, not of arrival: all workers with the same blocks get the same bits
        total = reduce(np.add, [self._parts[span][0] for span in spans])
        return Division(sum(high - low for low, high in spans))(total, empty(total.shape, total.dtype))


class MeanOfHalves:
    """Mean of vectors of which two halves are summed up: added and divided where it is read, a stretch at a time, so that its
    reader finds a stretch in the cache of the core. `look` is shown each stretch.
    """

    def __init__(self, left: Array, right: Array, divide: Division) -> None:
        self._left, self._right, self._divide = left, right, divide
        self.shape = left.shape
        self.look: Callable[[Array], None] | None = None
        # made when the first stretch is read: its length is the reader's
        self._stretch = np.empty_like(left[:0])

    def __len__(self) -> int:
        return len(self._left)

    def __getitem__(self, part: slice) -> Array:
        """Return a stretch; valid until the next one is read."""
        left = self._left[part]
        if len(self._stretch) < len(left):
            self._stretch = empty(left.shape, left.dtype)
        out = self._stretch[: len(left)]
        self._divide(np.add(left, self._right[part], out=out), out)
        if self.look is not None:
            self.look(out)
        return out

    def whole(self) -> Array:
        """Return all of it, in memory into which no other stretch is read."""
        # the caller keeps the array that is returned, so the next stretch must not be read into it
        self._stretch = np.empty(0)
        return self[:]


class LateMean(TreeSum):
    """Mean over all blocks of a vector, for one that is to be read once and in stretches: the result of `BlockMean`, bit by
    bit, but of the two halves of the tree nothing is computed before it is read.
    """

    def __init__(self, block_count: int) -> None:
        tree = block_tree(block_count)
        self._halves = halves(tree.root) if block_count > 1 else ()
        # the halves are tops, so that adding ends one step before the root
        super().__init__(tree, tops=(tree.root, *self._halves))
        self._divide = Division(block_count)
        self._lent: list[Array] = []

    def reset(self) -> None:
        super().reset()
        self._spare += self._lent
        self._lent.clear()

    def mean_with(
        self, span: Span, value: Array, stays: bool, given: bool = False, node: int | None = None, begins: bool = False
    ) -> Array | MeanOfHalves | None:
        """Add a sum and return the mean as `BlockMean.mean_with` does; a mean of halves remains valid until `reset`."""
        if begins:
            self.reset()
        done = self.add(span, value, stays, given, node)
        if done is None:
            return None
        if done[0] == self._tree.root:
            # the root came whole from one worker: there are no halves to leave for later
            return self._divide(done[1], empty(done[1].shape, done[1].dtype)) if self._halves else done[1]
        found = [self._parts[half] for half in self._halves if half in self._parts]
        if len(found) < 2:
            return None
        (left, left_use), (right, right_use) = found
        if left.shape != right.shape:
            raise Unusable(f"it has the shape {value.shape}, and what it is to be added to {right.shape}")
        # the mean alone holds them, so that arrays in memory of others are let go of when they have been read
        self._lent += [half for half, use in ((left, left_use), (right, right_use)) if use == _OWN]
        # an empty array stands at the root, so that a second copy of any block is found to be a duplicate
        self._parts = {self._tree.root: (left[:0].copy(), _READ_ONLY)}
        return MeanOfHalves(left, right, self._divide)


class OwnMean:
    """Mean over all blocks of one worker, which come one by one."""

    def __init__(self, blocks: Sequence[int]) -> None:
        self._place = {block: place for place, block in enumerate(blocks)}
        # over places of the own blocks, not over block ids: this mean is of one worker alone
        self._mean = BlockMean(len(blocks))

    def add(self, block: int, content: Array) -> Array | None:
        """Take a block; return the mean when this was the last one, valid until `reset`.

        That block's content must remain unchanged as long, and the content of others need not.
        """
        place = self._place[block]
        return self._mean.mean_with((place, place + 1), content, stays=place == len(self._place) - 1)

    def reset(self) -> None:
        self._mean.reset()
