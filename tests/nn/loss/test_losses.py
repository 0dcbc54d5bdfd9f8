"""Losses: labels in all forms, numbers at the ends, weights of samples, memory; values and slopes beside the contract's."""

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.loss import (
    Binary_Cross_Entropy,
    Binary_Focal_Cross_Entropy,
    Cross_Entropy,
    Cross_Entropy_With_Softmax,
    Focal_Cross_Entropy_With_Softmax,
    Hinge,
    HuberLoss,
    Loss,
    MSELoss,
    TanhLoss,
)
from nn.random import keyed
from nn.testing import GradientError, check_loss_gradient
from tests.contract.nn_rows import LOSSES, LossRow

ROWS = pytest.mark.parametrize("row", LOSSES, ids=lambda row: f"{row.kind.__name__} {row.label}")
WEIGHT = np.array([0.5, 0, 2, 1, 3])


def evaluated(loss: Loss, label: Any, output: Any, *weight: Array, dtype: Any = "float32") -> tuple[float, Array]:
    """Return the loss and its gradient, in memory of the layout of the output."""
    output = np.asarray(output, dtype)
    prepared = loss.prepare(np.asarray(label), output.shape, output.dtype)
    loss.allocate(output.shape, output.dtype)
    value, gradient = loss.value(prepared, output, *weight), np.full_like(output, np.nan)
    loss.gradient(prepared, output, gradient, *weight)
    return value, gradient


def exactly(loss: Loss, label: Any, output: Any, *weight: Array) -> tuple[float, Array]:
    return evaluated(loss, label, output, *weight, dtype="float64")


SCORES = keyed(0, "test").standard_normal((6, 4))
NUMBERS = np.array([0, 3, 1, 2, 2, 0])


@pytest.mark.parametrize(
    ("kind", "label", "output", "same"),
    [
        *((Cross_Entropy_With_Softmax, same, SCORES, NUMBERS) for same in (np.eye(4)[NUMBERS], NUMBERS.reshape(-1, 1))),
        # positions of a sample count together as much as one sample
        (Cross_Entropy_With_Softmax, NUMBERS.reshape(2, 3), SCORES.reshape(2, 3, 4), NUMBERS),
        (Cross_Entropy_With_Softmax, NUMBERS.reshape(2, 3, 1), SCORES.reshape(2, 3, 4), NUMBERS),
        *((kind, np.array([1, 0]).astype(dtype), [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], [1, 0])
          for kind in (Cross_Entropy_With_Softmax, Cross_Entropy, Hinge)
          for dtype in ("float64", "float16", "bool", "uint8", "int16", "uint64")),
        (Hinge, [[1, -1], [-1, 1]], [[0.5, -2.0], [3.0, 0.0]], [[1, 0], [0, 1]]),
        (MSELoss, [1, 2], [[1], [4]], [[1], [2]]),
    ],
)  # fmt: skip
def test_forms_of_labels_that_say_the_same(kind: type[Loss], label: Any, output: Any, same: Any) -> None:
    value, gradient = exactly(kind(), label, output)
    flat = np.reshape(output, (len(same), -1))
    again, other = exactly(kind(), same, flat)
    assert value == pytest.approx(again, rel=1e-14)
    np.testing.assert_allclose(gradient.reshape(flat.shape), other, rtol=1e-12)


EPSILON = float(np.finfo(np.float32).eps)


