import math
from typing import Any

import numpy as np
import pytest

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
from tests.contract.nn_rows import METRICS, MetricRow


def value(metric: Metric, label: Any, prediction: Any) -> float:
    metric.update(np.asarray(label), np.asarray(prediction))
    return metric.result()


def test_names_in_results() -> None:
    names = {
        AreaUnderCurve: "auc",
        BinaryAccuracy: "accuracy",
        CategoricalAccuracy: "accuracy",
        ConfusionMatrix: "balanced_accuracy",
        EqualErrorRate: "eer",
        F1: "f1",
        FalseNegative: "false_negative",
        FalsePositive: "false_positive",
        MeanSquareError: "mse",
        Precision: "precision",
        Recall: "recall",
        RelativeError: "relative_error",
        RelativeMeanSquareError: "relative_mse",
        TopKAccuracy: "top_5_accuracy",
        TrueNegative: "true_negative",
        TruePositive: "true_positive",
    }
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


@pytest.mark.parametrize("row", METRICS, ids=lambda row: f"{row.kind.__name__} {row.label}")
def test_lists_will_do(row: MetricRow) -> None:
    label, prediction = row.sample(nn.random.keyed(0, "lists"), 20)
    arrays, lists = row.build(), row.build()
    arrays.update(label, prediction)
    lists.update(label.tolist(), prediction.tolist())
    assert lists.result() == arrays.result()


def test_results_of_a_model_are_plain_floats() -> None:
    model = nn.model.SequentialModel(input_shape=[-1, 4])
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    metrics = CategoricalAccuracy(), CategoricalAccuracy(name="again"), TopKAccuracy(2), ConfusionMatrix()
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), *metrics)
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    x, y = np.random.Generator(np.random.Philox(0)).standard_normal((50, 4)), np.arange(50) % 3
    history = model.fit(x, y, epoch=2, batch_size=16, validation_data=(x, y), verbose=0)
    found = model.evaluate(x, y, batch_size=7)
    assert {type(result) for result in found.values()} == {float}
    assert found == {**model.evaluate(x, y), "Loss": found["Loss"]}
    assert history["val_again"] == history["val_accuracy"]
    confusion = ConfusionMatrix()
    confusion.update(y, model.predict(x))
    assert confusion.result() == found["balanced_accuracy"]
    assert confusion.matrix().sum() == 50


