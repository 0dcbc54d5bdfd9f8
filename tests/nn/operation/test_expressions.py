"""Expressions of values: what they compute is what NumPy computes, with the shapes and the gradients of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nn
from nn import function
from nn.operation import Lookup, Power, Square
from nn.testing import check_gradients
from nn.value import Node, Placeholder, Value, Variable
from tests.nn.graphs import Compiled

X = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 0.5]])
BOXES = np.arange(120.0).reshape(2, 3, 4, 5)
Build = Callable[[Any], Any]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x + 2, lambda x: 2 + x, lambda x: x - 2, lambda x: 2 - x, lambda x: x * 3, lambda x: 3 * x, lambda x: x / 4,
        lambda x: 4 / x, lambda x: x**2, lambda x: 2**x, lambda x: -x, lambda x: x @ np.arange(6.0).reshape(3, 2),
        lambda x: x + np.array([1.0, 2.0, 3.0]), lambda x: np.array([1.0, 2.0, 3.0]) * x,
        lambda x: x.reshape(-1, 3, 1) * x.reshape(-1, 1, 3),
        lambda x: (x + x) * x - x / (x + 1), lambda x: np.float32(2) * x, lambda x: x.reshape(-1, 1, 3) * np.ones((4, 1)),
        lambda x: x**2.0, lambda x: x**0.5, lambda x: x ** np.array([1.0, 2.0, -1.0]), lambda x: abs(x - 3),
        lambda x: x.T @ x @ x.T,
        lambda x: (x > 2) * 1.0, lambda x: (x <= 3) * 1.0, lambda x: (x < np.array([2.0, 9.0, 1.0])) * 1.0,
        lambda x: (np.array([2.0, 2.0, 1.0]) <= x) * 1.0, lambda x: x[:, ::-1] - x[:, :1], lambda x: x.sum(axis=1) + x.max(),
        lambda x: x.reshape(-1, 3, 1).transpose(0, 2, 1).swapaxes(1, 2),
        lambda x: x.mean(axis=0, keepdims=True) - x.min(axis=1)[:, None],
        lambda x: np.arange(6.0).reshape(2, 3) @ x.T, lambda x: x.reshape(-1, 1, 3) @ x.reshape(-1, 3, 1),
        lambda x: np.arange(12.0).reshape(4, 1, 3) @ x.reshape(-1, 1, 3, 1),
        lambda x: x.reshape((-1, 3, 1)).transpose([0, 2, 1]), lambda x: (x * 2) - [1, 2, 3] + (0.5, 0, 1),
        lambda x: [[2, 0, 1]] * x,
        lambda x: x @ np.array([1.0, 2.0, 3.0]), lambda x: x @ [1, 2, 3], lambda x: [1, 2, 3] @ (x.T @ x),
        lambda x: x.reshape(-1, 1, 3) @ np.array([1.0, 2.0, 3.0]), lambda x: np.array([2.0]) @ x.reshape(-1, 1, 3),
        lambda x: x + x.sum(axis=0) @ x.max(axis=0),
    ],
)  # fmt: skip
def test_an_expression_computes_what_numpy_computes(build: Build) -> None:
    np.testing.assert_allclose(Compiled(build, X.shape[1:]).value(X), build(X), rtol=1e-15)


def test_methods_without_a_counterpart_in_numpys_arrays() -> None:
    for reference, *builds in [
        (np.exp, lambda x: x.exp(), function.exp), (np.log, lambda x: x.log(), function.log),
        (np.sqrt, lambda x: x.sqrt(), function.sqrt), (np.abs, lambda x: x.abs(), function.absolute),
    ]:  # fmt: skip
        for build in builds:
            np.testing.assert_allclose(Compiled(build, X.shape[1:]).value(X), reference(X), rtol=1e-15)


def test_shapes_are_known_before_data_comes() -> None:
    x, w, row = Placeholder([None, 4]), Variable([4, 3]), Variable([1, 3])
    boxes, v, u = Placeholder((-1, 3, 4)), Variable((3, 4)), Variable([3])
    for value, shape in [
        (x @ w + row, (-1, 3)), (row + x @ w, (-1, 3)), (x.reshape(-1, 2, 2) @ np.ones((5, 2, 2))[0], (-1, 2, 2)),
        (x * 2, (-1, 4)), (boxes.sum(), ()), (boxes.mean(axis=0), (3, 4)), (boxes.max(axis=(0, 2), keepdims=True), (1, 3, 1)),
        (boxes.min(axis=1), (-1, 4)), (v[0], (4,)), (v[[2, 2, 1]], (3, 4)), (v[0, 1], ()), (v[1:, None], (2, 1, 4)),
        (x.T[1], (-1,)), (function.concatenate([x, x * 2]), (-1, 8)),
        (function.concatenate([Variable((2, 3)), Variable((4, 3))], axis=0), (6, 3)), (function.stack([x, x]), (-1, 4, 2)),
        (function.stack([x, x, x], axis=1), (-1, 3, 4)), (function.stack([x, x], axis=0), (2, -1, 4)),
        (function.stack([1.0, Variable(())]), (2,)), (function.exp(1.0), ()), (function.sum(np.ones((2, 3))), ()),
        (function.maximum(0, x), (-1, 4)), (function.where(1, 2.0, x), (-1, 4)),
        *((value, (3,)) for value in (1 / u, 2 - u, np.ones(3) * u, u > 0, 2**u, np.ones(3) < u)),
        (u / boxes[:, 0, :3], (-1, 3)), (boxes[:, 0, :3] ** u, (-1, 3)), (u - boxes[:, 0, :3], (-1, 3)),
    ]:  # fmt: skip
        assert isinstance(value, Node)
        assert value.shape == shape


def test_equality_is_identity_and_a_square_is_one_operation() -> None:
    x, y = Placeholder([-1, 3]), Placeholder([-1, 3])
    assert x == x and x != y and len({x, y}) == 2
    kinds = [type(value.operation) for value in (x**2, x**2.0, x**3, x ** np.array(2.0))]
    assert kinds == [Square, Square, Power, Power]


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x[:], lambda x: x[...], lambda x: x[:, 1], lambda x: x[:, -1, 2:], lambda x: x[:, :, None],
        lambda x: x[..., 0], lambda x: x[:, ..., 1:3, ::2], lambda x: x[:, 1:3, -1], lambda x: x[:, ::-1, :, 4:0:-2],
        lambda x: x[:, [2, 0]], lambda x: x[:, :, np.array([[0, 3], [1, 1]])], lambda x: x[..., [-1, 0, -1]],
        lambda x: x[:, :2, None, [3, 1]], lambda x: x[:, np.int64(2)], lambda x: x[:, (1, 0), 1:],
        lambda x: x[:, range(2)], lambda x: x[:, 5 - 4, ..., -1:],
    ],
)  # fmt: skip
def test_parts_are_numpys(take: Build) -> None:
    class Key:
        def __getitem__(self, key: Any) -> Any:
            return key

    compiled, expected = Compiled(take, BOXES.shape[1:]), take(BOXES)
    assert compiled.graph.output.shape == (-1, *expected.shape[1:])
    np.testing.assert_array_equal(compiled.value(BOXES), expected)
    scattered = np.zeros_like(BOXES)
    np.add.at(scattered, take(Key()), expected)
    np.testing.assert_array_equal(compiled.gradients(BOXES, expected)[0], scattered)


@settings(max_examples=40, deadline=None, database=None)
@given(data=st.data())
def test_any_slices(data: st.DataObject) -> None:
    key: list[Any] = [slice(None)]
    for length in (4, 5):
        kind = data.draw(st.sampled_from(["slice", "integer", "none and slice"]))
        if kind == "none and slice":
            key.append(None)
        key.append(data.draw(st.integers(-length, length - 1) if kind == "integer" else st.slices(length)))
    expected = BOXES[0][tuple(key)]
    if 0 in expected.shape:
        with pytest.raises(ValueError, match="leaves nothing of axis"):
            Placeholder((-1, 4, 5))[tuple(key)]
    else:
        np.testing.assert_array_equal(Compiled(lambda x: x[tuple(key)], (4, 5)).value(BOXES[0]), expected)


@settings(max_examples=60, deadline=None, database=None)
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=5), data=st.data(), dtype=st.sampled_from(["float32", "float64"]))
def test_any_sum_is_numpys_sum(shape: list[int], data: st.DataObject, dtype: str) -> None:
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    array = np.random.default_rng(1).standard_normal(shape).astype(dtype)
    compiled, rounding = Compiled(lambda x: x.sum(axes), tuple(shape[1:]), dtype), 1e-5 if dtype == "float32" else 1e-13
    for memory in (array, np.asfortranarray(array), array[::-1]):
        expected = memory.sum(axis=axes, dtype=np.float64)
        np.testing.assert_allclose(compiled.value(memory), expected, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [1, -1, (1, 3), (2, -3), [1, 2, 3], ()])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min"])
def test_reductions_are_numpys(name: str, axis: Any, keepdims: bool) -> None:
    compiled = Compiled(lambda x: getattr(function, name)(x, axis, keepdims), BOXES.shape[1:])
    expected = getattr(np, name)(BOXES, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    np.testing.assert_allclose(compiled.value(BOXES), expected, rtol=1e-13, atol=1e-15)
    assert compiled.graph.output.shape == (-1, *expected.shape[1:])


@pytest.mark.parametrize(
    ("build", "x", "weight", "expected"),
    [
        (lambda x: x.max(axis=1), [[2, 2, 2], [1, 5, 5], [0, 0, 1]], 6, [[2, 2, 2], [0, 3, 3], [0, 0, 6]]),
        (lambda x: x.min(axis=1), [[2, 2, 2], [1, 5, 5], [0, 0, 1]], 6, [[2, 2, 2], [6, 0, 0], [3, 3, 0]]),
        (lambda x: function.maximum(x[:, :1] * 1, x[:, 1:] * 1), [[1, 1], [1, 2]], 1, [[0.5, 0.5], [0, 1]]),
        (lambda x: function.minimum(x[:, :1] * 1, x[:, 1:] * 1), [[1, 1], [1, 2]], 1, [[0.5, 0.5], [1, 0]]),
        # a mask has no gradient, and `where` does not look at what is not chosen
        (lambda x: x * (x >= 1) + (x < 0) + function.equal(x, 1), [[-1, 1, 3]], 1, [[0, 1, 1]]),
        (lambda x: function.where(x > 0, function.maximum(x, 1e-9).log(), x), [[2, -3]], 1, [[0.5, 1]]),
        (lambda ids: function.lookup(ids, np.arange(10.0).reshape(5, 2)), [[4, 0], [4, 1]], 1, [[0, 0], [0, 0]]),
    ],
)  # fmt: skip
def test_gradients_at_ties_and_of_choices(build: Build, x: Any, weight: float, expected: Any) -> None:
    """Equal elements share the gradient."""
    data = np.array(x, float)
    assert Compiled(build, data.shape[1:]).gradients(data, weight)[0].tolist() == expected


def test_choices() -> None:
    compiled = Compiled(lambda x: x * (x >= 1) + (x < 0) + function.equal(x, 1), (3,))
    assert compiled.value(np.array([[-1.0, 1.0, 3.0]])).tolist() == [[1, 2, 3]]
    chosen = Compiled(lambda x: function.where(np.array([1.0, 0.0]), x, np.array([np.nan, 5])), (2,))
    assert chosen.value(np.array([[2.0, -3.0]])).tolist() == [[2, 5]]


@pytest.mark.parametrize("axes", [1, ([1, 2], [1, 0]), ((-1, 1), (0, 1)), ([2], [-3]), (1, 1), (2, 0)], ids=str)
def test_tensordot_takes_the_axes_of_numpy(axes: Any) -> None:
    x, w = (np.random.default_rng(0).standard_normal(shape) for shape in ((5, 3, 4), (4, 3, 2)))
    found = Compiled(lambda v: function.tensordot(v, w, axes), (3, 4)).value(x)
    np.testing.assert_allclose(found, np.tensordot(x, w, axes), rtol=1e-12)


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
    x, expected = np.random.default_rng(0).standard_normal((5, *sample)), Compiled(layer, sample)
    weights = [variable.value for variable in expected.variables]
    assert np.array_equal(Compiled(lambda v: build(v, *weights), sample).value(x), expected.value(x))
    check_gradients(lambda v: build(v, *(Variable(weight.shape) for weight in weights)), sample)


def test_lookup() -> None:
    table, weights = np.arange(10.0).reshape(5, 2), Variable((5, 2))
    rows = Compiled(lambda ids: function.lookup(ids, table), (3,)).value(np.array([[4, 0, 4]]))
    assert rows.tolist() == [[[8, 9], [0, 1], [8, 9]]]
    _, (found,) = Compiled(lambda ids: function.lookup(ids, weights), (2,)).gradients(np.array([[4, 0], [4, 1]]))
    assert found.tolist() == [[1, 1], [1, 1], [0, 0], [0, 0], [2, 2]]
    operation, shapes = Lookup(), ((1, 1), (2**24 + 1, 1))
    operation.infer(*shapes)
    with pytest.raises(ValueError, match="Lookup: float32 tells at most 16777216 rows apart, the table has 16777217"):
        operation.allocate(shapes, (1, 1, 1), np.dtype(np.float32))
    operation.allocate(shapes, (1, 1, 1), np.dtype(np.float64))
    operation.allocate(((1, 1), (2**24, 1)), (1, 1, 1), np.dtype(np.float32))
