"""Stochastic quantisation to uneven levels, on both ways."""

from __future__ import annotations

from .compose import PS, ShardedPS
from .interfaces import Codec
from .pipeline.quantize import Levels
from .settings import GlobalSettings


def _up() -> Levels:
    return Levels(GlobalSettings.get_params("QC", 8))


def _down() -> Levels:
    return Levels(GlobalSettings.get_params("QS", 8))


LevelQuantizer = Codec.of(PS(), up=_up, down=_down, name="LevelQuantizer")
"""`QC` bits (8) per number from workers to the parameter server, `QS` bits (8) back: 2, 4 or 8. Levels are dense near 0."""

ShardedLevels = Codec.of(ShardedPS(), up=_up, down=_down, name="ShardedLevels")
"""The same without a server: every worker merges a part of each variable."""
