"""Public path of `parallel_sgd.engine.merge`."""

from __future__ import annotations

from .engine.block_tree import BlockTree
from .engine.merge import BlockMean, TreeSum

__all__ = ["BlockMean", "BlockTree", "TreeSum"]
