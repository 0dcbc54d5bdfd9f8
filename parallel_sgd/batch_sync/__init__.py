"""Sync types: when a result counts as ready, and when received messages reach the codecs. `sync` lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .sync import (
        AsynchronizedSGD,
        FirstK,
        ISyncType,
        RescuingSync,
        StaleSynchronous,
        SyncChoice,
        SynchronizedSGD,
        SyncSetting,
    )

__all__ = [
    "AsynchronizedSGD",
    "FirstK",
    "ISyncType",
    "RescuingSync",
    "StaleSynchronous",
    "SyncChoice",
    "SyncSetting",
    "SynchronizedSGD",
]
__getattr__, __dir__ = lazily(
    __name__, {"sync": "AsynchronizedSGD FirstK ISyncType RescuingSync StaleSynchronous SyncChoice SyncSetting SynchronizedSGD"}
)
