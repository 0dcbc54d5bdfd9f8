import math
import tracemalloc
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.loss import Cross_Entropy_With_Softmax, Loss, MSELoss
from tests.contract.nn_rows import LOSSES, LossRow


def evaluated(loss: Loss, label: Any, output: Any, dtype: str = "float32") -> tuple[float, np.ndarray]:
    output = np.array(output, dtype)
    label = loss.prepare(np.asarray(label), output.shape, output.dtype)
    loss.allocate(output.shape, output.dtype)
    value, gradient = loss.value(label, output), np.empty_like(output)
    loss.gradient(label, output, gradient)
    return value, gradient


def test_class_numbers_and_one_hot_rows_are_the_same() -> None:
    score = nn.random.keyed(0, "test").standard_normal((6, 4))
    numbers = np.array([0, 3, 1, 2, 2, 0])
    value, gradient = evaluated(Cross_Entropy_With_Softmax(), numbers, score, "float64")
    again, other = evaluated(Cross_Entropy_With_Softmax(), np.eye(4)[numbers], score, "float64")
    column, _ = evaluated(Cross_Entropy_With_Softmax(), numbers.reshape(-1, 1), score, "float64")
    assert value == pytest.approx(again, rel=1e-14)
    assert column == value
    np.testing.assert_allclose(gradient, other, rtol=1e-12)


def test_huge_scores_neither_overflow_nor_lose_the_loss() -> None:
    value, gradient = evaluated(Cross_Entropy_With_Softmax(), [0, 1], [[1000.0, 0.0], [1000.0, 0.0]])
    assert value == 500
    assert gradient.tolist() == [[0, 0], [0.5, -0.5]]
    value, _ = evaluated(Cross_Entropy_With_Softmax(), [1], [[-1e30, 1e30]])
    assert value == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_score_of_minus_infinity_masks_its_class(smoothing: float, weighted: bool) -> None:
    """Class numbers, one-hot rows and the scores without that class agree; warnings are errors here."""
    score = np.array([[-np.inf, 0.0, 1.0], [2.0, -np.inf, -np.inf], [0.5, 1.5, -np.inf]])
    numbers, weight = np.array([1, 0, 1]), np.array([1.0, 0.5, 2.0]) if weighted else None

    def results(label: Array, output: Array) -> tuple[float, Array]:
        loss = Cross_Entropy_With_Softmax(smoothing)
        label = loss.prepare(label, output.shape, output.dtype)
        loss.allocate(output.shape, output.dtype)
        value, gradient = loss.value(label, output, weight), np.empty_like(output)
        loss.gradient(label, output, gradient, weight)
        return value, gradient

    value, gradient = results(numbers, score)
    again, other = results(np.eye(3)[numbers], score)
    low, _ = results(numbers, np.maximum(score, -1e3))
    assert again == pytest.approx(value, rel=1e-15)
    assert value == (math.inf if smoothing else pytest.approx(low, rel=1e-15))
    np.testing.assert_allclose(other, gradient, rtol=0, atol=1e-16)
    assert np.isfinite(gradient).all()
    mixed, _ = evaluated(Cross_Entropy_With_Softmax(), [[0, 0.25, 0.75]], score[:1], "float64")
    assert mixed == pytest.approx(math.log(1 + math.e) - 0.75, rel=1e-15)
    # the class that is masked is the right one
    for label in ([0], [[1.0, 0, 0]], [[0.5, 0.5, 0]]):
        assert evaluated(Cross_Entropy_With_Softmax(), label, score[:1])[0] == math.inf


