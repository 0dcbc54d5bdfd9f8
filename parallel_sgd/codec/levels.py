"""Stochastic quantisation to uneven levels, on both ways."""

from __future__ import annotations

from . import compose, pipeline
from .interfaces import Codec
from .recipes import Recipes
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


def __getattr__(name: str) -> type[Codec]:
    return shipped.get(name)


def _levels_up() -> pipeline.Levels:
    return pipeline.Levels(get("QC", 8))


def _levels_down() -> pipeline.Levels:
    return pipeline.Levels(get("QS", 8))


@shipped.composes("LevelQuantizer")
def _level_quantizer(name: str) -> type[Codec]:
    """`QC` bits (8) per number from workers to the parameter server, `QS` bits (8) back: 2, 4 or 8. Levels are dense near 0."""
    return Codec.of(compose.PS(), up=_levels_up, down=_levels_down, name=name)


@shipped.composes("ShardedLevels")
def _sharded_levels(name: str) -> type[Codec]:
    """`LevelQuantizer` without a server: every worker merges a part of each variable."""
    return Codec.of(compose.ShardedPS(), up=_levels_up, down=_levels_down, name=name)
