"""Public path of `parallel_sgd.engine.callbacks`."""

from __future__ import annotations

from .engine.callbacks import MonitorCallback

__all__ = ["MonitorCallback"]
