"""Metrics: numbers for people."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.metric.accuracy import CategoricalAccuracy, ConfusionMatrix, TopKAccuracy
    from nn.metric.binary import F1, BinaryAccuracy, FalseNegative, FalsePositive, Precision, Recall, TrueNegative, TruePositive
    from nn.metric.metric import Metric
    from nn.metric.ranking import AreaUnderCurve, EqualErrorRate
    from nn.metric.regression import MeanAbsoluteError, MeanSquareError, RelativeError, RelativeMeanSquareError

__all__ = [
    "F1",
    "AreaUnderCurve",
    "BinaryAccuracy",
    "CategoricalAccuracy",
    "ConfusionMatrix",
    "EqualErrorRate",
    "FalseNegative",
    "FalsePositive",
    "MeanAbsoluteError",
    "MeanSquareError",
    "Metric",
    "Precision",
    "Recall",
    "RelativeError",
    "RelativeMeanSquareError",
    "TopKAccuracy",
    "TrueNegative",
    "TruePositive",
]
MetricName: TypeAlias = Literal[
    "accuracy",
    "auc",
    "balanced_accuracy",
    "binary_accuracy",
    "categorical_accuracy",
    "eer",
    "f1",
    "false_negative",
    "false_positive",
    "mae",
    "mean_absolute_error",
    "mean_squared_error",
    "mse",
    "precision",
    "recall",
    "relative_error",
    "relative_mse",
    "top_k_accuracy",
    "true_negative",
    "true_positive",
]
WORDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "accuracy": "CategoricalAccuracy",
        "auc": "AreaUnderCurve",
        "balanced_accuracy": "ConfusionMatrix",
        "binary_accuracy": "BinaryAccuracy",
        "categorical_accuracy": "CategoricalAccuracy",
        "eer": "EqualErrorRate",
        "f1": "F1",
        "false_negative": "FalseNegative",
        "false_positive": "FalsePositive",
        "mae": "MeanAbsoluteError",
        "mean_absolute_error": "MeanAbsoluteError",
        "mean_squared_error": "MeanSquareError",
        "mse": "MeanSquareError",
        "precision": "Precision",
        "recall": "Recall",
        "relative_error": "RelativeError",
        "relative_mse": "RelativeMeanSquareError",
        "top_k_accuracy": "TopKAccuracy",
        "true_negative": "TrueNegative",
        "true_positive": "TruePositive",
    }
)
"""Words of MetricName with the names of their classes, see `nn.names`."""

__getattr__, __dir__ = lazily(
    __name__,
    {
        "accuracy": "CategoricalAccuracy ConfusionMatrix TopKAccuracy",
        "binary": "F1 BinaryAccuracy FalseNegative FalsePositive Precision Recall TrueNegative TruePositive",
        "metric": "Metric",
        "ranking": "AreaUnderCurve EqualErrorRate",
        "regression": "MeanAbsoluteError MeanSquareError RelativeError RelativeMeanSquareError",
    },
)
