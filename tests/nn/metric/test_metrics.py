"""Metrics: what all promise, over the rows of the contract table, and what each says of its own."""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import nn
from nn.arrays import Array
from nn.metric import (
    F1,
    AreaUnderCurve,
    BinaryAccuracy,
    CategoricalAccuracy,
    ConfusionMatrix,
    EqualErrorRate,
    FalseNegative,
    FalsePositive,
    MeanSquareError,
    Metric,
    Precision,
    Recall,
    RelativeError,
    RelativeMeanSquareError,
    TopKAccuracy,
    TrueNegative,
    TruePositive,
)
from nn.random import keyed
from tests.contract.nn_rows import METRICS, MetricRow

ROWS = pytest.mark.parametrize("row", METRICS, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
SAMPLES = 40
Refusal = Callable[[], object]


def value(metric: Metric, label: Any, prediction: Any) -> float:
    metric.update(np.asarray(label), np.asarray(prediction))
    return metric.result()


def drawn(row: MetricRow, seed: int = 0) -> tuple[Array, Array]:
    """Labels and predictions of very different sizes, in single precision, as a model gives them."""
    label, prediction = row.sample(keyed(seed, "metric"), SAMPLES)
    return label, prediction.astype(np.float32)


def seen(row: MetricRow, label: Array, prediction: Array) -> Metric:
    metric = row.build()
    metric.update(label, prediction)
    return metric


@pytest.mark.share(3)
@ROWS
@settings(max_examples=20, deadline=None, database=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_the_same_bits_in_batches_of_any_size_and_order_and_when_merged(row: MetricRow, data: Any, seed: int) -> None:
    label, prediction = drawn(row, seed)
    whole = seen(row, label, prediction).result()
    borders = sorted(data.draw(st.sets(st.integers(1, SAMPLES - 1))))
    parts = [slice(start, stop) for start, stop in zip([0, *borders], [*borders, SAMPLES], strict=True)]
    one, merged = row.build(), row.build()
    for part in data.draw(st.permutations(parts)):
        one.update(label[part], prediction[part])
        merged.merge(seen(row, label[part], prediction[part]))
    assert np.array_equal([one.result(), merged.result()], [whole, whole], equal_nan=True)


@ROWS
def test_merging_takes_what_the_other_saw_and_leaves_it_as_it_is(row: MetricRow) -> None:
    """And a copy goes its own way."""
    label, prediction = drawn(row)
    whole = seen(row, label, prediction).result()
    first, second = seen(row, label[:30], prediction[:30]), seen(row, label[30:], prediction[30:])
    before, copied = (first.result(), second.result()), deepcopy(first)
    assert copied.result() == before[0]
    first.merge(second)
    assert (first.result(), second.result(), copied.result()) == (whole, before[1], before[0])
    first.update(label[:3], prediction[:3])
    assert second.result() == before[1]
    merged, empty = first.result(), row.build()
    first.merge(row.build())
    empty.merge(first)
    assert first.result() == empty.result() == merged
    doubled, again = seen(row, label, prediction), seen(row, label, prediction)
    doubled.merge(doubled)
    again.update(label, prediction)
    assert doubled.result() == again.result()
    copied.update(label[30:], prediction[30:])
    assert (copied.result(), first.result()) == (whole, merged)
    copied.reset()
    assert np.isnan(copied.result())


@ROWS
def test_arrays_of_any_layout_and_precision_and_lists_are_neither_changed_nor_kept(row: MetricRow) -> None:
    label, prediction = drawn(row)
    expected, buffers = seen(row, label, prediction).result(), (label.copy(), prediction.copy())
    metric = seen(row, *buffers)
    assert np.array_equal(buffers[0], label) and np.array_equal(buffers[1], prediction)
    for buffer in buffers:
        buffer[...] = 0
    wide = np.repeat(prediction, 2, axis=0).astype(np.float64)[::2]
    others = [
        (np.repeat(label, 2, axis=0)[::2], wide), (np.asfortranarray(label), np.asfortranarray(prediction)),
        (label.tolist(), prediction.tolist()),
    ]  # fmt: skip
    assert {metric.result(), *(seen(row, *other).result() for other in others)} == {expected}


@ROWS
def test_a_nan_among_the_predictions_makes_the_result_nan_until_reset(row: MetricRow) -> None:
    label, prediction = drawn(row)
    broken, healthy = prediction.copy(), seen(row, label, prediction)
    broken.reshape(-1)[-1] = np.nan
    metric = seen(row, label[:5], prediction[:5])
    for each in (broken, prediction):
        metric.update(label, each)
    assert np.isnan(metric.result()) and type(metric.result()) is float
    healthy.merge(metric)
    assert np.isnan(healthy.result())
    metric.reset()
    metric.update(label, prediction)
    assert metric.result() == seen(row, label, prediction).result()


@ROWS
def test_labels_and_predictions_must_belong_together(row: MetricRow) -> None:
    class Other(CategoricalAccuracy):
        pass

    label, prediction = drawn(row)
    # Of a metric that holds another one the latter looks at them.
    kind, metric = type(row.build()._inner()).__name__, seen(row, label, prediction)
    before = metric.result()
    for wrong in (label[:-1], label[:1], np.concatenate((label, label))):
        with pytest.raises(ValueError, match=f"^{kind} takes labels of .*shape"):
            metric.update(wrong, prediction)
    for single in (np.float64(1), np.array(1.0)):
        with pytest.raises(ValueError, match=f"^{kind} takes"):
            metric.update(np.array(1), np.asarray(single))
    for text in (prediction.astype(str), prediction.astype(object)):
        with pytest.raises(ValueError, match=f"^{kind} .*(<U|object)"):
            metric.update(label, text)
    with pytest.raises(TypeError, match=f"{row.kind.__name__} merges with its own kind only, got Other"):
        metric.merge(Other())
    assert metric.result() == before


@ROWS
def test_a_name_of_its_own_becomes_the_key(row: MetricRow) -> None:
    arguments = {**row.build().get_config(), "name": "mine"}
    metric = row.kind(**arguments)
    assert metric.name == "mine"
    assert metric.get_config() == arguments
    assert row.kind(**{**arguments, "name": None}).get_config().get("name") is None
    with pytest.raises(ValueError, match=f"{row.kind.__name__} 'name' must not be empty"):
        row.kind(**{**arguments, "name": ""})
    with pytest.raises(TypeError, match=f"{row.kind.__name__} 'name' must be a text, got 3"):
        row.kind(**{**arguments, "name": 3})
    del arguments["name"]
    row.kind(**arguments).merge(metric)  # names may differ


SHORT = st.tuples(st.integers(-(2**20), 2**20), st.integers(-537, 491))


@settings(max_examples=200, deadline=None, database=None)
@given(st.lists(SHORT, min_size=1), st.integers(0, 9))
@example([(1, -537)] * 3, 1)
@example([(1, -537), (1, 0)], 1)
@example([(2**20, 491)] * 7, 1)
@example([(2**20, 491), (1, -537)], 1)
@example([((-1) ** k * (k + 1), (k * 37) % 900 - 500) for k in range(5000)], 3000)
def test_sums_are_exact_and_the_mean_is_rounded_once(numbers: list[tuple[int, int]], cut: int) -> None:
    """Of squares that are numbers of double precision, of all sizes; the sum may be beyond them."""
    metric = MeanSquareError()
    for part in (numbers[:cut], numbers[cut:]):
        if part:
            value(metric, np.zeros(len(part)), [math.ldexp(*number) for number in part])
    exact = sum(Fraction(number) ** 2 * Fraction(2) ** (2 * exponent) for number, exponent in numbers)
    assert metric.result() == float(exact / len(numbers))


def test_names_in_results() -> None:
    names = {
        AreaUnderCurve: "auc", BinaryAccuracy: "accuracy", CategoricalAccuracy: "accuracy",
        ConfusionMatrix: "balanced_accuracy", EqualErrorRate: "eer", F1: "f1", FalseNegative: "false_negative",
        FalsePositive: "false_positive", MeanSquareError: "mse", Precision: "precision", Recall: "recall",
        RelativeError: "relative_error", RelativeMeanSquareError: "relative_mse", TopKAccuracy: "top_5_accuracy",
        TrueNegative: "true_negative", TruePositive: "true_positive",
    }  # fmt: skip
    assert {kind: kind().name for kind in names} == names
    assert TopKAccuracy(3).name == "top_3_accuracy"


def test_a_users_metric_needs_no_more_than_before() -> None:
    class Samples(Metric):
        name = "samples"

        def __init__(self) -> None:
            self.reset()

        def reset(self) -> None:
            self.count = 0

        def update(self, label: Array, prediction: Array) -> None:
            self.count += len(label)

        def result(self) -> float:
            return float(self.count)

    assert value(Samples(), [1, 2], [1, 2]) == 2
    assert repr(Samples()) == "Samples()"
    with pytest.raises(TypeError, match="Samples cannot be merged"):
        Samples().merge(Samples())


def test_results_of_a_model_are_plain_floats() -> None:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3, activation=nn.activation.Softmax())])
    metrics = CategoricalAccuracy(), CategoricalAccuracy(name="again"), TopKAccuracy(2), ConfusionMatrix()
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), *metrics)
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    x, y = keyed(0, "x").standard_normal((50, 4)), np.arange(50) % 3
    history = model.fit(x, y, epoch=2, batch_size=16, validation_data=(x, y), verbose=0)
    found = model.evaluate(x, y, batch_size=7)
    assert {type(result) for result in found.values()} == {float}
    assert found == {**model.evaluate(x, y), "Loss": found["Loss"]}
    assert history["val_again"] == history["val_accuracy"]
    confusion = ConfusionMatrix()
    assert value(confusion, y, model.predict(x)) == found["balanced_accuracy"]
    assert confusion.matrix().sum() == 50


