"""Codecs of parts that are chosen independently: exchange, pipelines, merge rule, trigger. See README.md one folder up."""

from __future__ import annotations

from .admissible import check
from .builder import CodecWarning
from .estimate import Estimate, estimate
from .exchange import ExchangePattern, Shard
from .gossip import Gossip
from .lazy import Lazy
from .local import Drift, Elastic, FrozenAdam, LocalRule, Prox
from .merge import Adasum, FirstCopy, Krum, Mean, Median, MergeRule, ServerOpt, Sum, TrimmedMean, Vote, WeightedMean
from .patterns import PS, AllToAll, Ring, ShardedPS
from .random_pair import RandomPair
from .tree import Tree
from .trigger import Delay, Every, Trigger, Warmup

__all__ = [
    "PS",
    "Adasum",
    "AllToAll",
    "CodecWarning",
    "Delay",
    "Drift",
    "Elastic",
    "Estimate",
    "Every",
    "ExchangePattern",
    "FirstCopy",
    "FrozenAdam",
    "Gossip",
    "Krum",
    "Lazy",
    "LocalRule",
    "Mean",
    "Median",
    "MergeRule",
    "Prox",
    "RandomPair",
    "Ring",
    "ServerOpt",
    "Shard",
    "ShardedPS",
    "Sum",
    "Tree",
    "Trigger",
    "TrimmedMean",
    "Vote",
    "Warmup",
    "WeightedMean",
    "check",
    "estimate",
]
