"""Stochastic quantisation to uneven levels, on both ways."""

from .named import LevelQuantizer, ShardedLevels

__all__ = ["LevelQuantizer", "ShardedLevels"]