class TestClasses:
    def test_class_numbers_and_rows(self) -> None:
        metric = CategoricalAccuracy()
        prediction = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
        metric.update(np.array([1, 1, 1]), prediction)
        metric.update(np.array([[0, 1.0], [1, 0], [1, 0]]), prediction)
        metric.update(np.array([[1], [1], [1]]), prediction)
        metric.update(np.array([1.0, 1.0, 1.0]), prediction)
        metric.update(np.array([True, True, True]), prediction)
        metric.update(np.array([1, 1, 1], np.uint8), prediction)
        assert metric.result() == pytest.approx(12 / 18)

    def test_positions(self) -> None:
        prediction = np.array([[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]])
        assert value(CategoricalAccuracy(), [[0, 0], [2, 2]], prediction) == 0.75
        assert value(CategoricalAccuracy(), np.eye(3)[[[0, 0], [2, 2]]], prediction) == 0.75

    @pytest.mark.parametrize("kind", [CategoricalAccuracy, ConfusionMatrix, TopKAccuracy])
    @pytest.mark.parametrize(
        ("label", "shape", "problem"),
        [
            (np.zeros(2, int), (2, 1), r"takes predictions \(batch, ..., classes\), got float64 of shape \(2, 1\)"),
            (np.zeros(2, int), (2,), r"takes predictions \(batch, ..., classes\), got float64 of shape \(2,\)"),
            (
                np.zeros((2, 5)),
                (2, 6),
                r"takes labels of shape \(2,\) or rows of shape \(2, 6\) .*, got float64 of shape \(2, 5\)",
            ),
            (np.zeros(3, int), (2, 6), r"takes labels of shape \(2,\) or rows .*, got int64 of shape \(3,\)"),
            (np.array([6, 0]), (2, 6), r"labels must be classes in 0..5, got 0..6"),
            (np.array([5, -1]), (2, 6), r"labels must be classes in 0..5, got -1..5"),
            (np.array([5, 0.5]), (2, 6), r"labels must be classes in 0..5, got 0.5"),
            (np.array([5, np.nan]), (2, 6), r"labels must be classes in 0..5, got nan"),
            (np.array(["a", "b"]), (2, 6), r"labels must be classes in 0..5, got <U1"),
            (np.full((2, 6), np.nan), (2, 6), r"label rows must not hold NaN"),
        ],
    )
    def test_bad_input(self, kind: type[Metric], label: Array, shape: tuple[int, ...], problem: str) -> None:
        with pytest.raises(ValueError, match=f"^{kind.__name__} {problem}"):
            kind().update(label, np.zeros(shape))

    def test_equal_outputs_are_no_way_to_be_right(self) -> None:
        assert value(TopKAccuracy(2), [0, 1, 2, 3], np.zeros((4, 4))) == 0.5

    def test_top_k_needs_k_classes(self) -> None:
        with pytest.raises(ValueError, match=r"TopKAccuracy 'k' of 5 needs at least 5 classes, got shape \(2, 4\)"):
            TopKAccuracy().update(np.zeros(2, int), np.zeros((2, 4)))
        with pytest.raises(ValueError, match="TopKAccuracy 'k' must be a positive integer, got 0"):
            TopKAccuracy(0)

    def test_confusion_matrix(self) -> None:
        metric = ConfusionMatrix()
        with pytest.raises(ValueError, match="ConfusionMatrix has seen no samples"):
            metric.matrix()
        prediction = np.eye(3)[[0, 0, 1, 2, 2, 2]]
        assert value(metric, [0, 0, 0, 2, 2, 0], prediction) == pytest.approx((2 / 4 + 2 / 2) / 2)
        matrix = metric.matrix()
        assert matrix.tolist() == [[2, 1, 1], [0, 0, 0], [0, 0, 2]]
        matrix[0] = 0
        assert metric.matrix().sum() == 6

    def test_confusion_matrix_keeps_its_classes(self) -> None:
        metric = ConfusionMatrix()
        metric.update(np.zeros(2, int), np.zeros((2, 3)))
        with pytest.raises(ValueError, match="ConfusionMatrix has seen 3 classes so far, got 4"):
            metric.update(np.zeros(2, int), np.zeros((2, 4)))
        other = ConfusionMatrix()
        other.update(np.zeros(2, int), np.zeros((2, 4)))
        with pytest.raises(ValueError, match="ConfusionMatrix has seen 3 classes so far, got 4"):
            metric.merge(other)
        metric.update(np.zeros(1, int), np.array([[0, np.nan, 0]]))
        with pytest.raises(ValueError, match="ConfusionMatrix has seen predictions that are NaN, which belong to no class"):
            metric.matrix()


BINARY: list[type[Metric]] = [
    AreaUnderCurve, BinaryAccuracy, EqualErrorRate, F1, FalseNegative, FalsePositive, Precision, Recall, TrueNegative,
    TruePositive,
]  # fmt: skip


