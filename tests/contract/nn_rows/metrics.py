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


def positions(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """A class for each of six positions."""
    return generator.integers(0, 4, (samples, 6)), generator.standard_normal((samples, 6, 4))


def ties(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """Class numbers and few different outputs."""
    return generator.integers(0, 4, samples), generator.integers(0, 3, (samples, 4)) / 4


def probabilities(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """Labels 0 and 1 of one output, and probabilities of which many are equal."""
    return generator.integers(0, 2, (samples, 1)).astype(np.float64), generator.integers(0, 17, (samples, 1)) / 16


def scores(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """Labels -1 and 1, and scores around 0."""
    return generator.integers(0, 2, samples) * 2 - 1, generator.standard_normal(samples)


def two_classes(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """One-hot rows and rows of two probabilities."""
    return np.eye(2)[generator.integers(0, 2, samples)], generator.dirichlet(np.ones(2), samples)


def count(threshold: float, truth: bool, taken: bool) -> Callable[[Array, Array], float]:
    """How many samples are `truth` and taken for `taken`."""
    return lambda y, p: float((((y.ravel() == 1) == truth) & ((p.ravel() > threshold) == taken)).sum())


def f1(y: Array, p: Array) -> float:
    precision, recall = y[p > 0.5].mean(), (p > 0.5)[y == 1].mean()
    return float(2 / (1 / precision + 1 / recall))


def won_pairs(y: Array, p: Array) -> float:
    difference = p[y == 1].reshape(-1, 1) - p[y != 1].reshape(1, -1)
    return float((np.sign(difference) + 1).mean() / 2)


def crossing(y: Array, p: Array) -> float:
    """The rate at which the line through all points of the ROC curve meets the falling diagonal."""
    thresholds = np.append(np.unique(p), np.inf)[::-1].reshape(-1, 1)
    false, true = (p[y != 1].ravel() >= thresholds).mean(axis=1), (p[y == 1].ravel() >= thresholds).mean(axis=1)
    return float(np.interp(0, false + true - 1, false))


def balanced(y: Array, p: Array) -> float:
    return float(np.mean([(p[y == k].argmax(axis=-1) == k).mean() for k in np.unique(y)]))


METRICS = [
    MetricRow(metric.AreaUnderCurve, metric.AreaUnderCurve, probabilities, won_pairs),
    MetricRow(metric.AreaUnderCurve, metric.AreaUnderCurve, scores, won_pairs, "scores"),
    MetricRow(
        metric.AreaUnderCurve, metric.AreaUnderCurve, two_classes, lambda y, p: won_pairs(y[:, 1], p[:, 1]), "two classes"
    ),
    MetricRow(metric.BinaryAccuracy, metric.BinaryAccuracy, probabilities, lambda y, p: float(((p > 0.5) == y).mean())),
    MetricRow(
        metric.BinaryAccuracy,
        lambda: metric.BinaryAccuracy(threshold=0),
        scores,
        lambda y, p: float(((p > 0) == (y > 0)).mean()),
        "scores",
    ),
    MetricRow(
        metric.BinaryAccuracy,
        metric.BinaryAccuracy,
        two_classes,
        lambda y, p: float((p.argmax(axis=1) == y.argmax(axis=1)).mean()),
        "two classes",
    ),
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
    MetricRow(
        metric.CategoricalAccuracy,
        lambda: metric.CategoricalAccuracy(name="position_accuracy"),
        positions,
        lambda y, p: float((p.argmax(axis=2) == y).mean()),
        "positions",
    ),
    MetricRow(metric.ConfusionMatrix, metric.ConfusionMatrix, classes, balanced),
    MetricRow(metric.ConfusionMatrix, metric.ConfusionMatrix, positions, balanced, "positions"),
    MetricRow(metric.EqualErrorRate, metric.EqualErrorRate, probabilities, crossing),
    MetricRow(metric.EqualErrorRate, metric.EqualErrorRate, scores, crossing, "scores"),
    MetricRow(metric.F1, metric.F1, probabilities, f1),
    MetricRow(metric.FalseNegative, metric.FalseNegative, probabilities, count(0.5, truth=True, taken=False)),
    MetricRow(metric.FalsePositive, metric.FalsePositive, probabilities, count(0.5, truth=False, taken=True)),
    MetricRow(metric.MeanAbsoluteError, metric.MeanAbsoluteError, numbers, lambda y, p: float(np.abs(p - y).mean())),
    MetricRow(metric.MeanSquareError, metric.MeanSquareError, numbers, lambda y, p: float(((p - y) ** 2).mean())),
    MetricRow(metric.Precision, metric.Precision, probabilities, lambda y, p: float(y[p > 0.5].mean())),
    MetricRow(metric.Recall, lambda: metric.Recall(0.25), probabilities, lambda y, p: float((p > 0.25)[y == 1].mean())),
    MetricRow(metric.RelativeError, metric.RelativeError, numbers, lambda y, p: float(np.abs((p - y) / y).mean())),
    MetricRow(
        metric.RelativeMeanSquareError,
        metric.RelativeMeanSquareError,
        numbers,
        lambda y, p: float(((p - y) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum()),
    ),
    MetricRow(
        metric.TopKAccuracy,
        lambda: metric.TopKAccuracy(k=2),
        ties,
        lambda y, p: float((np.argsort(-p, axis=1, kind="stable")[:, :2] == y.reshape(-1, 1)).any(axis=1).mean()),
    ),
    MetricRow(
        metric.TopKAccuracy,
        lambda: metric.TopKAccuracy(k=3),
        positions,
        lambda y, p: float((np.argsort(-p, axis=2)[..., :3] == y[..., None]).any(axis=2).mean()),
        "positions",
    ),
    MetricRow(metric.TrueNegative, metric.TrueNegative, probabilities, count(0.5, truth=False, taken=False)),
    MetricRow(metric.TruePositive, lambda: metric.TruePositive(0), scores, count(0, truth=True, taken=True)),
]
