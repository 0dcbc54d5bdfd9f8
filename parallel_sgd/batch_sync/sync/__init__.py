"""Sync types. Their names stand here alone: `batch_sync` and `--psgd` take them from this list.

To add one: a class in a new file, with the methods of `ISyncType` (`interface` says when each is called), and its name below;
`forms` are its words for `--psgd`. One that takes arguments is made by a `SyncSetting`.
`RescuingSync` brings the wait with its limits and the rescue, so that `receive` and `ready` are left to write; a type by which
workers go on without each other's batches derives from `AsynchronizedSGD`. What it needs to be told is a parameter of the job
(`GlobalSettings.get_params`, given as `codec_extra_parameters` or `--codec-params`). It gets a row in
`tests/contract/test_sync_types.py`, which a test demands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .asynchronous import AsynchronizedSGD, StaleSynchronous
    from .interface import ISyncType, SyncChoice, SyncSetting
    from .synchronized import SynchronizedSGD

__all__ = ["AsynchronizedSGD", "ISyncType", "StaleSynchronous", "SyncChoice", "SyncSetting", "SynchronizedSGD"]
__getattr__, __dir__ = lazily(
    __name__,
    {
        "asynchronous": "AsynchronizedSGD StaleSynchronous",
        "interface": "ISyncType SyncChoice SyncSetting",
        "synchronized": "SynchronizedSGD",
    },
)
