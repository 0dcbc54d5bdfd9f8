"""What a codec may ask about the job: who computes which block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence


class ISetting(ABC):
    """The answer of `GlobalSettings.get_default()`. Nodes are the workers 0..n-1; a parameter server is not counted."""

    @property
    @abstractmethod
    def node_count(self) -> int:
        """The number of workers."""

    @property
    @abstractmethod
    def redundancy(self) -> int:
        """How many workers compute each block."""

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
        """The workers that do not hold `block`, so the ones that need its gradient from elsewhere."""
        holders = self.block_2_node[block]
        return [node for node in self.nodes if node not in holders]
