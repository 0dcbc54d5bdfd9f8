"""Public path of `parallel_sgd.record.ledger`."""

from __future__ import annotations

from .record.ledger import Grid, Ledger, collect

__all__ = ["Grid", "Ledger", "collect"]
