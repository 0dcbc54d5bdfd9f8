"""Convolution and pooling layers: shapes, arguments, ties, the methods chosen, memory."""

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array, OwnMemory, Shape
from nn.layer import AveragePool, Conv1D, Conv2D, GlobalAveragePool, MaxPool
from nn.operation.convolution.im2col import Im2Col
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.window import place
from nn.operation.convolution.winograd import Winograd
from nn.random import keyed
from nn.value import Placeholder
from tests.nn.graphs import Compiled

FLOAT64 = np.dtype(np.float64)


def problem(images: int, shape: Shape, kernel: Shape, padding: str | int = "valid", groups: int = 1, **changes: Any) -> Problem:
    rows, columns = place("test", shape[:2], kernel[:2], (1, 1), padding)
    return Problem(images, rows, columns, shape[2], kernel[3], groups, True, True, FLOAT64)._replace(**changes)


@pytest.mark.parametrize(
    ("layer", "sample", "expected"),
    [
        (Conv2D(8), (9, 7, 3), (7, 5, 8)),
        (Conv2D(kernel=8, kernel_size=[2, 4], padding="same"), (9, 7, 3), (9, 7, 8)),
        (Conv2D(8, stride=2, padding="same"), (9, 6, 3), (5, 3, 8)),
        (Conv2D(8, stride=[2, 1], padding=1), (9, 7, 3), (5, 7, 8)),
        (Conv2D(8, 1, groups=2), (9, 7, 4), (9, 7, 8)),
        (Conv1D(8, 5), (9, 3), (5, 8)),
        (Conv1D(8, [4], stride=[3], padding="same"), (10, 3), (4, 8)),
        (MaxPool(), (9, 7, 3), (4, 3, 3)),
        (MaxPool(3, 2, "same"), (9, 7, 3), (5, 4, 3)),
        (MaxPool(2), (9, 3), (4, 3)),
        (AveragePool([3, 1]), (9, 7, 3), (3, 7, 3)),
        (GlobalAveragePool(), (9, 7, 3), (3,)),
    ],
    ids=repr,
)
def test_shapes(layer: nn.layer.Layer, sample: Shape, expected: Shape) -> None:
    assert layer(Placeholder([-1, *sample])).shape == (-1, *expected)


def test_variables_have_the_shapes_of_keras() -> None:
    layer = Conv2D(8, [5, 3], groups=2)
    layer(Placeholder([-1, 9, 9, 6]))
    assert [(variable.name, variable.shape) for variable in layer.variables] == [
        ("conv2d/kernel", (5, 3, 3, 8)),
        ("conv2d/bias", (8,)),
    ]
    layer = Conv1D(8, 5, use_bias=False)
    layer(Placeholder([-1, 9, 6]))
    assert [variable.shape for variable in layer.variables] == [(5, 6, 8)]


