"""Metrics: numbers for people."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.metric.accuracy import CategoricalAccuracy, ClassF1, ConfusionMatrix, MeanIoU, TopKAccuracy
    from nn.metric.binary import (
        F1,
        BinaryAccuracy,
        BinaryIoU,
        FalseNegative,
        FalsePositive,
        LabelF1,
        Precision,
        Recall,
        TrueNegative,
        TruePositive,
    )
    from nn.metric.metric import Metric
    from nn.metric.ranking import (
        AreaUnderCurve,
        AveragePrecision,
        EqualErrorRate,
        PrecisionAtRecall,
        RecallAtPrecision,
        SensitivityAtSpecificity,
        SpecificityAtSensitivity,
    )
    from nn.metric.regression import (
        R2,
        Mean,
        MeanAbsoluteError,
        MeanSquareError,
        RelativeError,
        RelativeMeanSquareError,
        RootMeanSquareError,
    )
    from nn.metric.weighted import Weighted

__all__ = [
    "F1",
    "R2",
    "AreaUnderCurve",
    "AveragePrecision",
    "BinaryAccuracy",
    "BinaryIoU",
    "CategoricalAccuracy",
    "ClassF1",
    "ConfusionMatrix",
    "EqualErrorRate",
    "FalseNegative",
    "FalsePositive",
    "LabelF1",
    "Mean",
    "MeanAbsoluteError",
    "MeanIoU",
    "MeanSquareError",
    "Metric",
    "Precision",
    "PrecisionAtRecall",
    "Recall",
    "RecallAtPrecision",
    "RelativeError",
    "RelativeMeanSquareError",
    "RootMeanSquareError",
    "SensitivityAtSpecificity",
    "SpecificityAtSensitivity",
    "TopKAccuracy",
    "TrueNegative",
    "TruePositive",
    "Weighted",
]
MetricName: TypeAlias = Literal[
    "accuracy",
    "auc",
    "balanced_accuracy",
    "binary_accuracy",
    "categorical_accuracy",
    "confusion_matrix",
    "eer",
    "f1",
    "false_negative",
    "false_positive",
    "iou",
    "label_f1",
    "macro_f1",
    "mae",
    "mean",
    "mean_absolute_error",
    "mean_iou",
    "mean_squared_error",
    "mse",
    "pr_auc",
    "precision",
    "r2",
    "r2_score",
    "recall",
    "relative_error",
    "relative_mse",
    "rmse",
    "root_mean_squared_error",
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
        "confusion_matrix": "ConfusionMatrix",
        "eer": "EqualErrorRate",
        "f1": "F1",
        "false_negative": "FalseNegative",
        "false_positive": "FalsePositive",
        "iou": "BinaryIoU",
        "label_f1": "LabelF1",
        "macro_f1": "ClassF1",
        "mae": "MeanAbsoluteError",
        "mean": "Mean",
        "mean_absolute_error": "MeanAbsoluteError",
        "mean_iou": "MeanIoU",
        "mean_squared_error": "MeanSquareError",
        "mse": "MeanSquareError",
        "pr_auc": "AveragePrecision",
        "precision": "Precision",
        "r2": "R2",
        "r2_score": "R2",
        "recall": "Recall",
        "relative_error": "RelativeError",
        "relative_mse": "RelativeMeanSquareError",
        "rmse": "RootMeanSquareError",
        "root_mean_squared_error": "RootMeanSquareError",
        "top_k_accuracy": "TopKAccuracy",
        "true_negative": "TrueNegative",
        "true_positive": "TruePositive",
    }
)
"""Words of MetricName with the names of their classes, see `nn.names`."""

lazily(
    __name__,
    {
        "accuracy": "CategoricalAccuracy ClassF1 ConfusionMatrix MeanIoU TopKAccuracy",
        "binary": (
            "F1 BinaryAccuracy BinaryIoU FalseNegative FalsePositive LabelF1 Precision Recall TrueNegative TruePositive"
        ),
        "weighted": "Weighted",
        "metric": "Metric",
        "ranking": (
            "AreaUnderCurve AveragePrecision EqualErrorRate PrecisionAtRecall RecallAtPrecision SensitivityAtSpecificity "
            "SpecificityAtSensitivity"
        ),
        "regression": ("Mean MeanAbsoluteError MeanSquareError R2 RelativeError RelativeMeanSquareError RootMeanSquareError"),
    },
)
