"""Codecs of parts that are chosen independently: exchange, pipelines, merge rule, trigger. See README.md one folder up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from network.names import lazily

if TYPE_CHECKING:
    from .advice import Estimate, check, estimate
    from .builder import CodecWarning
    from .composed import Composed
    from .local import Drift, Elastic, FrozenAdam, Prox
    from .merge import FirstCopy, Mean, MergeRule, Round, Sum, WeightedMean
    from .merge_rules import Adasum, Bulyan, Krum, Median, ServerOpt, TrimmedMean, Vote
    from .mixing import Gossip, Neighbours, RandomPair
    from .parts import Composition, ExchangePattern, LocalRule, Shard
    from .patterns import PS, AllToAll, Ring, ShardedPS
    from .tree_reduce import Tree
    from .trigger import Delay, Every, Lazy, Trigger, Warmup

__all__ = [
    "PS",
    "Adasum",
    "AllToAll",
    "Bulyan",
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
    "Neighbours",
    "Prox",
    "RandomPair",
    "Ring",
    "Round",
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

lazily(
    __name__,
    {
        "advice": "Estimate check estimate",
        "builder": "CodecWarning",
        "composed": "Composed",
        "local": "Drift Elastic FrozenAdam Prox",
        "merge": "FirstCopy Mean MergeRule Round Sum WeightedMean",
        "merge_rules": "Adasum Bulyan Krum Median ServerOpt TrimmedMean Vote",
        "mixing": "Gossip Neighbours RandomPair",
        "parts": "Composition ExchangePattern LocalRule Shard",
        "patterns": "PS AllToAll Ring ShardedPS",
        "tree_reduce": "Tree",
        "trigger": "Delay Every Lazy Trigger Warmup",
    },
)
