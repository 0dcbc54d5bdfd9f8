"""`nn`: neural networks on CPUs in pure NumPy, in the manner of Keras. See nn/README.md for a guide."""

from nn import (
    activation,
    callback,
    data,
    dataset,
    function,
    gradient_descent,
    initializer,
    layer,
    loss,
    metric,
    model,
    operation,
    optimizer,
    random,
    testing,
)
from nn.optimizer import IOptimizer
from nn.value import Buffer, Placeholder, Value, Variable

__all__ = [
    "Buffer", "IOptimizer", "Placeholder", "Value", "Variable", "activation", "callback", "data", "dataset", "function",
    "gradient_descent", "initializer", "layer", "loss", "metric", "model", "operation", "optimizer", "random", "testing",
]  # fmt: skip
