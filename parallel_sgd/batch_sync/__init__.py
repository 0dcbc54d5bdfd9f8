"""Sync types: when a result counts as ready, and when received messages reach the codecs. `sync` lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

from . import sync

if TYPE_CHECKING:
    from .sync import *  # noqa: F403 - names of sync types stand in `sync` alone

__all__ = [*sync.__all__]
__getattr__, __dir__ = lazily(__name__, {"sync": " ".join(sync.__all__)})
