"""Optimizers: how the gradients of a batch become an update, in one process or many."""

from nn.optimizer.container import OpContainer
from nn.optimizer.exchange import Exchange
from nn.optimizer.gradient_descent import GDOptimizer
from nn.optimizer.interface import IOptimizer
from nn.optimizer.parallel_sgd import PSGDOptimizer

__all__ = ["Exchange", "GDOptimizer", "IOptimizer", "OpContainer", "PSGDOptimizer"]
