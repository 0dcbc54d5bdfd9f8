"""Public path of `parallel_sgd.record.history`."""

from __future__ import annotations

from .record.history import JobHistory

__all__ = ["JobHistory"]
