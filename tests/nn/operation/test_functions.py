from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn import function
from nn.operation import Compare, Lookup
from nn.testing import check_gradients
from nn.value import Node, Placeholder, Value, Variable
from tests.nn.graphs import Compiled


def test_joining() -> None:
    x = Placeholder((-1, 3))
    assert function.concatenate([x, x * 2]).shape == (-1, 6)
    assert function.concatenate([Variable((2, 3)), Variable((4, 3))], axis=0).shape == (6, 3)
    assert function.stack([x, x]).shape == (-1, 3, 2)
    assert function.stack([x, x, x], axis=1).shape == (-1, 3, 3)
    assert function.stack([x, x], axis=0).shape == (2, -1, 3)
    assert function.stack([1.0, Variable(())]).shape == (2,)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda x: function.concatenate([x, x], axis=0), ValueError,
         r"Concatenate: axis 0 of shape \(-1, 3\) is the batch, which cannot grow"),
        (lambda x: function.concatenate([x, x[:, None]]), ValueError,
         r"Concatenate: shapes \(-1, 3\) and \(-1, 1, 3\) differ on other axes than 1"),
        (lambda x: function.concatenate([x, np.ones((2, 3))]), ValueError, "differ on other axes than 1"),
        (lambda x: function.concatenate([x, x], axis=2), ValueError, r"Concatenate: axis 2 does not exist in shape \(-1, 3\)"),
        (lambda x: function.concatenate(x), TypeError, "concatenate: expected a list of values, got"),
        (lambda x: function.stack([]), TypeError, r"stack: expected a list of values, got \[\]"),
        (lambda x: function.stack([x, x[:, :2]]), ValueError,
        r"stack: values must have equal shapes, got \(-1, 3\) and \(-1, 2\)"),
        (lambda x: function.stack([x, x], axis=3), ValueError, "stack: axis 3 does not exist in a result of 3 axes"),
        (lambda x: x.transpose(0, 0), ValueError,
        r"Transpose: 'axes' must name every axis of shape \(-1, 3\) once, got \(0, 0\)"),
        (lambda x: x.transpose(0, 1, 2), ValueError, "Transpose: 'axes' must name every axis"),
        (lambda x: x.swapaxes(0, 2), ValueError, r"swapaxes: axis 2 does not exist in shape \(-1, 3\)"),
        (lambda x: function.tensordot(x, Variable((4, 3))), ValueError,
         r"TensorDot: the last 1 axes of shape \(-1, 3\) are not the first of shape \(4, 3\)"),
        (lambda x: function.tensordot(x, x), ValueError, "TensorDot: the last 1 axes"),
        (lambda x: function.tensordot(x, Variable((3,)), 0), ValueError, "TensorDot 'axes' must be a positive integer, got 0"),
        (lambda x: function.where(x > 0, x, np.ones(4)), ValueError, r"Where: shapes \(-1, 3\) and \(4,\) do not fit together"),
        (lambda x: x > np.ones(4), ValueError, "Compare: shapes"),
        (lambda x: x > "a", TypeError, "an expression takes values, numbers and numeric arrays"),
        (lambda x: Compare("=>"), ValueError, "Compare 'relation' must be one of >, >=, <, <=, ==, !=, got '=>'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(build: Callable[[Value], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(Placeholder((-1, 3)))


def test_where_does_not_look_at_what_is_not_chosen() -> None:
    compiled = Compiled(lambda x: function.where(x > 0, function.maximum(x, 1e-9).log(), x), (2,))
    x = np.array([[2.0, -3.0]])
    np.testing.assert_allclose(compiled.value(x), [[np.log(2), -3]])
    np.testing.assert_allclose(compiled.gradients(x)[0], [[0.5, 1]])
    broken = Compiled(lambda x: function.where(np.array([1.0, 0.0]), x, np.array([np.nan, 5])), (2,))
    assert broken.value(x).tolist() == [[2, 5]]


def test_masks_have_no_gradient() -> None:
    compiled = Compiled(lambda x: x * (x >= 1) + (x < 0) + function.equal(x, 1), (3,))
    x = np.array([[-1.0, 1.0, 3.0]])
    assert compiled.value(x).tolist() == [[1, 2, 3]]
    assert compiled.gradients(x)[0].tolist() == [[0, 1, 1]]


def test_functions_take_numbers_and_arrays() -> None:
    x = Placeholder((-1, 2))
    for result in (function.exp(1.0), function.sum(np.ones((2, 3))), function.maximum(0, x), function.where(1, 2.0, x)):
        assert isinstance(result, Node)


@pytest.mark.parametrize("axes", [1, ([1, 2], [1, 0]), ((-1, 1), (0, 1)), ([2], [-3]), (1, 1), (2, 0)], ids=str)
def test_tensordot_takes_the_axes_of_numpy(axes: Any) -> None:
    x, w = (np.random.default_rng(0).standard_normal(shape) for shape in ((5, 3, 4), (4, 3, 2)))
    found = Compiled(lambda v: function.tensordot(v, w, axes), (3, 4)).value(x)
    np.testing.assert_allclose(found, np.tensordot(x, w, axes), rtol=1e-12)


@pytest.mark.parametrize(
    ("axes", "error", "message"),
    [
        (([1],), ValueError, r"tensordot 'axes' must be a number or a pair, the axes of a and those of b, got \(\[1\],\)"),
        (([1, 2], [0]), ValueError, "tensordot 'axes' must name equally many axes of a and of b"),
        (([1, 1], [0, 1]), ValueError, r"tensordot 'axes' must name different axes of shape \(-1, 3, 4\), got \[1, 1\]"),
        (([], []), ValueError, "must name different axes"),
        ((0, 0), ValueError, r"tensordot 'axes' must name axes of shape \(-1, 3, 4\) other than the batch, got 0"),
        ((3, 0), ValueError, "tensordot 'axes' must name axes of shape"),
        ((1.0, 0), TypeError, "tensordot 'axes' must hold integers, got 1.0"),
        ((1, 0), ValueError, r"TensorDot: the last 1 axes of shape \(-1, 4, 3\) are not the first of shape \(4, 3, 2\)"),
    ],
    ids=str,
)
def test_axes_of_tensordot_that_do_not_fit(axes: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        function.tensordot(Placeholder((-1, 3, 4)), np.ones((4, 3, 2)), axes)


@pytest.mark.parametrize(
    ("build", "layer", "sample"),
    [
        (lambda x, *w: function.convolution(x, *w), nn.layer.Conv2D(4), (6, 7, 3)),
        (lambda x, *w: function.convolution(x, *w, stride=[2, 1], padding="same", groups=2),
         nn.layer.Conv2D(4, [3, 2], stride=[2, 1], padding="same", groups=2, use_bias=False), (6, 7, 2)),
        (lambda x, *w: function.convolution(x, *w, padding=2), nn.layer.Conv1D(4, 5, padding=2), (9, 3)),
        (lambda x, *w: function.max_pool(x), nn.layer.MaxPool(), (6, 7, 3)),
        (lambda x, *w: function.max_pool(x, 3, 2, "same"), nn.layer.MaxPool(3, 2, "same"), (9, 3)),
        (lambda x, *w: function.average_pool(x, [2, 3], 1, 1), nn.layer.AveragePool([2, 3], 1, 1), (6, 7, 3)),
    ],
)  # fmt: skip
def test_functions_are_the_layers_without_their_variables(
    build: Callable[..., Value], layer: nn.layer.Layer, sample: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).standard_normal((5, *sample))
    expected = Compiled(layer, sample)
    weights = [variable.value for variable in expected.variables]
    assert np.array_equal(Compiled(lambda v: build(v, *weights), sample).value(x), expected.value(x))
    check_gradients(lambda v: build(v, *(Variable(weight.shape) for weight in weights)), sample)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (
            lambda x, w: function.convolution(x[:, 0, 0], w),
            ValueError,
            r"convolution: expected inputs of shape .* or \(batch, time, channels\), all but the batch known, got \(-1, 2\)",
        ),
        (
            lambda x, w: function.convolution(x, w, stride=[1, 2, 3]),
            ValueError,
            "convolution 'stride' must be one positive integer or 2",
        ),
        (
            lambda x, w: function.convolution(x, w, padding="full"),
            ValueError,
            "convolution 'padding' must be 'valid', 'same' or",
        ),
        (
            lambda x, w: function.convolution(x, w, groups=0),
            ValueError,
            "convolution 'groups' must be a positive integer, got 0",
        ),
        (
            lambda x, w: function.convolution(x, w, groups=2),
            ValueError,
            r"Convolution: axis 3 of the inputs must have 4 channels for a kernel of shape \(3, 3, 2, 5\) and 2 groups, got 2",
        ),
        (
            lambda x, w: function.convolution(x, np.ones((3, 3, 1, 5)), groups=2),
            ValueError,
            "'groups' must divide the 5 filters",
        ),
        (
            lambda x, w: function.convolution(x[:, :2], w),
            ValueError,
            r"Convolution: axis 1 \(height\) must have at least 3 cells",
        ),
        (lambda x, w: function.convolution(x, w, np.ones(4)), ValueError, "a bias for 5 filters must have shape"),
        (lambda x, w: function.max_pool(x, size=0), ValueError, "max_pool 'size' must be a positive integer, got 0"),
        (lambda x, w: function.average_pool(x[:, 0, 0]), ValueError, "average_pool: expected inputs of shape"),
        (
            lambda x, w: function.average_pool(x, 2, padding=2),
            ValueError,
            "PoolAverage: 'padding' must be smaller than the window",
        ),
        (
            lambda x, w: function.lookup(x, w),
            ValueError,
            r"Lookup: a table must have the shape \(rows, features\), got \(3, 3, 2",
        ),
    ],
)
def test_what_does_not_fit_a_window_is_refused(build: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build(Placeholder((-1, 6, 7, 2)), Variable((3, 3, 2, 5)))


def test_lookup() -> None:
    table = np.arange(10.0).reshape(5, 2)
    assert Compiled(lambda ids: function.lookup(ids, table), (3,)).value(np.array([[4, 0, 4]])).tolist() == [
        [[8, 9], [0, 1], [8, 9]]
    ]
    weights = Variable((5, 2))
    gradient, (found,) = Compiled(lambda ids: function.lookup(ids, weights), (2,)).gradients(np.array([[4, 0], [4, 1]]))
    assert gradient.tolist() == [[0, 0], [0, 0]]
    assert found.tolist() == [[1, 1], [1, 1], [0, 0], [0, 0], [2, 2]]


def test_float32_tells_no_more_than_2_to_the_24_rows_apart() -> None:
    ids, table = Placeholder((-1, 1)), Variable((2**24 + 1, 1))
    operation = Lookup()
    shapes = ((1, 1), table.shape)
    operation.infer(ids.shape, table.shape)
    with pytest.raises(ValueError, match="Lookup: float32 tells at most 16777216 rows apart, the table has 16777217"):
        operation.allocate(shapes, (1, 1, 1), np.dtype(np.float32))
    operation.allocate(shapes, (1, 1, 1), np.dtype(np.float64))
    operation.allocate(((1, 1), (2**24, 1)), (1, 1, 1), np.dtype(np.float32))
