"""Every metric beside scikit-learn's, over random data cut into random batches."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from nn import metric
from nn.arrays import Array
from tests.nn.golden import Answer, Golden, drawn, one_of, optional, several, whole

reference = optional("sklearn.metrics")

SEEDS, SIZES = whole(0, 2**32), several(whole(1, 9), 2, 12)


def fed(made: metric.Metric, sizes: list[int], label: Array, prediction: Array) -> metric.Metric:
    start = 0
    for size in sizes:
        made.update(label[start : start + size], prediction[start : start + size])
        start += size
    return made


def close(found: float, expected: Answer) -> None:
    expected.close(found, rtol=1e-12, atol=1e-15)


def two_classes(seed: int, sizes: list[int], levels: int) -> tuple[Array, Array]:
    """Labels, and scores of which many are equal where there are few levels."""
    random = np.random.Generator(np.random.Philox(seed))
    samples = sum(sizes)
    label = random.integers(0, 2, samples)
    return label, (random.integers(0, levels, samples) / levels).astype(random.choice([np.float32, np.float64]))


def equal_error_rate(label: Array, score: Array) -> float:
    false, true, _ = reference.roc_curve(label, score, drop_intermediate=False)
    return float(np.interp(0, false + true - 1, false))


def counted(row: int, column: int) -> Callable[[Array, Array], float]:
    return lambda label, score: reference.confusion_matrix(label, score > 0.5, labels=[0, 1])[row, column]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (metric.AreaUnderCurve, reference.roc_auc_score),
        (metric.EqualErrorRate, equal_error_rate),
        (metric.BinaryAccuracy, lambda y, p: reference.accuracy_score(y, p > 0.5)),
        (metric.Precision, lambda y, p: reference.precision_score(y, p > 0.5, zero_division=0)),
        (metric.Recall, lambda y, p: reference.recall_score(y, p > 0.5, zero_division=0)),
        (metric.F1, lambda y, p: reference.f1_score(y, p > 0.5, zero_division=0)),
        (metric.TrueNegative, counted(0, 0)),
        (metric.FalsePositive, counted(0, 1)),
        (metric.FalseNegative, counted(1, 0)),
        (metric.TruePositive, counted(1, 1)),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
@drawn(16, seed=SEEDS, sizes=SIZES, levels=one_of(1, 2, 5, 50, 10**6))
def test_two_classes(
    golden: Golden, kind: type[metric.Metric], expected: Any, seed: int, sizes: list[int], levels: int
) -> None:
    label, score = two_classes(seed, sizes, levels)

    def compute() -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a value is not defined, which is what is compared here too
            return [expected(label, score)]

    [wanted] = golden(compute, label, score, needs=reference)
    close(fed(kind(), sizes, label, score).result(), wanted)


@drawn(20, seed=SEEDS, sizes=SIZES, classes=whole(3, 8))
def test_many_classes(golden: Golden, seed: int, sizes: list[int], classes: int) -> None:
    random = np.random.Generator(np.random.Philox(seed))
    label, score = random.integers(0, classes, sum(sizes)), random.standard_normal((sum(sizes), classes))
    chosen, names, k = score.argmax(axis=1), list(range(classes)), int(random.integers(1, classes))

    def compute() -> list[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a class is predicted which does not occur
            return [
                reference.accuracy_score(label, chosen),
                reference.top_k_accuracy_score(label, score, k=k, labels=names),
                reference.confusion_matrix(label, chosen, labels=names),
                reference.balanced_accuracy_score(label, chosen),
            ]

    accuracy, among_k, counts, balanced = golden(compute, label, score, needs=reference)
    close(fed(metric.CategoricalAccuracy(), sizes, label, score).result(), accuracy)
    close(fed(metric.TopKAccuracy(k), sizes, label, score).result(), among_k)
    confusion = metric.ConfusionMatrix()
    fed(confusion, sizes, label, score)
    counts.close(confusion.matrix(), rtol=0)
    close(confusion.result(), balanced)


@drawn(20, seed=SEEDS, sizes=SIZES, classes=whole(2, 6), levels=whole(1, 3))
def test_the_first_of_equal_outputs_counts_as_in_argmax(seed: int, sizes: list[int], classes: int, levels: int) -> None:
    random = np.random.Generator(np.random.Philox(seed))
    label, score = random.integers(0, classes, sum(sizes)), random.integers(0, levels, (sum(sizes), classes)) * 0.5
    expected = fed(metric.CategoricalAccuracy(), sizes, label, score).result()
    assert fed(metric.TopKAccuracy(1), sizes, label, score).result() == expected


@drawn(20, seed=SEEDS, sizes=SIZES, outputs=whole(1, 4), zeros=one_of(False, True))
def test_numbers(golden: Golden, seed: int, sizes: list[int], outputs: int, zeros: bool) -> None:
    random = np.random.Generator(np.random.Philox(seed))
    label = random.standard_normal((sum(sizes), outputs)) * 10.0 ** random.integers(-3, 4)
    prediction = label + random.standard_normal(label.shape)
    if zeros:
        label[random.random(label.shape) < 0.2] = 0
    varies = bool(np.ptp(label, axis=0).all())  # scikit-learn leaves out the errors of outputs whose labels do not vary

    def compute() -> list[Any]:
        errors = [reference.mean_squared_error, reference.mean_absolute_percentage_error]
        explained = [reference.r2_score(label, prediction, multioutput="variance_weighted")] if varies else []
        return [*(error(label, prediction) for error in errors), *(1 - ratio for ratio in explained)]

    squares, relative, *ratios = golden(compute, label, prediction, needs=reference)
    close(fed(metric.MeanSquareError(), sizes, label, prediction).result(), squares)
    close(fed(metric.RelativeError(), sizes, label, prediction).result(), relative)
    for ratio in ratios:
        ratio.close(fed(metric.RelativeMeanSquareError(), sizes, label, prediction).result(), rtol=1e-9, atol=1e-9)
