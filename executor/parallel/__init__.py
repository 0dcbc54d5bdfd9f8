"""Lazy collections over any `concurrent.futures.Executor`."""

from .collection import Collection
from .context import Context

__all__ = ["Collection", "Context"]
