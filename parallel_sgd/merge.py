"""Public path of `parallel_sgd.engine.merge`."""

from __future__ import annotations

from .engine.merge import BlockMean, BlockTree, TreeSum

__all__ = ["BlockMean", "BlockTree", "TreeSum"]
