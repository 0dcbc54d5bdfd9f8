"""Exchange along a tree of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from parallel_sgd.codec.interfaces import Codec

from .climbing import Climbing
from .exchange import ExchangePattern
from .merge import Mean

if TYPE_CHECKING:
    from .composition import Composition, Parts


class Tree(ExchangePattern):
    """Sums climb a binary tree of workers and the mean comes down, for what is linear: 2 log2(W) steps in place of W packets.

    The tree is the one over blocks along which everything is merged, so the bits are those of `Plain`. Bytes: every worker but
    one sends a payload up and gets one down; the first worker sends and receives log2(W) of each. Without redundancy.
    """

    linear: ClassVar[bool] = True
    rounds: ClassVar[bool] = True

    def codec_class(self) -> type[Codec]:
        """Climbing."""
        return Climbing

    def refuse(self, composition: Composition, parts: Parts) -> None:
        """The mean over all, in the same batch."""
        if type(parts.merge) is not Mean:
            raise ValueError(f"Tree takes the mean over all blocks, got {parts.merge!r}: leave 'merge' out")
        if parts.trigger.late:
            raise ValueError(f"{parts.trigger!r} needs two batches under way: take AllToAll(), ShardedPS() or Ring()")
