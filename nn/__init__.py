"""`nn` of Parallel-SGD: neural networks on CPUs in pure NumPy, in the manner of Keras. See nn/README.md for a guide."""

from typing import TYPE_CHECKING

from nn.lazy import lazily, look_beside

if TYPE_CHECKING:
    from nn import (
        activation,
        callback,
        constraint,
        data,
        dataset,
        function,
        gradient_descent,
        initializer,
        layer,
        loss,
        metric,
        model,
        onnx,
        operation,
        optimizer,
        random,
        regularizer,
        testing,
    )
    from nn.optimizer import IOptimizer
    from nn.value import Buffer, Input, Placeholder, Value, Variable

look_beside(__file__)
__all__ = [
    "Buffer", "IOptimizer", "Input", "Placeholder", "Value", "Variable", "activation", "callback", "constraint", "data",
    "dataset", "function", "gradient_descent", "initializer", "layer", "loss", "metric", "model", "onnx", "operation",
    "optimizer", "random", "regularizer", "testing",
]  # fmt: skip
lazily(__name__, {
    "activation": "activation", "callback": "callback", "constraint": "constraint", "data": "data", "dataset": "dataset",
    "function": "function",
    "gradient_descent": "gradient_descent", "initializer": "initializer", "layer": "layer", "loss": "loss",
    "metric": "metric", "model": "model", "onnx": "onnx", "operation": "operation", "optimizer": "IOptimizer optimizer",
    "random": "random", "regularizer": "regularizer", "testing": "testing", "value": "Buffer Input Placeholder Value Variable",
})  # fmt: skip
