"""Sync types. Yours is one new file here and one line in this list."""

from __future__ import annotations

from .asynchronous import AsynchronizedSGD, StaleSynchronous, SyncChoice
from .interface import ISyncType
from .synchronized import SynchronizedSGD

__all__ = ["AsynchronizedSGD", "ISyncType", "StaleSynchronous", "SyncChoice", "SynchronizedSGD"]
