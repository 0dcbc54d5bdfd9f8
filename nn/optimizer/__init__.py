"""Optimizers: how the gradients of a batch become an update, in one process or many."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.optimizer.double_buffering import DoubleBufferingOptimizer
    from nn.optimizer.interface import Exchange, GDOptimizer, IOptimizer, OpContainer
    from nn.optimizer.local_rule import FederatedOptimizer, LocalUpdateOptimizer, ParameterAveragingOptimizer
    from nn.optimizer.parallel_sgd import GAOptimizer, GradientAveragingOptimizer, PSGDOptimizer
    from nn.optimizer.sharded import ShardedPSGDOptimizer

__all__ = [
    "DoubleBufferingOptimizer",
    "Exchange",
    "FederatedOptimizer",
    "GAOptimizer",
    "GDOptimizer",
    "GradientAveragingOptimizer",
    "IOptimizer",
    "LocalUpdateOptimizer",
    "OpContainer",
    "PSGDOptimizer",
    "ParameterAveragingOptimizer",
    "ShardedPSGDOptimizer",
]
lazily(
    __name__,
    {
        "double_buffering": "DoubleBufferingOptimizer",
        "interface": "Exchange GDOptimizer IOptimizer OpContainer",
        "local_rule": "FederatedOptimizer LocalUpdateOptimizer ParameterAveragingOptimizer",
        "parallel_sgd": "GAOptimizer GradientAveragingOptimizer PSGDOptimizer",
        "sharded": "ShardedPSGDOptimizer",
    },
)