@pytest.mark.parametrize(
    ("layer", "shape", "message"),
    [
        (Conv2D(2), (-1, 9, 9), r"Conv2D: expected inputs of shape \(batch, height, width, channels\), got \(-1, 9, 9\)"),
        (Conv2D(4, groups=2), (-1, 9, 9, 3), "Conv2D: 'groups' must divide the 3 channels of the inputs, got 2"),
        (Conv2D(2, 5), (-1, 4, 9, 1), r"Conv2D: axis 1 \(height\) must have at least 5 cells for a window of \(5, 5\), "
         r"got 4 from inputs of \(4, 9\) with padding 'valid'"),
        (Conv1D(2), (-1, 9, 9, 3), r"Conv1D: expected inputs of shape \(batch, time, channels\), got"),
        (MaxPool(3), (-1, 2, 9, 1), r"^MaxPool: axis 1 \(height\) must have at least 3 cells for a window of \(3, 3\), got 2"),
        (Conv1D(2, 9, name="c"), (-1, 6, 2), r"^Conv1D 'c': axis 1 \(time\) must have at least 9 cells"),
        (MaxPool(2, padding=2), (-1, 9, 9, 1), r"^MaxPool: 'padding' must be smaller than the window \(2, 2\), got 2"),
        (MaxPool([2, 2]), (-1, 9, 1), "MaxPool 'size' must be one positive integer or 1 of them"),
        (AveragePool(), (-1, 9), r"AveragePool: expected inputs of shape \(batch, height, width, channels\) or"),
        (GlobalAveragePool(), (-1, 9), r"GlobalAveragePool: expected inputs of shape \(batch, height, width, channels\) or"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(layer: nn.layer.Layer, shape: Shape, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer(Placeholder(shape))


def test_a_layer_used_twice_refuses_other_channels() -> None:
    layer = Conv2D(2)
    layer(Placeholder([-1, 9, 9, 3]))
    with pytest.raises(ValueError, match=r"Conv2D: axis 3 of the inputs must have 3 channels, got 4 in shape \(-1, 9, 9, 4\)"):
        layer(Placeholder([-1, 9, 9, 4]))


def run(layer: nn.layer.Layer, x: Array, gradient: float = 1.0) -> tuple[Array, Array]:
    """Return the output, and the gradient of x where that of every output is the same."""
    compiled = Compiled(layer, x.shape[1:], x.dtype)
    return compiled.value(x, training=True), compiled.gradients(x, gradient)[0]


def test_of_equal_maxima_the_first_gets_the_gradient() -> None:
    x = np.array([[0, 2, 3, 3], [2, 2, 3, 3]], np.float64).reshape(1, 2, 4, 1)
    result, gradient = run(MaxPool(2), x, 5.0)
    assert result.ravel().tolist() == [2, 3]
    assert gradient[0, :, :, 0].tolist() == [[0, 5, 5, 0], [0, 0, 0, 0]]


def test_padding_never_counts_in_a_pool() -> None:
    x = np.full((1, 3, 3, 1), -1.0)
    assert (run(MaxPool(2, padding="same"), x)[0] == -1).all()
    assert (run(AveragePool(3, 1, 1), x)[0] == -1).all()


def test_same_pads_below_and_to_the_right_first() -> None:
    layer = Conv2D(1, 2, padding="same", kernel_initializer=nn.initializer.Constant(1.0))
    result, _ = run(layer, np.arange(9.0).reshape(1, 3, 3, 1))
    assert result[0, :, :, 0].tolist() == [[8, 12, 7], [20, 24, 13], [13, 15, 8]]


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "groups", "expected"),
    [
        ((32, 32, 64), (3, 3, 64, 64), "same", 1, Winograd),
        ((14, 14, 32), (3, 3, 32, 64), "valid", 1, Winograd),
        ((16, 16, 16), (5, 5, 16, 32), 2, 1, Winograd),
        ((16, 16, 16), (3, 3, 1, 16), 1, 16, Winograd),
        ((16, 16, 64), (3, 3, 4, 64), 1, 16, Im2Col),
        ((32, 32, 3), (3, 3, 3, 64), "same", 1, Im2Col),
        ((32, 32, 64), (1, 1, 64, 64), 0, 1, Im2Col),
        ((32, 32, 64), (7, 7, 64, 64), 3, 1, Im2Col),
        ((2, 2, 64), (3, 3, 64, 64), 1, 1, Im2Col),
        ((8, 8, 64), (3, 3, 64, 64), 3, 1, Im2Col),
    ],
)
def test_the_method_depends_on_the_shapes(shape: Shape, kernel: Shape, padding: str | int, groups: int, expected: type) -> None:
    assert Winograd.suits(problem(4, shape, kernel, padding, groups)) is (expected is Winograd)


@pytest.mark.parametrize("images", [1, 5])
@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "groups"),
    [
        ((9, 6, 4), (3, 3, 4, 6), 1, 1),
        ((6, 7, 4), (2, 5, 2, 6), "same", 2),
        ((8, 5, 3), (4, 3, 1, 3), "valid", 3),
        ((8, 9, 3), (3, 3, 3, 8), 2, 1),
    ],
)
def test_both_methods_agree_in_blocks_of_any_size(
    monkeypatch: pytest.MonkeyPatch, images: int, shape: Shape, kernel: Shape, padding: str | int, groups: int
) -> None:
    task = problem(images, shape, kernel, padding, groups)
    generator = keyed(0, "methods")
    x, w = generator.standard_normal((images, *shape)), generator.standard_normal(kernel)
    b, g = generator.standard_normal(kernel[3]), generator.standard_normal(task.output)
    found = []
    for module, method in (("im2col", Im2Col), ("winograd", Winograd)):
        for size in (1, 1 << 15, 1 << 30):
            monkeypatch.setattr(f"nn.operation.convolution.{module}.BLOCK_BYTES", size)
            out, for_x, for_w, for_b = np.empty(task.output), np.empty_like(x), np.empty_like(w), np.empty_like(b)
            made = method(task, Dirty())
            made.forward(x, w, b, out)
            made.backward(x, w, out, g, for_x, for_w, for_b)
            found.append((out, for_x, for_w, for_b))
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_allclose(other, first, rtol=1e-9, atol=1e-11)


class Dirty(OwnMemory):
    """Work space as another operation left it."""

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        found = super().empty(shape, dtype)
        found.fill(np.nan if dtype.kind == "f" else 1)
        return found


def test_winograd_in_float32_is_near_the_direct_sum() -> None:
    task = problem(2, (16, 16, 64), (3, 3, 64, 64), 1)
    generator = keyed(0, "precision")
    x, w = generator.standard_normal((2, 16, 16, 64)), generator.standard_normal((3, 3, 64, 64)) / 24
    b = np.zeros(64)
    exact, near = np.empty(task.output), np.empty(task.output, np.float32)
    Im2Col(task, OwnMemory()).forward(x, w, b, exact)
    arrays = [array.astype(np.float32) for array in (x, w, b)]
    Winograd(task._replace(dtype=np.dtype(np.float32)), OwnMemory()).forward(*arrays, near)
    error = np.abs(near - exact)
    assert error.max() < 1e-5
    assert error.mean() < 1.5e-6


def test_the_first_layer_computes_no_gradient_of_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[bool] = []
    original = Im2Col.backward
    monkeypatch.setattr(Im2Col, "backward", lambda *a: (wanted.append(a[5] is not None), original(*a))[1])
    model = small_network()
    model.compute_gradients(*small_batch())
    assert wanted
    assert not any(wanted)


def test_equal_parts_give_equal_bits() -> None:
    first, second = small_network(), small_network()
    for model in (first, second):
        model.compute_gradients(*small_batch())
    assert np.array_equal(first.store.gradients, second.store.gradients)
    first.compute_gradients(*small_batch())
    assert np.array_equal(first.store.gradients, second.store.gradients)


def small_network() -> nn.model.SequentialModel:
    relu = nn.activation.ReLU()
    model = nn.model.SequentialModel([-1, 24, 24, 1])
    layers = [Conv2D(16, padding="same", activation=relu), MaxPool(), Conv2D(16, activation=relu), AveragePool()]
    for layer in (*layers, GlobalAveragePool(), nn.layer.Dense(4)):
        model.add(layer)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model


def small_batch() -> tuple[Array, Array]:
    generator = keyed(0, "batch")
    return generator.standard_normal((64, 24, 24, 1)).astype(np.float32), generator.integers(0, 4, 64)
