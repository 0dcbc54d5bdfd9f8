"""Activations at their ends and in their tails, in both precisions; values and slopes beside the contract's."""

import math
from typing import Any

import numpy as np
import pytest

import nn
from nn.activation import (
    ELU,
    GELU,
    SELU,
    Activation,
    Exponential,
    HardSigmoid,
    HardSwish,
    HTanh,
    LeakReLU,
    Mish,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Tanh,
)
from nn.arrays import Array
from tests.contract.nn_rows import ACTIVATIONS, GraphRow
from tests.nn.graphs import Compiled

DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def evaluated(activation: Activation, x: Any, dtype: str = "float32") -> tuple[Array, Array]:
    """Return the values at the numbers of `x`, and the gradient of their sum."""
    data = np.array(x, dtype).reshape(1, -1)
    compiled = Compiled(activation, data.shape[1:], dtype)
    return compiled.value(data, training=True)[0], compiled.gradients(data)[0][0]


@DTYPES
@pytest.mark.parametrize(
    "row", [row for row in ACTIVATIONS if row.kind is not Exponential], ids=lambda row: f"{row.kind.__name__} {row.label}"
)
def test_nothing_overflows_and_nan_is_not_hidden(row: GraphRow, dtype: str) -> None:
    value, gradient = evaluated(row.build(), [-1e4, -100.0, -20.0, -1.0, 0.0, 1.0, 20.0, 100.0, 1e4], dtype)
    assert np.isfinite(value).all() and np.isfinite(gradient).all()
    assert value.dtype == gradient.dtype == np.dtype(dtype)
    assert np.isnan(evaluated(row.build(), [np.nan, 1.0], dtype)[0][0])


@DTYPES
@pytest.mark.parametrize(
    "activation", [ReLU(), LeakReLU(), ELU(), ELU(0.5), GELU(), GELU(True), SiLU(), Softplus(), Mish(), HardSwish()], ids=repr
)
def test_the_ends_of_the_line(activation: Activation, dtype: str) -> None:
    """Far to the right all these are the identity."""
    far = float(np.finfo(dtype).max) / 4
    value, gradient = evaluated(activation, [np.inf, far, -np.inf, -far], dtype)
    assert value[:2].tolist() == [np.inf, far]
    assert gradient[:2].tolist() == [1, 1]
    assert not np.isnan(value[2:]).any()
    assert gradient[2:] == pytest.approx(0.01 if isinstance(activation, LeakReLU) else 0)


@pytest.mark.parametrize(
    ("activation", "x", "slopes"),
    [
        *((activation, [0.0, -0.0], [slope] * 2) for activation, slope in [
            (ReLU(), 0), (LeakReLU(0.2), 0.2), (ELU(), 1), (ELU(0.5), 0.5), (GELU(), 0.5), (SiLU(), 0.5), (Softplus(), 0.5),
        ]),
        (HTanh(), [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], [0, 0, 1, 1, 0, 0]),
        (Softplus(), [-40.0], [math.exp(-40)]),
        (SELU(), [0.0, -0.0], [1.0507009873554805 * 1.6732632423543772] * 2),
        (ReLU6(), [-1.0, 0.0, 1.0, 6.0, 7.0], [0, 0, 1, 0, 0]),
        (HardSigmoid(), [-4.0, -3.0, 0.0, 3.0, 4.0], [0, 0, 1 / 6, 0, 0]),
        (HardSwish(), [-4.0, -3.0, -1.5, 0.0, 3.0, 4.0], [0, 0, 0, 0.5, 1, 1]),
    ],
)  # fmt: skip
def test_derivatives_at_bounds_are_what_is_said(activation: Activation, x: list[float], slopes: list[float]) -> None:
    value, gradient = evaluated(activation, x)
    assert gradient == pytest.approx(slopes, rel=1e-5, abs=0)
    if isinstance(activation, HTanh):
        assert value.tolist() == np.clip(x, -1, 1).tolist()
    elif len(x) == 1:
        assert value == pytest.approx(slopes, rel=1e-5, abs=0)


@DTYPES
def test_exact_gelu_keeps_its_precision_far_to_the_left(dtype: str) -> None:
    x, relative = np.linspace(-10, 10, 401).astype(dtype).astype(np.float64), 1e-5 if dtype == "float32" else 1e-13
    tail = np.array([math.erfc(-number / math.sqrt(2)) / 2 for number in x])
    value, gradient = evaluated(GELU(), x, dtype)
    np.testing.assert_allclose(value, x * tail, rtol=relative, atol=1e-30)
    slope = tail + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(gradient, slope, rtol=10 * relative, atol=relative / 10)


