"""Sync types: when a result counts as ready, and when received messages reach the codecs. `sync` lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

from . import sync

if TYPE_CHECKING:
    from .sync import *  # noqa: F403
    from .sync import SyncChoice as SyncChoice  # a value: readers of sources look for it by name

__all__: list[str] = []
__all__ += sync.__all__
lazily(__name__, {"sync": " ".join(sync.__all__)})
