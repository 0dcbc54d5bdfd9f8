"""Metrics: numbers for people."""

from nn.metric.area_under_curve import AreaUnderCurve
from nn.metric.binary_accuracy import BinaryAccuracy
from nn.metric.categorical_accuracy import CategoricalAccuracy
from nn.metric.confusion_matrix import ConfusionMatrix
from nn.metric.equal_error_rate import EqualErrorRate
from nn.metric.f1 import F1
from nn.metric.false_negative import FalseNegative
from nn.metric.false_positive import FalsePositive
from nn.metric.mean_square_error import MeanSquareError
from nn.metric.metric import Metric
from nn.metric.precision import Precision
from nn.metric.recall import Recall
from nn.metric.relative_error import RelativeError
from nn.metric.relative_mean_square_error import RelativeMeanSquareError
from nn.metric.top_k_accuracy import TopKAccuracy
from nn.metric.true_negative import TrueNegative
from nn.metric.true_positive import TruePositive

__all__ = [
    "F1", "AreaUnderCurve", "BinaryAccuracy", "CategoricalAccuracy", "ConfusionMatrix", "EqualErrorRate", "FalseNegative",
    "FalsePositive", "MeanSquareError", "Metric", "Precision", "Recall", "RelativeError", "RelativeMeanSquareError",
    "TopKAccuracy", "TrueNegative", "TruePositive",
]  # fmt: skip
