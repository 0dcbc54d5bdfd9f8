import numpy as np
import pytest

import nn
from nn.layer import BatchNorm, LayerNorm
from nn.operation import Mode
from nn.testing import check_gradients
from nn.value import Placeholder
from tests.nn.graphs import Compiled


def test_prediction_uses_the_moving_statistics() -> None:
    layer = BatchNorm(epsilon=0.5)
    compiled = Compiled(layer, (2, 3))
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    np.testing.assert_allclose(compiled.value(x), x / np.sqrt(1.5), rtol=1e-12)
    layer.moving_mean.set_value([1.0, 2.0, 3.0])
    layer.moving_variance.set_value([4.0, 0.25, 1.0])
    np.testing.assert_allclose(compiled.value(x), (x - [1, 2, 3]) / np.sqrt([4.5, 0.75, 1.5]), rtol=1e-12)


def test_backward_tells_how_the_moving_statistics_change_and_the_store_applies_it() -> None:
    layer = BatchNorm(momentum=0.75)
    compiled = Compiled(layer, (2, 3))
    layer.moving_mean.set_value([1.0, 2.0, 3.0])
    x = np.random.default_rng(0).standard_normal((4, 2, 3))
    compiled.gradients(x)
    np.testing.assert_allclose(layer.moving_mean.value, [1, 2, 3])
    compiled.store.apply_changes()
    np.testing.assert_allclose(layer.moving_mean.value, 0.75 * np.array([1, 2, 3]) + 0.25 * x.mean(axis=(0, 1)), rtol=1e-12)
    # as in Keras the variance is not corrected by n / (n - 1)
    np.testing.assert_allclose(layer.moving_variance.value, 0.75 + 0.25 * x.var(axis=(0, 1)), rtol=1e-12)


def test_a_model_learns_the_statistics_and_saves_them() -> None:
    model = nn.model.SequentialModel([-1, 3], [nn.layer.Dense(4), BatchNorm(momentum=0.5), nn.layer.Dense(2)], dtype="float64")
    model.setup(nn.loss.MSELoss())
    model.compile(nn.gradient_descent.SGDOptimizer(1e-6))
    x = np.random.default_rng(0).standard_normal((64, 3)) * 5 + 2
    model.fit(x, np.zeros((64, 2)), epoch=20, batch_size=64, verbose=0)
    dense, norm = model.layers[0], model.layers[1]
    assert isinstance(norm, BatchNorm)
    hidden = x @ dense.variables[0].value + dense.variables[1].value
    np.testing.assert_allclose(norm.moving_mean.value, hidden.mean(axis=0), rtol=1e-3)
    np.testing.assert_allclose(norm.moving_variance.value, hidden.var(axis=0), rtol=1e-3)
    assert [variable.name for variable in norm.variables] == [
        "batchnorm_1/gamma", "batchnorm_1/beta", "batchnorm_1/moving_mean", "batchnorm_1/moving_variance",
    ]  # fmt: skip
    again = nn.model.Model.from_bytes(model.to_bytes())
    assert np.array_equal(again.predict(x), model.predict(x))


def test_gradients_outside_training_are_those_of_fixed_statistics() -> None:
    layer = BatchNorm()
    compiled = Compiled(layer, (3,))
    plan = compiled.plan(4)
    x = np.random.default_rng(0).standard_normal((4, 3))
    plan.forward(x, Mode(training=False))
    plan.output_gradient[:] = 2
    plan.backward()
    assert plan.input_gradient is not None
    np.testing.assert_allclose(plan.input_gradient, np.full((4, 3), 2 / np.sqrt(1 + 1e-3)), rtol=1e-12)
    assert not compiled.store.buffer_changes.any()


@pytest.mark.parametrize("layer", [BatchNorm, LayerNorm])
def test_a_large_mean_does_not_cancel(layer: type[nn.layer.Layer]) -> None:
    compiled = Compiled(layer(), (256,), np.float32)
    x = (np.random.default_rng(0).standard_normal((512, 256)) + 1000).astype(np.float32)
    axis = 0 if layer is BatchNorm else 1
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(axis=axis, keepdims=True)) / np.sqrt(exact.var(axis=axis, keepdims=True) + 1e-3)
    np.testing.assert_allclose(compiled.value(x, training=True), exact, atol=2e-3)


def test_constant_features_stay_finite() -> None:
    for layer in (BatchNorm(), LayerNorm()):
        np.testing.assert_allclose(Compiled(layer, (3,)).value(np.full((4, 3), 7.0), training=True), 0, atol=1e-10)


def test_layer_norm_over_several_blocks() -> None:
    compiled = Compiled(LayerNorm(0.1), (50, 64))
    x = np.random.default_rng(0).standard_normal((30, 50, 64))
    centred = x - x.mean(axis=-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 0.1)
    np.testing.assert_allclose(compiled.value(x), normal, rtol=1e-10, atol=1e-12)
    weights = np.random.default_rng(1).standard_normal(x.shape)
    _, (gamma, beta) = compiled.gradients(x, weights)
    np.testing.assert_allclose(gamma, (normal * weights).sum(axis=(0, 1)), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(beta, weights.sum(axis=(0, 1)), rtol=1e-10, atol=1e-10)


def test_gradients_over_several_blocks_and_repeats() -> None:
    check_gradients(BatchNorm(), (60, 70, 3), batches=(3,))
    check_gradients(LayerNorm(), (150, 100), batches=(3,))


@pytest.mark.parametrize("kind", [BatchNorm, LayerNorm])
def test_wrong_inputs_name_the_layer(kind: type[nn.layer.Layer]) -> None:
    layer, name = kind(name="norm"), kind.__name__
    with pytest.raises(ValueError, match=rf"{name}: expected inputs of shape \(batch, \.\.\., features\), got \(-1,\)"):
        kind()(Placeholder([-1]))
    layer(Placeholder([-1, 4]))
    with pytest.raises(
        ValueError, match=rf"{name} 'norm': expected inputs with 4 features on the last axis, got shape \(-1, 5\)"
    ):
        layer(Placeholder([-1, 5]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"momentum": 1}, r"BatchNorm 'momentum' must be a number >= 0 and < 1, got 1"),
        ({"momentum": -0.1}, r"BatchNorm 'momentum' must be a number >= 0 and < 1, got -0\.1"),
        ({"epsilon": 0}, r"BatchNorm 'epsilon' must be a number > 0, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BatchNorm(**arguments)
    with pytest.raises(ValueError, match="LayerNorm 'epsilon' must be a number > 0, got -1"):
        LayerNorm(-1)
