"""Words for built-in parts, those of Keras: 'relu' for `ReLU()`, 'adam' for `ADAMOptimizer()`, 'mse' for `MSELoss()`.

An argument for such a part takes its word as well, and makes the part with the defaults of its class. The words are types, too,
so that an editor completes them. Each package lists those of its own parts.
"""

from __future__ import annotations

from nn.activation import ActivationName
from nn.arguments import class_of, part
from nn.gradient_descent import OptimizerName
from nn.initializer import InitializerName
from nn.loss import LossName
from nn.metric import MetricName
from nn.value.value import ConstraintName, RegularizerName

__all__ = [
    "ActivationName", "ConstraintName", "InitializerName", "LossName", "MetricName", "OptimizerName", "RegularizerName",
    "class_of", "part",
]  # fmt: skip
