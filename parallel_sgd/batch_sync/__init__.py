"""When a result counts as ready, and when received messages reach the codecs."""

from __future__ import annotations

from .sync import AsynchronizedSGD, ISyncType, StaleSynchronous, SyncChoice, SynchronizedSGD

__all__ = ["AsynchronizedSGD", "ISyncType", "StaleSynchronous", "SyncChoice", "SynchronizedSGD"]
