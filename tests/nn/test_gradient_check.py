"""The checker itself: it must find wrong gradients."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array, Shape
from nn.layer import Layer
from nn.testing import GradientError, check_gradients, check_loss_gradient
from nn.value import Value, Variable


class TanhWithWrongSlope(nn.activation.Tanh):
    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        np.multiply(gradient, 1 - output, out=out)


class TanhWithSmallError(nn.activation.Tanh):
    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        super().derive(x, output, gradient, out)
        np.multiply(out, 1 + 1e-5, out=out)


class TanhWithoutGradient(nn.activation.Tanh):
    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        out[...] = np.nan


class WrongForBatches(nn.activation.Tanh):
    """Right for one sample, wrong for several."""

    def derive(self, x: Array, output: Array, gradient: Array, out: Array) -> None:
        super().derive(x, output, gradient, out)
        out[1:] *= 2


class WrongForStrided(nn.operation.Negative):
    """Takes the memory of its input to be contiguous."""

    in_place = False

    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        x = inputs[0]
        flat = x if x.flags.c_contiguous else np.lib.stride_tricks.as_strided(x, x.shape, out.strides)
        np.negative(flat, out=out)


class BiasTwice(Layer):
    """Right for the input, wrong for its variable."""

    def build(self, input_shape: Shape) -> None:
        self.bias = self.add_variable("bias", (input_shape[1],))

    def call(self, x: Value) -> Value:
        return AddOnce()(x, self.bias) + self.bias


class AddOnce(nn.operation.Add):
    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return gradient if side == 0 else np.multiply(gradient, 0.5, out=out)


class Halved:
    """Mixed into an operation that would not ask for derivatives of each side."""

    def partial(self, side: int, inputs: Sequence[Array], output: Array, gradient: Array, out: Array) -> Array:
        return gradient if side == 0 else np.multiply(gradient, 0.5, out=out)


class AddMixed(Halved, nn.operation.Add):
    pass


class HalfLoss(nn.loss.MSELoss):
    def gradient(self, label: Array, output: Array, out: Array, weight: Array | None = None) -> None:
        super().gradient(label, output, out, weight)
        np.multiply(out, 0.5, out=out)


def test_right_gradients_pass() -> None:
    check_gradients(nn.layer.Dense(3, activation=nn.activation.Tanh()), (4,))
    check_loss_gradient(nn.loss.MSELoss(), np.ones((5, 2)), np.zeros((5, 2)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (TanhWithWrongSlope(), "the gradient of the input for a contiguous batch of 1: analytic"),
        (TanhWithSmallError(), "the gradient of the input"),
        (TanhWithoutGradient(), "analytic nan"),
        (WrongForBatches(), "the gradient of the input for a contiguous batch of 5"),
        (WrongForStrided(), "the gradient of the input for a strided batch"),
        (BiasTwice(), "the gradient of 'biastwice/bias'"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_wrong_gradient_is_found_and_named(wrong: Any, message: str) -> None:
    with pytest.raises(GradientError, match=message):
        check_gradients(wrong, (4,))


def test_derivatives_of_a_part_that_is_mixed_into_a_sum_are_asked_for() -> None:
    variable = Variable([4])
    with pytest.raises(GradientError, match="gradient"):
        check_gradients(lambda x: AddMixed()(x, variable) + variable, (4,))


def test_a_wrong_gradient_of_a_loss_is_found() -> None:
    with pytest.raises(GradientError, match=r"the gradient of HalfLoss for a batch of 5: analytic .*, numeric"):
        check_loss_gradient(HalfLoss(), np.ones((5, 2)), np.zeros((5, 2)))


def test_values_are_put_back() -> None:
    variable = Variable([3])
    check_gradients(lambda x: x * variable, (3,))
    before = variable.get_value()
    assert np.array_equal(variable.initializer((3,), nn.random.keyed(0, "initialize", 0)), before)


def test_only_results_of_operations_are_checked() -> None:
    with pytest.raises(TypeError, match="build must return the result of an operation"):
        check_gradients(lambda x: x, (3,))
