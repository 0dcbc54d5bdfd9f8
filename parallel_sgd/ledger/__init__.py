"""Who computed what went into the weights: every block of every batch exactly once, whatever happened on the way."""

from __future__ import annotations

from .collect import collect
from .history import NOBODY, History, Stretch
from .ledger import Grid, Ledger
from .recorder import Recorder
from .table import LedgerTable

__all__ = ["NOBODY", "Grid", "History", "Ledger", "LedgerTable", "Recorder", "Stretch", "collect"]
