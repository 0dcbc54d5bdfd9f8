"""Values and gradients in float32 for numbers of all sizes, beside the same formulas in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import nn
from nn import activation, function, loss
from nn.arrays import Array
from nn.value.value import Value
from tests.nn.graphs import Compiled
from tests.nn.onnx.files import file_of, node

SIZES = np.float32([
    1e-44, 1e-40, 1e-37, 1e-30, 1e-20, 1e-10, 1e-7, 1e-5, 1e-3, 0.01, 0.1, 0.3, 0.5, 0.9, 0.9999, 1 - 6e-8, 1, 1.0001, 1.5, 2,
    3, 5, 6, 8, 10, 15, 20, 40, 80, 88, 89, 100, 1e3, 1e5, 1e10, 1e18, 1.9e19, 1e30, 3e38,
])  # fmt: skip
NUMBERS = np.concatenate([-SIZES, np.float32([-0.0, 0.0]), SIZES])
#: Units of rounding that are left: those of the functions of NumPy and of some products.
CLOSE = 16 * float(np.finfo(np.float32).eps)
LEAST = 3e-38
"""Below it float32 has fewer digits."""


def assert_close(found: Array, exact: Array) -> None:
    """Compare where the exact number fits in float32; elsewhere the found one must be infinite."""
    found, exact = np.ravel(found).astype(np.float64), np.ravel(exact)
    known = ~np.isnan(exact)
    beyond = known & (np.abs(exact) > float(np.finfo(np.float32).max))
    assert np.isinf(found[beyond]).all()
    inside = known & ~beyond
    np.testing.assert_allclose(found[inside], exact[inside], rtol=CLOSE, atol=LEAST)


ERF = np.vectorize(math.erf, [float])
FUNCTIONS: dict[str, tuple[Callable[[Value], Value], Callable[[Array], Array], Callable[[Array], Array]]] = {
    "arccos": (function.arccos, np.arccos, lambda x: -1 / np.sqrt(1 - x * x)),
    "arccosh": (function.arccosh, np.arccosh, lambda x: np.where(x < 1, np.nan, 1 / np.sqrt(x * x - 1))),
    "arcsin": (function.arcsin, np.arcsin, lambda x: 1 / np.sqrt(1 - x * x)),
    "arcsinh": (function.arcsinh, np.arcsinh, lambda x: 1 / np.sqrt(x * x + 1)),
    "arctan": (function.arctan, np.arctan, lambda x: 1 / (1 + x * x)),
    "arctanh": (function.arctanh, np.arctanh, lambda x: 1 / (1 - x * x)),
    "cosh": (function.cosh, np.cosh, np.sinh),
    "erf": (function.erf, ERF, lambda x: np.where(abs(x) < 2, 2 / np.sqrt(np.pi) * np.exp(-x * x), np.nan)),
    "sinh": (function.sinh, np.sinh, np.cosh),
    "softsign": (activation.Softsign(), lambda x: x / (1 + abs(x)), lambda x: 1 / (1 + abs(x)) ** 2),
    "tan": (function.tan, np.tan, lambda x: 1 / np.cos(x) ** 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@np.errstate(all="ignore")
def test_functions_of_single_elements(name):
    build, value, slope = FUNCTIONS[name]
    made, x = Compiled(build, (1,), np.float32), NUMBERS[:, None]
    exact = x.astype(np.float64)
    for training in (False, True):
        assert_close(made.value(x, training), value(exact))
    assert_close(made.gradients(x)[0], slope(exact))


@pytest.mark.parametrize(
    ("name", "ends"),
    [("softsign", (-1, 1)), ("erf", (-1, 1)), ("arctan", (-np.pi / 2, np.pi / 2)), ("arcsinh", (-np.inf, np.inf))],
)
def test_functions_of_infinities(name, ends):
    made, x = Compiled(FUNCTIONS[name][0], (1,), np.float32), np.float32([[-np.inf], [np.inf], [np.nan]])
    np.testing.assert_array_equal(made.value(x).ravel(), np.float32([*ends, np.nan]))
    np.testing.assert_array_equal(made.gradients(x)[0].ravel(), [0, 0, np.nan])


@pytest.mark.parametrize("kind", ["Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cosh", "Sinh", "Tan"])
@np.errstate(all="ignore")
def test_functions_of_an_onnx_file(kind, tmp_path):
    path = tmp_path / "model.onnx"
    x = NUMBERS[: NUMBERS.size // 4 * 4].reshape(-1, 4)
    path.write_bytes(file_of(node(kind, "x", "y")))
    exact = getattr(np, kind.lower().replace("a", "arc", kind[0] == "A"))(x.astype(np.float64))
    fits = np.isfinite(exact) & (abs(exact) < 3e38)
    found = nn.onnx.load(path).predict(np.where(fits, x, np.float32(1)))
    assert_close(found[fits], exact[fits])


def of_one(part: loss.Loss, label: Array, output: Array) -> tuple[float, Array]:
    """Return the value and the gradient of a loss for one sample."""
    prepared = part.prepare(label, output.shape, output.dtype)
    part.allocate(output.shape, output.dtype)
    gradient = np.empty_like(output)
    value = part.value(prepared, output)
    part.gradient(prepared, output, gradient)
    return value, gradient


@np.errstate(all="ignore")
def test_quantiles_near_an_end():
    for q in (1e-4, 0.5, 0.999):
        for d in NUMBERS:
            value, gradient = of_one(loss.QuantileLoss(q), np.zeros((1, 1)), np.float32([[d]]))
            exact = np.float64(d)
            assert_close(np.float64(value), np.maximum((1 - q) * exact, -q * exact))
            assert_close(gradient, np.float64(1 - q if d > 0 else -q if d < 0 else 0.5 - q))


@np.errstate(all="ignore")
def test_scores_of_labels_that_are_nearly_sure():
    for y in np.float32([0, 1e-6, 0.3, 1 - 1e-6, 1]):
        for z in NUMBERS:
            value, _ = of_one(loss.Binary_Cross_Entropy(), np.array([[y]]), np.float32([[z]]))
            label, exact = np.float64(y), np.float64(z)
            assert_close(np.float64(value), (1 - label) * np.maximum(exact, 0) + label * np.maximum(-exact, 0)
                         + np.log1p(np.exp(-abs(exact))))  # fmt: skip


def test_probabilities_that_are_nearly_sure():
    for p in np.float32([1e-7, 1e-6, 1e-4, 0.1, 0.5, 0.9]):
        value, _ = of_one(loss.Binary_Cross_Entropy_Of_Probabilities(), np.zeros((1, 1)), np.array([[p]]))
        assert_close(np.float64(value), -np.log1p(-np.float64(p)))


@pytest.mark.parametrize("y", [0.0, 1.0])
@np.errstate(all="ignore")
def test_focus_on_samples_that_are_nearly_sure(y):
    for z in NUMBERS[abs(NUMBERS) < 80]:
        value, gradient = of_one(loss.Binary_Focal_Cross_Entropy(), np.array([[y]]), np.float32([[z]]))
        # Towards the label 0, the same by symmetry.
        sign = 1 - 2 * y
        score = sign * np.float64(z)
        miss, cost = 1 / (1 + np.exp(-score)), np.logaddexp(0, score)
        assert_close(np.float64(value), miss**2 * cost)
        assert_close(gradient, sign * miss**2 * (2 * (1 / (1 + np.exp(score))) * cost + miss))


@np.errstate(all="ignore")
def test_directions_of_long_and_short_vectors():
    for size in NUMBERS[(abs(NUMBERS) > 1e-5) & (abs(NUMBERS) < 1e38)]:
        vector = np.float32([[size, size / 3]])
        expected = -np.sign(size) * 1.6666667 / np.sqrt(50 / 9)
        assert of_one(loss.CosineSimilarity(), np.float32([[1, 2]]), vector)[0] == pytest.approx(expected, rel=1e-5)
        assert of_one(loss.CosineSimilarity(), vector, np.float32([[1, 2]]))[0] == pytest.approx(expected, rel=1e-5)


def test_slope_of_rates_that_are_nearly_right():
    for p in np.float32([0.9999, 1.001, 1, 3]):
        _, gradient = of_one(loss.PoissonLoss(), np.ones((1, 1)), np.array([[p]]))
        assert_close(gradient, np.float64((np.float64(p) - 1) / np.float64(p)))


@np.errstate(over="ignore")
def test_costs_of_classes_far_from_the_label():
    value, _ = of_one(loss.Focal_Cross_Entropy_With_Softmax(), np.array([0]), np.float32([[0, -3e38, 1.5e38]]))
    assert value == pytest.approx(1.5e38)
