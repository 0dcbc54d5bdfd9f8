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


def labels(generator: np.random.Generator, samples: int) -> tuple[Array, Array]:
    """Three labels for each of two positions of a sample, and their probabilities."""
    return generator.integers(0, 2, (samples, 2, 3)), generator.integers(0, 9, (samples, 2, 3)) / 8


def label_f1(y: Array, taken: Array) -> Array:
    axes = tuple(range(y.ndim - 1)) or None
    return np.asarray(2 * (taken & (y == 1)).sum(axis=axes) / (taken.sum(axis=axes) + y.sum(axis=axes)))


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


def cells(y: Array, p: Array) -> list[tuple[int, int, int]]:
    """How many samples of each class that occurs are found, have the label, and are taken for it."""
    found = p.argmax(axis=-1)
    counted = [(int(((y == k) & (found == k)).sum()), int((y == k).sum()), int((found == k).sum())) for k in range(p.shape[-1])]
    return [cell for cell in counted if cell[1] or cell[2]]


def class_f1(y: Array, p: Array, *, weighted: bool) -> float:
    scores = [2 * both / (labels + taken) for both, labels, taken in cells(y, p)]
    return float(np.average(scores, weights=[labels for _, labels, _ in cells(y, p)] if weighted else None))


def curve(y: Array, p: Array) -> Array:
    """Precision, recall and specificity at each threshold, one of them above all scores."""
    truth, score = y.ravel() == 1, p.ravel()
    rows = []
    for threshold in (*np.unique(score), np.inf):
        taken = score >= threshold
        rows.append((truth[taken].mean() if taken.any() else 0, taken[truth].mean(), 1 - taken[~truth].mean()))
    return np.array(rows)


def best(rate: int, other: int, level: float) -> Callable[[Array, Array], float]:
    def value(y: Array, p: Array) -> float:
        found = curve(y, p)
        return float(found[found[:, other] >= level, rate].max())

    return value


def average_precision(y: Array, p: Array) -> float:
    precision, recall, _ = curve(y, p)[::-1].T
    return float((np.diff(recall, prepend=0) * precision).sum())


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
    MetricRow(metric.AveragePrecision, metric.AveragePrecision, probabilities, average_precision),
    MetricRow(metric.AveragePrecision, metric.AveragePrecision, scores, average_precision, "scores"),
    MetricRow(metric.PrecisionAtRecall, lambda: metric.PrecisionAtRecall(0.6), probabilities, best(0, 1, 0.6)),
    MetricRow(metric.RecallAtPrecision, lambda: metric.RecallAtPrecision(0.5), scores, best(1, 0, 0.5)),
    MetricRow(metric.SensitivityAtSpecificity, lambda: metric.SensitivityAtSpecificity(0.7), probabilities, best(1, 2, 0.7)),
    MetricRow(metric.SpecificityAtSensitivity, lambda: metric.SpecificityAtSensitivity(0.4), scores, best(2, 1, 0.4)),
    MetricRow(
        metric.BinaryIoU,
        metric.BinaryIoU,
        probabilities,
        lambda y, p: float(((p > 0.5) & (y == 1)).sum() / ((p > 0.5) | (y == 1)).sum()),
    ),
    MetricRow(
        metric.MeanIoU,
        metric.MeanIoU,
        positions,
        lambda y, p: float(np.mean([both / (labels + taken - both) for both, labels, taken in cells(y, p)])),
    ),
    MetricRow(metric.ClassF1, metric.ClassF1, classes, lambda y, p: class_f1(y, p, weighted=False)),
    MetricRow(
        metric.ClassF1, lambda: metric.ClassF1("weighted"), positions, lambda y, p: class_f1(y, p, weighted=True), "weighted"
    ),
    MetricRow(
        metric.ClassF1, lambda: metric.ClassF1("micro"), classes, lambda y, p: float((p.argmax(axis=1) == y).mean()), "micro"
    ),
    MetricRow(metric.LabelF1, metric.LabelF1, labels, lambda y, p: float(np.mean(label_f1(y, p > 0.5)))),
    MetricRow(
        metric.LabelF1,
        lambda: metric.LabelF1("weighted", threshold=0.25),
        labels,
        lambda y, p: float(np.average(label_f1(y, p > 0.25), weights=y.sum(axis=(0, 1)))),
        "weighted",
    ),
    MetricRow(
        metric.LabelF1,
        lambda: metric.LabelF1("micro"),
        labels,
        lambda y, p: float(label_f1(y.ravel(), p.ravel() > 0.5)),
        "micro",
    ),
    MetricRow(metric.Weighted, lambda: metric.Weighted("mse"), numbers, lambda y, p: float(((p - y) ** 2).mean())),
    MetricRow(
        metric.Weighted,
        lambda: metric.Weighted("accuracy"),
        positions,
        lambda y, p: float((p.argmax(-1) == y).mean()),
        "places",
    ),
    MetricRow(metric.Mean, metric.Mean, numbers, lambda y, p: float(p.mean())),
    MetricRow(metric.R2, metric.R2, numbers, lambda y, p: float(1 - ((p - y) ** 2).sum() / ((y - y.mean(axis=0)) ** 2).sum())),
    MetricRow(
        metric.RootMeanSquareError, metric.RootMeanSquareError, numbers, lambda y, p: float(np.sqrt(((p - y) ** 2).mean()))
    ),
]
