"""Layers of shapes, noise, wrapping and functions: draws, files, workers, and inputs that do not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import nn
from nn import layer, registry
from nn.arrays import Array
from nn.operation import GaussianDropoutOperation, GaussianNoiseOperation, Mode
from nn.operation.noise import DropoutOperation, Noise
from nn.value import Placeholder, Value
from tests.nn.graphs import Compiled


def scaled(x: Value) -> Value:
    return nn.function.exp(x) / 2


def drawn(operation: Noise, x: Array, key: tuple[int, ...] = (1, 0, 0, 0), position: int = 0, training: bool = True) -> Array:
    out = np.empty_like(x)
    operation.allocate([x.shape], x.shape, x.dtype)
    operation.begin(Mode(training, key), position)
    operation.forward([x], out)
    return out


def test_spatial_dropout_takes_whole_channels() -> None:
    x = np.ones((50, 4, 5, 40), np.float32)
    result = drawn(DropoutOperation(0.3, by_channel=True), x)
    assert (result == result[:, :1, :1]).all()
    assert (result[:, 0, 0] == 0).mean() == pytest.approx(0.3, abs=0.03)
    assert set(np.unique(result)) == {0, np.float32(1 / 0.7)}


@pytest.mark.parametrize(
    ("operation", "mean", "spread"), [(GaussianNoiseOperation(0.5), 2, 0.5), (GaussianDropoutOperation(0.2), 2, 2 * 0.5)]
)
def test_noise_has_its_mean_and_spread_and_its_keys(operation: Noise, mean: float, spread: float) -> None:
    x = np.full((300, 200), 2, np.float32)
    result = drawn(operation, x)
    assert result.mean() == pytest.approx(mean, abs=0.02)
    assert result.std() == pytest.approx(spread, rel=0.02)
    assert np.array_equal(result, drawn(operation, x))
    for key, position in [((2, 0, 0, 0), 0), ((1, 1, 0, 0), 0), ((1, 0, 1, 0), 0), ((1, 0, 0, 1), 0), ((1, 0, 0, 0), 1)]:
        assert not np.array_equal(result, drawn(operation, x, key, position))
    assert np.array_equal(drawn(operation, x, training=False), x)


def sequences() -> list[layer.Layer]:
    """Layers in a row of which every new kind for sequences is one."""
    return [
        layer.ZeroPadding(1), layer.Conv1D(4, 3, padding="causal", dilation=2), layer.GroupNorm(2),
        layer.PReLU(shared_axes=[1]), layer.SpatialDropout(0.2), layer.UpSampling(2), layer.SeparableConv1D(6, 3),
        layer.Cropping(1), layer.Conv1DTranspose(4, 3, 2, "same"), layer.Activation("mish"), layer.DepthwiseConv1D(3),
        layer.GaussianNoise(0.1),
        layer.TimeDistributed(layer.Dense(6)), layer.GLU(), layer.RMSNorm(), layer.Lambda(scaled),
        layer.Bidirectional(layer.GRU(3, return_sequences=True)), layer.Permute((2, 1)), layer.GlobalMaxPool(),
        layer.GaussianDropout(0.1), layer.RepeatVector(2), layer.Bidirectional(layer.LSTM(2)), layer.Dense(3, "selu"),
        layer.Activation("softmax"),
    ]  # fmt: skip


def images() -> list[layer.Layer]:
    return [
        layer.ZeroPadding(((0, 1), (1, 0))), layer.SeparableConv2D(4, 3, activation="hard_swish"),
        layer.DepthwiseConv2D(3, 2, "same"), layer.Conv2DTranspose(4, 3, 2, "same"), layer.UpSampling(2, "bilinear"),
        layer.Cropping(2), layer.SpatialDropout(0.1),
        layer.GroupNorm(-1), layer.Conv2D(6, 3, dilation=2), layer.GlobalMaxPool(), layer.Dense(3, "softmax"),
    ]  # fmt: skip


def trained(layers: list[layer.Layer], shape: list[int], epochs: int, model: nn.model.Model | None = None) -> nn.model.Model:
    if model is None:
        model = nn.model.SequentialModel([-1, *shape], layers)
        model.compile("adam", "categorical_crossentropy", ["accuracy"])
    generator = np.random.default_rng(0)
    x, label = generator.random((24, *shape)), generator.integers(0, 3, 24)
    model.fit(x, label, epochs=epochs, batch_size=8, verbose=0)
    return model


@pytest.mark.parametrize(("make", "shape"), [(sequences, [8, 4]), (images, [8, 8, 2])])
def test_training_goes_on_from_a_file_bit_for_bit(make: Any, shape: list[int]) -> None:
    whole, first = trained(make(), shape, 3), trained(make(), shape, 1)
    back = nn.model.Model.from_bytes(first.to_bytes(), {"scaled": scaled})
    assert [type(each) for each in back.layers] == [type(each) for each in first.layers]
    trained([], shape, 2, back)
    assert all(map(np.array_equal, whole.get_weights(), back.get_weights()))
    x = np.random.default_rng(1).random((5, *shape))
    assert np.array_equal(whole.predict(x), back.predict(x))


def test_a_function_is_named_in_a_file_and_found_where_the_caller_says() -> None:
    model = nn.model.SequentialModel([-1, 3], [layer.Lambda(scaled), layer.Lambda(nn.function.square), layer.Dense(2)])
    model.setup("mse")
    content = model.to_bytes()
    described = registry.describe(model.layers[0]), registry.describe(model.layers[1])
    assert [each["config"]["function"] for each in described] == [{"function": "custom:scaled"}, {"function": "square"}]
    with pytest.raises(
        nn.model.ModelFileError, match=r"function 'scaled' is not part of nn; pass it as custom_objects=.'scaled'"
    ):
        nn.model.Model.from_bytes(content)
    with pytest.raises(nn.model.ModelFileError, match=r"expected a function, got .*Dense.* for 'custom:scaled'"):
        nn.model.Model.from_bytes(content, {"scaled": layer.Dense})
    described[1]["config"]["function"] = {"function": "__import__"}
    with pytest.raises(registry.UnknownClassError, match=r"no function of nn.function is named '__import__'"):
        registry.build(described[1], layer.Layer, {})
    x = np.ones((2, 3))
    assert np.array_equal(nn.model.Model.from_bytes(content, {"scaled": scaled}).predict(x), model.predict(x))
    with pytest.raises(TypeError, match="Lambda 'function' must have a name, by which model files refer to it, got a lambda"):
        layer.Lambda(lambda x: x)
    with pytest.raises(TypeError, match="Lambda 'function' must take one value, got lookup"):
        layer.Lambda(nn.function.lookup)
    with pytest.raises(TypeError, match="Lambda 'function' must be a function, got 3"):
        layer.Lambda(3)  # type: ignore[arg-type]


def test_wrapped_layers_are_frozen_named_and_counted_with_their_wrapper() -> None:
    wrapper = layer.Bidirectional(layer.LSTM(2, name="front"))
    wrapper.trainable = False
    model = nn.model.SequentialModel([-1, 5, 3], [wrapper, layer.Dense(2)])
    model.setup("mse")
    names = [variable.name for variable in model.store.everything]
    assert names[:2] == ["dense_1/kernel", "dense_1/bias"]
    assert {name.split("/")[0] for name in names[2:]} == {"front", "lstm_1"}
    assert [variable.name for variable in model.trainable_variables()] == ["dense_1/kernel", "dense_1/bias"]
    with pytest.raises(ValueError, match="Bidirectional 'backward_layer' must be another layer"):
        layer.Bidirectional(wrapper.layer, backward_layer=wrapper.layer)


def test_time_distributed_takes_sequences_of_any_length() -> None:
    def made(time: int | None) -> nn.model.Model:
        frames = layer.TimeDistributed(layer.Conv2D(2, 3, padding="same", activation="tanh"))
        layers = [frames, layer.TimeDistributed(layer.GlobalAveragePool()), layer.LSTM(3)]
        model = nn.model.SequentialModel([-1, time, 6, 6, 1], layers, seed=1)
        model.compile("adam", "mse")
        return model

    x, free = np.random.default_rng(0).random((5, 4, 6, 6, 1)), made(None)
    for time in (2, 4):
        known = made(time)
        assert np.array_equal(nn.model.Model.from_bytes(free.to_bytes()).predict(x[:, :time]), known.predict(x[:, :time]))
    for model in (free, known):
        model.fit(x, np.ones((5, 3)), epochs=3, batch_size=2, verbose=0)
    assert np.array_equal(free.store.values, known.store.values)
    with pytest.raises(ValueError, match=r"TimeDistributed: expected .*, all but batch and time known, got \(-1, 4, None, 2\)"):
        layer.TimeDistributed(layer.Dense(2))(Placeholder([-1, 4, None, 2]))


def test_cropping_takes_axes_of_any_length() -> None:
    x = nn.Input([-1, None, 2])
    model = nn.model.Model(x, layer.Cropping((1, 2))(x))
    for length in (4, 7):
        values = np.arange(4 * length, dtype=np.float32).reshape(2, length, 2)
        assert np.array_equal(model.predict(values), values[:, 1:-2])
    with pytest.raises(ValueError, match=r"leaves nothing of axis 1 of shape \(2, 3, 2\)"):
        model.predict(np.zeros((2, 3, 2)))


@pytest.mark.parametrize(
    ("made", "shape", "message"),
    [
        (layer.ZeroPadding(((1, 1), (1, 1))), (5, 2), "'padding' of sequences must be a number or a pair, before and behind"),
        (layer.Cropping(2), (4, 6, 1), "'cropping' must leave cells of axis 1, got 2 and 2 of 4"),
        (layer.Permute((2, 1)), (4,), r"'dims' \(2, 1\) fits inputs of 2 axes after the batch, got shape \(-1, 4\)"),
        (layer.RepeatVector(2), (4, 3), r"expected inputs of shape \(batch, features\), got \(-1, 4, 3\)"),
        (layer.Rescaling([1, 2]), (4, 3), r"'scale' has 2 numbers, expected one or one for each feature of shape \(-1, 4, 3\)"),
        (layer.UpSampling(2), (4,), "expected inputs of shape"),
        (layer.UpSampling(10**9, "bilinear"), (4, 2), "'bilinear' takes at most 16777216 weights along an axis"),
        (layer.GroupNorm(3), (4, 4), "'groups' must divide the 4 channels of the inputs, got 3"),
        (layer.GLU(), (3,), r"'axis' must name an axis of even length other than the batch, got -1 of \(-1, 3\)"),
        (layer.PReLU(shared_axes=[3]), (3, 2), r"'shared_axes' must name axes 1 to 2 of \(-1, 3, 2\), got \(3,\)"),
        (layer.TimeDistributed(layer.Dense(2)), (3,), r"expected inputs of shape \(batch, time, ...\)"),
        (layer.Bidirectional(layer.LSTM(2)), (3,), r"expected inputs of shape \(batch, time, features\)"),
        (layer.Conv2DTranspose(2), (4, 3), r"expected inputs of shape \(batch, height, width, channels\)"),
        (layer.Conv2DTranspose(2, 2, 1, 3), (4, 4, 1), "'padding' must leave cells of axis 1, got 3 for 5 of them"),
        (layer.SeparableConv2D(2), (4, 3), r"expected inputs of shape \(batch, height, width, channels\)"),
        (layer.SpatialDropout(), (3,), r"expected inputs of shape \(batch, time, channels\)"),
        (layer.GlobalMaxPool(), (3,), "expected inputs of shape"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, layer.Layer) else "",
)
def test_inputs_that_do_not_fit_are_told_in_the_name_of_the_layer(
    made: layer.Layer, shape: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=f"^{type(made).__name__}: (LSTM: )?{message}"):
        made(Placeholder([-1, *shape]))


def test_a_function_of_numpy_on_a_value_is_told_with_the_layer() -> None:
    def exponential(x: Any) -> Any:
        return np.exp(x)

    with pytest.raises(
        TypeError, match=r"^Lambda 'odd': a function of NumPy takes arrays, .*; nn.function has those of values$"
    ):
        layer.Lambda(exponential, name="odd")(Placeholder([-1, 3]))


def test_a_pool_of_sequences_takes_lists_of_one_length() -> None:
    """As Keras writes them: ``MaxPooling1D((3,), strides=(2,))``."""
    x = np.random.default_rng(0).normal(size=(2, 9, 4)).astype(np.float32)
    model, same = (nn.model.SequentialModel([-1, 9, 4], [layer.MaxPool(*given)]) for given in (((3,), (2,)), (3, 2)))
    for each in (model, same):
        each.setup("mse")
    assert np.array_equal(nn.model.Model.from_bytes(model.to_bytes()).predict(x), same.predict(x))
    with pytest.raises(ValueError, match=r"MaxPool.* 'size' must be one positive integer or 2 of them, got \[3\]"):
        layer.MaxPool((3,))(Placeholder([-1, 9, 9, 2]))


def test_subtract_takes_two_and_merging_refuses_shapes_that_do_not_fit() -> None:
    x = Placeholder([-1, 4])
    with pytest.raises(ValueError, match="Subtract: expected two values, got 3"):
        layer.Subtract()([x, x, x])
    with pytest.raises(ValueError, match=r"Multiply: shapes \(-1, 4\) and \(-1, 5, 3\) do not fit together"):
        layer.Multiply()([x, Placeholder([-1, 5, 3])])


@pytest.mark.parametrize(
    ("keras", "here"),
    [("MaxPooling1D", "nn.layer.MaxPool"), ("SpatialDropout1D", "nn.layer.SpatialDropout"), ("UpSampling2D", "nn.layer.UpS"),
     ("LeakyReLU", r"nn.layer.Activation\(nn.activation.LeakReLU\(\)\)"), ("GroupNormalization", "nn.layer.GroupNorm")],
)  # fmt: skip
def test_names_of_keras_are_answered(keras: str, here: str) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{keras}'; here it is {here}"):
        getattr(layer, keras)


def test_a_transposed_convolution_of_zeros_is_the_bias_exactly() -> None:
    """Rounding errors in place of zeros would pass a rectifier."""
    compiled = Compiled(layer.Conv2DTranspose(16, 3, bias_initializer="zeros"), (6, 6, 16), np.float32)
    assert not compiled.value(np.zeros((2, 6, 6, 16))).any()