@DTYPES
@pytest.mark.parametrize("activation", [Sigmoid(), SiLU()], ids=repr)
def test_the_logistic_function_keeps_its_precision_in_both_tails(activation: Activation, dtype: str) -> None:
    """Down to where its value is no normal number any more."""
    x = np.linspace(math.log(np.finfo(dtype).tiny) + 1, 90, 20_001).astype(dtype)
    exact, silu, few = x.astype(np.longdouble), isinstance(activation, SiLU), 4 * float(np.finfo(dtype).eps)
    logistic = 1 / (1 + np.exp(-exact))
    value, gradient = evaluated(activation, x, dtype)
    np.testing.assert_allclose(value, exact * logistic if silu else logistic, rtol=few)
    slope = logistic * (1 + exact / (1 + np.exp(exact))) if silu else logistic / (1 + np.exp(exact))
    # the derivative of SiLU passes through 0 at -1.278; that of the logistic function is computed from a value next to 1
    far = np.abs(x + 1.278) > 0.5 if silu else x < 0
    np.testing.assert_allclose(gradient[far], slope[far], rtol=few)
    np.testing.assert_allclose(gradient, slope, rtol=0, atol=few)


def test_one_number_beyond_the_reach_of_the_exponential_leaves_the_others_alone() -> None:
    expected = evaluated(SiLU(), [-20.0, 1.0])
    for far in (79.0, 81.0, 500.0, 3e38, np.inf):
        value, gradient = evaluated(SiLU(), [far, -20.0, 1.0])
        assert (value[0], gradient[0]) == (far, 1)
        assert (value[1:].tolist(), gradient[1:].tolist()) == tuple(part.tolist() for part in expected)
        value, gradient = evaluated(SiLU(), [-far, 1.0])
        assert max(abs(value[0]), abs(gradient[0])) < 1e-30
        assert (value[1], gradient[1]) == (expected[0][1], expected[1][1])
        assert evaluated(Sigmoid(), [far, -20.0])[0].tolist() == [1, evaluated(Sigmoid(), [-20.0])[0][0]]
    assert evaluated(Sigmoid(), [-np.inf, -3e38, -1e3])[0].tolist() == [0, 0, 0]


def test_predicted_probabilities_rank_as_their_scores_do() -> None:
    """Rare events: `evaluate` takes the scores, `predict` the logistic function of them."""
    model = nn.model.SequentialModel([-1, 1], [nn.layer.Dense(1, Sigmoid(), kernel_initializer=nn.initializer.Constant(1.0))])
    area = nn.metric.AreaUnderCurve()
    model.setup(nn.loss.Binary_Cross_Entropy(), nn.metric.AreaUnderCurve())
    x = np.random.default_rng(0).normal(-16, 1, (20_000, 1)).astype(np.float32)
    y = np.random.default_rng(1).random((20_000, 1)) < np.exp(x + 13)
    probabilities = model.predict(x)
    assert len(np.unique(probabilities)) == len(np.unique(x))
    area.update(y, probabilities)
    assert model.evaluate(x, y)[area.name] == pytest.approx(area.result(), abs=1e-12)


def test_softmax_works_on_a_vector_of_a_variable_too() -> None:
    variable = nn.Variable([3], nn.initializer.Constant(2.0))
    compiled = Compiled(lambda x: x * Softmax()(variable), (3,))
    np.testing.assert_allclose(compiled.value(np.ones((2, 3)), training=True), np.full((2, 3), 1 / 3))


def test_zeros_for_long_samples_and_for_short_ones_cut_alike() -> None:
    for shape in ((3, 511), (3, 512), (2, 30, 40), (600,)):
        x = np.linspace(-1, 1, math.prod(shape)).reshape(shape)
        x.flat[::7] = -0.0
        value = Compiled(lambda x: ReLU()(x), shape[1:]).value(x)
        assert value.tobytes() == np.where(x > 0, x, 0.0).tobytes()


def test_what_needs_its_output_or_its_input_only_says_so() -> None:
    for activation in (ReLU(), Tanh(), Sigmoid(), LeakReLU(), ELU(), HTanh(), Softplus(), GELU(), SiLU()):
        of_input = isinstance(activation, GELU | SiLU)
        assert (activation.in_place, activation.reads_inputs, activation.reads_output) == (True, of_input, not of_input)
