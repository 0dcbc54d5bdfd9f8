from collections.abc import Callable

import numpy as np
import pytest

from nn.operation import Power, Square
from nn.value import Node, Placeholder, Value, Variable, as_value
from tests.nn.graphs import Compiled


def compute(build: Callable[[Value], Value], x: np.ndarray) -> np.ndarray:
    return Compiled(build, x.shape[1:]).value(x)


X = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 0.5]])


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
def test_an_expression_computes_what_numpy_computes(build: Callable[[Value], Value]) -> None:
    np.testing.assert_allclose(compute(build, X), build(X), rtol=1e-15)  # type: ignore[arg-type]


def test_shapes_are_known_before_data_comes() -> None:
    x = Placeholder([-1, 4])
    w, row = Variable([4, 3]), Variable([1, 3])
    assert (x @ w + row).shape == (-1, 3)
    assert (row + x @ w).shape == (-1, 3)
    assert (x.reshape(-1, 2, 2) @ np.ones((5, 2, 2))[0]).shape == (-1, 2, 2)
    assert (x * 2).shape == (-1, 4)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda x: x + np.ones(4), r"Add: shapes \(-1, 3\) and \(4,\) do not fit together"),
        (lambda x: x * np.ones((5, 3)), r"Multiply: shapes \(-1, 3\) and \(5, 3\) do not fit together"),
        (
            lambda x: x @ np.ones((4, 2)),
            r"MatMul: axis 0 of the second operand must have the length 3 of the last axis of the "
            r"first, whose shape is \(-1, 3\), got 4 in shape \(4, 2\)",
        ),
        (lambda x: x @ np.ones(4), "MatMul: axis 0 of the second operand must have the length 3"),
        (lambda x: x @ 2, "MatMul: operands must have at least two axes"),
        (lambda x: x.reshape(-1, 7), r"Reshape: samples of 3 elements, shape \(-1, 3\), do not fit into rows of 7 elements"),
        (lambda x: x.reshape(-1, 2), "Reshape: samples of 3 elements"),
        (lambda x: x.reshape(5, 2), "Reshape: samples of 3 elements"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_when_the_graph_is_built(build: Callable[[Value], Value], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(Placeholder([-1, 3]))


@pytest.mark.parametrize("operand", ["2", None, ["1"], np.array(["a"]), 1j])
def test_other_operands_are_refused(operand: object) -> None:
    with pytest.raises(TypeError, match="an expression takes values, numbers and numeric arrays"):
        as_value(operand)


def test_a_list_must_be_an_array() -> None:
    with pytest.raises(TypeError, match=r"an expression takes lists that are arrays, got \[\[1\], \[2, 3\]\]: "):
        Placeholder([-1, 3]) + [[1], [2, 3]]  # noqa: RUF005


@pytest.mark.parametrize("shape", [[784], [64, 784], []])
def test_an_input_begins_with_the_batch(shape: list[int]) -> None:
    with pytest.raises(ValueError, match="Model 'input_shape' must begin with -1"):
        Placeholder(shape)


def test_none_stands_for_the_batch_too() -> None:
    assert Placeholder([None, 3]).shape == (-1, 3)


def test_methods_without_a_counterpart_in_numpys_arrays() -> None:
    for name, function in [("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("abs", np.abs)]:
        np.testing.assert_allclose(compute(lambda x, name=name: getattr(x, name)(), X), function(X), rtol=1e-15)  # type: ignore[misc]


def test_variables_and_constants_stand_on_either_side() -> None:
    x, w = Placeholder([-1, 3]), Variable([3])
    for value in (1 / w, 2 - w, np.ones(3) * w, w > 0, w > 0, w / x, x**w, 2**w, w - x, np.ones(3) / x):
        assert isinstance(value, Node)
        assert value.shape in ((3,), (-1, 3))


def test_a_square_is_one_operation() -> None:
    x = Placeholder([-1, 3])
    assert isinstance((x**2).operation, Square)
    assert isinstance((x**2.0).operation, Square)
    assert isinstance((x**3).operation, Power)
    assert isinstance((x ** np.array(2.0)).operation, Power)


def test_equality_is_identity() -> None:
    x, y = Placeholder([-1, 3]), Placeholder([-1, 3])
    assert x == x
    assert x != y
    assert len({x, y}) == 2


def test_a_value_has_no_truth_and_is_no_sequence() -> None:
    x = Placeholder([-1, 3])
    with pytest.raises(TypeError, match=r"a value has no truth: .* nn\.function\.where"):
        assert x > 0
    with pytest.raises(TypeError, match="a value has no truth"):
        assert 0 < x < 1  # type: ignore[operator]
    with pytest.raises(TypeError, match="a value has no truth"):
        max(x, 0)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="not iterable"):
        list(x)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        np.exp(x)  # type: ignore[call-overload]
