"""The methods of convolution: which is chosen, that they agree, and outputs that see zeros only."""

from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array, OwnMemory, Shape
from nn.layer import AveragePool, Conv2D, GlobalAveragePool, MaxPool
from nn.operation.convolution.banded import Banded
from nn.operation.convolution.depthwise import Depthwise
from nn.operation.convolution.im2col import Im2Col
from nn.operation.convolution.problem import Problem
from nn.operation.convolution.sub_cells import SubCells
from nn.operation.convolution.window import Window, place
from nn.operation.convolution.winograd import BlankWindows, Winograd
from nn.random import keyed

NUMBERS = np.random.default_rng(0)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)


def problem(
    images: int,
    shape: Shape,
    kernel: Shape,
    padding: str | int = "valid",
    groups: int = 1,
    dilations: tuple[int, int] = (1, 1),
    **changes: Any,
) -> Problem:
    rows, columns = place("test", shape[:2], kernel[:2], (1, 1), padding, dilations)
    return Problem(images, rows, columns, shape[2], kernel[3], groups, True, True, FLOAT64)._replace(**changes)


@pytest.mark.parametrize(
    ("shape", "kernel", "padding", "groups", "expected"),
    [
        ((32, 32, 64), (3, 3, 64, 64), "same", 1, Winograd),
        ((14, 14, 32), (3, 3, 32, 64), "valid", 1, Winograd),
        ((16, 16, 16), (5, 5, 16, 32), 2, 1, Winograd),
        ((16, 16, 16), (3, 3, 1, 16), 1, 16, Depthwise),
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


class Dirty(OwnMemory):
    """Work space as another operation left it."""

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        found = super().empty(shape, dtype)
        found.fill(np.nan if dtype.kind == "f" else 1)
        return found


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
    task, generator = problem(images, shape, kernel, padding, groups), keyed(0, "methods")
    x, w, b, g = (generator.standard_normal(size) for size in ((images, *shape), kernel, kernel[3], task.output))
    found = []
    for module, method in (("im2col", Im2Col), ("winograd", Winograd)):
        for size in (1, 1 << 15, 1 << 30):
            monkeypatch.setattr(f"nn.operation.convolution.{module}.BLOCK_BYTES", size)
            results = np.empty(task.output), np.empty_like(x), np.empty_like(w), np.empty_like(b)
            made = method(task, Dirty())
            made.forward(x, w, b, results[0])
            made.backward(x, w, results[0], g, *results[1:])
            found.append(results)
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_allclose(other, first, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("images", [1, 5])
@pytest.mark.parametrize(
    ("shape", "stride", "padding", "dilation", "filters"),
    [
        ((9, 7), 1, "same", 1, 1),
        ((9, 8), 1, "valid", 2, 1),
        ((6, 7), 1, 4, 1, 1),
        ((11, 9), 2, "same", 1, 1),
        ((11, 12), 3, 1, 2, 1),
        ((23, 18), 1, "same", 2, 16),
        ((19, 20), 1, 1, 3, 16),
    ],
)
@pytest.mark.parametrize("rectified", [False, True])
def test_sums_over_cells_and_tiles_of_cells_that_are_apart_agree_with_products_of_windows(
    monkeypatch: pytest.MonkeyPatch, images: int, shape: Shape, stride: int, padding: str | int, dilation: int, filters: int,
    rectified: bool,
) -> None:  # fmt: skip
    """`Depthwise` where each of 16 channels has one filter, and else `Winograd`."""
    generator = keyed(0, "cells")
    windows = place("test", shape, (3, 4), (stride, stride), padding, (dilation, dilation))
    groups, kernel = (16, (3, 4, 1, 16)) if filters == 1 else (1, (3, 4, 16, filters))
    task = Problem(images, *windows, 16, kernel[3], groups, True, rectified, FLOAT64)
    method = Depthwise if filters == 1 else Winograd
    assert method.suits(task)
    x, w, b, g = (generator.standard_normal(size) for size in ((images, *shape, 16), kernel, kernel[3], task.output))
    found = []
    for each, size in ((Im2Col, 1 << 18), (method, 1), (method, 1 << 18), (method, 1 << 22)):
        for module in ("depthwise", "winograd"):
            monkeypatch.setattr(f"nn.operation.convolution.{module}.BLOCK_BYTES", size)
        results = np.empty(task.output), np.empty_like(x), np.empty_like(w), np.empty_like(b)
        made = each(task, Dirty())
        made.forward(x, w, b, results[0])
        made.backward(x, w, results[0], g, *results[1:])
        made.backward(x, w, results[0], g, results[1], None, None)
        found.append(results)
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_allclose(other, first, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("images", [1, 5])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (Window(9, 3, 1, 1, 1), Window(16, 3, 1, 1, 1)),
        (Window(6, 3, 1, 0, 0), Window(12, 3, 1, 0, 2)),
        (Window(7, 4, 1, 3, 3), Window(12, 3, 1, 2, 0, 2)),
        (Window(8, 2, 1, 0, 1), Window(11, 2, 1, 5, 1)),
        (Window(5, 5, 1, 2, 1), Window(21, 4, 1, 0, 0, 3)),
        (Window(4, 1, 1, 0, 0), Window(13, 5, 1, 2, 2)),
    ],
)
@pytest.mark.parametrize("rectified", [False, True])
def test_products_with_bands_agree_with_sums_over_cells(
    monkeypatch: pytest.MonkeyPatch, images: int, rows: Window, columns: Window, rectified: bool
) -> None:
    """In blocks of one image, of two, of which the last one is shorter, and of all."""
    monkeypatch.setattr("nn.operation.convolution.banded.multiplies_small", lambda: True)
    task = Problem(images, rows, columns, 3, 3, 3, True, rectified, FLOAT64)
    assert Banded.suits(task)
    generator = keyed(0, "bands")
    x = generator.standard_normal((images, rows.length, columns.length, 3))
    w, b, g = (generator.standard_normal(size) for size in ((rows.size, columns.size, 1, 3), 3, task.output))
    found = []
    for method, size in ((Depthwise, 1 << 18), (Banded, 1), (Banded, 10_000), (Banded, 1 << 20)):
        monkeypatch.setattr("nn.operation.convolution.banded.BLOCK_BYTES", size)
        results = np.empty(task.output), np.empty_like(x), np.empty_like(w), np.empty_like(b)
        made = method(task, Dirty())
        made.forward(x, w, b, results[0])
        made.backward(x, w, results[0], g, *results[1:])
        made.backward(x, w, results[0], g, results[1], None, None)
        found.append(results)
    for others in found[1:]:
        for first, other in zip(found[0], others, strict=True):
            np.testing.assert_allclose(other, first, rtol=1e-9, atol=1e-11)


def test_what_is_not_finite_stays_in_the_rows_that_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nn.operation.convolution.banded.multiplies_small", lambda: True)
    task = Problem(3, Window(8, 3, 1, 1, 1), Window(12, 3, 1, 1, 1), 2, 2, 2, False, False, FLOAT64)
    x, w = np.ones((3, 8, 12, 2)), np.ones((3, 3, 1, 2))
    x[1, 7, 5, 0] = np.inf
    out = np.empty(task.output)
    with np.errstate(invalid="ignore"):
        Banded(task, Dirty()).forward(x, w, None, out)
    # of this channel of this image the two rows whose windows hold it
    assert not np.isfinite(out[1, 6:, :, 0]).any()
    out[1, 6:, :, 0] = 0
    assert np.isfinite(out).all()


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": Window(16, 3, 2, 1, 1)},
        {"rows": Window(16, 3, 1, 2, 2, 2)},
        {"rows": Window(16, 3, 1, 3, 0)},
        {"columns": Window(19, 3, 1, 1, 1)},
        {"columns": Window(7, 3, 1, 1, 1)},
        {"columns": Window(16, 3, 2, 1, 1)},
        {"filters": 32, "groups": 16},
        {"channels": 1, "filters": 1, "groups": 1},
    ],
)
def test_bands_are_for_single_steps_over_rows_of_some_length_and_fast_small_products(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    task = Problem(4, Window(16, 3, 1, 1, 1), Window(16, 3, 1, 1, 1), 16, 16, 16, False, False, FLOAT32)
    for fast in (True, False):
        monkeypatch.setattr("nn.operation.convolution.banded.multiplies_small", lambda fast=fast: fast)
        assert Banded.suits(task) is fast
        assert not Banded.suits(task._replace(**changes))


@pytest.mark.parametrize("size", [1, 1 << 18])
@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (Window(14, 4, 2, 1, 1), Window(12, 4, 2, 1, 1)),
        (Window(14, 3, 2, 0, 1), Window(11, 3, 2, 0, 0)),
        (Window(20, 5, 3, 1, 2), Window(17, 6, 3, 3, 1)),
        (Window(10, 3, 3, 0, 0), Window(7, 2, 1, 0, 1)),
        (Window(30, 8, 4, 2, 2), Window(1, 1, 1, 0, 0)),
    ],
)
def test_blocks_of_cells_agree_with_windows_that_are_added_up(
    monkeypatch: pytest.MonkeyPatch, rows: Window, columns: Window, size: int
) -> None:
    monkeypatch.setattr("nn.operation.convolution.im2col.BLOCK_BYTES", size)
    task = Problem(5, rows, columns, 3, 4, 1, False, False, FLOAT64)
    assert SubCells.suits(task)
    assert not SubCells.suits(task._replace(groups=2, channels=4))
    assert not SubCells.suits(task._replace(rows=rows._replace(dilation=2)))
    assert not SubCells.suits(task._replace(filters=4096))
    generator = keyed(0, "blocks")
    gradient, kernel = generator.standard_normal(task.output), generator.standard_normal((rows.size, columns.size, 3, 4))
    x = generator.standard_normal((5, rows.length, columns.length, 3))
    found = []
    for suits in (True, False):
        monkeypatch.setattr(SubCells, "suits", lambda problem, suits=suits: suits)
        results = np.empty_like(x), np.empty_like(kernel)
        method = Im2Col(task, Dirty())
        method.backward(x, kernel, gradient, gradient, *results, None)
        method.backward(x, kernel, gradient, gradient, results[0], None, None)
        found.append(results)
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (Window(9, 3, 1, 1, 1), Window(9, 3, 1, 1, 1)),
        (Window(20, 5, 4, 0, 0), Window(20, 5, 4, 0, 0)),
        (Window(14, 2, 2, 5, 5), Window(14, 2, 2, 0, 0)),
    ],
)
def test_blocks_of_cells_are_not_for_single_steps_waste_or_padding_beyond_the_window(rows: Window, columns: Window) -> None:
    assert not SubCells.suits(Problem(5, rows, columns, 3, 4, 1, False, False, FLOAT64))


