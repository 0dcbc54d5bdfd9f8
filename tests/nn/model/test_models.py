"""The networks that come ready made: their sizes as published, their shapes, what they refuse, and files of them."""

import math

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.gradient_descent import ADAMOptimizer
from nn.loss import Cross_Entropy_With_Softmax
from nn.model import DNN, AlexNet, LeNet5, Model, ResNet20, Transformer
from nn.random import keyed

READY = {
    "DNN": lambda: DNN([12], input_shape=[-1, 8, 8], activation=nn.activation.ReLU()),
    "LeNet5": lambda: LeNet5(max_pool=True, activation=nn.activation.ReLU()),
    "AlexNet": lambda: AlexNet(classes=4),
    "ResNet20": lambda: ResNet20(shortcut="B", input_shape=[-1, 8, 8, 3]),
    "Transformer": lambda: Transformer(11, 6, features=8, heads=2, blocks=1, dropout=0.1),
    "rotary Transformer": lambda: Transformer(11, 6, features=8, heads=2, blocks=1, rotary=True, tied=True),
}


def data(model: Model, count: int = 6) -> tuple[Array, Array]:
    """Return samples and labels that fit a model."""
    shape = (count, *(model.input_shape or ())[1:])
    generator = keyed(0, "models")
    if isinstance(model, Transformer):
        return generator.integers(0, model.vocabulary, shape), generator.integers(0, model.vocabulary, shape)
    return generator.random(shape, np.float32), generator.integers(0, 4, count)