class TestTwoClasses:
    def test_all_forms_say_the_same(self) -> None:
        truth, score = np.array([1, 0, 1, 1, 0]), np.array([0.9, 0.6, 0.4, 0.7, 0.2], np.float32)
        rows = np.stack((1 - score, score), axis=1)
        for kind in BINARY:
            expected = value(kind(), truth, score)
            forms: list[tuple[Any, Any]] = [
                (truth.astype(np.float32).reshape(-1, 1), score.reshape(-1, 1)),
                (truth.astype(bool), score),
                (truth * 2 - 1, score),
                (truth, rows),
                (truth.reshape(-1, 1), rows),
                (np.eye(2)[truth], rows),
            ]
            assert [value(kind(), label, prediction) for label, prediction in forms] == [expected] * len(forms)

    def test_a_score_at_the_threshold_is_negative(self) -> None:
        assert value(FalsePositive(0.25), [0, 0], [0.25, 0.26]) == 1
        assert value(TruePositive(threshold=0.05), [1, 1, 1, 0], [0.9, 0.8, 0.1, 0.7]) == 3

    def test_hard_decisions_count_as_scores(self) -> None:
        assert value(BinaryAccuracy(), [1, 0, 1], np.array([True, False, False])) == pytest.approx(2 / 3)

    def test_what_cannot_be_known(self) -> None:
        """As in scikit-learn: 0 where a share of nothing is asked for, NaN where there is only one class to be ranked."""
        assert value(Precision(), [1, 0], [0.1, 0.2]) == 0
        assert value(Recall(), [0, 0], [0.1, 0.9]) == 0
        assert value(F1(), [0, 0], [0.1, 0.2]) == 0
        for kind in (AreaUnderCurve, EqualErrorRate):
            assert math.isnan(value(kind(), [0, 0], [0.1, 0.2]))
            assert math.isnan(value(kind(), [1, 1], [0.1, 0.2]))

    def test_a_rate_between_two_thresholds(self) -> None:
        assert value(EqualErrorRate(), [0, 1, 0, 1], [1, 1, 1, 1]) == 0.5
        assert value(EqualErrorRate(), [0, 0, 1, 1], [1, 2, 3, 4]) == 0
        assert value(EqualErrorRate(), [1, 1, 0, 0], [1, 2, 3, 4]) == 1
        assert value(EqualErrorRate(), [0, 0, 1], [0, 1, 1]) == 1 / 3

    def test_infinite_scores_have_a_place(self) -> None:
        assert value(AreaUnderCurve(), [0, 0, 1, 1], [-np.inf, np.inf, 1, np.inf]) == 0.625

    def test_scores_of_another_precision_are_not_rounded(self) -> None:
        metric = AreaUnderCurve()
        metric.update(np.array([0, 1]), np.array([1, 1], np.float32))
        metric.update(np.array([0, 1]), np.array([1 - 1e-12, 1 + 1e-12]))
        assert metric.result() == 0.875

    @pytest.mark.parametrize("kind", BINARY)
    @pytest.mark.parametrize(
        ("label", "prediction", "problem"),
        [
            (np.zeros(2), np.zeros((2, 3)), r"takes numbers \(batch,\) .*, got float64 of shape \(2, 3\)"),
            (np.zeros((2, 2)), np.zeros((2, 1)), r"takes labels of shape \(2,\), \(2, 1\), got \(2, 2\)"),
            (np.zeros((2, 3)), np.full((2, 2), 0.5), r"takes labels of shape \(2,\), \(2, 1\) or \(2, 2\), got \(2, 3\)"),
            (np.zeros(3), np.zeros(2), r"takes labels of shape \(2,\), \(2, 1\), got \(3,\)"),
            (np.array([1, 2]), np.zeros(2), r"labels must be 0 or 1 \(or -1 and 1\), got 2"),
            (np.array([1, 0.9]), np.zeros(2), r"labels must be 0 or 1 \(or -1 and 1\), got 0.9"),
            (np.array([1, np.nan]), np.zeros(2), r"labels must be 0 or 1 \(or -1 and 1\), got nan"),
            (np.array(["a", "b"]), np.zeros(2), "labels must be numbers, got <U1"),
            (np.ones((1, 2)), np.full((1, 2), 0.5), r"label rows must be one-hot, \[1, 0\] or \[0, 1\], got \[1.0, 1.0\]"),
            (
                np.array([0]),
                np.array([[3.0, -4.0]]),
                r"takes rows of two probabilities that sum to 1, got \[3.0, -4.0\]; a mod",
            ),
            (np.zeros(2), np.zeros(2, complex), "takes numbers .*, got complex128"),
        ],
    )
    def test_bad_input(self, kind: type[Metric], label: Array, prediction: Array, problem: str) -> None:
        metric = kind()
        with pytest.raises(ValueError, match=f"^{kind.__name__} {problem}"):
            metric.update(label, prediction)
        assert math.isnan(metric.result())

    def test_a_threshold_is_a_number(self) -> None:
        with pytest.raises(ValueError, match="Recall 'threshold' must be a finite number, got nan"):
            Recall(math.nan)
        with pytest.raises(TypeError, match="F1 'threshold' must be a finite number, got '1'"):
            F1("1")  # type: ignore[arg-type]

    def test_thresholds_must_agree_to_merge(self) -> None:
        with pytest.raises(ValueError, match=r"equal arguments only: Recall\(threshold=0.5\) and Recall\(threshold=0.25\)"):
            Recall().merge(Recall(0.25))


