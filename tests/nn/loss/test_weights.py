"""Weights of samples, for every loss of the contract table."""

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.loss import Loss
from nn.random import keyed
from nn.testing import GradientError, check_loss_gradient
from tests.contract.nn_rows import LOSSES, LossRow

WEIGHT = np.array([0.5, 0, 2, 1, 3])


def name(row: LossRow) -> str:
    return f"{row.kind.__name__} {row.label}"


def evaluated(loss: Loss, label: Array, output: Array, *weight: Array) -> tuple[float, Array]:
    prepared, gradient = loss.prepare(label, output.shape, output.dtype), np.empty_like(output)
    loss.allocate(output.shape, output.dtype)
    value = loss.value(prepared, output, *weight)
    loss.gradient(prepared, output, gradient, *weight)
    return value, gradient


@pytest.mark.parametrize("row", LOSSES, ids=name)
def test_a_weighted_loss_is_the_sum_of_weighted_losses_over_the_batch(row: LossRow) -> None:
    label, output = row.sample(keyed(0, "weights"), len(WEIGHT))
    value, gradient = evaluated(row.build(), label, output, WEIGHT)
    single = [evaluated(row.build(), label[i : i + 1], output[i : i + 1]) for i in range(len(WEIGHT))]
    expected = sum(weight * loss for weight, (loss, _) in zip(WEIGHT, single, strict=True)) / len(WEIGHT)
    assert value == pytest.approx(expected, rel=1e-12)
    for i, (_, own) in enumerate(single):
        np.testing.assert_allclose(gradient[i], WEIGHT[i] * own[0] / len(WEIGHT), rtol=1e-12, atol=1e-15)
    check_loss_gradient(row.build(), label, output, WEIGHT)


@pytest.mark.parametrize("row", LOSSES, ids=name)
@pytest.mark.parametrize("weighted", [False, True])
def test_memory_of_any_layout_is_served(row: LossRow, weighted: bool) -> None:
    label, output = row.sample(keyed(0, "weights"), len(WEIGHT))
    weight = (WEIGHT,) if weighted else ()
    value, gradient = evaluated(row.build(), label, output, *weight)
    turned = np.asfortranarray(output)
    loss, found = row.build(), np.full(output.shape, np.nan, order="F")
    prepared = loss.prepare(np.asfortranarray(label), output.shape, output.dtype)
    loss.allocate(output.shape, output.dtype)
    assert loss.value(prepared, turned, *weight) == pytest.approx(value, rel=1e-14)
    loss.gradient(prepared, turned, found, *weight)
    np.testing.assert_allclose(found, gradient, rtol=1e-13)


@pytest.mark.parametrize("row", LOSSES, ids=name)
def test_single_precision_stays_single(row: LossRow) -> None:
    label, output = row.sample(keyed(0, "weights"), len(WEIGHT))
    value, gradient = evaluated(row.build(), label, output, WEIGHT)
    single = output.astype(np.float32)
    loss = row.build()
    weight = loss.check_weights(WEIGHT, len(WEIGHT), single.dtype)
    again, other = evaluated(loss, label, single, weight)
    assert again == pytest.approx(value, rel=1e-5)
    np.testing.assert_allclose(other, gradient, rtol=1e-4, atol=1e-6)
    assert loss.each(loss.prepare(label, single.shape, single.dtype), single).dtype == np.float32


def test_the_check_of_gradients_looks_at_weights() -> None:
    class Unweighted(nn.loss.MSELoss):
        def gradient(self, label: Array, output: Array, out: Array, weight: Array | None = None) -> None:
            super().gradient(label, output, out)

    with pytest.raises(GradientError, match="the gradient of Unweighted for a weighted batch of 5"):
        check_loss_gradient(Unweighted(), np.ones((5, 2)), np.zeros((5, 2)), WEIGHT)


@pytest.mark.parametrize("values", [[1, 0, 2], [True, False, True], [0.5, 0, 2]])
def test_weights_are_taken_in_the_type_of_the_loss(values: list[Any]) -> None:
    found = nn.loss.MSELoss().check_weights(np.array(values), 3, np.dtype(np.float32))
    assert found.dtype == np.float32
    assert found.tolist() == [float(value) for value in values]


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
    with pytest.raises(ValueError, match=message):
        nn.loss.MSELoss().check_weights(np.asarray(weight), 3, np.dtype(np.float32))
