"""When a result counts as ready, and when received messages reach the codecs: the sync types of `sync`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

from . import sync

if TYPE_CHECKING:
    from .sync import AsynchronizedSGD, ISyncType, StaleSynchronous, SyncChoice, SynchronizedSGD, SyncSetting

__all__ = ["AsynchronizedSGD", "ISyncType", "StaleSynchronous", "SyncChoice", "SyncSetting", "SynchronizedSGD"]
__getattr__, __dir__ = lazily(__name__, {"sync": " ".join(sync.__all__)})
