"""Public path of `parallel_sgd.record.run`."""

from __future__ import annotations

from .record.run import JobResult

__all__ = ["JobResult"]
