"""Words for built-in parts, those of Keras: 'relu' for `ReLU()`, 'adam' for `ADAMOptimizer()`, 'mse' for `MSELoss()`.

An argument for such a part takes its word as well, and makes the part with the defaults of its class. The words are types, too,
so that an editor completes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from nn import arguments

__all__ = [
    "ActivationName", "ConstraintName", "InitializerName", "LossName", "MetricName", "OptimizerName", "RegularizerName",
    "class_of", "part",
]  # fmt: skip

ActivationName: TypeAlias = Literal[
    "elu", "exponential", "gelu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "htanh", "leaky_relu", "linear",
    "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softmax", "softplus", "softsign",
    "swish", "tanh",
]  # fmt: skip
ConstraintName: TypeAlias = Literal["max_norm", "min_max_norm", "non_neg", "unit_norm"]
InitializerName: TypeAlias = Literal[
    "glorot_normal", "glorot_uniform", "he_normal", "he_uniform", "identity", "lecun_normal", "lecun_uniform", "normal", "ones",
    "orthogonal", "random_normal", "random_uniform", "truncated_normal", "uniform", "variance_scaling", "zeros",
]  # fmt: skip
LossName: TypeAlias = Literal[
    "binary_crossentropy", "binary_crossentropy_with_sigmoid", "categorical_crossentropy", "crossentropy",
    "crossentropy_with_softmax", "hinge", "huber", "mae", "mean_absolute_error", "mean_squared_error", "mse",
    "sparse_categorical_crossentropy",
]  # fmt: skip
MetricName: TypeAlias = Literal[
    "accuracy", "auc", "balanced_accuracy", "binary_accuracy", "categorical_accuracy", "eer", "f1", "false_negative",
    "false_positive", "mae", "mean_absolute_error", "mean_squared_error", "mse", "precision", "recall", "relative_error",
    "relative_mse", "top_k_accuracy", "true_negative", "true_positive",
]  # fmt: skip
OptimizerName: TypeAlias = Literal["adadelta", "adagrad", "adam", "adamw", "lamb", "momentum", "nesterov", "rmsprop", "sgd"]
RegularizerName: TypeAlias = Literal["l1", "l1_l2", "l2"]

_WORDS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "nn.activation": {
            "elu": "ELU", "exponential": "Exponential", "gelu": "GELU", "hard_sigmoid": "HardSigmoid",
            "hard_silu": "HardSwish", "hard_swish": "HardSwish", "hard_tanh": "HTanh", "htanh": "HTanh",
            "leaky_relu": "LeakReLU", "linear": "Linear", "log_sigmoid": "LogSigmoid", "log_softmax": "LogSoftmax",
            "mish": "Mish", "relu": "ReLU", "relu6": "ReLU6", "selu": "SELU", "sigmoid": "Sigmoid", "silu": "SiLU",
            "softmax": "Softmax", "softplus": "Softplus", "softsign": "Softsign", "swish": "SiLU", "tanh": "Tanh",
        },
        "nn.constraint": {
            "max_norm": "MaxNorm", "min_max_norm": "MinMaxNorm", "non_neg": "NonNeg", "unit_norm": "UnitNorm",
        },
        "nn.gradient_descent": {
            "adadelta": "AdaDeltaOptimizer", "adagrad": "AdaGradOptimizer", "adam": "ADAMOptimizer", "adamw": "ADAMWOptimizer",
            "lamb": "LAMBOptimizer", "momentum": "MomentumOptimizer", "nesterov": "NesterovOptimizer",
            "rmsprop": "RMSPropOptimizer", "sgd": "SGDOptimizer",
        },
        "nn.initializer": {
            "glorot_normal": "GlorotNormal", "glorot_uniform": "GlorotUniform", "he_normal": "HeNormal",
            "he_uniform": "HeUniform", "identity": "Identity", "lecun_normal": "LecunNormal", "lecun_uniform": "LecunUniform",
            "normal": "Normal", "ones": "Ones", "orthogonal": "Orthogonal", "random_normal": "Normal",
            "random_uniform": "Uniform", "truncated_normal": "TruncatedNormal", "uniform": "Uniform",
            "variance_scaling": "VarianceScaling", "zeros": "Zeros",
        },
        "nn.loss": {
            "binary_crossentropy": "Binary_Cross_Entropy_Of_Probabilities",
            "binary_crossentropy_with_sigmoid": "Binary_Cross_Entropy", "categorical_crossentropy": "Cross_Entropy",
            "crossentropy": "Cross_Entropy", "crossentropy_with_softmax": "Cross_Entropy_With_Softmax", "hinge": "Hinge",
            "huber": "HuberLoss", "mae": "MAELoss", "mean_absolute_error": "MAELoss", "mean_squared_error": "MSELoss",
            "mse": "MSELoss", "sparse_categorical_crossentropy": "Cross_Entropy",
        },
        "nn.metric": {
            "accuracy": "CategoricalAccuracy", "auc": "AreaUnderCurve", "balanced_accuracy": "ConfusionMatrix",
            "binary_accuracy": "BinaryAccuracy", "categorical_accuracy": "CategoricalAccuracy", "eer": "EqualErrorRate",
            "f1": "F1", "false_negative": "FalseNegative", "false_positive": "FalsePositive",
            "mae": "MeanAbsoluteError", "mean_absolute_error": "MeanAbsoluteError",
            "mean_squared_error": "MeanSquareError", "mse": "MeanSquareError", "precision": "Precision", "recall": "Recall",
            "relative_error": "RelativeError", "relative_mse": "RelativeMeanSquareError", "top_k_accuracy": "TopKAccuracy",
            "true_negative": "TrueNegative", "true_positive": "TruePositive",
        },
        "nn.regularizer": {"l1": "L1", "l1_l2": "L1L2", "l2": "L2"},
    }
)  # fmt: skip


def class_of(owner: object, argument: str, word: str, package: str) -> type[Any]:
    """Return the class that a word stands for, or the class of the package with that name; upper and lower case are alike.

    Raises ValueError that names owner and argument, lists the words and suggests the one that is meant.
    """
    table, exported = _WORDS[package], import_module(package)
    key = word.strip().lower().replace("-", "_").replace(" ", "_")
    name = table.get(key) or {each.lower(): each for each in table.values()}.get(key)
    if name is None:
        arguments.one_of(owner, argument, word, table)
    found: type[Any] = getattr(exported, str(name))
    return found


def part(owner: object, argument: str, given: Any, kind: type[Any], package: str) -> Any:
    """Return the part that was given, an instance of `kind`, or the one that a word stands for.

    Args:
        owner: object with the argument, named by its class in errors.
        argument: name of the argument, for errors.
        given: the part or its word.
        kind: base class of such parts.
        package: package of `nn` that exports them, such as "nn.loss".

    Raises TypeError for anything else, ValueError for an unknown word.
    """
    if isinstance(given, str):
        return class_of(owner, argument, given, package)()
    return arguments.instance(owner, argument, given, kind)
