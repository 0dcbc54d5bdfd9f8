"""Metrics of models whose outputs are decisions: several labels, scores of a hinge loss, one output with any loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import Dense
from tests.statements import covers

P = np.array([[0.9, 0.2, 0.6], [0.4, 0.7, 0.1]])
Y = np.array([[1, 0, 0], [1, 1, 0]])
# 6 entries: true positives 0.9 and 0.7, a false positive 0.6, a false negative 0.4; 8 of 9 pairs are in order
EXPECTED = {"accuracy": 4 / 6, "precision": 2 / 3, "recall": 2 / 3, "f1": 2 / 3, "auc": 8 / 9, "true_positive": 2.0}
WORDS: Any = list(EXPECTED)


def of(outputs: Array, loss: Any, end: Any = "sigmoid", words: Any = WORDS) -> nn.model.SequentialModel:
    """Return a model whose outputs before the last activation are its inputs."""
    units = outputs.shape[1]
    made = nn.model.SequentialModel([-1, units], [Dense(units, end)], dtype="float64")
    made.compile("sgd", loss, words)
    made.set_weights([np.eye(units), np.zeros(units)])
    return made


def scores(p: Array) -> Array:
    return np.log(p / (1 - p))


@covers("DAT-9")
@pytest.mark.parametrize(
    ("loss", "end"),
    [
        ("binary_crossentropy", "sigmoid"),
        ("binary_crossentropy_with_sigmoid", "sigmoid"),
        ("binary_crossentropy_with_sigmoid", None),
        ("mse", "sigmoid"),
    ],
)
def test_a_model_of_several_labels_has_keras_metrics(loss: Any, end: Any) -> None:
    words = WORDS if loss != "mse" else WORDS[1:]
    made = of(P, loss, end, words)
    expected = {name: EXPECTED[name] for name in words}
    assert {name: made.evaluate(scores(P), Y)[name] for name in words} == pytest.approx(expected)
    parts = [made.evaluate(scores(P)[rows], Y[rows], batch_size=1)["true_positive"] for rows in (slice(1), slice(1, 2))]
    assert sum(parts) == 2


def test_f1_of_labels_is_a_mean_over_them() -> None:
    """Label 0: 1 of 2 found; label 1: found; label 2: only a false alarm, which counts 0, and nothing where positives weigh."""
    made = of(P, "binary_crossentropy", words=["macro_f1", nn.metric.LabelF1("micro"), nn.metric.LabelF1("weighted"), "f1"])
    results = made.evaluate(scores(P), Y)
    assert results["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert results["micro_f1"] == pytest.approx(results["f1"])
    assert results["weighted_f1"] == pytest.approx((2 * 2 / 3 + 1) / 3)
    assert type(made.metrics[0]) is nn.metric.LabelF1
    with pytest.raises(ValueError, match=r"LabelF1 takes labels of the shape .* of the predictions, \(2, 3\), got \(2,\)"):
        nn.metric.LabelF1().update([0, 1], P)
    seen = nn.metric.LabelF1()
    seen.update(Y, P)
    with pytest.raises(ValueError, match="has seen 3 labels so far, got 2"):
        seen.update(Y[:, :2], P[:, :2])


@covers("DAT-9")
def test_two_labels_are_no_rows_of_two_classes() -> None:
    p, y = P[:, :2], Y[:, :2]
    made = of(p, "binary_crossentropy")
    results = made.evaluate(scores(p), y)
    assert [results[name] for name in WORDS] == pytest.approx([3 / 4, 1.0, 2 / 3, 0.8, 1.0, 2.0])
    assert nn.metric.Precision().truth_and_scores(np.eye(2), np.eye(2))[0].shape == (2,)


@covers("DAT-9")
@pytest.mark.parametrize("end", [None, "tanh"])
def test_a_hinge_counts_by_the_sign_of_the_score(end: Any) -> None:
    """Scores of 0.1 and 0.4 are sure of nothing, and yet decisions: a threshold of 0.5 would miss both."""
    z, y = np.array([[0.1], [0.4], [-0.2], [0.3], [-2.0]]), np.array([1, 1, 1, 0, 0])
    expected = [3 / 5, 2 / 3, 2 / 3, 2 / 3, 4 / 6, 2.0]
    for labels in (y, 2 * y - 1):
        results = of(z, "hinge", end).evaluate(z, labels)
        assert [results[name] for name in WORDS] == pytest.approx(expected)
    made = of(z, "hinge", end, ["precision"])
    again = nn.model.Model.from_bytes(made.to_bytes())
    assert again.evaluate(z, y) == made.evaluate(z, y)
    made.setup(nn.loss.Hinge(), nn.metric.Recall(0.35))
    assert made.evaluate(z if end is None else np.arctanh(z * 0.49), y)["recall"] == pytest.approx(1 / 3 if end is None else 0)


@covers("DAT-9")
def test_a_hinge_of_two_classes_counts_by_the_larger_score() -> None:
    z, y = np.array([[0.0, 0.3], [0.2, 0.1], [5.0, 5.5], [-1.0, -3.0]]), np.array([1, 1, 0, 0])
    results = of(z, "hinge", None, ["accuracy", "precision", "recall"]).evaluate(z, y)
    assert [results[name] for name in ("accuracy", "precision", "recall")] == [0.5, 0.5, 0.5]


@covers("DAT-9")
@pytest.mark.parametrize("late", [False, True])
def test_accuracy_of_one_output_is_that_of_two_classes_whatever_the_loss(late: bool) -> None:
    x, y = np.array([[2.0], [-3.0], [1.0]]), np.array([1, 0, 0])
    made = nn.model.SequentialModel(None if late else [-1, 1], [Dense(1, "sigmoid")])
    made.compile("sgd", "mse", ["accuracy"])
    made._take_samples(x)
    made.set_weights([np.ones((1, 1)), np.zeros(1)])
    assert made.evaluate(x, y)["accuracy"] == pytest.approx(2 / 3)
    assert made.fit(x, y, epochs=1, verbose=0)["accuracy"] == [pytest.approx(2 / 3)]


@covers("DAT-9")
def test_scores_of_classes_are_probabilities_for_metrics() -> None:
    z, y = np.array([[0.0, 0.3], [0.2, 0.1], [5.0, 5.5]]), np.array([1, 1, 0])
    for end in (None, "softmax"):
        results = of(z, "crossentropy_with_softmax", end, ["accuracy", "precision", "recall", "auc"]).evaluate(z, y)
        assert [results[name] for name in ("accuracy", "precision", "recall", "auc")] == pytest.approx([1 / 3, 1 / 2, 1 / 2, 0])
