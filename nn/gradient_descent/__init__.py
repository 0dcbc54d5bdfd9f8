"""Gradient-descent rules: from gradients to the change of the parameters."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.gradient_descent import schedule
    from nn.gradient_descent.adagrad import AdaDeltaOptimizer, AdaGradOptimizer, RMSPropOptimizer
    from nn.gradient_descent.adam import ADAMOptimizer, ADAMWOptimizer, LAMBOptimizer
    from nn.gradient_descent.interface import IGradientDescent
    from nn.gradient_descent.schedule import Constant, Cosine, ExponentialDecay, Schedule, StepDecay, WarmUp
    from nn.gradient_descent.sgd import GradientDecay, MomentumOptimizer, NesterovOptimizer, SGDOptimizer

__all__ = [
    "ADAMOptimizer",
    "ADAMWOptimizer",
    "AdaDeltaOptimizer",
    "AdaGradOptimizer",
    "Constant",
    "Cosine",
    "ExponentialDecay",
    "GradientDecay",
    "IGradientDescent",
    "LAMBOptimizer",
    "MomentumOptimizer",
    "NesterovOptimizer",
    "RMSPropOptimizer",
    "SGDOptimizer",
    "Schedule",
    "StepDecay",
    "WarmUp",
    "schedule",
]
OptimizerName: TypeAlias = Literal["adadelta", "adagrad", "adam", "adamw", "lamb", "momentum", "nesterov", "rmsprop", "sgd"]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "adadelta": "AdaDeltaOptimizer",
        "adagrad": "AdaGradOptimizer",
        "adam": "ADAMOptimizer",
        "adamw": "ADAMWOptimizer",
        "lamb": "LAMBOptimizer",
        "momentum": "MomentumOptimizer",
        "nesterov": "NesterovOptimizer",
        "rmsprop": "RMSPropOptimizer",
        "sgd": "SGDOptimizer",
    }
)
"""Words of OptimizerName with the names of their classes, see `nn.names`."""

__getattr__, __dir__ = lazily(
    __name__,
    {
        "adagrad": "AdaDeltaOptimizer AdaGradOptimizer RMSPropOptimizer",
        "adam": "ADAMOptimizer ADAMWOptimizer LAMBOptimizer",
        "interface": "IGradientDescent",
        "schedule": "Constant Cosine ExponentialDecay Schedule StepDecay WarmUp schedule",
        "sgd": "GradientDecay MomentumOptimizer NesterovOptimizer SGDOptimizer",
    },
)
