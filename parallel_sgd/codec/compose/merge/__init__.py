"""Merge rules: what becomes of the contributions. Yours is one new file here and one line in this list."""

from __future__ import annotations

from .adasum import Adasum
from .mean import FirstCopy, Mean, Sum, WeightedMean
from .robust import Krum, Median, TrimmedMean
from .rule import MergeRule
from .server_opt import ServerOpt
from .vote import Vote

__all__ = [
    "Adasum",
    "FirstCopy",
    "Krum",
    "Mean",
    "Median",
    "MergeRule",
    "ServerOpt",
    "Sum",
    "TrimmedMean",
    "Vote",
    "WeightedMean",
]