def ready(make) -> Model:
    model = make()
    model.setup(Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(ADAMOptimizer(1e-3))
    return model


def parameters(model: Model) -> tuple[int, int]:
    """Return how many numbers are trained, and how many others there are."""
    model.setup(Cross_Entropy_With_Softmax())
    trained = sum(variable.value.size for variable in model.store.variables)
    return trained, sum(variable.value.size for variable in model.store.everything) - trained


@pytest.mark.parametrize(
    ("make", "trained", "other"),
    [
        (DNN, 784 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10, 0),
        (lambda: DNN([], classes=2, input_shape=[-1, 3]), 8, 0),
        (LeNet5, 61_706, 0),
        (lambda: LeNet5(input_shape=[-1, 32, 32, 1], max_pool=True), 61_706, 0),
        (AlexNet, 2_472_266, 0),
        (ResNet20, 269_722, 1_376),
        (lambda: ResNet20(shortcut="B"), 272_474, 1_568),
        (lambda: ResNet20(100), 275_572, 1_376),
        (lambda: Transformer(96, 64), 64 * (96 + 64) + 2 * (12 * 64**2 + 13 * 64) + 2 * 64 + 65 * 96, 0),
        (lambda: Transformer(96, 64, rotary=True, tied=True), 64 * 96 + 2 * (12 * 64**2 + 13 * 64) + 2 * 64, 0),
    ],
    ids=[
        "DNN",
        "DNN without hidden layers",
        "LeNet5",
        "LeNet5 32x32",
        "AlexNet",
        "ResNet20 A",
        "B",
        "100",
        "Transformer",
        "rotary and tied",
    ],
)
def test_the_numbers_of_parameters_are_the_published_ones(make, trained, other):
    model = make()
    assert parameters(model) == (trained, other)
    assert f"Trainable parameters: {trained:,} " in model.summary()


@pytest.mark.parametrize("kind", READY)
@pytest.mark.share(3)
def test_it_trains_by_its_seed_and_a_file_of_it_goes_on_bit_for_bit(kind):
    model, equal = ready(READY[kind]), ready(READY[kind])
    x, y = data(model)
    first, output = model.evaluate(x, y)["Loss"], model.predict(x)
    if isinstance(model, Transformer):
        assert output.shape == (6, 6, 11)
        assert first == pytest.approx(math.log(11), rel=0.2)  # nothing learned, nothing known
    else:
        assert output.shape == (6, model.get_config()["classes"])
        np.testing.assert_allclose(output.sum(axis=1), 1, rtol=1e-5)
    for each in (model, equal):
        each.fit(x, y, epoch=2, batch_size=4, verbose=0)
    assert np.array_equal(equal.store.values, model.store.values)
    again = Model.from_bytes(model.to_bytes())
    assert type(again) is type(model)
    assert again.get_config().keys() == model.get_config().keys() and repr(again) == repr(model)
    for each in (model, again):
        each.fit(x, y, epoch=4, batch_size=4, verbose=0)
    assert again.to_bytes() == model.to_bytes()
    assert model.evaluate(x, y)["Loss"] != first
    assert np.isfinite(model.store.values).all()


CUTS = {"LeNet5": "maxpool_1", "AlexNet": "conv2d_3", "ResNet20": "add_4", "Transformer": "add_2"}


@pytest.mark.parametrize("kind", CUTS)
def test_it_can_be_cut_in_two(kind):
    """The residual sums are layers, so networks with branches have places to cut as well."""
    model = ready(READY[kind])
    x, y = data(model)
    front, back = model.split(CUTS[kind])
    key = (0, 0, 0, 0)
    loss, _ = model.compute_gradients(x, y, key=key)
    found, _ = back.compute_gradients(front.forward(x, key).copy(), y, key=key)
    front.backward(back.input_gradient)
    for part in (model, front, back):
        part.apply_gradients()
    assert found == loss
    weights = {variable.name: variable.value for part in (front, back) for variable in part.store.everything}
    assert all(np.array_equal(weights.pop(variable.name), variable.value) for variable in model.store.everything)
    assert not weights


@pytest.mark.parametrize("rotary", [False, True])
def test_what_follows_cannot_be_seen(rotary):
    """Position i of the transformer depends on 0 to i, and on each of them."""
    model = ready(lambda: Transformer(11, 6, features=8, heads=2, rotary=rotary, tied=rotary))
    x = data(model, 1)[0]
    before = model.predict(x)[0].copy()
    for place in range(6):
        other = x.copy()
        other[0, place] = (other[0, place] + 1) % 11
        after = model.predict(other)[0]
        assert np.array_equal(after[:place], before[:place])
        assert (after[place:] != before[place:]).any(axis=1).all()


def test_the_shortcut_without_parameters_is_every_second_pixel_and_zeros():
    """With a last gamma of 0 in each block, as nothing but the shortcut is left."""
    model = ready(lambda: ResNet20(input_shape=[-1, 8, 8, 3]))
    values = {variable.name: variable for variable in model.store.everything}
    for place in range(3, 20, 2):
        values[f"batchnorm_{place}/gamma"].set_value(np.zeros_like(values[f"batchnorm_{place}/gamma"].value))
    x, _ = data(model)
    first = model.split("batchnorm_1")[0].predict(x)
    features = model.split("globalaveragepool_1")[0].predict(x)
    np.testing.assert_allclose(features[:, :16], np.maximum(first, 0)[:, ::4, ::4].mean(axis=(1, 2)), rtol=1e-5)
    assert (features[:, 16:] == 0).all()


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: DNN([0]), "DNN 'units' must be a list of positive integers, got \\[0\\]"),
        (lambda: DNN(classes=0), "DNN 'classes' must be a positive integer, got 0"),
        (lambda: DNN(activation=nn.activation.Tanh), "DNN 'activation' must be an instance of Activation, got the class"),
        (lambda: LeNet5(max_pool=1), "LeNet5 'max_pool' must be an instance of bool, got int 1"),
        (lambda: AlexNet(dropout=1), "AlexNet 'dropout' must be a number >= 0 and < 1, got 1"),
        (lambda: ResNet20(shortcut="C"), "ResNet20 'shortcut' must be one of A, B, got 'C'"),
        (lambda: Transformer(0, 8), "Transformer 'vocabulary' must be a positive integer, got 0"),
        (lambda: Transformer(8, 8, 64, 5), "Transformer 'features' must be a multiple of the 5 heads, got 64"),
        (lambda: Transformer(8, 8, 15, 5, rotary=True), "must be an even multiple of the 5 heads with 'rotary', got 15"),
        (lambda: Transformer(8, 8, rotary=1), "Transformer 'rotary' must be True or False, got 1"),
        (lambda: Transformer(8, 8, blocks=0), "Transformer 'blocks' must be a positive integer, got 0"),
        (lambda: Transformer(8, 8, dropout=1.5), "Transformer 'dropout' must be a number >= 0 and < 1, got 1.5"),
        (lambda: ready(lambda: Transformer(8, 8, input_shape=[-1, 7])), r"takes ids of shape \(batch, 8\), got \(-1, 7\)"),
        (
            lambda: ready(lambda: LeNet5(input_shape=[-1, 64, 64, 1])),
            r"LeNet5 takes square images \(batch, side, side, channels\) with an even side of at most 32, got \(-1, 64, 64",
        ),
        (lambda: ready(lambda: LeNet5(input_shape=[-1, 28, 28])), r"LeNet5 takes square images .* got \(-1, 28, 28\)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(make, text):
    with pytest.raises((TypeError, ValueError), match=text):
        make()