@pytest.mark.parametrize(("label", "cost"), [(0.0, [0, math.inf]), (1.0, [math.inf, 0]), (0.5, [math.inf, math.inf])])
def test_infinite_scores_of_a_binary_label(label: float, cost: list[float]) -> None:
    for score, expected in zip((-math.inf, math.inf), cost, strict=True):
        value, gradient = evaluated(nn.loss.Binary_Cross_Entropy(), [[label], [1.0]], [[score], [0.0]], "float64")
        assert value == pytest.approx((expected + math.log(2)) / 2)
        assert gradient.tolist() == [[((score > 0) - label) / 2], [-0.25]]


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ([0, 4], r"labels must lie in 0..3 for 4 outputs, got 0..4"),
        ([-1, 2], r"labels must lie in 0..3 for 4 outputs, got -1..2"),
        ([0.0, 0.5], r"labels that number classes must be whole, got 0\.5"),
        ([0.0, np.inf], r"labels that number classes must be whole, got inf"),
        ([0.0, np.nan], r"labels that number classes must be whole, got nan"),
        ([0.0, 4.0], r"labels must lie in 0..3 for 4 outputs, got 0..4"),
        (["0", "1"], r"labels must be integers of shape \(2,\) or rows of shape \(2, 4\), got <U1 of shape \(2,\)"),
        (np.eye(3)[:2], r"rows of shape \(2, 4\), got float64 of shape \(2, 3\)"),
        (np.full((2, 4), 0.5), r"label rows must hold probabilities that sum to 1, got row 0 sums to 2"),
        (np.full((2, 4), np.nan), r"Cross_Entropy_With_Softmax labels must be finite, got nan in float32"),
        ([[2.0, -1.0, 0, 0], [1, 0, 0, 0]], "sum to 1, got a negative one"),
        ([1], "'label' must hold one label for each of the 2 samples, got 1"),
        (1, "'label' must hold one label for each of the 2 samples, got a single number"),
    ],
)
def test_wrong_labels_are_named(label: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(Cross_Entropy_With_Softmax(), label, np.zeros((2, 4)))


@pytest.mark.parametrize("kind", [Cross_Entropy_With_Softmax, nn.loss.Cross_Entropy, nn.loss.Hinge])
def test_class_numbers_may_be_whole_floats_or_booleans(kind: type[nn.loss.Loss]) -> None:
    output = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]])
    expected, slopes = evaluated(kind(), [1, 0], output)
    for label in ([1.0, 0.0], np.array([1, 0], np.float16), [True, False]):
        value, gradient = evaluated(kind(), label, output)
        assert value == expected
        assert np.array_equal(gradient, slopes)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([2.0, -1.0], "a row of numbers from -1 to 2 whose sum is 1; for scores take Cross_Entropy_With_Softmax"),
        ([3.0, 1.5], "Cross_Entropy takes rows of probabilities that sum to 1, .* from 1.5 to 3 whose sum is 4.5"),
    ],
)
def test_cross_entropy_refuses_scores(row: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(nn.loss.Cross_Entropy(), [0, 0], [[0.5, 0.5], row])
    evaluated(nn.loss.Cross_Entropy(), [0, 0], [[0.5, 0.5], [np.nan, 0.5]])


def test_cross_entropy_takes_rows_of_classes() -> None:
    with pytest.raises(ValueError, match=r"takes outputs of shape \(batch, ..., classes\), got \(2,\)"):
        evaluated(Cross_Entropy_With_Softmax(), [0, 1], np.zeros(2))
    with pytest.raises(ValueError, match=r"integers of shape \(2, 3\) or rows of shape \(2, 3, 4\), got int64 of shape \(2,\)"):
        evaluated(Cross_Entropy_With_Softmax(), [0, 1], np.zeros((2, 3, 4)))


def test_mean_square_error_takes_a_vector_for_one_output() -> None:
    assert evaluated(MSELoss(), [1, 2], [[1], [4]])[0] == 2


@pytest.mark.parametrize(
    ("label", "message"),
    [
        (np.zeros((2, 3)), r"MSELoss labels must have the shape \(2, 2\) of the output, got \(2, 3\)"),
        (np.zeros(2), r"of the output, got \(2,\)"),
        (np.zeros((3, 2)), "one label for each of the 2 samples, got 3"),
        (np.array([["a", "b"], ["c", "d"]]), "MSELoss labels must be numbers, got <U1"),
    ],
)
def test_wrong_targets_are_named(label: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(MSELoss(), label, np.zeros((2, 2)))


def test_positions_of_a_sample_count_together_as_much_as_one_sample() -> None:
    score = nn.random.keyed(0, "test").standard_normal((2, 3, 4))
    numbers = np.array([[0, 3, 1], [2, 2, 0]])
    value, gradient = evaluated(Cross_Entropy_With_Softmax(), numbers, score, "float64")
    flat, other = evaluated(Cross_Entropy_With_Softmax(), numbers.reshape(-1), score.reshape(6, 4), "float64")
    column, _ = evaluated(Cross_Entropy_With_Softmax(), numbers[..., None], score, "float64")
    assert value == pytest.approx(flat, rel=1e-14)
    assert column == value
    np.testing.assert_allclose(gradient, other.reshape(2, 3, 4), rtol=1e-13)


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64"])
def test_class_numbers_are_integers_of_any_size(dtype: str) -> None:
    score = np.eye(4)[[1, 3]]
    expected, _ = evaluated(Cross_Entropy_With_Softmax(), [1, 3], score)
    assert evaluated(Cross_Entropy_With_Softmax(), np.array([1, 3], dtype), score)[0] == expected
    assert evaluated(nn.loss.Cross_Entropy(), np.array([1, 3], dtype), score)[0] == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_predictions_of_scores_are_probabilities(smoothing: float) -> None:
    score = nn.random.keyed(0, "test").standard_normal((2, 3, 4))
    loss = Cross_Entropy_With_Softmax(smoothing)
    evaluated(loss, [[0, 1, 2], [3, 0, 1]], score, "float64")
    np.testing.assert_allclose(loss.prediction(score), np.exp(score) / np.exp(score).sum(axis=-1, keepdims=True), rtol=1e-12)


@pytest.mark.parametrize("label", [[0, 1], [[1.0, 0.0], [0.0, 1.0]]])
def test_a_probability_of_zero_costs_much_but_not_infinitely_much(label: Any) -> None:
    value, gradient = evaluated(nn.loss.Cross_Entropy(), label, [[0.0, 1.0], [0.0, 1.0]])
    epsilon = np.finfo(np.float32).eps
    assert value == pytest.approx((1 - math.log(epsilon)) / 2)
    np.testing.assert_allclose(gradient, [[-0.5 / epsilon, 0], [0, -0.5]])


def test_cross_entropy_below_its_bound_is_the_tangent() -> None:
    output = np.array([[1e-17, 1.0], [3e-17, 1.0]])
    value, gradient = evaluated(nn.loss.Cross_Entropy(), [0, 0], output, "float64")
    moved, _ = evaluated(nn.loss.Cross_Entropy(), [0, 0], [[2e-17, 1.0], [3e-17, 1.0]], "float64")
    assert (moved - value) / 1e-17 == pytest.approx(gradient[0, 0], rel=1e-2)
    assert gradient[0, 0] == gradient[1, 0]


def test_binary_scores_neither_overflow_nor_lose_the_loss() -> None:
    value, gradient = evaluated(nn.loss.Binary_Cross_Entropy(), [[0], [1]], [[1000.0], [1000.0]])
    assert value == 500
    assert gradient.tolist() == [[0.5], [0]]
    loss = nn.loss.Binary_Cross_Entropy()
    value, gradient = evaluated(loss, [0], [[-20.0]])
    assert value == pytest.approx(math.exp(-20), rel=1e-6)
    assert gradient[0, 0] == pytest.approx(math.exp(-20), rel=1e-6)
    np.testing.assert_allclose(loss.prediction(np.zeros(1)), [[math.exp(-20)]], rtol=1e-6)


def test_binary_cross_entropy_takes_the_place_of_a_final_sigmoid() -> None:
    generator = nn.random.keyed(0, "test")
    x, y = generator.standard_normal((20, 3)), generator.integers(0, 2, 20)
    results = []
    for activation in (nn.activation.Sigmoid(), nn.activation.Linear()):
        model = nn.model.SequentialModel([-1, 3], [nn.layer.Dense(1, activation=activation)], dtype="float64", seed=3)
        model.setup(nn.loss.Binary_Cross_Entropy())
        loss, prediction = model.compute_gradients(x, y)
        results.append((loss, prediction.copy(), model.store.gradients.copy()))
    (loss, probability, gradient), (other, score, again) = results
    assert loss == other
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-score)), rtol=1e-12)
    assert np.array_equal(gradient, again)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_cosh_is_exact_for_small_and_for_huge_differences(dtype: str) -> None:
    relative = {"float32": 1e-6, "float64": 1e-13}[dtype]
    for difference in (1e-7, 1e-3, 0.5):
        expected = math.log1p(2 * math.sinh(difference / 2) ** 2)
        assert evaluated(nn.loss.TanhLoss(), [0.0], [[difference]], dtype)[0] == pytest.approx(expected, rel=relative)
    for difference in (19.5, 20.5, 1000.0, -1e30):
        expected = abs(difference) - math.log(2)
        value, gradient = evaluated(nn.loss.TanhLoss(), [0.0], [[difference]], dtype)
        assert value == pytest.approx(expected, rel=relative)
        assert gradient[0, 0] == pytest.approx(math.copysign(1, difference))