@pytest.mark.parametrize(
    ("loss", "label", "output", "value", "gradient"),
    [
        (Cross_Entropy_With_Softmax(), [0, 1], [[1000, 0], [1000, 0]], 500, [[0, 0], [0.5, -0.5]]),
        (Cross_Entropy_With_Softmax(), [1], [[-1e30, 1e30]], 0, [[0, 0]]),
        (Binary_Cross_Entropy(), [[0], [1]], [[1000], [1000]], 500, [[0.5], [0]]),
        (Binary_Cross_Entropy(), [0], [[-20]], math.log1p(math.exp(-20)), [[1 / (1 + math.exp(20))]]),
        (Hinge(), [[1, 0], [0, 1]], [[0.5, -2.0], [3.0, 0.0]], (0.5 + 0 + 4 + 1) / 4, [[-0.25, 0], [0.25, -0.25]]),
        (MSELoss(), [1, 2], [[1], [4]], 2, [[0], [2]]),
        # a probability of zero costs much, but not infinitely much
        (Cross_Entropy(), [0, 1], [[0, 1], [0, 1]], (1 - math.log(EPSILON)) / 2, [[-0.5 / EPSILON, 0], [0, -0.5]]),
        (Cross_Entropy(), np.eye(2), [[0, 1], [0, 1]], (1 - math.log(EPSILON)) / 2, [[-0.5 / EPSILON, 0], [0, -0.5]]),
        (Cross_Entropy(), [1, 3], np.eye(4)[[1, 3]], 0, None),
        # infinite scores of a binary label, beside one of 0 for a label of 1
        *((Binary_Cross_Entropy(), [[label], [1.0]], [[score], [0.0]], (cost + math.log(2)) / 2,
           [[((score > 0) - label) / 2], [-0.25]])
          for label, *costs in [(0.0, 0, math.inf), (1.0, math.inf, 0), (0.5, math.inf, math.inf)]
          for score, cost in zip((-math.inf, math.inf), costs, strict=True)),
        # of an infinite score a focal loss has the slope of one far away
        *((Binary_Focal_Cross_Entropy(gamma), [[label], [1.0]], [[score], [0.0]], (cost + math.log(2) * 0.5**gamma) / 2,
           [[((score > 0) - label) * (0.5**gamma if label == 0.5 else 1) / 2],
            [-(0.5 + gamma * math.log(2) / 2) * 0.5**gamma / 2]])
          for gamma in (0, 0.25, 1, 2) for label, *costs in [(0.0, 0, math.inf), (1.0, math.inf, 0), (0.5, math.inf, math.inf)]
          for score, cost in zip((-math.inf, math.inf), costs, strict=True)),
        # a weight of 0 takes an infinite cost away
        (Binary_Focal_Cross_Entropy(2, alpha=0), [[1], [0]], [[-math.inf], [0]], math.log(2) / 8, None),
        # a sure sample has no loss and no slope, for small gammas too; a sure mistake has those of the cross-entropy
        *((Binary_Focal_Cross_Entropy(gamma), [[1], [0], [0]], [[1e3], [-1e3], [500]], 500 / 3, [[0], [0], [1 / 3]])
          for gamma in (0, 0.25, 1, 2)),
        # one that is nearly sure has its slope with all digits, here about (gamma + 1) p^(gamma + 1)
        *((Binary_Focal_Cross_Entropy(gamma), [[0]], [[-50]], math.exp(-50 * (gamma + 1)),
           [[(gamma + 1) * math.exp(-50 * (gamma + 1))]]) for gamma in (0.25, 0.5)),
        *((Focal_Cross_Entropy_With_Softmax(gamma), [0, 1], [[1e3, 0], [1e3, 0]], 500, [[0, 0], [0.5, -0.5]])
          for gamma in (0, 0.25, 1, 2)),
        *((TanhLoss(), [0.0], [[d]], math.log1p(2 * math.sinh(d / 2) ** 2), [[math.tanh(d)]]) for d in (1e-7, 1e-3, 0.5)),
        *((TanhLoss(), [0.0], [[d]], abs(d) - math.log(2), [[math.copysign(1, d)]]) for d in (19.5, 20.5, 1000.0, -1e30)),
    ],
)  # fmt: skip
def test_values_at_the_ends(loss: Loss, label: Any, output: Any, value: float, gradient: Any) -> None:
    """They neither overflow nor lose the loss; warnings are errors here."""
    for dtype, precision in (("float32", 1e-6), ("float64", 1e-13)):
        if dtype == "float64" and isinstance(loss, Cross_Entropy) and value:
            continue  # its bound depends on the type
        found, slopes = evaluated(loss, label, output, dtype=dtype)
        assert found == pytest.approx(value, rel=precision, abs=0)
        if gradient is not None:
            np.testing.assert_allclose(slopes, gradient, rtol=precision)


