"""Dense exchange at the bytes of a ring."""

from __future__ import annotations

from .compose import Ring as RingExchange
from .interfaces import Codec

Ring = Codec.of(RingExchange(), name="Ring")
"""Reduce-scatter and all-gather: 2 (W - 1) / W 4n bytes per worker and variable, and the bits of `Plain`."""
