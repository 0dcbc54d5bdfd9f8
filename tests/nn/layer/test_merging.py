import numpy as np
import pytest

import nn
from nn.layer import Add, Concatenate, Dense
from nn.testing import check_gradients
from nn.value import Placeholder, Value
from tests.nn.graphs import Compiled

X = np.random.default_rng(0).standard_normal((5, 3, 4))


def test_sums() -> None:
    check_gradients(lambda x: Add()([x, x * x, x[:, :1]]), (3, 4))
    np.testing.assert_allclose(Compiled(lambda x: Add()([x, x * x, x[:, :1]]), (3, 4)).value(X), X + X * X + X[:, :1])
    np.testing.assert_array_equal(Compiled(lambda x: Add()((x, x)), (3, 4)).value(X), 2 * X)
    np.testing.assert_array_equal(Compiled(lambda x: Add()([x]), (3, 4)).value(X), X)


@pytest.mark.parametrize("axis", [1, 2, -1])
def test_side_by_side(axis: int) -> None:
    check_gradients(lambda x: Concatenate(axis)([x, x * x, x]), (3, 4))
    expected = np.concatenate([X, X * X, X], axis=axis)
    compiled = Compiled(lambda x: Concatenate(axis)([x, x * x, x]), (3, 4))
    assert compiled.graph.output.shape == (-1, *expected.shape[1:])
    np.testing.assert_array_equal(compiled.value(X), expected)


def test_a_residual_network_trains_and_is_saved() -> None:
    class Residual(nn.model.Model):
        def __init__(self) -> None:
            super().__init__([-1, 4], dtype="float64")
            self.inner, self.head = Dense(4, nn.activation.Tanh()), Dense(1)

        def call(self, x: Value) -> Value:
            return self.head(Concatenate()([Add()([x, self.inner(x)]), x]))

    model = Residual()
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.02))
    x = np.random.default_rng(0).standard_normal((64, 4))
    history = model.fit(x, x[:, :1] * x[:, 1:2], epoch=30, verbose=0)
    assert history["Loss"][-1] < 0.5 * history["Loss"][0]
    assert "add_1 (Add)" in model.summary()


def test_inputs_that_do_not_fit_name_the_layer() -> None:
    x = Placeholder([-1, 3])
    with pytest.raises(ValueError, match=r"Add 'sum': shapes \(-1, 3\) and \(-1, 4\) do not fit together"):
        Add(name="sum")([x, Placeholder([-1, 4])])
    with pytest.raises(ValueError, match=r"Concatenate 'join': .*axis 0 of shape \(-1, 3\) is the batch, which cannot grow"):
        Concatenate(0, name="join")([x, x])
    with pytest.raises(ValueError, match=r"Concatenate: shapes \(-1, 3\) and \(-1, 3, 1\) differ on other axes than 1"):
        Concatenate()([x, Placeholder([-1, 3, 1])])
    with pytest.raises(ValueError, match="Add: expected values, got 0"):
        Add()([])
    with pytest.raises(TypeError, match="Add is called on a value of a graph, got ndarray"):
        Add()([x, np.ones(3)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"Concatenate 'axis' must be an integer of at least -32, got 1\.0"):
        Concatenate(1.0)  # type: ignore[arg-type]
