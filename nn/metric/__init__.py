"""Metrics: numbers for people."""

from nn.metric.categorical_accuracy import CategoricalAccuracy
from nn.metric.mean_square_error import MeanSquareError
from nn.metric.metric import Metric

__all__ = ["CategoricalAccuracy", "MeanSquareError", "Metric"]