TRUTH, SCORE = np.array([1, 0, 1, 1, 0]), np.array([0.9, 0.6, 0.4, 0.7, 0.2], np.float32)
TWO = np.stack((1 - SCORE, SCORE), axis=1)
CHOSEN = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
POSITIONS = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]])
BINARY: list[type[Metric]] = [
    AreaUnderCurve, BinaryAccuracy, EqualErrorRate, F1, FalseNegative, FalsePositive, Precision, Recall, TrueNegative,
    TruePositive,
]  # fmt: skip
REGRESSION: list[type[Metric]] = [MeanSquareError, RelativeError, RelativeMeanSquareError]
OUTPUTS = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]])
NEAR = 1e8 + np.array([0.0, 1e-7, 3e-7, 5e-7])
RATIO = ((NEAR + 1 - NEAR) ** 2).sum() / ((NEAR - 1e8 - (NEAR - 1e8).mean()) ** 2).sum()


@pytest.mark.parametrize(
    ("metric", "label", "prediction", "expected"),
    [
        *((CategoricalAccuracy(), np.array([1, 1, 1]).astype(dtype), CHOSEN, 2 / 3) for dtype in "if?B"),
        (CategoricalAccuracy(), [[0, 1.0], [1, 0], [1, 0]], CHOSEN, 2 / 3),
        (CategoricalAccuracy(), [[1], [1], [1]], CHOSEN, 2 / 3),
        (CategoricalAccuracy(), [[0, 0], [2, 2]], POSITIONS, 0.75),
        (CategoricalAccuracy(), np.eye(3)[[[0, 0], [2, 2]]], POSITIONS, 0.75),
        (TopKAccuracy(2), [0, 1, 2, 3], np.zeros((4, 4)), 0.5),  # equal outputs are no way to be right
        (ConfusionMatrix(), [0, 0, 0, 2, 2, 0], np.eye(3)[[0, 0, 1, 2, 2, 2]], (2 / 4 + 2 / 2) / 2),
        (FalsePositive(0.25), [0, 0], [0.25, 0.26], 1),  # a score at the threshold is negative
        (TruePositive(threshold=0.05), [1, 1, 1, 0], [0.9, 0.8, 0.1, 0.7], 3),
        (BinaryAccuracy(), [1, 0, 1], np.array([True, False, False]), 2 / 3),
        # as in scikit-learn: 0 where a share of nothing is asked for, NaN where there is only one class to be ranked
        (Precision(), [1, 0], [0.1, 0.2], 0), (Recall(), [0, 0], [0.1, 0.9], 0), (F1(), [0, 0], [0.1, 0.2], 0),
        *((kind(), [label] * 2, [0.1, 0.2], math.nan) for kind in (AreaUnderCurve, EqualErrorRate) for label in (0, 1)),
        (EqualErrorRate(), [0, 1, 0, 1], [1, 1, 1, 1], 0.5), (EqualErrorRate(), [0, 0, 1, 1], [1, 2, 3, 4], 0),
        (EqualErrorRate(), [1, 1, 0, 0], [1, 2, 3, 4], 1), (EqualErrorRate(), [0, 0, 1], [0, 1, 1], 1 / 3),
        (AreaUnderCurve(), [0, 0, 1, 1], [-np.inf, np.inf, 1, np.inf], 0.625),
        (MeanSquareError(), [1, 0], np.array([[0.0, 1.0], [0.5, 0.5]], np.float32), 0.125),  # class numbers as one-hot
        *((kind(), label, prediction, math.inf) for kind in REGRESSION
          for label, prediction in [([1.0, 2.0, 3.0], [1.0, 2.0, np.inf]), ([1.0, 2.0, 3.0], [1.0, -np.inf, np.inf])]),
        *((kind(), label, prediction, math.nan) for kind in REGRESSION
          for label, prediction in [([1, 2, np.nan], [1.0, 2.0, 3.0]), ([1, np.inf, np.inf], [1.0, np.inf, 2.0])]),
        (RelativeError(), [0.0, 2.0], [0.0, 1.0], 0.25), (RelativeError(), [-2.0, 4.0], [-1.0, 5.0], 0.375),
        (RelativeError(), [0.0, 2.0], [1.0, 1.0], (1 / np.finfo(float).eps + 0.5) / 2),
        (RelativeMeanSquareError(), OUTPUTS, OUTPUTS, 0),
        (RelativeMeanSquareError(), OUTPUTS, np.tile(OUTPUTS.mean(axis=0), (3, 1)), 1),
        (RelativeMeanSquareError(), [2.0, 2.0], [2.0, 3.0], math.nan),
        (RelativeMeanSquareError(), NEAR, NEAR + 1, RATIO),  # a small spread around a large mean
        (RelativeMeanSquareError(), [0.0, 1e-150], [1e150, 1e150], math.inf),
    ],
)  # fmt: skip
def test_results(metric: Metric, label: Any, prediction: Any, expected: float) -> None:
    assert value(metric, label, prediction) == pytest.approx(expected, rel=1e-12, abs=0, nan_ok=True)