def test_winograd_in_float32_is_near_the_direct_sum() -> None:
    task, generator = problem(2, (16, 16, 64), (3, 3, 64, 64), 1), keyed(0, "precision")
    arrays = generator.standard_normal((2, 16, 16, 64)), generator.standard_normal((3, 3, 64, 64)) / 24, np.zeros(64)
    exact, near = np.empty(task.output), np.empty(task.output, np.float32)
    Im2Col(task, OwnMemory()).forward(*arrays, exact)
    Winograd(task._replace(dtype=FLOAT32), OwnMemory()).forward(*(array.astype(np.float32) for array in arrays), near)
    error = np.abs(near - exact)
    assert error.max() < 1e-5
    assert error.mean() < 1.5e-6


def small_network() -> tuple[nn.model.SequentialModel, tuple[Array, Array]]:
    relu, generator = nn.activation.ReLU(), keyed(0, "batch")
    layers = [Conv2D(16, padding="same", activation=relu), MaxPool(), Conv2D(16, activation=relu), AveragePool()]
    model = nn.model.SequentialModel([-1, 24, 24, 1], [*layers, GlobalAveragePool(), nn.layer.Dense(4)])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model, (generator.standard_normal((64, 24, 24, 1)).astype(np.float32), generator.integers(0, 4, 64))


