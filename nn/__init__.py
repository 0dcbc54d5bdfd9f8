"""`nn` of Parallel-SGD: neural networks on CPUs in pure NumPy, in the manner of Keras. See nn/README.md for a guide."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

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

__all__ = [
    "Buffer", "IOptimizer", "Input", "Placeholder", "Value", "Variable", "activation", "callback", "constraint", "data",
    "dataset", "function", "gradient_descent", "initializer", "layer", "loss", "metric", "model", "onnx", "operation",
    "optimizer", "random", "regularizer", "testing",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__, {
    "activation": "activation", "callback": "callback", "constraint": "constraint", "data": "data", "dataset": "dataset",
    "function": "function",
    "gradient_descent": "gradient_descent", "initializer": "initializer", "layer": "layer", "loss": "loss",
    "metric": "metric", "model": "model", "onnx": "onnx", "operation": "operation", "optimizer": "IOptimizer optimizer",
    "random": "random", "regularizer": "regularizer", "testing": "testing", "value": "Buffer Input Placeholder Value Variable",
}, meant={
    "Sequential": "nn.model.SequentialModel", "activations": "nn.activation", "callbacks": "nn.callback",
    "constraints": "nn.constraint",
    "datasets": "nn.dataset", "initializers": "nn.initializer", "layers": "nn.layer", "losses": "nn.loss",
    "metrics": "nn.metric", "models": "nn.model", "optimizers": "nn.gradient_descent",
    "regularizers": "nn.regularizer",
    "EarlyStopping": "nn.callback.EarlyStopping", "Model": "nn.model.Model", "ModelCheckpoint": "nn.callback.ModelCheckpoint",
    "Adam": "nn.gradient_descent.ADAMOptimizer", "SGD": "nn.gradient_descent.SGDOptimizer",
    "load_model": "nn.model.Model.load",
    "BatchNormalization": "nn.layer.BatchNorm", "LayerNormalization": "nn.layer.LayerNorm", "MaxPooling2D": "nn.layer.MaxPool",
    "StringLookup": "nn.dataset.transforms.StringLookup", "TextVectorization": "nn.dataset.transforms.TextVectorization",
}, meant_in="layer")  # fmt: skip