def test_all_forms_say_the_same() -> None:
    forms: list[tuple[Any, Any]] = [
        (TRUTH.astype(np.float32).reshape(-1, 1), SCORE.reshape(-1, 1)), (TRUTH.astype(bool), SCORE), (TRUTH * 2 - 1, SCORE),
        (TRUTH, TWO), (TRUTH.reshape(-1, 1), TWO), (np.eye(2)[TRUTH], TWO),
    ]  # fmt: skip
    for kind in BINARY:
        assert {value(kind(), *form) for form in forms} == {value(kind(), TRUTH, SCORE)}
    label, prediction = np.array([1.0, 2, 4]), np.array([1.5, 2, 3])
    for kind in REGRESSION:
        forms = [(label, prediction.reshape(3, 1)), (label.reshape(3, 1), prediction)]
        assert {value(kind(), *form) for form in forms} == {value(kind(), label, prediction)}


def test_scores_of_another_precision_are_not_rounded() -> None:
    metric = AreaUnderCurve()
    metric.update(np.array([0, 1]), np.array([1, 1], np.float32))
    assert value(metric, [0, 1], [1 - 1e-12, 1 + 1e-12]) == 0.875


def test_a_confusion_matrix() -> None:
    metric, other = ConfusionMatrix(), ConfusionMatrix()
    with pytest.raises(ValueError, match="ConfusionMatrix has seen no samples"):
        metric.matrix()
    value(metric, [0, 0, 0, 2, 2, 0], np.eye(3)[[0, 0, 1, 2, 2, 2]])
    matrix = metric.matrix()
    assert matrix.tolist() == [[2, 1, 1], [0, 0, 0], [0, 0, 2]]
    matrix[0] = 0
    assert metric.matrix().sum() == 6
    value(other, [0, 0], np.zeros((2, 4)))
    for more in (lambda: value(metric, [0, 0], np.zeros((2, 4))), lambda: metric.merge(other)):
        with pytest.raises(ValueError, match="ConfusionMatrix has seen 3 classes so far, got 4"):
            more()
    value(metric, [0], [[0, np.nan, 0]])
    with pytest.raises(ValueError, match="ConfusionMatrix has seen predictions that are NaN, which belong to no class"):
        metric.matrix()