def test_cross_entropy_below_its_bound_is_the_tangent() -> None:
    value, gradient = exactly(Cross_Entropy(), [0, 0], [[1e-17, 1.0], [3e-17, 1.0]])
    moved, _ = exactly(Cross_Entropy(), [0, 0], [[2e-17, 1.0], [3e-17, 1.0]])
    assert (moved - value) / 1e-17 == pytest.approx(gradient[0, 0], rel=1e-2)
    assert gradient[0, 0] == gradient[1, 0]


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [(), (np.array([1.0, 0.5, 2.0]),)])
def test_a_score_of_minus_infinity_masks_its_class(smoothing: float, weight: tuple[Array, ...]) -> None:
    """Class numbers, one-hot rows and the scores without that class agree."""
    score = np.array([[-np.inf, 0.0, 1.0], [2.0, -np.inf, -np.inf], [0.5, 1.5, -np.inf]])
    numbers, loss = np.array([1, 0, 1]), Cross_Entropy_With_Softmax(smoothing)
    value, gradient = exactly(loss, numbers, score, *weight)
    again, other = exactly(loss, np.eye(3)[numbers], score, *weight)
    low, _ = exactly(loss, numbers, np.maximum(score, -1e3), *weight)
    assert again == pytest.approx(value, rel=1e-15)
    assert value == (math.inf if smoothing else pytest.approx(low, rel=1e-15))
    np.testing.assert_allclose(other, gradient, rtol=0, atol=1e-16)
    assert np.isfinite(gradient).all()
    mixed, _ = exactly(Cross_Entropy_With_Softmax(), [[0, 0.25, 0.75]], score[:1])
    assert mixed == pytest.approx(math.log(1 + math.e) - 0.75, rel=1e-15)
    for label in ([0], [[1.0, 0, 0]], [[0.5, 0.5, 0]]):  # the class that is masked is the right one
        assert evaluated(Cross_Entropy_With_Softmax(), label, score[:1])[0] == math.inf


SOFTMAX = Cross_Entropy_With_Softmax()
CLASSES = [
    ([0, 4], r"labels must lie in 0..3 for 4 outputs, got 0..4"),
    ([-1, 2], r"labels must lie in 0..3 for 4 outputs, got -1..2"),
    ([0.0, 0.5], r"labels that number classes must be whole, got 0\.5"),
    ([0.0, np.inf], r"labels that number classes must be whole, got inf"),
    ([0.0, np.nan], r"labels that number classes must be whole, got nan"),
    ([0.0, 4.0], r"labels must lie in 0..3 for 4 outputs, got 0..4"),
    (["0", "1"], r"labels must be integers of shape \(2,\) or rows of shape \(2, 4\), got texts of shape \(2,\)"),
    (np.eye(3)[:2], r"rows of shape \(2, 4\), got float64 of shape \(2, 3\)"),
    (np.full((2, 4), 0.5), r"label rows must hold probabilities that sum to 1, got row 0 sums to 2"),
    (np.full((2, 4), np.nan), r"Cross_Entropy_With_Softmax labels must be finite, got nan in float32"),
    ([[2.0, -1.0, 0, 0], [1, 0, 0, 0]], "sum to 1, got a negative one"),
    ([1], "'label' must hold one label for each of the 2 samples, got 1"),
    (1, "'label' must hold one label for each of the 2 samples, got a single number"),
]


