"""Federated averaging of workers that know in which direction their data draw them."""

from __future__ import annotations

from .compose import PS, Drift, Every, WeightedMean
from .interfaces import Codec
from .settings import GlobalSettings


def _drift() -> Drift:
    return Drift(GlobalSettings.get_params("learn_rate", None))


def _every() -> Every:
    return Every(GlobalSettings.get_params("local_batches", 150))


SCAFFOLD = Codec.of(PS(), send="delta", merge=WeightedMean(), trigger=_every, local=_drift, name="SCAFFOLD")
"""`local_batches` (150) batches alone, corrected by control variates; 8n bytes up and down. `learn_rate` is by default that of
the job's rule, SGDOptimizer. For op_type=ParameterAveragingOptimizer.

Karimireddy et al., "SCAFFOLD: stochastic controlled averaging for federated learning", 2020."""
