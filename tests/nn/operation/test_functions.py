from collections.abc import Callable

import numpy as np
import pytest

from nn import function
from nn.operation import Compare
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


def everything(x: Value) -> Value:
    """One of each operation, between others, on large arrays."""
    y = function.concatenate([x.exp(), (abs(x) + 1).log(), (x * x + 1).sqrt()], axis=1)
    y = function.maximum(y, x.mean(axis=1, keepdims=True)) - y.max(axis=2, keepdims=True)
    y = (
        function.where(y > -1, y, y**2) * (y <= 3)
        + (y * y + 1) ** 1.5
        + (1 + x.swapaxes(1, 2).sum(axis=(1, 2), keepdims=True)) ** 2
    )
    attended = y @ y.swapaxes(1, 2)
    return function.minimum(attended[:, 1:, ::2], 5) / 3 - attended[:, :-1, [3, 0] * 15]


def test_after_the_first_step_nothing_is_allocated_that_grows_with_the_batch() -> None:
    x = np.random.default_rng(0).standard_normal((300, 20, 16)).astype(np.float32)
    peak = Compiled(everything, (20, 16), np.float32).peak(x)
    # x has 384,000 bytes, a mask 96,000; the buffer of a NumPy function that converts types 32,768 for each operand
    assert peak < 90_000, f"{peak} bytes"
