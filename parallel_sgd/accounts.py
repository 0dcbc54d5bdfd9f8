"""Public path of `parallel_sgd.engine.accounts`."""

from __future__ import annotations

from .engine.accounts import MEMORY, RECEIVED, SENT, Entry, NodeAccounts, Times

__all__ = ["MEMORY", "RECEIVED", "SENT", "Entry", "NodeAccounts", "Times"]
