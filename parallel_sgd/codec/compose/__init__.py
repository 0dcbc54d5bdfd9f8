"""Codecs of parts that are chosen independently: exchange, pipelines, merge rule, trigger. See README.md one folder up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .advice import Estimate, check, estimate
    from .builder import CodecWarning
    from .composed import Composed
    from .local import Drift, Elastic, FrozenAdam, Prox
    from .merge import FirstCopy, Mean, MergeRule, Sum, WeightedMean
    from .merge_rules import Adasum, Krum, Median, ServerOpt, TrimmedMean, Vote
    from .mixing import Gossip, RandomPair
    from .parts import Composition, ExchangePattern, LocalRule, Shard
    from .patterns import PS, AllToAll, Ring, ShardedPS
    from .tree_reduce import Tree
    from .trigger import Delay, Every, Lazy, Trigger, Warmup

__all__ = [
    "PS",
    "Adasum",
    "AllToAll",
    "CodecWarning",
    "Composed",
    "Composition",
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

__getattr__, __dir__ = lazily(
    __name__,
    {
        "PS": "patterns",
        "Adasum": "merge_rules",
        "AllToAll": "patterns",
        "CodecWarning": "builder",
        "Composed": "composed",
        "Composition": "parts",
        "Delay": "trigger",
        "Drift": "local",
        "Elastic": "local",
        "Estimate": "advice",
        "Every": "trigger",
        "ExchangePattern": "parts",
        "FirstCopy": "merge",
        "FrozenAdam": "local",
        "Gossip": "mixing",
        "Krum": "merge_rules",
        "Lazy": "trigger",
        "LocalRule": "parts",
        "Mean": "merge",
        "Median": "merge_rules",
        "MergeRule": "merge",
        "Prox": "local",
        "RandomPair": "mixing",
        "Ring": "patterns",
        "ServerOpt": "merge_rules",
        "Shard": "parts",
        "ShardedPS": "patterns",
        "Sum": "merge",
        "Tree": "tree_reduce",
        "Trigger": "trigger",
        "TrimmedMean": "merge_rules",
        "Vote": "merge_rules",
        "Warmup": "trigger",
        "WeightedMean": "merge",
        "check": "advice",
        "estimate": "advice",
    },
)
