"""Codecs of parts that are chosen independently: exchange, pipelines, merge rule, trigger. See README.md one folder up."""

from __future__ import annotations

from .advice import Estimate, check, estimate
from .builder import CodecWarning
from .lazy import Lazy
from .local import Drift, Elastic, FrozenAdam, Prox
from .merge import FirstCopy, Mean, MergeRule, Sum, WeightedMean
from .merge_rules import Adasum, Krum, Median, ServerOpt, TrimmedMean, Vote
from .mixing import Gossip, RandomPair
from .parts import ExchangePattern, LocalRule, Shard
from .patterns import PS, AllToAll, Ring, ShardedPS
from .tree_reduce import Tree
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