ZEROS = np.zeros((2, 6))
BAD = [
    *((kind, label, prediction, problem) for kind in (CategoricalAccuracy, ConfusionMatrix, TopKAccuracy)
      for label, prediction, problem in [
        (np.zeros(2, int), np.zeros((2, 1)), r"takes predictions \(batch, ..., classes\), got float64 of shape \(2, 1\)"),
        (np.zeros(2, int), np.zeros(2), r"takes predictions \(batch, ..., classes\), got float64 of shape \(2,\)"),
        (np.zeros((2, 5)), ZEROS, r"takes labels of shape \(2,\) or rows of shape \(2, 6\) .*, got float64 of shape \(2, 5\)"),
        (np.zeros(3, int), ZEROS, r"takes labels of shape \(2,\) or rows .*, got int64 of shape \(3,\)"),
        ([6, 0], ZEROS, r"labels must be classes in 0..5, got 0..6"),
        ([5, -1], ZEROS, r"labels must be classes in 0..5, got -1..5"),
        ([5, 0.5], ZEROS, r"labels must be classes in 0..5, got 0.5"),
        ([5, np.nan], ZEROS, r"labels must be classes in 0..5, got nan"),
        (["a", "b"], ZEROS, r"labels must be classes in 0..5, got <U1"),
        (np.full((2, 6), np.nan), ZEROS, r"label rows must not hold NaN"),
    ]),
    (TopKAccuracy, np.zeros(2, int), np.zeros((2, 4)), r"'k' of 5 needs at least 5 classes, got shape \(2, 4\)"),
    *((kind, label, prediction, problem) for kind in BINARY for label, prediction, problem in [
        (np.zeros(2), np.zeros((2, 3)), r"takes numbers \(batch,\) .*, got float64 of shape \(2, 3\)"),
        (np.zeros((2, 2)), np.zeros((2, 1)), r"takes labels of shape \(2,\), \(2, 1\), got \(2, 2\)"),
        (np.zeros((2, 3)), np.full((2, 2), 0.5), r"takes labels of shape \(2,\), \(2, 1\) or \(2, 2\), got \(2, 3\)"),
        (np.zeros(3), np.zeros(2), r"takes labels of shape \(2,\), \(2, 1\), got \(3,\)"),
        ([1, 2], np.zeros(2), r"labels must be 0 or 1 \(or -1 and 1\), got 2"),
        ([1, 0.9], np.zeros(2), r"labels must be 0 or 1 \(or -1 and 1\), got 0.9"),
        ([1, np.nan], np.zeros(2), r"labels must be 0 or 1 \(or -1 and 1\), got nan"),
        (["a", "b"], np.zeros(2), "labels must be numbers, got texts; np.unique"),
        (np.ones((1, 2)), np.full((1, 2), 0.5), r"label rows must be one-hot, \[1, 0\] or \[0, 1\], got \[1.0, 1.0\]"),
        ([0], [[3.0, -4.0]], r"takes rows of two probabilities that sum to 1, got \[3.0, -4.0\]; a mod"),
        (np.zeros(2), np.zeros(2, complex), "takes numbers .*, got complex128"),
    ]),
    *((kind, label, prediction, problem) for kind in REGRESSION for label, prediction, problem in [
        *((np.zeros(shape), np.zeros((2, 3)), r"takes labels of the shape \(2, 3\).*, got \(")
          for shape in ((2,), (3, 2), (2, 3, 1, 1), (6,))),
        (["a"], np.zeros(1), "labels must be numbers, got texts"),
    ]),
    (MeanSquareError, [2, 0], np.zeros((2, 2)), r"labels must be classes in 0..1, got 0..2"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "label", "prediction", "problem"), BAD)
