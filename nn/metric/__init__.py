"""Metrics: numbers for people."""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.metric.accuracy import CategoricalAccuracy, ConfusionMatrix, TopKAccuracy
    from nn.metric.binary import F1, BinaryAccuracy, FalseNegative, FalsePositive, Precision, Recall, TrueNegative, TruePositive
    from nn.metric.metric import Metric
    from nn.metric.ranking import AreaUnderCurve, EqualErrorRate
    from nn.metric.regression import MeanAbsoluteError, MeanSquareError, RelativeError, RelativeMeanSquareError

__all__ = [
    "F1", "AreaUnderCurve", "BinaryAccuracy", "CategoricalAccuracy", "ConfusionMatrix", "EqualErrorRate", "FalseNegative",
    "FalsePositive", "MeanAbsoluteError", "MeanSquareError", "Metric", "Precision", "Recall", "RelativeError",
    "RelativeMeanSquareError", "TopKAccuracy", "TrueNegative", "TruePositive",
]  # fmt: skip
__getattr__, __dir__ = lazily(__name__, {
    "accuracy": "CategoricalAccuracy ConfusionMatrix TopKAccuracy",
    "binary": "F1 BinaryAccuracy FalseNegative FalsePositive Precision Recall TrueNegative TruePositive", "metric": "Metric",
    "ranking": "AreaUnderCurve EqualErrorRate",
    "regression": "MeanAbsoluteError MeanSquareError RelativeError RelativeMeanSquareError",
})  # fmt: skip
