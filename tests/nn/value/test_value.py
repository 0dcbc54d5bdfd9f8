from collections.abc import Callable

import numpy as np
import pytest

from nn.graph import Graph
from nn.operation import Mode
from nn.plan import Plan
from nn.value import Node, Placeholder, Value, Variable, as_value


def compute(build: Callable[[Value], Value], x: np.ndarray) -> np.ndarray:
    placeholder = Placeholder((-1, *x.shape[1:]))
    output = build(placeholder)
    assert isinstance(output, Node)
    plan = Plan(Graph(placeholder, output), x.shape, x.dtype, training=False)
    return plan.forward(x, Mode()).copy()


X = np.array([[1.0, 2.0, 4.0], [3.0, 5.0, 0.5]])


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x + 2, lambda x: 2 + x, lambda x: x - 2, lambda x: 2 - x, lambda x: x * 3, lambda x: 3 * x, lambda x: x / 4,
        lambda x: 4 / x, lambda x: x**2, lambda x: 2**x, lambda x: -x, lambda x: x @ np.arange(6.0).reshape(3, 2),
        lambda x: x + np.array([1.0, 2.0, 3.0]), lambda x: np.array([1.0, 2.0, 3.0]) * x,
        lambda x: x.reshape(-1, 3, 1) * x.reshape(-1, 1, 3),
        lambda x: (x + x) * x - x / (x + 1), lambda x: np.float32(2) * x, lambda x: x.reshape(-1, 1, 3) * np.ones((4, 1)),
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
        (lambda x: x @ np.ones((4, 2)), r"MatMul: shapes .* 3 columns against 4 rows"),
        (lambda x: x @ np.ones(3), "MatMul: operands must have at least two axes"),
    ],
)
def test_shapes_that_do_not_fit_are_refused_when_the_graph_is_built(build: Callable[[Value], Value], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(Placeholder([-1, 3]))


@pytest.mark.parametrize("operand", ["2", None, [1, 2], np.array(["a"]), 1j])
def test_other_operands_are_refused(operand: object) -> None:
    with pytest.raises(TypeError, match="an expression takes values, numbers and numeric arrays"):
        as_value(operand)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [[784], [64, 784], []])
def test_an_input_begins_with_the_batch(shape: list[int]) -> None:
    with pytest.raises(ValueError, match="Model 'input_shape' must begin with -1"):
        Placeholder(shape)


def test_none_stands_for_the_batch_too() -> None:
    assert Placeholder([None, 3]).shape == (-1, 3)
