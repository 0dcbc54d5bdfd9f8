"""Weighted metrics: beside NumPy's weighted means, in models with masks, positions and several outputs, and in files."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import nn
from nn import metric
from nn.layer import Dense, Embedding, Masking
from nn.random import keyed

DRAW = keyed(0, "weighted")
X, W = DRAW.random((40, 4)), DRAW.random(40) * (DRAW.random(40) > 0.2)
Y = (X[:, :1] > 0.5) * 1


def test_metrics_are_weighted_means_and_counts_however_batches_are_cut() -> None:
    p, y = DRAW.random((40, 3)), DRAW.integers(0, 2, (40, 3))
    taken = p > 0.5
    each = np.broadcast_to(W[:, None], p.shape)
    expected: dict[str, Any] = {
        "mse": np.average((p - y) ** 2, weights=each), "rmse": np.sqrt(np.average((p - y) ** 2, weights=each)),
        "mae": np.average(abs(p - y), weights=each), "binary_accuracy": np.average(taken == y, weights=each),
        "precision": (each * (taken & (y == 1))).sum() / (each * taken).sum(),
        "recall": (each * (taken & (y == 1))).sum() / (each * y).sum(),
        "true_positive": (each * (taken & (y == 1))).sum(),
    }  # fmt: skip
    for word, value in expected.items():
        whole, parts, other = metric.Weighted(word), metric.Weighted(word), metric.Weighted(word)
        whole.update(y, p, W)
        for rows in (slice(0, 7), slice(7, 20)):
            parts.update(y[rows], p[rows], W[rows])
        other.update(y[20:], p[20:], W[20:])
        parts.merge(other)
        assert parts.result() == whole.result() == pytest.approx(value, rel=1e-12), word
    classes, rows = DRAW.integers(0, 4, 40), DRAW.random((40, 4))
    for word, right in (("accuracy", rows.argmax(1) == classes), ("top_k_accuracy", np.ones(40))):
        found = metric.Weighted(word if word == "accuracy" else metric.TopKAccuracy(4))
        found.update(classes, rows, W)
        assert found.result() == pytest.approx(np.average(right, weights=W))
    assert np.isnan(metric.Weighted("mse").result())
    lost = metric.Weighted("accuracy")
    lost.update(classes, np.where(rows > 0.9, np.nan, rows), W)
    assert np.isnan(lost.result())


@pytest.mark.parametrize(
    ("weight", "told"),
    [
        ([1.0, -1.0], "finite numbers of at least 0, got -1"),
        ([np.nan, 1.0], "finite numbers of at least 0, got nan"),
        ([1.0, np.inf], "finite numbers of at least 0, got inf"),
        ([1j, 1.0], r"one number for each of the 2 samples, got complex128 of shape \(2,\)"),
        (["a", "b"], "one number for each of the 2 samples, got <U1"),
        ([1.0, 1.0, 1.0], r"one number for each of the 2 samples, got float64 of shape \(3,\)"),
    ],
)
@pytest.mark.parametrize("word", ["mse", "precision"])
def test_weights_that_are_none_are_refused(word: str, weight: list[Any], told: str) -> None:
    found = metric.Weighted(word)
    with pytest.raises(ValueError, match=f"Weighted 'weight' must hold {told}"):
        found.update([1.0, 0.0], [0.9, 0.2], weight)
    assert np.isnan(found.result())


@pytest.mark.parametrize("word", ["mse", "precision", "accuracy"])
def test_an_empty_batch_changes_nothing(word: str) -> None:
    found, columns = metric.Weighted(word), (3,) if word == "accuracy" else ()
    found.update(np.zeros(0, int), np.zeros((0, *columns)), np.zeros(0))
    assert np.isnan(found.result())
    y, p = np.array([1, 0]), np.array([[0.1, 0.8, 0.1], [0.2, 0.7, 0.1]]) if columns else np.array([0.9, 0.2])
    found.update(y, p, [1.0, 3.0])
    before = found.result()
    found.update(y[:0], p[:0], np.zeros(0))
    assert found.result() == before


def test_a_model_weighs_in_fit_evaluate_and_on_one_batch() -> None:
    model = nn.model.SequentialModel([-1, 4], [Dense(1, "sigmoid")])
    model.compile("sgd", "binary_crossentropy", ["accuracy"], weighted_metrics=["accuracy", "mse"])
    p = model.predict(X)
    expected = {
        "accuracy": ((p > 0.5) == Y).mean(),
        "weighted_accuracy": np.average(((p > 0.5) == Y)[:, 0], weights=W),
        "weighted_mse": np.average((p - Y)[:, 0] ** 2, weights=W),
    }
    for batch_size in (40, 7):
        found = model.evaluate(X, Y, batch_size, sample_weight=W)
        assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    assert model.test_on_batch(X, Y, sample_weight=W)["weighted_accuracy"] == pytest.approx(expected["weighted_accuracy"])
    assert model.evaluate(X, Y)["weighted_accuracy"] == model.evaluate(X, Y)["accuracy"]
    again = nn.model.Model.from_bytes(model.to_bytes())
    assert again.evaluate(X, Y, sample_weight=W) == model.evaluate(X, Y, sample_weight=W)
    model.compile(nn.gradient_descent.SGDOptimizer(0))
    counts = {0: 3.0, 1: 0.5}
    history = model.fit(X, Y, epochs=1, batch_size=9, class_weight=counts, verbose=0)
    by_class = np.average(((p > 0.5) == Y)[:, 0], weights=np.where(Y[:, 0], 0.5, 3.0))
    assert history["weighted_accuracy"][-1] == pytest.approx(by_class, rel=1e-6)


def test_weights_of_positions_beside_masks() -> None:
    ids = DRAW.integers(0, 5, (12, 6))
    labels, weight = DRAW.integers(0, 3, (12, 6)), DRAW.random((12, 6))
    model = nn.model.SequentialModel([-1, 6], [Embedding(5, 4, mask_zero=True), Dense(3, "softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", weighted_metrics=["accuracy"])
    right = model.predict(ids).argmax(axis=2) == labels
    expected = np.average(right, weights=weight * (ids > 0))
    for batch_size in (12, 5):
        assert model.evaluate(ids, labels, batch_size, sample_weight=weight)["weighted_accuracy"] == pytest.approx(
            expected, rel=1e-6
        )
    by_sample = np.average(right, weights=weight[:, :1] * (ids > 0))
    found = model.evaluate(ids, labels, sample_weight=weight[:, 0])
    assert found["weighted_accuracy"] == pytest.approx(by_sample, rel=1e-6)
    model.compile(nn.gradient_descent.SGDOptimizer(0))
    history = model.fit(ids, labels, epochs=1, batch_size=5, sample_weight=weight, verbose=0)
    assert history["weighted_accuracy"][-1] == pytest.approx(expected, rel=1e-6)


def test_a_batch_of_which_nothing_counts_counts_nothing() -> None:
    """All of its labels are ignored, or all of it is padding."""
    model = nn.model.SequentialModel([-1, None], [Embedding(5, 4, mask_zero=True), Dense(3)])
    model.compile(
        "sgd", nn.loss.Cross_Entropy_With_Softmax(ignore_index=-1), ["accuracy"], weighted_metrics=["accuracy", "mse"]
    )
    ids, labels = DRAW.integers(1, 5, (4, 6)), DRAW.integers(0, 3, (4, 6))
    expected = model.evaluate(ids, labels)
    for nothing, none in ((np.zeros_like(ids), labels), (ids, np.full_like(labels, -1))):
        both = np.concatenate([ids, nothing]), np.concatenate([labels, none])
        assert model.evaluate(*both, batch_size=4) == pytest.approx(expected, rel=1e-6)
        assert math.isnan(model.test_on_batch(nothing, none)["weighted_accuracy"])
        model.fit(*both, epochs=1, batch_size=4, shuffle=False, verbose=0)
        expected = model.evaluate(ids, labels)


def test_each_output_has_weighted_metrics_of_its_own() -> None:
    x = nn.Input((4,))
    model: Any = nn.model.Model(x, {"a": Dense(1, "sigmoid")(x), "b": Dense(2)(Masking()(x.reshape(-1, 2, 2))).reshape(-1, 4)})
    b = DRAW.random((40, 4))
    model.compile(
        "sgd", {"a": "binary_crossentropy", "b": "mse"}, {"a": ["accuracy"]}, weighted_metrics={"a": ["accuracy"], "b": "mae"}
    )
    p = model.predict(X)
    found = model.evaluate(X, {"a": Y, "b": b}, sample_weight={"a": W, "b": 1 - W})
    assert found["a_weighted_accuracy"] == pytest.approx(np.average(((p["a"] > 0.5) == Y)[:, 0], weights=W))
    assert found["b_weighted_mae"] == pytest.approx(np.average(abs(p["b"] - b).mean(axis=1), weights=1 - W), rel=1e-5)


def test_what_cannot_weigh_is_refused() -> None:
    with pytest.raises(TypeError, match="accuracies, decisions or mean errors, got AreaUnderCurve, which knows no weights"):
        metric.Weighted("auc")
    with pytest.raises(ValueError, match=r"one number for each of the 2 samples, got float64 of shape \(3,\)"):
        metric.Weighted("mse").update([1.0, 2.0], [1.0, 2.0], [1.0, 1.0, 1.0])
    model = nn.model.SequentialModel([-1, 4], [Dense(1)])
    with pytest.raises(TypeError, match=r"'weighted_metrics' must be a list, got 'mse'; write \[...\]"):
        model.compile("sgd", "mse", weighted_metrics="mse")
    with pytest.raises(ValueError, match="must come with a 'loss'"):
        model.compile("sgd", weighted_metrics=["mse"])