@pytest.mark.parametrize(
    ("loss", "label", "output", "message"),
    [
        *((SOFTMAX, label, np.zeros((2, 4)), message) for label, message in CLASSES),
        (SOFTMAX, [0, 1], np.zeros(2), r"takes outputs of shape \(batch, ..., classes\), got \(2,\)"),
        (SOFTMAX, [0, 1], np.zeros((2, 3, 4)),
         r"integers of shape \(2, 3\) or rows of shape \(2, 3, 4\), got int64 of shape \(2,\)"),
        (Cross_Entropy(), [0, 0], [[0.5, 0.5], [2.0, -1.0]],
         "a row of numbers from -1 to 2 whose sum is 1; for scores take Cross_Entropy_With_Softmax"),
        (Cross_Entropy(), [0, 0], [[0.5, 0.5], [3.0, 1.5]],
         "Cross_Entropy takes rows of probabilities that sum to 1, .* from 1.5 to 3 whose sum is 4.5"),
        (Cross_Entropy(), [0, 4], np.zeros((2, 4)), "Cross_Entropy labels must lie in 0..3 for 4 outputs, got 0..4"),
        (Cross_Entropy(), [["a"] * 4] * 2, np.zeros((2, 4)), "Cross_Entropy labels must be numbers, got texts; np.unique"),
        (Binary_Cross_Entropy(), [0, 2], np.zeros((2, 1)), "Binary_Cross_Entropy labels must lie in 0..1, got 0..2"),
        (Binary_Cross_Entropy(), [0, np.nan], np.zeros(2), "labels must be finite, got nan in float32"),
        (Binary_Cross_Entropy(), [0, 1], np.zeros((2, 3)), r"must have the shape \(2, 3\) of the output, got \(2,\)"),
        (Hinge(), [0, 2], np.zeros((2, 1)), "Hinge labels of decisions must be 0 and 1, or -1 and 1, got .* in 0..2"),
        (Hinge(), [[-1, 0], [1, 1]], np.zeros((2, 2)), "0 and 1, or -1 and 1, got numbers in -1..1"),
        (Hinge(), [0, 3], np.zeros((2, 3)), "Hinge labels must lie in 0..2 for 3 outputs, got 0..3"),
        (MSELoss(), np.zeros((2, 3)), np.zeros((2, 2)),
         r"MSELoss labels must have the shape \(2, 2\) of the output, got \(2, 3\)"),
        (MSELoss(), np.zeros(2), np.zeros((2, 2)), r"of the output, got \(2,\)"),
        (MSELoss(), np.zeros((3, 2)), np.zeros((2, 2)), "one label for each of the 2 samples, got 3"),
        (MSELoss(), [["a", "b"], ["c", "d"]], np.zeros((2, 2)), "MSELoss labels must be numbers, got texts; .* labels.astype"),
        (nn.loss.MAELoss(), [0, np.inf], np.zeros(2), "MAELoss labels must be finite, got inf in float32"),
        (TanhLoss(), [0, 1e300], np.zeros(2), "TanhLoss labels must be finite, got inf in float32"),
        (HuberLoss(), [1, 2, 3], np.zeros(2), "HuberLoss 'label' must hold one label for each of the 2 samples, got 3"),
        (HuberLoss(), np.zeros(0), np.zeros(0), "HuberLoss takes at least one sample, got none"),
    ],
)  # fmt: skip
def test_wrong_labels_are_named(loss: Loss, label: Any, output: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(loss, label, output)


def test_predictions_of_scores_are_probabilities() -> None:
    score = SCORES.reshape(2, 3, 4)
    for smoothing in (0.0, 0.1):
        loss = Cross_Entropy_With_Softmax(smoothing)
        exactly(loss, [[0, 1, 2], [3, 0, 1]], score)
        np.testing.assert_allclose(
            loss.prediction(score), np.exp(score) / np.exp(score).sum(axis=-1, keepdims=True), rtol=1e-12
        )
    evaluated(Cross_Entropy(), [0, 0], [[0.5, 0.5], [np.nan, 0.5]])  # what is not finite shows in the loss, it is not refused
    with pytest.raises(TypeError, match=r"Silent absorbs Softmax, so it must define prediction\(\)"):

        class Silent(MSELoss):
            absorbs = nn.activation.Softmax


def test_binary_cross_entropy_takes_the_place_of_a_final_sigmoid() -> None:
    generator = keyed(0, "test")
    x, y = generator.standard_normal((20, 3)), generator.integers(0, 2, 20)
    results = []
    for activation in (nn.activation.Sigmoid(), nn.activation.Linear()):
        model = nn.model.SequentialModel([-1, 3], [nn.layer.Dense(1, activation=activation)], dtype="float64", seed=3)
        model.setup(Binary_Cross_Entropy())
        loss, prediction = model.compute_gradients(x, y)
        results.append((loss, prediction.copy(), model.store.gradients.copy()))
    (loss, probability, gradient), (other, score, again) = results
    assert loss == other
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-score)), rtol=1e-12)
    assert np.array_equal(gradient, again)


@ROWS
@pytest.mark.parametrize("weighted", [False, True])
def test_after_the_first_step_nothing_of_the_size_of_the_outputs_is_allocated(row: LossRow, weighted: bool) -> None:
    label, output = row.sample(keyed(0, "test"), 3000)
    loss, gradient, weight = row.build(), np.empty_like(output), (np.ones(3000),) if weighted else ()
    prepared = loss.prepare(label, output.shape, output.dtype)
    loss.allocate(output.shape, output.dtype)
    loss.value(prepared, output, *weight)
    tracemalloc.start()
    try:
        loss.value(prepared, output, *weight)
        loss.gradient(prepared, output, gradient, *weight)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # NumPy before 2.3 takes 47,000 bytes more to count along an axis
    assert peak < (100_000 if np.lib.NumpyVersion(np.__version__) >= "2.3.0" else 140_000), peak


