"""`nn` of Parallel-SGD: neural networks on CPUs in pure NumPy, in the manner of Keras. See nn/README.md for a guide."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
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
__getattr__, __dir__ = lazily(__name__, {
    "activation": "activation", "callback": "callback", "data": "data", "dataset": "dataset", "function": "function",
    "gradient_descent": "gradient_descent", "initializer": "initializer", "layer": "layer", "loss": "loss",
    "metric": "metric", "model": "model", "operation": "operation", "optimizer": "IOptimizer optimizer", "random": "random",
    "testing": "testing", "value": "Buffer Placeholder Value Variable",
})  # fmt: skip
