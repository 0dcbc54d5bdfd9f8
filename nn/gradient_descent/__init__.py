"""Gradient-descent rules: from gradients to the change of the parameters."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.gradient_descent import schedule
    from nn.gradient_descent.adagrad import AdaDeltaOptimizer, AdaGradOptimizer, RMSPropOptimizer
    from nn.gradient_descent.adam import ADAMOptimizer, ADAMWOptimizer, LAMBOptimizer, NadamOptimizer
    from nn.gradient_descent.interface import IGradientDescent, KernelDecay
    from nn.gradient_descent.matrices import AdafactorOptimizer, MuonOptimizer
    from nn.gradient_descent.schedule import (
        Constant,
        Cosine,
        CosineRestarts,
        ExponentialDecay,
        OneCycle,
        Piecewise,
        Polynomial,
        Schedule,
        StepDecay,
        WarmUp,
    )
    from nn.gradient_descent.sgd import GradientDecay, MomentumOptimizer, NesterovOptimizer, SGDOptimizer
    from nn.gradient_descent.sign import AdamaxOptimizer, LionOptimizer
    from nn.gradient_descent.wrapping import GradientAccumulation, MovingAverage, StochasticAverage

__all__ = [
    "ADAMOptimizer",
    "ADAMWOptimizer",
    "AdaDeltaOptimizer",
    "AdaGradOptimizer",
    "AdafactorOptimizer",
    "AdamaxOptimizer",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "ExponentialDecay",
    "GradientAccumulation",
    "GradientDecay",
    "IGradientDescent",
    "KernelDecay",
    "LAMBOptimizer",
    "LionOptimizer",
    "MomentumOptimizer",
    "MovingAverage",
    "MuonOptimizer",
    "NadamOptimizer",
    "NesterovOptimizer",
    "OneCycle",
    "Piecewise",
    "Polynomial",
    "RMSPropOptimizer",
    "SGDOptimizer",
    "Schedule",
    "StepDecay",
    "StochasticAverage",
    "WarmUp",
    "schedule",
]
OptimizerName: TypeAlias = Literal[
    "adadelta",
    "adafactor",
    "adagrad",
    "adam",
    "adamax",
    "adamw",
    "lamb",
    "lion",
    "momentum",
    "muon",
    "nadam",
    "nesterov",
    "rmsprop",
    "sgd",
]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "adadelta": "AdaDeltaOptimizer",
        "adafactor": "AdafactorOptimizer",
        "adagrad": "AdaGradOptimizer",
        "adam": "ADAMOptimizer",
        "adamax": "AdamaxOptimizer",
        "adamw": "ADAMWOptimizer",
        "lamb": "LAMBOptimizer",
        "lion": "LionOptimizer",
        "momentum": "MomentumOptimizer",
        "muon": "MuonOptimizer",
        "nadam": "NadamOptimizer",
        "nesterov": "NesterovOptimizer",
        "rmsprop": "RMSPropOptimizer",
        "sgd": "SGDOptimizer",
    }
)
"""Words of OptimizerName with the names of their classes, see `nn.names`."""

lazily(
    __name__,
    {
        "adagrad": "AdaDeltaOptimizer AdaGradOptimizer RMSPropOptimizer",
        "adam": "ADAMOptimizer ADAMWOptimizer LAMBOptimizer NadamOptimizer",
        "matrices": "AdafactorOptimizer MuonOptimizer",
        "interface": "IGradientDescent KernelDecay",
        "schedule": (
            "Constant Cosine CosineRestarts ExponentialDecay OneCycle Piecewise Polynomial Schedule StepDecay WarmUp schedule"
        ),
        "sgd": "GradientDecay MomentumOptimizer NesterovOptimizer SGDOptimizer",
        "sign": "AdamaxOptimizer LionOptimizer",
        "wrapping": "GradientAccumulation MovingAverage StochasticAverage",
    },
)
