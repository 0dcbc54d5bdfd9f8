"""Gradient-descent rules: from gradients to the change of the parameters."""

from nn.gradient_descent import schedule
from nn.gradient_descent.adagrad import AdaDeltaOptimizer, AdaGradOptimizer, RMSPropOptimizer
from nn.gradient_descent.adam import ADAMOptimizer, ADAMWOptimizer, LAMBOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.schedule import Constant, Cosine, ExponentialDecay, Schedule, StepDecay, WarmUp
from nn.gradient_descent.sgd import GradientDecay, MomentumOptimizer, NesterovOptimizer, SGDOptimizer

__all__ = [
    "ADAMOptimizer", "ADAMWOptimizer", "AdaDeltaOptimizer", "AdaGradOptimizer", "Constant", "Cosine", "ExponentialDecay",
    "GradientDecay", "IGradientDescent", "LAMBOptimizer", "MomentumOptimizer", "NesterovOptimizer", "RMSPropOptimizer",
    "SGDOptimizer", "Schedule", "StepDecay", "WarmUp", "schedule",
]  # fmt: skip
