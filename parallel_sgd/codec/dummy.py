"""No exchange: every worker goes its own way."""

from __future__ import annotations

from typing import Any

from parallel_sgd.merge import BlockMean

from .interfaces import Array, BlockWeight, Codec
from .settings import GlobalSettings


class DummyCodec(Codec):
    """The result is the mean over the worker's own blocks of the batch, so n workers train n different models.

    A batch is still `block_size` times all blocks of the data; a worker's step uses its own share of it. Sends nothing.
    """

    keeps_content = False
    keeps_type = True
    agrees = False

    def __init__(self, node_id: int) -> None:
        super().__init__(node_id)
        mine = GlobalSettings.get_default().node_2_block[node_id]
        self._place = {block: place for place, block in enumerate(mine)}
        self._sum = BlockMean(len(mine))

    def update_blocks(self, block_weight: BlockWeight) -> None:
        """Add the block; the last one completes the result."""
        content, block = block_weight
        place = self._place[block]
        mean = self._sum.mean_with((place, place + 1), content, stays=place == len(self._place) - 1)
        if mean is not None:
            self.set_result(mean)

    def receive_blocks(self, content: Any) -> None:
        """Nobody sends to this codec.

        Raises: TypeError, because another codec runs for this variable on some other node.
        """
        raise TypeError(f"DummyCodec exchanges nothing, got a packet with {type(content).__name__}")

    def get_result(self) -> Array | None:
        """The mean over the own blocks; valid until the next batch's result is complete."""
        if self._result is not None:
            self._sum.reset()
        return super().get_result()

    def dispose(self) -> None:
        """Let go of the sums."""
        super().dispose()
        self._sum.reset()