def test_the_first_layer_computes_no_gradient_of_its_input_and_equal_parts_give_equal_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted: list[bool] = []
    original = Im2Col.backward
    monkeypatch.setattr(Im2Col, "backward", lambda *a: (wanted.append(a[5] is not None), original(*a))[1])
    (first, batch), (second, _) = small_network(), small_network()
    for model in (first, second, first):
        model.compute_gradients(*batch)
        assert model is first or np.array_equal(first.store.gradients, second.store.gradients)
    assert np.array_equal(first.store.gradients, second.store.gradients)
    assert wanted and not any(wanted)


def sparse(shape: tuple[int, ...], groups: int, dtype: Any) -> Array:
    """Return images with islands of numbers, other islands for every group of channels, and zeros of both signs."""
    images, rows, columns, channels = shape
    coarse = NUMBERS.random((images, -(-rows // 5), -(-columns // 5), groups)) < 0.25
    islands = coarse.repeat(5, axis=1).repeat(5, axis=2)[:, :rows, :columns].repeat(channels // groups, axis=3)
    return (NUMBERS.standard_normal(shape) * islands).astype(dtype)


def computed(method: type[Winograd] | type[Im2Col], task: Problem, x: Array, kernel: Array, bias: Array | None = None) -> Array:
    found = np.empty(task.output, task.dtype)
    method(task, OwnMemory()).forward(x, kernel, bias, found)
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("images", "sample", "kernel", "padding", "groups", "dilations"),
    [
        (3, (28, 28, 16), (3, 3, 16, 16), "same", 1, (1, 1)),
        (70, (14, 14, 16), (3, 3, 16, 32), "same", 1, (1, 1)),
        (3, (13, 17, 16), (3, 3, 16, 20), "valid", 1, (1, 1)),
        (3, (21, 24, 16), (5, 5, 16, 16), "same", 1, (1, 1)),
        (2, (16, 21, 16), (4, 2, 16, 16), "same", 1, (1, 1)),
        (2, (20, 19, 16), (3, 5, 16, 16), 2, 1, (1, 1)),
        (2, (18, 18, 32), (3, 3, 16, 32), 1, 2, (1, 1)),
        (3, (28, 28, 16), (3, 3, 16, 16), "same", 1, (2, 2)),
        (3, (29, 28, 16), (2, 3, 16, 16), "valid", 1, (3, 1)),
    ],
)
def test_outputs_that_see_zeros_only_are_the_bias(
    images: int, sample: Shape, kernel: Shape, padding: str | int, groups: int, dilations: tuple[int, int], dtype: str
) -> None:
    """Exactly, whichever method computes them; the others are those of the direct sum."""
    task = problem(images, sample, kernel, padding, groups, dilations, biased=False, rectified=False, dtype=np.dtype(dtype))
    assert Winograd.suits(task)
    x, weights = sparse((images, *sample), groups, dtype), NUMBERS.standard_normal(kernel).astype(dtype)
    exact, fast = (computed(method, task, x, weights) for method in (Im2Col, Winograd))
    blank = exact == 0
    assert 0.05 < blank.mean() < 0.95
    assert np.array_equal(fast == 0, blank)
    np.testing.assert_allclose(fast, exact, rtol=0, atol=(1e-4 if dtype == "float32" else 1e-12) * np.abs(exact).max())
    bias = np.linspace(-1, 1, kernel[3]).astype(dtype)
    for rectified in (False, True):
        biased = computed(Winograd, task._replace(biased=True, rectified=rectified), x, weights, bias)
        expected = np.broadcast_to(np.maximum(bias, 0) if rectified else bias, biased.shape)
        assert np.array_equal(biased[blank], expected[blank])


def test_inputs_without_zeros_or_with_zeros_only() -> None:
    task = problem(4, (16, 16, 16), (3, 3, 16, 16), "same", biased=False, rectified=False, dtype=FLOAT32)
    weights = NUMBERS.standard_normal((3, 3, 16, 16)).astype(np.float32)
    ones = np.ones((4, 16, 16, 16), np.float32)
    assert computed(Winograd, task, ones, weights).all()
    for zeros in (0 * ones, -0.0 * ones):
        assert not computed(Winograd, task, zeros, weights).any()


@pytest.mark.parametrize("number", [1e-45, 3e38])
def test_the_smallest_and_the_largest_numbers_are_none(number: float) -> None:
    """Warnings are errors here: sums of sizes may overflow without harm."""
    x = np.zeros((1, 12, 12, 16), np.float32)
    x[0, 5, 6] = number
    blanks = BlankWindows(problem(1, (12, 12, 16), (3, 3, 16, 16), dtype=FLOAT32), 1, OwnMemory())
    suspects = blanks.suspects(x)
    assert suspects is not None and suspects.tolist() == [True]
    expected = np.ones((10, 10), bool)
    expected[3:6, 4:7] = False
    assert np.array_equal(blanks.find(x)[0, :, :, 0], expected)


def test_the_first_gradients_of_a_network_of_digits_do_not_depend_on_the_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """Biases are 0 at first, and the derivative of the rectifier at 0 is 0: what sees background passes no gradient on."""
    x = np.zeros((16, 28, 28, 1))
    x[:, 8:20, 10:17] = NUMBERS.random((16, 12, 7, 1))
    found = []
    for suits in (Winograd.suits, lambda problem: False):
        monkeypatch.setattr(Winograd, "suits", staticmethod(suits))
        inner = [layer for size in (16, 32) for layer in (Conv2D(size, 3, activation=nn.activation.ReLU()), MaxPool(2))]
        layers = [*inner, nn.layer.Flatten(), nn.layer.Dense(10)]
        model = nn.model.SequentialModel([-1, 28, 28, 1], layers, dtype="float64", seed=1)
        model.setup(nn.loss.Cross_Entropy_With_Softmax())
        loss, _ = model.compute_gradients(x, np.arange(16) % 10)
        found.append((loss, {variable.name: variable.get_gradient() for variable in model.trainable_variables()}))
    (loss, fast), (expected, direct) = found
    assert loss == pytest.approx(expected, rel=1e-14)
    for name, gradient in direct.items():
        np.testing.assert_allclose(fast[name], gradient, rtol=0, atol=1e-13 * np.abs(gradient).max(), err_msg=name)