@ROWS
def test_weights_layouts_and_precisions(row: LossRow) -> None:
    """A weighted loss is the sum of weighted losses over the batch; memory of any layout is served; single stays single."""
    label, output = row.sample(keyed(0, "weights"), len(WEIGHT))
    value, gradient = exactly(row.build(), label, output, WEIGHT)
    single = [exactly(row.build(), label[i : i + 1], output[i : i + 1]) for i in range(len(WEIGHT))]
    expected = sum(weight * loss for weight, (loss, _) in zip(WEIGHT, single, strict=True)) / len(WEIGHT)
    assert value == pytest.approx(expected, rel=1e-12)
    for i, (_, own) in enumerate(single):
        np.testing.assert_allclose(gradient[i], WEIGHT[i] * own[0] / len(WEIGHT), rtol=1e-12, atol=1e-15)
    check_loss_gradient(row.build(), label, output, WEIGHT)
    for weight in ((), (WEIGHT,)):
        plain, slopes = exactly(row.build(), label, output, *weight)
        turned, found = exactly(row.build(), np.asfortranarray(label), np.asfortranarray(output), *weight)
        assert turned == pytest.approx(plain, rel=1e-14)
        np.testing.assert_allclose(found, slopes, rtol=1e-13)
    loss, weight = row.build(), row.build().check_weights(WEIGHT, len(WEIGHT), np.dtype(np.float32))
    again, other = evaluated(loss, label, output, weight)
    assert again == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(other, gradient, rtol=1e-4, atol=1e-6)
    short = output.astype(np.float32)
    assert loss.each(loss.prepare(label, short.shape, short.dtype), short).dtype == np.float32


def test_the_check_of_gradients_looks_at_weights() -> None:
    class Unweighted(MSELoss):
        def gradient(self, label: Array, output: Array, out: Array, weight: Array | None = None) -> None:
            super().gradient(label, output, out)

    with pytest.raises(GradientError, match="the gradient of Unweighted for a weighted batch of 5"):
        check_loss_gradient(Unweighted(), np.ones((5, 2)), np.zeros((5, 2)), WEIGHT)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1.0, 2.0], r"MSELoss 'weight' must hold one number for each of the 3 samples, got float64 of shape \(2,\)"),
        ([[1.0], [2.0], [3.0]], r"for each of the 3 samples, got float64 of shape \(3, 1\)"),
        (1.0, r"for each of the 3 samples, got float64 of shape \(\)"),
        (["a", "b", "c"], r"for each of the 3 samples, got <U1 of shape \(3,\)"),
        ([1, -2, 3], "MSELoss 'weight' must hold finite numbers of at least 0, got -2 for sample 1"),
        ([1, 2, np.nan], "must hold finite numbers of at least 0, got nan for sample 2"),
        ([np.inf, 2, 3], "must hold finite numbers of at least 0, got inf for sample 0"),
        ([1e300, 2, 3], "must hold finite numbers of at least 0, got inf for sample 0"),
    ],
)
def test_wrong_weights_are_named(weight: Any, message: str) -> None:
    for values in ([1, 0, 2], [True, False, True], [0.5, 0, 2]):
        found = MSELoss().check_weights(np.array(values), 3, np.dtype(np.float32))
        assert found.dtype == np.float32 and found.tolist() == [float(value) for value in values]
    with pytest.raises(ValueError, match=message):
        MSELoss().check_weights(np.asarray(weight), 3, np.dtype(np.float32))


def test_a_model_without_flatten_is_told_of_it() -> None:
    layers = [nn.layer.Conv2D(2, 3), nn.layer.Dense(10, "softmax")]
    model = nn.model.SequentialModel([-1, 8, 8, 1], layers)
    model.compile("adam", "crossentropy")
    for labels in (np.zeros((4, 10)), np.zeros(4, int)):
        with pytest.raises(ValueError, match=r"; a Flatten\(\) before the last Dense gives each sample one row of outputs$"):
            model.fit(np.zeros((4, 8, 8, 1)), labels, epochs=1, verbose=0)


def test_labels_that_are_texts_are_called_that() -> None:
    model = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2, "softmax")])
    model.compile("adam", "crossentropy")
    said = (
        r"labels must be integers of shape \(4,\) .*, got texts of shape \(4,\); np.unique\(labels, return_inverse=True\) gives"
    )
    with pytest.raises(ValueError, match=said):
        model.fit(np.zeros((4, 2)), np.array(["no", "yes", "no", "no"]), epochs=1, verbose=0)
