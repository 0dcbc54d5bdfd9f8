"""The metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nn import metric
from nn.arrays import Array
from tests.contract.nn_rows.samples import classes, distributions, numbers


@dataclass
class MetricRow:
    """A metric with labels and predictions that suit it, and its value over all of them by plain NumPy."""

    kind: type[metric.Metric]
    build: Callable[[], metric.Metric]
    sample: Callable[[np.random.Generator, int], tuple[Array, Array]]
    value: Callable[[Array, Array], float]
    label: str = ""


METRICS = [
    MetricRow(
        metric.CategoricalAccuracy, metric.CategoricalAccuracy, classes, lambda y, p: float((p.argmax(axis=1) == y).mean())
    ),
    MetricRow(
        metric.CategoricalAccuracy,
        metric.CategoricalAccuracy,
        distributions,
        lambda y, p: float((p.argmax(axis=1) == y.argmax(axis=1)).mean()),
        "rows",
    ),
    MetricRow(metric.MeanSquareError, metric.MeanSquareError, numbers, lambda y, p: float(((p - y) ** 2).mean())),
]
