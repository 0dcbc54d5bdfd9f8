from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nn import function
from nn.operation import Max, Mean, Min, Sum
from nn.value import Placeholder
from tests.nn.graphs import Compiled

X = np.random.default_rng(0).standard_normal((3, 4, 2, 5))


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
    compiled = Compiled(lambda x: getattr(function, name)(x, axis, keepdims), X.shape[1:])
    expected = getattr(np, name)(X, axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    np.testing.assert_allclose(compiled.value(X), expected, rtol=1e-13, atol=1e-15)
    assert compiled.graph.output.shape == (-1, *expected.shape[1:])


def test_the_batch_axis_goes_with_a_reduction_over_it() -> None:
    x = Placeholder((-1, 3, 4))
    assert x.sum().shape == ()
    assert x.mean(axis=0).shape == (3, 4)
    assert x.max(axis=(0, 2), keepdims=True).shape == (1, 3, 1)
    assert x.min(axis=1).shape == (-1, 4)


@pytest.mark.parametrize("name", ["max", "min"])
def test_equal_elements_share_the_gradient(name: str) -> None:
    compiled = Compiled(lambda x: getattr(x, name)(axis=1), (3,))
    gradient, _ = compiled.gradients(np.array([[2.0, 2.0, 2.0], [1.0, 5.0, 5.0], [0.0, 0.0, 1.0]]), 6.0)
    shared = [[2, 2, 2], [0, 3, 3], [0, 0, 6]] if name == "max" else [[2, 2, 2], [6, 0, 0], [3, 3, 0]]
    assert gradient.tolist() == shared


@pytest.mark.parametrize("kind", [Sum, Mean, Max, Min])
def test_wrong_axes_are_named(kind: type[Any]) -> None:
    name, x = kind.__name__, Placeholder((-1, 3))
    with pytest.raises(ValueError, match=rf"{name}: axis 2 does not exist in shape \(-1, 3\)"):
        kind(2)(x)
    with pytest.raises(ValueError, match=rf"{name}: 'axis' names an axis of shape \(-1, 3\) twice, got \(1, -1\)"):
        kind((1, -1))(x)
    for axis in (1.0, "1", True, (0, None)):
        with pytest.raises(TypeError, match=f"{name} 'axis' must be an integer, a tuple of integers or None, got"):
            kind(axis)


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_equal_operands_share_the_gradient(name: str) -> None:
    compiled = Compiled(lambda x: getattr(function, name)(x[:, :1] * 1, x[:, 1:] * 1), (2,))
    gradient, _ = compiled.gradients(np.array([[1.0, 1.0], [1.0, 2.0]]))
    assert gradient.tolist() == [[0.5, 0.5], [0, 1] if name == "maximum" else [1, 0]]
