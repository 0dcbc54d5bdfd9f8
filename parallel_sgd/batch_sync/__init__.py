"""When a result counts as ready, and when received messages reach the codecs: the sync types of `sync`."""

from __future__ import annotations

from . import sync
from .sync import *  # noqa: F403

__all__: list[str] = []
__all__ += sync.__all__
