"""Federated averaging with a spring."""

from __future__ import annotations

from .compose import PS, Every, Prox, WeightedMean
from .interfaces import Codec
from .settings import GlobalSettings


def _prox() -> Prox:
    return Prox(GlobalSettings.get_params("mu", 0.01), GlobalSettings.get_params("learn_rate", None))


def _every() -> Every:
    return Every(GlobalSettings.get_params("local_batches", 150))


FedProx = Codec.of(PS(), send="delta", merge=WeightedMean(), trigger=_every, local=_prox, name="FedProx")
"""`FedAvg`, every `local_batches` (150) batches, whose local steps are also drawn to the common parameters, by `mu` (0.01)
times the distance. `learn_rate` is by default that of the job's rule. For op_type=ParameterAveragingOptimizer.

Li et al., "Federated optimization in heterogeneous networks", 2020."""
