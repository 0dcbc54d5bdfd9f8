"""Public path of `parallel_sgd.engine.batches`."""

from __future__ import annotations

from .engine.batches import FIXED, ORDERS, SHUFFLED, SHUFFLED_IN_BLOCKS, Batches

__all__ = ["FIXED", "ORDERS", "SHUFFLED", "SHUFFLED_IN_BLOCKS", "Batches"]