def test_bad_input(kind: type[Metric], label: Any, prediction: Any, problem: str) -> None:
    metric = kind()
    with pytest.raises(ValueError, match=f"^{kind.__name__} {problem}"):
        value(metric, label, prediction)
    assert math.isnan(metric.result())


def test_a_batch_without_samples_has_as_many_outputs_as_others() -> None:
    metric = RelativeMeanSquareError()
    for rows in (OUTPUTS[:0], OUTPUTS, OUTPUTS[:0]):
        metric.update(rows, rows + 1)
    expected = RelativeMeanSquareError()
    expected.update(OUTPUTS, OUTPUTS + 1)
    assert metric.result() == expected.result()


def test_arguments_and_outputs_stay_as_they_are() -> None:
    metric, other = RelativeMeanSquareError(), RelativeMeanSquareError()
    value(metric, np.zeros((2, 3)), np.zeros((2, 3)))
    value(other, ZEROS[:, :2], ZEROS[:, :2])
    refusals: list[tuple[type[Exception], str, Refusal]] = [
        (ValueError, "RelativeMeanSquareError has seen 3 outputs so far, got 2",
         lambda: value(metric, ZEROS[:, :2], ZEROS[:, :2])),
        (ValueError, "RelativeMeanSquareError has seen 3 outputs so far, got 2", lambda: metric.merge(other)),
        (ValueError, "TopKAccuracy 'k' must be a positive integer, got 0", lambda: TopKAccuracy(0)),
        (ValueError, "Recall 'threshold' must be a finite number, got nan", lambda: Recall(math.nan)),
        (TypeError, "F1 'threshold' must be a finite number, got '1'", lambda: F1("1")),  # type: ignore[arg-type]
        (ValueError, r"equal arguments only: Recall\(threshold=None\) and Recall\(threshold=0.25\)",
         lambda: Recall().merge(Recall(0.25))),
    ]  # fmt: skip
    for error, message, refused in refusals:
        with pytest.raises(error, match=message):
            refused()
