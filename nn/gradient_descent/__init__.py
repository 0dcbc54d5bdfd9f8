"""Gradient-descent rules: from gradients to the change of the parameters."""

from nn.gradient_descent.adam import ADAMOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.sgd import SGDOptimizer

__all__ = ["ADAMOptimizer", "IGradientDescent", "SGDOptimizer"]
