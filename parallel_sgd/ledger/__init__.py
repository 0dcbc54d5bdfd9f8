"""Who computed what went into the weights: every block of every batch exactly once, whatever happened on the way."""

from __future__ import annotations

from .collect import collect
from .ledger import Grid, Ledger

__all__ = ["Grid", "Ledger", "collect"]
