"""Optimizers: how the gradients of a batch become an update, in one process or many."""

from nn.optimizer.double_buffering import DoubleBufferingOptimizer
from nn.optimizer.interface import Exchange, GDOptimizer, IOptimizer, OpContainer
from nn.optimizer.local_rule import FederatedOptimizer, LocalUpdateOptimizer, ParameterAveragingOptimizer
from nn.optimizer.parallel_sgd import GAOptimizer, GradientAveragingOptimizer, PSGDOptimizer
from nn.optimizer.sharded import ShardedPSGDOptimizer

__all__ = [
    "DoubleBufferingOptimizer", "Exchange", "FederatedOptimizer", "GAOptimizer", "GDOptimizer", "GradientAveragingOptimizer",
    "IOptimizer", "LocalUpdateOptimizer", "OpContainer", "PSGDOptimizer", "ParameterAveragingOptimizer",
    "ShardedPSGDOptimizer",
]  # fmt: skip
