"""Optimizers: how the gradients of a batch become an update, in one process or many."""

from nn.optimizer.container import OpContainer
from nn.optimizer.double_buffering import DoubleBufferingOptimizer
from nn.optimizer.exchange import Exchange
from nn.optimizer.federated import FederatedOptimizer
from nn.optimizer.gradient_ascent import GAOptimizer
from nn.optimizer.gradient_averaging import GradientAveragingOptimizer
from nn.optimizer.gradient_descent import GDOptimizer
from nn.optimizer.interface import IOptimizer
from nn.optimizer.local_update import LocalUpdateOptimizer
from nn.optimizer.parallel_sgd import PSGDOptimizer
from nn.optimizer.parameter_averaging import ParameterAveragingOptimizer
from nn.optimizer.sharded import ShardedPSGDOptimizer

__all__ = [
    "DoubleBufferingOptimizer", "Exchange", "FederatedOptimizer", "GAOptimizer", "GDOptimizer", "GradientAveragingOptimizer",
    "IOptimizer", "LocalUpdateOptimizer", "OpContainer", "PSGDOptimizer", "ParameterAveragingOptimizer",
    "ShardedPSGDOptimizer",
]  # fmt: skip
