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
    "adagrad": "AdaDeltaOptimizer AdaGradOptimizer RMSPropOptimizer", "adam": "ADAMOptimizer ADAMWOptimizer LAMBOptimizer",
    "interface": "IGradientDescent", "schedule": "Constant Cosine ExponentialDecay Schedule StepDecay WarmUp schedule",
    "sgd": "GradientDecay MomentumOptimizer NesterovOptimizer SGDOptimizer",
})  # fmt: skip
