"""The optimizer where gradients or changes are merged."""

from __future__ import annotations

from nn.gradient_descent import ADAMOptimizer

from .compose import PS, Every, ServerOpt
from .interfaces import Codec
from .settings import GlobalSettings


def _adam() -> ServerOpt:
    return ServerOpt(ADAMOptimizer(GlobalSettings.get_params("learn_rate", 1e-3)))


def _fed_adam() -> ServerOpt:
    return ServerOpt(ADAMOptimizer(GlobalSettings.get_params("learn_rate", 1e-2), 0.9, 0.99, 1e-3))


def _every() -> Every:
    return Every(GlobalSettings.get_params("local_batches", 150))


ServerAdam = Codec.of(PS(), merge=_adam, name="ServerAdam")
"""Gradients up; the parameter server makes steps of Adam (`learn_rate`, 1e-3), parameters come back. For
op_type=GradientAveragingOptimizer; the workers' own rule is not used."""

FedAdam = Codec.of(PS(), send="delta", merge=_fed_adam, trigger=_every, name="FedAdam")
"""`local_batches` (150) batches alone, then a step of Adam (`learn_rate`, 0.01; 0.9, 0.99, epsilon 1e-3) on what has changed.
For op_type=ParameterAveragingOptimizer. Reddi et al., "Adaptive federated optimization", 2021."""