class TestNumbers:
    def test_square_error_takes_class_numbers_as_one_hot(self) -> None:
        prediction = np.array([[0.0, 1.0], [0.5, 0.5]], np.float32)
        assert value(MeanSquareError(), [1, 0], prediction) == 0.125
        with pytest.raises(ValueError, match=r"MeanSquareError labels must be classes in 0..1, got 0..2"):
            MeanSquareError().update(np.array([2, 0]), prediction)

    @pytest.mark.parametrize("kind", [MeanSquareError, RelativeError, RelativeMeanSquareError])
    def test_one_output_with_or_without_its_axis(self, kind: type[Metric]) -> None:
        label, prediction = np.array([1.0, 2, 4]), np.array([1.5, 2, 3])
        expected = value(kind(), label, prediction)
        assert value(kind(), label, prediction.reshape(3, 1)) == expected
        assert value(kind(), label.reshape(3, 1), prediction) == expected

    @pytest.mark.parametrize("kind", [MeanSquareError, RelativeError, RelativeMeanSquareError])
    def test_equal_shapes_are_needed(self, kind: type[Metric]) -> None:
        for shape in ((2,), (3, 2), (2, 3, 1, 1), (6,)):
            with pytest.raises(ValueError, match=rf"^{kind.__name__} takes labels of the shape \(2, 3\).*, got \("):
                kind().update(np.zeros(shape), np.zeros((2, 3)))
        with pytest.raises(ValueError, match=f"{kind.__name__} labels must be numbers, got <U1"):
            kind().update(np.array(["a"]), np.zeros(1))

    @pytest.mark.parametrize("kind", [MeanSquareError, RelativeError, RelativeMeanSquareError])
    def test_numbers_without_bounds(self, kind: type[Metric]) -> None:
        label = np.array([1.0, 2.0, 3.0])
        assert value(kind(), label, [1.0, 2.0, np.inf]) == math.inf
        assert value(kind(), label, [1.0, -np.inf, np.inf]) == math.inf
        assert math.isnan(value(kind(), [1.0, 2.0, np.nan], label))
        assert math.isnan(value(kind(), [1.0, np.inf, np.inf], [1.0, np.inf, 2.0]))

    def test_a_relative_error_where_the_label_is_zero(self) -> None:
        assert value(RelativeError(), [0.0, 2.0], [0.0, 1.0]) == 0.25
        assert value(RelativeError(), [0.0, 2.0], [1.0, 1.0]) > 1e15
        assert value(RelativeError(), [-2.0, 4.0], [-1.0, 5.0]) == 0.375

    def test_relative_square_error(self) -> None:
        label = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 60.0]])
        assert value(RelativeMeanSquareError(), label, label) == 0
        assert value(RelativeMeanSquareError(), label, np.tile(label.mean(axis=0), (3, 1))) == 1
        assert math.isnan(value(RelativeMeanSquareError(), [2.0, 2.0], [2.0, 3.0]))

    def test_a_small_spread_around_a_large_mean(self) -> None:
        label = 1e8 + np.array([0.0, 1e-7, 3e-7, 5e-7])
        spread = float(((label - 1e8 - (label - 1e8).mean()) ** 2).sum())
        assert value(RelativeMeanSquareError(), label, label + 1) == pytest.approx(4 / spread, rel=1e-6)

    def test_the_largest_ratio_is_infinite(self) -> None:
        assert value(RelativeMeanSquareError(), [0.0, 1e-150], [1e150, 1e150]) == math.inf

    def test_the_outputs_stay_as_many(self) -> None:
        metric = RelativeMeanSquareError()
        metric.update(np.zeros((2, 3)), np.zeros((2, 3)))
        with pytest.raises(ValueError, match=r"RelativeMeanSquareError has seen 3 outputs so far, got 2"):
            metric.update(np.zeros((2, 2)), np.zeros((2, 2)))
