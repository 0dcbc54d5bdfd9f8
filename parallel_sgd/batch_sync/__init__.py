"""When a result counts as ready, and when received messages reach the codecs."""

from __future__ import annotations

from .sync import ISyncType, SynchronizedSGD

__all__ = ["ISyncType", "SynchronizedSGD"]
