"""Sync types. Their names stand in this file alone: `batch_sync` and `--psgd` take them from this list.

To add one: a class in a new file, with the methods of `ISyncType` (`interface` says when each is called), and its name below;
`forms` are its words for `--psgd`, and stand in `SyncName` for editors. A type that takes a number is made by a `SyncSetting`,
a frozen dataclass that names the type in `makes`; `FirstK` is the shortest example of both.
`RescuingSync` brings the wait with its limits and the rescue, so that `receive` and `ready` are left to write. A type that
keeps batches apart derives from `SynchronizedSGD` and says in `is_done` when a result is complete: `present` returns the
workers that have sent all their blocks, and `settle` makes the result of the blocks that are there. A type by which workers go
on without each other's batches derives from `AsynchronizedSGD`. Any further setting of a type is a parameter of the job
(`GlobalSettings.get_params`, given as `codec_extra_parameters` or `--codec-params`). Each type gets a row of
`ROWS` in `tests/contract/test_sync_types.py`, each name that a job takes one of `CHOICES` there, and a sentence under *With
asynchronous sync types* in the README of the codecs; tests demand them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from network.names import lazily

if TYPE_CHECKING:
    from .asynchronous import AsynchronizedSGD, StaleSynchronous
    from .first import FirstK
    from .interface import ISyncType, SyncChoice, SyncSetting
    from .synchronized import RescuingSync, SynchronizedSGD

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

# For editors and type checkers; the readers take other texts, too: `stale:5`, `module.Class`, `file.py:Class`.
SyncName: TypeAlias = Literal[
    "ssgd", "asgd", "stale:0", "stale:1", "stale:2", "stale:3", "stale:4", "stale:5", "stale:6", "stale:7", "stale:8",
    "stale:9", "stale:10", "stale:11", "stale:12", "stale:13", "stale:14", "stale:15", "stale:16", "stale:17",
    "stale:18", "stale:19", "stale:20", "stale:21", "stale:22", "stale:23", "stale:24", "stale:25", "stale:26",
    "stale:27", "stale:28", "stale:29", "stale:30", "stale:31", "stale:32", "stale:inf", "first:1", "first:2",
    "first:3", "first:4", "first:5", "first:6", "first:7", "first:8", "first:9", "first:10", "first:11", "first:12",
    "first:13", "first:14", "first:15", "first:16", "first:17", "first:18", "first:19", "first:20", "first:21",
    "first:22", "first:23", "first:24", "first:25", "first:26", "first:27", "first:28", "first:29", "first:30",
    "first:31", "first:32",
]  # fmt: skip

lazily(
    __name__,
    {
        "asynchronous": "AsynchronizedSGD StaleSynchronous",
        "first": "FirstK",
        "interface": "ISyncType SyncChoice SyncSetting",
        "synchronized": "RescuingSync SynchronizedSGD",
    },
)
