"""Questions of a codec about the job, which worker computes which block; and the base of all block assignments, which answers
them: a subclass says which blocks each worker computes, the rest follows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from operator import index
from typing import ClassVar

from nn.extension import Extension


class ISetting(metaclass=Extension):
    """The answer of `GlobalSettings.get_default()`. Nodes are the workers 0..n-1; a parameter server is not counted."""

    @property
    @abstractmethod
    def node_count(self) -> int:
        """The number of workers."""

    @property
    @abstractmethod
    def redundancy(self) -> int:
        """The number of workers that compute each block."""

    @property
    @abstractmethod
    def block_count(self) -> int:
        """The number of blocks in a batch."""

    @property
    @abstractmethod
    def node_2_block(self) -> Sequence[Sequence[int]]:
        """The blocks of each worker, in the order in which it computes them."""

    @property
    @abstractmethod
    def block_2_node(self) -> Sequence[Sequence[int]]:
        """The workers that hold each block, in ascending order."""

    @property
    def nodes(self) -> range:
        return range(self.node_count)

    @property
    def blocks(self) -> range:
        return range(self.block_count)

    def get_adversary(self, block: int) -> list[int]:
        """Return the workers that do not hold `block`, and so need its gradient from another worker, in ascending order."""
        holders = self.block_2_node[block]
        return [node for node in self.nodes if node not in holders]


class AbsBlockAssignment(ISetting, fixed=("_node_count", "_redundancy", "_node_2_block", "_block_2_node")):
    """Assignment that deals the blocks of a batch to `node_count` workers, each block to `redundancy` of them.

    To add one: a class with `deal` in `assignments`, `forms` for its words, its name in the `__init__.py` here, its word in
    `AssignmentName` there, a row in the first table of the README here, and one in `tests/contract/test_assignments.py`.
    Tests demand all of it.

    Args:
        node_count: n, the number of workers, at least 1; a parameter server is not counted.
        redundancy: r, the number of workers that compute each block, from 1 to n.

    Raises: ValueError when the numbers do not fit, before anything is sent anywhere.
    """

    #: Names that `--block-assignment` takes for it; a subclass does not inherit these.
    forms: ClassVar[tuple[str, ...]] = ()

    def __init__(self, node_count: int, redundancy: int = 1) -> None:
        name = type(self).__name__
        for argument, value in (("node_count", node_count), ("redundancy", redundancy)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} '{argument}' must be a positive integer, got {value!r}")
        if redundancy > node_count:
            raise ValueError(f"{name} 'redundancy' must not exceed the number of workers, got {redundancy} for {node_count}")
        self._node_count = node_count
        self._redundancy = redundancy
        # copied into lists: a user's `deal` may return anything that can be iterated over
        dealt = self.deal(node_count, redundancy)
        try:
            self._node_2_block = [list(map(index, blocks)) for blocks in dealt]
        except TypeError as error:
            raise TypeError(
                f"{name}.deal() must return a list of block ids for each worker, such as [[0, 1], [2]], got {dealt!r}"
            ) from error
        if len(self._node_2_block) != node_count or not all(self._node_2_block):
            raise ValueError(f"{name} must deal at least one block to each of {node_count} workers: {self._node_2_block}")
        held = {block for blocks in self._node_2_block for block in blocks}
        # ids without a gap: the tree is over 0..B-1
        if held != set(range(len(held))):
            raise ValueError(
                f"{name} must deal every block from 0 to {max(held)} to some worker, and no other: {self._node_2_block}"
            )
        self._block_2_node: list[list[int]] = [[] for _ in held]
        for node, blocks in enumerate(self._node_2_block):
            # a block that a worker names twice is held once
            for block in dict.fromkeys(blocks):
                self._block_2_node[block].append(node)

    @abstractmethod
    def deal(self, node_count: int, redundancy: int) -> Sequence[Sequence[int]]:
        """Return the blocks of each worker; block ids are 0..B-1 without a gap, neighbours close together.

        Args:
            node_count: n, the number of workers.
            redundancy: r, the number of workers that compute each block.

        Returns: one list of block ids per worker, in the order in which it computes them.
        Raises: ValueError when the numbers do not fit this assignment.
        """

    @property
    def node_count(self) -> int:
        return self._node_count

    @property
    def redundancy(self) -> int:
        return self._redundancy

    @property
    def block_count(self) -> int:
        return len(self._block_2_node)

    @property
    def node_2_block(self) -> list[list[int]]:
        return self._node_2_block

    @property
    def block_2_node(self) -> list[list[int]]:
        return self._block_2_node
