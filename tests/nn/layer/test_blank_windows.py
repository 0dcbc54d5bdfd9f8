"""Outputs of a convolution that see zeros only: exactly 0 plus the bias, whichever method computes them."""

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array, OwnMemory
from nn.operation.convolution.im2col import Im2Col
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.window import Padding, place
from nn.operation.convolution.winograd import BlankWindows, Winograd

NUMBERS = np.random.default_rng(0)


def sparse(shape: tuple[int, ...], groups: int, dtype: Any) -> Array:
    """Return images with islands of numbers, other islands for every group of channels, and zeros of both signs."""
    x = NUMBERS.standard_normal(shape)
    images, rows, columns, channels = shape
    coarse = NUMBERS.random((images, -(-rows // 5), -(-columns // 5), groups)) < 0.25
    islands = coarse.repeat(5, axis=1).repeat(5, axis=2)[:, :rows, :columns].repeat(channels // groups, axis=3)
    return (x * islands).astype(dtype)


def run(method: type[Winograd] | type[Im2Col], problem: Problem, x: Array, kernel: Array, bias: Array | None) -> Array:
    found = np.empty(problem.output, problem.dtype)
    method(problem, OwnMemory()).forward(x, kernel, bias, found)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("images", "sample", "kernel", "padding", "groups"),
    [
        (3, (28, 28, 16), (3, 3, 16, 16), "same", 1),
        (70, (14, 14, 16), (3, 3, 16, 32), "same", 1),
        (3, (13, 17, 16), (3, 3, 16, 20), "valid", 1),
        (3, (21, 24, 16), (5, 5, 16, 16), "same", 1),
        (2, (16, 21, 16), (4, 2, 16, 16), "same", 1),
        (2, (20, 19, 16), (3, 5, 16, 16), 2, 1),
        (2, (18, 18, 32), (3, 3, 16, 32), 1, 2),
        (3, (16, 17, 24), (3, 3, 1, 24), 1, 24),
        (2, (16, 16, 16), (3, 3, 1, 16), "valid", 16),
    ],
)
def test_they_are_those_of_the_direct_sum(
    images: int, sample: tuple[int, int, int], kernel: tuple[int, int, int, int], padding: Padding, groups: int, dtype: str
) -> None:
    rows, columns = place("test", sample[:2], kernel[:2], (1, 1), padding)
    problem = Problem(images, rows, columns, sample[2], kernel[3], groups, False, False, np.dtype(dtype))
    assert Winograd.suits(problem)
    x, weights = sparse((images, *sample), groups, dtype), NUMBERS.standard_normal(kernel).astype(dtype)
    exact, fast = (run(method, problem, x, weights, None) for method in (Im2Col, Winograd))
    blank = exact == 0
    assert 0.05 < blank.mean() < 0.95
    assert np.array_equal(fast == 0, blank)
    np.testing.assert_allclose(fast, exact, rtol=0, atol=(1e-4 if dtype == "float32" else 1e-12) * np.abs(exact).max())
    bias = np.linspace(-1, 1, kernel[3]).astype(dtype)
    for rectified in (False, True):
        biased = run(Winograd, problem._replace(biased=True, rectified=rectified), x, weights, bias)
        expected = np.broadcast_to(np.maximum(bias, 0) if rectified else bias, biased.shape)
        assert np.array_equal(biased[blank], expected[blank])


def test_inputs_without_zeros_or_with_zeros_only() -> None:
    rows, columns = place("test", (16, 16), (3, 3), (1, 1), "same")
    problem = Problem(4, rows, columns, 16, 16, 1, False, False, np.dtype(np.float32))
    weights = NUMBERS.standard_normal((3, 3, 16, 16)).astype(np.float32)
    assert run(Winograd, problem, np.ones((4, 16, 16, 16), np.float32), weights, None).all()
    for zeros in (np.zeros((4, 16, 16, 16), np.float32), -np.zeros((4, 16, 16, 16), np.float32)):
        assert not run(Winograd, problem, zeros, weights, None).any()


@pytest.mark.parametrize("number", [1e-45, 3e38])
def test_the_smallest_and_the_largest_numbers_are_none(number: float) -> None:
    """Warnings are errors here: sums of sizes may overflow without harm."""
    rows, columns = place("test", (12, 12), (3, 3), (1, 1), "valid")
    problem = Problem(1, rows, columns, 16, 16, 1, False, False, np.dtype(np.float32))
    x = np.zeros((1, 12, 12, 16), np.float32)
    x[0, 5, 6] = number
    blanks = BlankWindows(problem, 1, OwnMemory())
    suspects = blanks.suspects(x)
    assert suspects is not None
    assert suspects.tolist() == [True]
    blank = blanks.find(x)
    expected = np.ones((10, 10), bool)
    expected[3:6, 4:7] = False
    assert np.array_equal(blank[0, :, :, 0], expected)


def digits_network(channels: int) -> nn.model.SequentialModel:
    convolutions = [nn.layer.Conv2D(size, 3, activation=nn.activation.ReLU()) for size in (channels, 2 * channels)]
    layers = [convolutions[0], nn.layer.MaxPool(2), convolutions[1], nn.layer.MaxPool(2), nn.layer.Flatten()]
    model = nn.model.SequentialModel([-1, 28, 28, 1], [*layers, nn.layer.Dense(10)], dtype="float64", seed=1)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model


def test_the_first_gradients_of_a_network_of_digits_do_not_depend_on_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Biases are 0 at first, and the derivative of the rectifier at 0 is 0: what sees background passes no gradient on."""
    x = np.zeros((16, 28, 28, 1))
    x[:, 8:20, 10:17] = NUMBERS.random((16, 12, 7, 1))
    y = np.arange(16) % 10
    found = []
    for suits in (Winograd.suits, lambda problem: False):
        monkeypatch.setattr(Winograd, "suits", staticmethod(suits))
        model = digits_network(16)
        loss, _ = model.compute_gradients(x, y)
        found.append((loss, {variable.name: variable.get_gradient() for variable in model.trainable_variables()}))
    (loss, fast), (expected, direct) = found
    assert loss == pytest.approx(expected, rel=1e-14)
    for name, gradient in direct.items():
        np.testing.assert_allclose(fast[name], gradient, rtol=0, atol=1e-13 * np.abs(gradient).max(), err_msg=name)
