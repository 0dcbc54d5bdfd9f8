from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Shape
from nn.value import Value
from tests.nn.model.models import Line, classifier, samples


class Normal(nn.layer.Layer):
    """Keeps a statistic, which it makes before what is trained."""

    def build(self, input_shape: Shape) -> None:
        self.mean = self.add_buffer("moving_mean", input_shape[1:])
        self.gamma = self.add_variable("gamma", input_shape[1:], nn.initializer.Constant(1.0))

    def call(self, x: Value) -> Value:
        return (x - self.mean) * self.gamma


def test_they_come_in_keras_order_and_shapes() -> None:
    model = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(4), Normal(), nn.layer.Dense(2, use_bias=False)])
    model.setup(nn.loss.MSELoss())
    weights = model.get_weights()
    assert [weight.shape for weight in weights] == [(8, 4), (4,), (4,), (4,), (4, 2)]
    assert weights[2].tolist() == [1, 1, 1, 1]
    assert weights[3].tolist() == [0, 0, 0, 0]


def test_they_are_copies_that_another_model_takes() -> None:
    one, other, (x, _) = classifier(seed=1), classifier(seed=2), samples()
    weights = one.get_weights()
    weights[0][:] += 1
    assert not np.array_equal(weights[0], one.get_weights()[0])
    other.set_weights(one.get_weights())
    assert np.array_equal(other.predict(x), one.predict(x))
    other.set_weights([weight.astype(np.float64) for weight in one.get_weights()])
    assert other.store.values.dtype == np.float32
    other.set_weights([weight.tolist() for weight in one.get_weights()])
    assert np.array_equal(other.store.values, one.store.values)


def test_the_models_own_variables_come_first() -> None:
    class Own(Line):
        def call(self, x: Value) -> Value:
            return nn.layer.Dense(1)(x) * self.w + self.b

    model = Own()
    model.setup(nn.loss.MSELoss())
    model.predict(np.ones((1, 3)))
    assert [weight.shape for weight in model.get_weights()] == [(1, 1), (1, 1), (3, 1), (1,)]


def test_batch_normalisation_is_as_in_keras() -> None:
    model = nn.model.SequentialModel([-1, 3], [nn.layer.BatchNorm()])
    model.setup(nn.loss.MSELoss())
    model.set_weights([np.full(3, number) for number in (2.0, 1.0, 5.0, 4.0)])  # gamma, beta, mean, variance
    x = np.array([[5.0, 7.0, 9.0]])
    np.testing.assert_allclose(model.predict(x), (x - 5) / np.sqrt(4 + 1e-3) * 2 + 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda w: w[:-1], ValueError, r"a list of 4 arrays \(dense_1/kernel \(8, 16\), dense_1/bias \(16,\), .*\), got 3"),
        (lambda w: w[0], ValueError, "got one array"),
        (lambda w: [w[0], w[1][:-1], *w[2:]], ValueError, r"array 1, 'dense_1/bias', must have shape \(16,\), got \(15,\)"),
        (lambda w: [w[0].T, *w[1:]], ValueError, r"array 0, 'dense_1/kernel', must have shape \(8, 16\), got \(16, 8\)"),
        (lambda w: [*w[:3], np.array(["a"] * 3)], TypeError, "array 3, 'dense_2/bias', must hold numbers, got <U1"),
        (lambda w: [*w[:3], w[3] + 1j], TypeError, "array 3, 'dense_2/bias', must hold numbers, got complex"),
    ],
)
def test_what_does_not_fit_is_named_and_nothing_changes(change: Any, error: type[Exception], message: str) -> None:
    model = classifier()
    before = model.store.values.copy()
    with pytest.raises(error, match=message):
        model.set_weights(change([weight + 1 for weight in model.get_weights()]))
    assert np.array_equal(model.store.values, before)


def test_there_are_none_before_the_model_is_built() -> None:
    model = nn.model.SequentialModel(layers=[nn.layer.Dense(1)])
    for call in (model.get_weights, lambda: model.set_weights([])):
        with pytest.raises(ValueError, match=r"SequentialModel is not built yet; call setup\(\) first"):
            call()
