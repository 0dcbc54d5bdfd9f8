"""Integers of 8 bits."""

from __future__ import annotations

from .compose import ShardedPS
from .interfaces import Codec
from .pipeline import quantize
from .settings import GlobalSettings


def _int8() -> quantize.Int8:
    return quantize.Int8(GlobalSettings.get_params("block", 4096))


Int8 = Codec.of(ShardedPS(), up=_int8, down=_int8, name="Int8")
"""8 bits per number and a scale per `block` (4096) of them, on both ways: a quarter of the bytes of `Ring`."""
