"""Gradient-descent rules: from gradients to the change of the parameters."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
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
__getattr__, __dir__ = lazily(__name__, {
    "schedule": "schedule", "AdaDeltaOptimizer": "adagrad", "AdaGradOptimizer": "adagrad", "RMSPropOptimizer": "adagrad",
    "ADAMOptimizer": "adam", "ADAMWOptimizer": "adam", "LAMBOptimizer": "adam", "IGradientDescent": "interface",
    "Constant": "schedule", "Cosine": "schedule", "ExponentialDecay": "schedule", "Schedule": "schedule",
    "StepDecay": "schedule", "WarmUp": "schedule", "GradientDecay": "sgd", "MomentumOptimizer": "sgd",
    "NesterovOptimizer": "sgd", "SGDOptimizer": "sgd",
})  # fmt: skip