def test_decisions_may_be_signed_or_not() -> None:
    score = np.array([[0.5, -2.0], [3.0, 0.0]])
    value, gradient = evaluated(nn.loss.Hinge(), [[1, 0], [0, 1]], score)
    again, other = evaluated(nn.loss.Hinge(), [[1, -1], [-1, 1]], score)
    assert value == again == (0.5 + 0 + 4 + 1) / 4
    assert gradient.tolist() == other.tolist() == [[-0.25, 0], [0.25, -0.25]]
    assert nn.loss.Hinge().prepare(np.array([[1, -1]]), (1, 2), np.dtype(np.float32)).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("loss", "label", "output", "message"),
    [
        (nn.loss.Cross_Entropy(), [0, 4], np.zeros((2, 4)), "Cross_Entropy labels must lie in 0..3 for 4 outputs, got 0..4"),
        (nn.loss.Cross_Entropy(), [["a"] * 4] * 2, np.zeros((2, 4)), "Cross_Entropy labels must be numbers, got <U1"),
        (nn.loss.Binary_Cross_Entropy(), [0, 2], np.zeros((2, 1)), "Binary_Cross_Entropy labels must lie in 0..1, got 0..2"),
        (nn.loss.Binary_Cross_Entropy(), [0, np.nan], np.zeros(2), "labels must be finite, got nan in float32"),
        (nn.loss.Binary_Cross_Entropy(), [0, 1], np.zeros((2, 3)), r"must have the shape \(2, 3\) of the output, got \(2,\)"),
        (nn.loss.Hinge(), [0, 2], np.zeros((2, 1)), "Hinge labels of decisions must be 0 and 1, or -1 and 1, got .* in 0..2"),
        (nn.loss.Hinge(), [[-1, 0], [1, 1]], np.zeros((2, 2)), "0 and 1, or -1 and 1, got numbers in -1..1"),
        (nn.loss.Hinge(), [0, 3], np.zeros((2, 3)), "Hinge labels must lie in 0..2 for 3 outputs, got 0..3"),
        (nn.loss.MAELoss(), [0, np.inf], np.zeros(2), "MAELoss labels must be finite, got inf in float32"),
        (nn.loss.TanhLoss(), [0, 1e300], np.zeros(2), "TanhLoss labels must be finite, got inf in float32"),
        (nn.loss.HuberLoss(), [1, 2, 3], np.zeros(2), "HuberLoss 'label' must hold one label for each of the 2 samples, got 3"),
        (nn.loss.HuberLoss(), np.zeros(0), np.zeros(0), "HuberLoss takes at least one sample, got none"),
    ],
)
def test_every_loss_names_wrong_labels(loss: Loss, label: Any, output: Array, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluated(loss, label, output)


@pytest.mark.parametrize("row", LOSSES, ids=lambda row: f"{row.kind.__name__} {row.label}")
@pytest.mark.parametrize("weighted", [False, True])
def test_after_the_first_step_nothing_of_the_size_of_the_outputs_is_allocated(row: LossRow, weighted: bool) -> None:
    samples = 3000
    label, output = row.sample(nn.random.keyed(0, "test"), samples)
    loss, gradient = row.build(), np.empty_like(output)
    prepared = loss.prepare(label, output.shape, output.dtype)
    weight = (np.ones(samples),) if weighted else ()
    loss.allocate(output.shape, output.dtype)
    loss.value(prepared, output, *weight)
    tracemalloc.start()
    try:
        loss.value(prepared, output, *weight)
        loss.gradient(prepared, output, gradient, *weight)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 100_000, peak


def test_what_absorbs_an_operation_tells_its_value() -> None:
    with pytest.raises(TypeError, match=r"Silent absorbs Softmax, so it must define prediction\(\)"):

        class Silent(MSELoss):
            absorbs = nn.activation.Softmax
