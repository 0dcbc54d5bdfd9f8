"""Federated averaging: workers train alone and average their parameters now and then."""

from __future__ import annotations

from .compose import PS, AllToAll, Every, WeightedMean
from .interfaces import Codec
from .settings import GlobalSettings


def _every() -> Every:
    return Every(GlobalSettings.get_params("local_batches", 150))


FedAvg = Codec.of(PS(), send="weights", merge=WeightedMean(), trigger=_every, name="FedAvg")
"""`local_batches` (150) batches alone, then w <- sum_i n_i w_i / sum_i n_i through the parameter server, n_i being the blocks
of worker i. For op_type=ParameterAveragingOptimizer. (4n + 8) / local_batches bytes per batch, up and down.

McMahan et al., "Communication-efficient learning of deep networks from decentralized data", 2017."""

LocalSGD = Codec.of(AllToAll(), send="weights", merge=WeightedMean(), trigger=_every, name="LocalSGD")
"""The same among workers, without a server. Stich, "Local SGD converges fast and communicates little", 2019."""
