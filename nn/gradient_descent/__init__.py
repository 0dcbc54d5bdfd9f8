"""Gradient-descent rules: from gradients to the change of the parameters."""

from nn.gradient_descent import schedule
from nn.gradient_descent.adadelta import AdaDeltaOptimizer
from nn.gradient_descent.adagrad import AdaGradOptimizer
from nn.gradient_descent.adam import ADAMOptimizer
from nn.gradient_descent.adamw import ADAMWOptimizer
from nn.gradient_descent.gradient_decay import GradientDecay
from nn.gradient_descent.interface import IGradientDescent
from nn.gradient_descent.lamb import LAMBOptimizer
from nn.gradient_descent.momentum import MomentumOptimizer
from nn.gradient_descent.nesterov import NesterovOptimizer
from nn.gradient_descent.rmsprop import RMSPropOptimizer
from nn.gradient_descent.schedule import Constant, Cosine, ExponentialDecay, Schedule, StepDecay, WarmUp
from nn.gradient_descent.sgd import SGDOptimizer

__all__ = [
    "ADAMOptimizer", "ADAMWOptimizer", "AdaDeltaOptimizer", "AdaGradOptimizer", "Constant", "Cosine", "ExponentialDecay",
    "GradientDecay", "IGradientDescent", "LAMBOptimizer", "MomentumOptimizer", "NesterovOptimizer", "RMSPropOptimizer",
    "SGDOptimizer", "Schedule", "StepDecay", "WarmUp", "schedule",
]  # fmt: skip
