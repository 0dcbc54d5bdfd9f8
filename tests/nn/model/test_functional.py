"""Functional models: several inputs, outputs and losses, models within models, shared variables, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import nn
from nn.arrays import Array
from nn.layer import BatchNorm, Concatenate, Conv2D, Dense, Dropout, Flatten, Lambda, Layer, MaxPool, UpSampling
from nn.model import Functional, Model, ModelFileError, SequentialModel
from nn.random import keyed

DRAW = keyed(0, "functional")
TITLE, BODY = DRAW.random((96, 6)), DRAW.random((96, 5))
URGENT, KIND = (TITLE[:, :1] > 0.5) * 1, (BODY[:, 0] * 3).astype(int)
X, Y = [TITLE, BODY], [URGENT, KIND]


def two(dtype: str = "float32", *, compiled: bool = True, seed: int = 0) -> Functional:
    """Return a model of two inputs and two outputs, of which the first one goes into the second, too."""
    title, body = nn.Input([-1, 6], name="title"), nn.Input((5,), name="body")
    x = Concatenate()([Dense(4, "tanh")(title), Dense(4, "tanh")(body)])
    urgent = Dense(1, "sigmoid", name="urgent")(x)
    kind = Dense(3, "softmax", name="kind")(Concatenate()([x * 2 - 1, urgent]))
    model = Model([title, body], [urgent, kind], seed=seed, dtype=dtype)
    assert isinstance(model, Functional)
    if compiled:
        losses = ["binary_crossentropy", "categorical_crossentropy"]
        model.compile(nn.gradient_descent.ADAMOptimizer(0.02), losses, ["accuracy"], loss_weights={"urgent": 0.3})
    return model


def cross_entropies(outputs: list[Array]) -> tuple[float, float]:
    urgent, kind = outputs
    binary = -np.where(URGENT == 1, np.log(urgent), np.log(1 - urgent)).mean()
    return float(binary), float(-np.log(kind[np.arange(len(kind)), KIND]).mean())


class Around(Model):
    """A model of one's own around another one."""

    def __init__(self, inner: Model) -> None:
        super().__init__([-1, 6])
        self.inner = inner

    def call(self, x: Any) -> Any:
        return Dense(1)(self.inner(x))


def test_what_an_inner_model_adds_to_the_loss_is_part_of_the_whole() -> None:
    """As often as it is called, in models around these too, and again in a model from a file."""

    def encoder() -> Any:
        x = nn.Input((6,))
        code = Dense(3)(x)
        made: Any = Model(x, code)
        made.add_loss((code**2).sum(axis=1))
        return made

    def single(inner: Any) -> Any:
        x = nn.Input((6,))
        return Model(x, Dense(1)(inner(x)))

    def twice(inner: Any) -> Any:
        x = nn.Input((6,))
        return Model(x, Dense(1)(Concatenate()([inner(x), inner(x * 2)])))

    def deep(inner: Any) -> Any:
        x = nn.Input((6,))
        return Model(x, Dense(1)(single(inner)(x)))

    for around in (single, twice, deep, Around):
        inner = encoder()
        model: Any = around(inner)
        model.compile("sgd", "mse")
        penalty = sum(
            (inner.predict(factor * TITLE) ** 2).sum(axis=1).mean() for factor in ((1, 2) if around is twice else (1,))
        )
        found = model.evaluate(TITLE, URGENT)
        assert found["Loss"] == pytest.approx(((model.predict(TITLE) - URGENT) ** 2).mean() + penalty, rel=1e-5)
        if around is not Around:
            assert Model.from_bytes(model.to_bytes()).evaluate(TITLE, URGENT) == found
        model.fit(TITLE, URGENT * 0, epochs=2, verbose=0)
        assert (inner.predict(TITLE) ** 2).sum(axis=1).mean() < penalty


def test_a_model_stands_among_the_layers_of_a_sequential_one() -> None:
    """As a trained base under a new head: frozen, thawed, in files and copies, with the variables that it has."""
    x = nn.Input((6,))
    base: Any = Model(x, BatchNorm(name="norm")(Dense(4, "tanh", name="first")(x)), name="base")
    base.compile("adam", "mse")
    base.fit(TITLE, np.zeros((96, 4)), epochs=1, verbose=0)
    base.trainable = False
    whole = SequentialModel([-1, 6], [base, Dropout(0.1), Dense(1, name="head")])
    whole.compile("adam", "mse")
    before = base.get_weights()
    whole.fit(TITLE, URGENT, epochs=2, verbose=0)
    assert [variable.name for variable in whole.trainable_variables()] == ["head/kernel", "head/bias"]
    assert all(map(np.array_equal, before, base.get_weights()))
    again: Any = Model.from_bytes(whole.to_bytes())
    for other in (again, copy.deepcopy(whole)):
        assert other.to_bytes() == whole.to_bytes()
        assert np.array_equal(other.predict(TITLE), whole.predict(TITLE))
    again.layers[0].trainable = True
    again.compile("adam", "mse")
    again.fit(TITLE, URGENT, epochs=1, verbose=0)
    assert not np.array_equal(again.layers[0].get_weights()[0], before[0])
    assert np.array_equal(base.get_weights()[0], before[0])


def test_models_whose_layers_were_named_alike_stand_side_by_side() -> None:
    """As two towers that one function makes: `get_layer` of each goes on by the names that it was given."""

    def tower(seed: int) -> Model:
        entry = nn.Input([-1, 6])
        model = Model(entry, Dense(3, name="code")(Dense(4, "relu", name="wide")(entry)))
        model.seed = seed
        return model

    left, right = tower(1), tower(2)
    right.compile("sgd", "mse")
    before, codes = right.get_weights(), right.predict(TITLE)
    entries = [nn.Input([-1, 6]), nn.Input([-1, 6])]
    joined = nn.layer.Concatenate()([left(entries[0]), right(entries[1])])
    whole = Model(entries, Dense(1, name="code")(joined))
    whole.compile("adam", "mse")
    names = [variable.name for variable in whole.trainable_variables()]
    assert names[::2] == ["wide/kernel", "code_2/kernel", "wide_2/kernel", "code_3/kernel", "code/kernel"]
    assert all(map(np.array_equal, before, right.get_weights()))
    assert left.get_layer("code") is whole.get_layer("code_2")
    assert right.get_layer("code") is whole.get_layer("code_3")
    assert right.get_layer("code") is not whole.get_layer("code")
    assert np.array_equal(Model(right.input, right.output_of("code")).predict(TITLE), codes)
    again = Model.from_bytes(whole.to_bytes())
    assert np.array_equal(again.predict([TITLE, TITLE]), whole.predict([TITLE, TITLE]))
    with pytest.raises(ValueError, match="2 layers are named 'code'; names must differ within a model"):
        Model(entries, Dense(1, name="code")(Dense(1, name="code")(joined)))


def test_models_of_unnamed_layers_stand_side_by_side() -> None:
    """Each numbers its layers from 1; also one whose constructor has a shape of its own."""
    parts = [
        SequentialModel([-1, 6], [Dense(4, "relu")]),
        SequentialModel(layers=[Dense(6)]),
        nn.model.DNN([5], 3, None, [-1, 6]),
    ]
    whole = SequentialModel([-1, 6], [*parts, Dense(1)])
    whole.compile("adam", "mse")
    whole.fit(TITLE, URGENT, epochs=1, verbose=0)
    names = [variable.name for variable in whole.trainable_variables()]
    assert len(set(names)) == len(names) == 10
    again = Model.from_bytes(whole.to_bytes())
    assert np.array_equal(again.predict(TITLE), whole.predict(TITLE))
    assert [variable.name for variable in again.trainable_variables()] == names
    pair, heads = nn.Input((6,)), nn.Input((6,))
    for odd, text in (
        (Model([pair, heads], pair + heads), "must be a list, or a dict by name, of 2 parts"),
        (Model(pair, [Dense(1)(pair), Dense(2)(pair)]), "expected one value, got 2"),
        (SequentialModel([-1, 5], [Dense(1)]), r"got \(-1, 6\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            SequentialModel([-1, 6], [odd, Dense(1)]).setup("mse")  # type: ignore[list-item]


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_labels_of_the_one_output_with_a_loss_may_be_a_list_of_numbers(count: int) -> None:
    """Also of as many numbers as there are outputs: a list of parts has arrays, or None."""
    x = nn.Input([-1, 4])
    model = Model(x, [Dense(1, name="number")(x), Dense(3, name="rest")(x)])
    model.compile("sgd", {"number": "mse"})
    samples, numbers = DRAW.random((count, 4)), [float(number) for number in range(count)]
    expected = model.evaluate(samples, {"number": np.array(numbers)})
    assert model.evaluate(samples, numbers) == model.evaluate(samples, [np.array(numbers)]) == expected
    assert model.evaluate(samples, [np.array(numbers), None]) == expected


def test_classes_of_each_output_have_weights() -> None:
    """As weights of the samples: of two outputs, "balanced", and beside weights that are given besides."""
    counts = np.bincount(URGENT[:, 0])
    urgent = (len(URGENT) / (2 * counts))[URGENT[:, 0]]
    kind = np.array([2.0, 0.5, 1.0])[KIND]
    given: list[dict[str, Any]] = [
        {"class_weight": {"urgent": "balanced", "kind": {0: 2.0, 1: 0.5}}},
        {"sample_weight": [urgent, kind]},
        {"class_weight": {"kind": {0: 2.0, 1: 0.5}}, "sample_weight": [urgent, None]},
    ]
    found = []
    for options in given:
        model = two(dtype="float64")
        model.fit(X, Y, epochs=2, batch_size=32, verbose=0, **options)
        found.append(model.store.values.copy())
    plain = two(dtype="float64")
    plain.fit(X, Y, epochs=2, batch_size=32, verbose=0)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12)
    assert abs(found[0] - plain.store.values).max() > 1e-3


def test_several_inputs_outputs_losses_and_metrics() -> None:
    model = two()
    first, second = cross_entropies(model.predict(X))
    expected = {
        "Loss": 0.3 * first + second,
        "urgent_Loss": first,
        "kind_Loss": second,
        "urgent_accuracy": float(((model.predict(X)[0] > 0.5) == URGENT).mean()),
        "kind_accuracy": float((model.predict(X)[1].argmax(axis=1) == KIND).mean()),
    }
    assert model.evaluate(X, Y) == pytest.approx(expected, rel=1e-5)
    assert list(model.evaluate(X, Y, batch_size=7)) == list(expected)
    assert model.evaluate(X, Y, batch_size=7) == pytest.approx(expected, rel=1e-5)
    history = model.fit(X, Y, epochs=40, batch_size=16, validation_split=0.25, verbose=0)
    assert set(history.rows[-1]) == {"epoch", *expected, *(f"val_{name}" for name in expected)}
    assert history["Loss"][-1] < 0.6 * history["Loss"][0]
    assert history["urgent_accuracy"][-1] > 0.9


def test_names_and_orders_are_the_same() -> None:
    """Dicts by name, lists in order, arrays with fields, batches one by one."""
    model, other, third = two(), two(), two()
    by_name = {"body": BODY, "title": TITLE}, {"kind": KIND, "urgent": URGENT}
    assert model.evaluate(X, Y) == model.evaluate(*by_name)
    model.fit(X, Y, epochs=2, batch_size=96, shuffle=False, verbose=0)
    other.fit(*by_name, epochs=2, batch_size=96, shuffle=False, verbose=0)
    third.fit([(X, Y)], epochs=2, verbose=0)
    assert (model.store.values == other.store.values).all() and (model.store.values == third.store.values).all()
    joined = nn.dataset.ArrayDataset(by_name[0], by_name[1], by_name[0], by_name[1]).load()
    assert model.evaluate(joined[0], joined[1]) == model.evaluate(X, Y)
    named = Model(model.input, {"yes": model.output[0], "which": model.output[1]})
    assert list(named.predict(X)) == ["yes", "which"]
    assert (named.predict(X)["which"] == model.predict(X)[1]).all()
    assert (model(X)[0] == model.predict(X)[0]).all() and (model.predict_on_batch(X)[1] == model.predict(X)[1]).all()


def test_gradients_are_difference_quotients() -> None:
    """Of the weighted sum, where one output goes into the other, with weights of samples, in one random direction each."""
    model = two("float64")
    weights = {"urgent": DRAW.random(96), "kind": DRAW.random(96)}
    loss, outputs = model.compute_gradients(X, Y, sample_weight=weights)
    assert [output.shape for output in outputs] == [(96, 1), (96, 3)]
    gradient, values = model.store.gradients.copy(), model.store.values.copy()
    assert loss == pytest.approx(model.evaluate(X, Y, sample_weight=weights)["Loss"], rel=1e-12)
    for number in range(3):
        direction = keyed(number, "direction").standard_normal(values.shape)
        found = []
        for step in (1e-6, -1e-6):
            model.store.values[:] = values + step * direction
            found.append(model.evaluate(X, Y, sample_weight=weights)["Loss"])
        assert (found[0] - found[1]) / 2e-6 == pytest.approx(float(gradient @ direction), rel=1e-6)
    model.store.values[:] = values
    model.compute_gradients(X, Y, sample_weight=weights["urgent"])
    both = model.store.gradients.copy()
    model.compute_gradients(X, Y, sample_weight=[weights["urgent"]] * 2)
    assert (model.store.gradients == both).all()


def test_an_output_that_goes_on_is_not_overwritten() -> None:
    """Neither by an operation that works in place, nor in training, nor where two outputs are the same scores."""
    x = nn.Input([-1, 4])
    hidden = Dense(4)(x)
    scores = nn.layer.Activation("relu")(hidden)
    model = Model(x, [hidden, scores, hidden, x])
    data = DRAW.standard_normal((5, 4))
    kernel, bias = model.store.variables
    expected = data @ kernel.value + bias.value
    one, two, three, four = model.predict(data)
    np.testing.assert_allclose(one, expected, rtol=1e-5, atol=1e-6)
    assert (two == np.maximum(one, 0)).all() and (three == one).all()
    np.testing.assert_allclose(four, data, rtol=1e-6)
    same = Model(x, [hidden, nn.layer.Activation("softmax")(hidden)])
    same.compile("sgd", ["crossentropy_with_softmax", "categorical_crossentropy"])
    labels = np.arange(5) % 4
    results = same.evaluate(data, [labels, labels])
    first, second = (value for name, value in results.items() if name != "Loss")
    assert first == pytest.approx(second, rel=1e-6)
    _, outputs = same.compute_gradients(data, [labels, labels])
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(outputs[1].sum(axis=1), 1, rtol=1e-5)


def test_an_output_without_a_loss_is_not_trained() -> None:
    model = two(compiled=False)
    model.compile("sgd", {"urgent": "binary_crossentropy"}, {"urgent": ["accuracy", "auc"]})
    assert model.loss[1] is None
    before = model.get_layer("kind").variables[0].get_value()
    for labels in (URGENT, [URGENT], Y, {"urgent": URGENT}, {"urgent": URGENT, "kind": KIND}):
        results = model.fit(X, labels, epochs=1, verbose=0).rows[-1]
    assert set(results) == {"epoch", "Loss", "urgent_Loss", "urgent_accuracy", "urgent_auc"}
    assert (model.get_layer("kind").variables[0].value == before).all()
    assert len(model.predict(X)) == 2
    again = Model.from_bytes(model.to_bytes())
    assert again.evaluate(X, URGENT) == model.evaluate(X, URGENT)


@pytest.mark.parametrize(
    "again", [lambda model: Model.from_bytes(model.to_bytes()), copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))]
)
def test_files_and_copies_go_on_with_equal_bits(again: Callable[[Functional], Functional]) -> None:
    model = two(seed=5)
    model.fit(X, Y, epochs=2, batch_size=10, verbose=0)
    other = again(model)
    assert all(map(np.array_equal, other.predict(X), model.predict(X)))
    for each in (model, other):
        each.fit(X, Y, epochs=2, batch_size=10, verbose=0)
    assert model.fit_history().rows == other.fit_history().rows
    assert (model.store.values == other.store.values).all()
    assert [variable.name for variable in other.store.everything] == [variable.name for variable in model.store.everything]


def test_operations_of_expressions_stand_in_files() -> None:
    x, y = nn.Input([-1, 3, 4]), nn.Input([-1, 4])
    value = (x[:, ::-1, [2, 0, 1, 1]] * [1.0, 2.0, 3.0, 4.0] + 0.5).transpose(0, 2, 1).reshape(-1, 12)[..., 1:]
    value = nn.function.where(value > 0.7, value, nn.function.concatenate([y, y**2, y.exp()])[:, :11]) / 3 - y.sum(
        axis=1, keepdims=True
    )
    model = Model([x, y], nn.function.maximum(value, 0.1).max(axis=1, keepdims=True))
    data = [DRAW.random((5, 3, 4)), DRAW.random((5, 4))]
    model.setup("mse")
    assert (Model.from_bytes(model.to_bytes()).predict(data) == model.predict(data)).all()


def autoencoder() -> tuple[Functional, Functional, Functional]:
    x, code = nn.Input([-1, 12]), nn.Input([-1, 3])
    encoder = Model(x, BatchNorm()(Dense(3, "tanh")(Dense(8, "relu")(x))), name="encoder")
    decoder = Model(code, Dense(12)(Dense(8, "relu")(code)), name="decoder")
    return encoder, decoder, Model(x, decoder(encoder(x)))


@pytest.mark.parametrize("first", ["whole", "parts", "predictions"])
def test_encoder_decoder_and_whole_are_one_memory(first: str) -> None:
    """In whichever order they get their variables, what was trained stays, and each sees what another learns."""
    encoder, decoder, whole = autoencoder()
    data = DRAW.random((64, 12))
    if first == "parts":
        for part, x, y in ((encoder, data, data[:, :3]), (decoder, data[:, :3], data)):
            part.compile("adam", "mse")
            part.fit(x, y, epochs=2, verbose=0)
    if first == "predictions":
        decoder.predict(encoder.predict(data))
    before = None if first == "whole" else decoder.predict(encoder.predict(data))
    whole.compile("adam", "mse")
    assert before is None or np.array_equal(whole.predict(data), before)
    history = whole.fit(data, data, epochs=5, verbose=0)
    assert history["Loss"][-1] < history["Loss"][0]
    for part in (encoder, decoder):
        assert np.shares_memory(part.store.values, whole.store.values)
        assert np.shares_memory(part.store.gradients, whole.store.gradients)
    assert np.shares_memory(encoder.store.buffer_values, whole.store.buffer_values)
    assert np.array_equal(decoder.predict(encoder.predict(data)), whole.predict(data))
    encoder.compile("adam", "mse")
    encoder.fit(data, data[:, :3], epochs=1, verbose=0)
    assert np.array_equal(decoder.predict(encoder.predict(data)), whole.predict(data))
    assert [layer.name for layer in decoder.layers] == ["dense_3", "dense_4"]
    alone = copy.deepcopy(whole)
    alone.fit(data, data, epochs=1, verbose=0)
    assert not np.array_equal(alone.predict(data), whole.predict(data))
    assert np.array_equal(decoder.predict(encoder.predict(data)), whole.predict(data))


def test_models_that_alternate_train_their_own_part_only() -> None:
    """A generator and a discriminator, as in a GAN: the second is frozen in the model of both, and learns by itself."""
    noise, point = nn.Input([-1, 4]), nn.Input([-1, 2])
    generator = Model(noise, Dense(2)(BatchNorm()(Dense(16, "relu")(noise))), name="generator")
    discriminator = Model(point, Dense(1, "sigmoid")(Dropout(0.1)(Dense(16, "leaky_relu")(point))), name="discriminator")
    discriminator.compile(nn.gradient_descent.ADAMOptimizer(0.01), "binary_crossentropy", ["accuracy"])
    discriminator.trainable = False
    both = Model(noise, discriminator(generator(noise)))
    both.compile(nn.gradient_descent.ADAMOptimizer(0.01), "binary_crossentropy")
    assert {variable.name for variable in both.store.variables} <= {each.name for each in generator.graph.variables}
    draw = keyed(1, "gan")
    for step in range(400):
        real, fake = draw.normal([3, -1], 0.3, (32, 2)), generator.predict(draw.normal(size=(32, 4)))
        held = [generator.get_weights(), discriminator.get_weights()]
        results = discriminator.train_on_batch(np.concatenate([real, fake]), np.repeat([[1.0], [0.0]], 32, axis=0))
        assert set(results) == {"Loss", "accuracy"}
        if step < 3:
            assert all(map(np.array_equal, held[0], generator.get_weights()))
            assert not np.array_equal(held[1][0], discriminator.get_weights()[0])
        held = [generator.get_weights(), discriminator.get_weights()]
        both.train_on_batch(draw.normal(size=(32, 4)), np.ones((32, 1)))
        if step < 3:
            assert all(map(np.array_equal, held[1], discriminator.get_weights()))
            assert not np.array_equal(held[0][0], generator.get_weights()[0])
    assert np.abs(generator.predict(draw.normal(size=(500, 4))).mean(axis=0) - [3, -1]).max() < 0.8
    with pytest.raises(ValueError, match=r"another compile\(\) or setup\(\): 'dense_3/kernel' was frozen after the last one"):
        discriminator.fit(real, np.ones((32, 1)), verbose=0)


class Sample(Layer):
    """A draw from a normal distribution of this mean and logarithm of the variance."""

    several = True

    def call(self, x: list[nn.Value]) -> nn.Value:
        mean, log_variance = x
        return mean + nn.function.exp(log_variance * 0.5) * nn.function.normal(mean)


def variational(loss: str | None) -> Functional:
    x = nn.Input([-1, 16])
    hidden = Dense(12, "relu")(x)
    mean, log_variance = Dense(2)(hidden), Dense(2)(hidden)
    output = Dense(16, "sigmoid")(Dense(12, "relu")(Sample()([mean, log_variance])))
    model = Model(x, output, seed=2, dtype="float64")
    model.add_loss((log_variance + 1 - mean**2 - log_variance.exp()).sum(axis=1) * -0.05)
    if loss is None:
        model.add_loss(((x - output) ** 2).mean())
    model.compile("adam", loss)
    return model


def test_a_variational_autoencoder_adds_its_losses() -> None:
    data = (DRAW.random((120, 1)) > DRAW.random((1, 16))) * 1.0
    alone, beside = variational(None), variational("mse")
    assert alone.evaluate(data)["Loss"] == pytest.approx(beside.evaluate(data, data)["Loss"], rel=1e-6)
    alone.fit(data, epochs=30, batch_size=20, verbose=0)
    beside.fit(data, data, epochs=30, batch_size=20, verbose=0)
    for history in (alone.fit_history(), beside.fit_history()):
        assert history["Loss"][-1] < 0.8 * history["Loss"][0]
    again = Model.from_bytes(alone.to_bytes(), {"Sample": Sample})
    assert again.evaluate(data) == alone.evaluate(data)
    assert alone.evaluate(data, batch_size=7)["Loss"] == pytest.approx(alone.evaluate(data)["Loss"], rel=1e-5)
    assert (alone.predict(data) == alone.predict(data)).all()  # the mean, and no draw
    key = (2, 0, 0, 0)
    first = beside.compute_gradients(data, data, key=key)[0]
    assert beside.compute_gradients(data, data, key=(2, 0, 1, 0))[0] != first
    assert beside.compute_gradients(data, data, key=key)[0] == first


def test_gradients_of_added_losses() -> None:
    x = nn.Input([-1, 3])
    hidden = Dense(4, "tanh")(x)
    model = Model(x, Dense(2)(hidden), dtype="float64")
    model.add_loss((hidden**2).sum(axis=1) * 0.3)
    model.add_loss((hidden * hidden * hidden).mean() * 0.2)
    model.setup("mse")
    data, labels = DRAW.random((6, 3)), DRAW.random((6, 2))
    model.compute_gradients(data, labels)
    gradient, values = model.store.gradients.copy(), model.store.values.copy()
    direction = keyed(3, "direction").standard_normal(values.shape)
    found = []
    for step in (1e-6, -1e-6):
        model.store.values[:] = values + step * direction
        found.append(model.evaluate(data, labels)["Loss"])
    assert (found[0] - found[1]) / 2e-6 == pytest.approx(float(gradient @ direction), rel=1e-7)


def test_a_siamese_network_shares_its_tower() -> None:
    """Also one that is a sequential model; the same variables are used twice, and their gradients add up."""
    tower = SequentialModel([-1, 6], [Dense(8, "relu"), Dense(4)])
    a, b = nn.Input([-1, 6]), nn.Input([-1, 6])
    distance = Lambda(nn.function.sqrt)(((tower(a) - tower(b)) ** 2).sum(axis=1, keepdims=True) + 1e-6)
    model = Model([a, b], Dense(1, "sigmoid")(distance))
    model.compile(nn.gradient_descent.ADAMOptimizer(0.02), "binary_crossentropy", ["accuracy"])
    assert len(model.store.variables) == 6
    right = np.where(DRAW.random((96, 1)) < 0.5, TITLE, TITLE[::-1])
    same = (right == TITLE).all(axis=1) * 1.0
    model.fit([TITLE, right], same, epochs=60, batch_size=32, verbose=0)
    assert model.evaluate([TITLE, right], same)["accuracy"] > 0.95
    first, bias, second, offset = (each.value for each in tower.graph.variables)
    np.testing.assert_allclose(tower(TITLE), np.maximum(TITLE @ first + bias, 0) @ second + offset, rtol=1e-4, atol=1e-5)


def digits() -> tuple[Array, Array]:
    train_x, train_y, _, _ = nn.dataset.Digits().load()
    return train_x[:400, ..., None] / 16 if train_x.max() <= 16 else train_x[:400, ..., None] / 255, train_y[:400]


@pytest.mark.long
def test_a_residual_network_learns_digits() -> None:
    x, y = digits()
    image = nn.Input(x.shape[1:])
    value = Conv2D(8, 3, padding="same", activation="relu")(image)
    for _ in range(2):
        inner = BatchNorm()(Conv2D(8, 3, padding="same", activation="relu")(value))
        value = nn.layer.Add()([value, Conv2D(8, 3, padding="same")(inner)])
        value = nn.layer.Activation("relu")(value)
    model = Model(image, Dense(10, "softmax")(nn.layer.GlobalAveragePool()(value)))
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01), "categorical_crossentropy", ["accuracy"])
    history = model.fit(x, y, epochs=12, batch_size=40, verbose=0)
    assert history["accuracy"][-1] > 0.85


def test_a_u_net_finds_the_strokes_of_noisy_digits() -> None:
    x, _ = digits()
    mask = (x > 0.4) * 1.0
    noisy = np.clip(x + keyed(0, "noise").normal(0, 0.2, x.shape), 0, 1)
    image = nn.Input(x.shape[1:])
    high = Conv2D(8, 3, padding="same", activation="relu")(image)
    low = Conv2D(16, 3, padding="same", activation="relu")(MaxPool(2)(high))
    joined = Concatenate()([UpSampling(2)(low), high])
    model = Model(image, Conv2D(1, 1, activation="sigmoid")(Conv2D(8, 3, padding="same", activation="relu")(joined)))
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01), "binary_crossentropy")
    model.fit(noisy, mask, epochs=5, batch_size=40, verbose=0)
    assert ((model.predict(noisy) > 0.5) == mask).mean() > 0.93


def test_pictures_and_summaries_name_inputs(capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
    model = two()
    text = str(model.summary())
    capsys.readouterr()
    for part in ("title", "body", "urgent (Dense)", "kind (Dense)"):
        assert part in text
    model.plot(tmp_path / "model.svg")
    assert all(name in (tmp_path / "model.svg").read_text() for name in ("title", "body", "urgent"))


def test_weights_move_between_equal_models(tmp_path: Any) -> None:
    model, other = two(seed=1), two(seed=2)
    model.save_weights(tmp_path / "w.tensors")
    other.load_weights(tmp_path / "w.tensors")
    assert all(map(np.array_equal, model.predict(X), other.predict(X)))


def test_plans_of_many_lengths_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    model = two()
    monkeypatch.setattr(nn.model.runner, "KEPT_BYTES", 1)
    for samples in range(1, 20):
        model.test_on_batch([part[:samples] for part in X], [part[:samples] for part in Y])
    assert len(model.runner._compiled) == nn.model.runner.LEAST_KEPT


def forged(change: Callable[[str], str]) -> Model:
    model = two()
    values, metadata = nn.tensor_files.parse(model.to_bytes())
    return Model.from_bytes(nn.tensor_files.dump(values, {"format": metadata["format"], "config": change(metadata["config"])}))


A, B = nn.Input([-1, 6], name="a"), nn.Input([-1, 4], name="b")


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda: Model([A], Dense(2)(Concatenate()([A, B]))), ValueError,
         r"depend on the input 'b' of shape \(-1, 4\), which is not among 'inputs'"),
        (lambda: Model([A, B], Dense(2)(A)), ValueError, "'inputs' must be values that the outputs depend on, .* on 'b'"),
        (lambda: Model(Dense(2)(A), Dense(2)(A)), TypeError, "'inputs' must be values of nn.Input, got .*an output only"),
        (lambda: Model([A, A], Dense(2)(A)), ValueError, "'inputs' must be different values, got one twice"),
        (lambda: Model(A), TypeError, "Model needs the argument 'outputs'; its arguments are inputs, outputs, name"),
        (lambda: Model(A, Dense(2)(A), nme="a"), TypeError, "Model has no argument 'nme', .*; did you mean 'name'"),
        (lambda: Model([], Dense(2)(A)), ValueError, "'inputs' must hold at least one nn.Input, got none"),
        (lambda: Model(A, []), ValueError, "'outputs' must hold at least one value, got none"),
        (lambda: Model(A, A.sum()), ValueError, r"'outputs' must be one per sample, \(-1, ...\), got shape \(\)"),
        (lambda: Model(A, 3), TypeError, "'outputs' must be values that layers have given, got 3"),
        (lambda: Model(A, Dense(2)(A), name="a/b"), ValueError, "'name' must be a non-empty text without '/', got 'a/b'"),
        (lambda: nn.Input(3), TypeError, "Input 'shape' must be a list"),
        (lambda: two()(nn.Input([-1, 6])), TypeError,
         "'x' must be a list, or a dict by name, of 2 parts, title, body, got Placeholder"),
        (lambda: two()([B, A]), ValueError, r"Functional: input 'title' must be a value of shape \(-1, 6\), got \(-1, 4\)"),
        (lambda: two()(X, training=True), ValueError, r"'training' must be False, got True"),
        (lambda: nn.layer.Add()([Dense(3)(A), Dense(4)(A)]), ValueError, "Add: .*3.*4"),
        (lambda: two().predict(TITLE), TypeError,
         "must be a list, or a dict by name, of 2 parts, title, body, got ndarray of shape"),
        (lambda: two().predict([TITLE]), ValueError, "must have 2 parts, title, body, got 1"),
        (lambda: two().predict({"title": TITLE}), ValueError, "a part for each of title, body, got none for 'body'"),
        (lambda: two().predict({"title": TITLE, "body": BODY, "boddy": BODY}), ValueError, "got 'boddy'; did you mean 'body'"),
        (lambda: two().predict([BODY, TITLE]), ValueError,
         r"input 'title' 'x' must have the model's input shape \(-1, 6\), got \(96, 5\): axis 1 must have length 6"),
        (lambda: two().predict([TITLE, BODY[:5]]), ValueError,
         "as many samples for each input, got 96 for 'title' and 5 for 'body'"),
        (lambda: two().predict([TITLE, np.where(BODY > 0.99, np.nan, BODY)]), ValueError, r"has nan at x\['body'\]\["),
        (lambda: two().fit(X, Y[:1], verbose=0), ValueError, "'label' must have 2 parts, urgent, kind, got 1"),
        (lambda: two().fit(X, [URGENT, KIND + 1], verbose=0), ValueError, "output 'kind': .* must lie in 0..2"),
        (lambda: two().setup(["mse"]), ValueError, "one loss, or None, for each of the 2 outputs, urgent, kind, got 1"),
        (lambda: two().setup({"urgnt": "mse"}), ValueError, "got 'urgnt'; did you mean 'urgent'"),
        (lambda: two().setup([None, None]), ValueError, "must be a loss, or its word, for at least one output, got None"),
        (lambda: two().setup(["categorical_crossentropy"] * 2), ValueError, "output 'urgent': .*Cross_Entropy compares the"),
        (lambda: two().setup("mse", {"kin": ["mae"]}), ValueError, "those of urgent, kind, got 'kin'; did you mean 'kind'"),
        (lambda: two().setup("mse", loss_weights=2), TypeError, "'loss_weights' must be a list or a dict .* got 2"),
        (lambda: two().setup("mse", loss_weights=[1, -1]), ValueError, r"loss_weights\[kind\]' must be a number >= 0, got -1"),
        (lambda: two().compile("sgd", loss_weights=[1, 1]), ValueError, "'loss_weights' must come with a 'loss'"),
        (lambda: two().fit(X, Y, class_weight={0: 2}, verbose=0), ValueError,
         "must map outputs, urgent, kind, to the weights of their"),
        (lambda: two().fit(X, Y, class_weight={"kin": {0: 2}}, verbose=0), ValueError,
         "got 'kin'; did you mean 'kind'"),
        (lambda: two().fit(X, Y, class_weight={"kind": {5: 2}}, verbose=0), ValueError,
         "classes of the model, 0 to 2, got 5"),
        (lambda: two().fit(X, Y, class_weight={"kind": 2}, verbose=0), TypeError,
         "must map class numbers to weights, got int"),
        (lambda: two().get_layer("kinds"), ValueError, "must be one of .*kind, got 'kinds'; did you mean 'kind'"),
        (lambda: two().split("urgent"), ValueError, "split.. cuts models of one input and one output, got 2 and 2"),
        (lambda: two().add_loss(A.sum(axis=1)), ValueError, "must come before compile"),
        (lambda: two(compiled=False).add_loss(A), ValueError,
         r"one number for each sample or for the batch, got shape \(-1, 6\)"),
        (lambda: two(compiled=False).add_loss(A.sum(axis=1)), ValueError, "depend on the input 'a'"),
        (lambda: forged(lambda text: text.replace('"calls":[[', '"calls":[[3],[')), ModelFileError, "'calls' must be pairs"),
        (lambda: forged(lambda text: text.replace("[-1]", "[77]", 1)), ModelFileError,
         "must take results of earlier calls, got 77"),
        (lambda: forged(lambda text: text.replace('["Multiply",[]]', '["Reshape",[["shap",3]]]')), ModelFileError,
         "Reshape takes shape"),
        (lambda: forged(lambda text: text.replace('["Multiply",[]]', '["lazily",[]]')), ModelFileError,
         "must name operations of nn"),
        (lambda: forged(lambda text: text.replace('"metrics":[0,1]', '"metrics":[0,7]')), ModelFileError,
         "must number outputs, got 7"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_named(use: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        use()


def test_heads_on_one_trunk_that_cannot_share_say_so() -> None:
    x = nn.Input([-1, 4])
    trunk = Dense(3)(x)
    first, second = Model(x, Dense(2)(trunk)), Model(x, Dense(2)(trunk))
    first.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"would not lie side by side .* one model that has all of them"):
        second.compile("sgd", "mse")
    both = Model(x, [first.output, second.output])
    both.compile("sgd", "mse")
    first.fit(np.ones((2, 4)), np.ones((2, 2)), epochs=1, verbose=0)


def test_variables_outside_of_layers_are_not_for_files() -> None:
    x = nn.Input([-1, 4])
    model = Model(x, x @ nn.Variable([4, 2]))
    model.compile("sgd", "mse")
    model.fit(np.ones((2, 4)), np.ones((2, 2)), epochs=1, verbose=0)
    with pytest.raises(TypeError, match="variable 'variable_1' outside of one; make it a variable of a layer"):
        model.to_bytes()


def test_flat_and_conv_inputs_join() -> None:
    """A picture and a row of numbers, as in models of several kinds of data."""
    picture, numbers = nn.Input((8, 8, 1), name="picture"), nn.Input((3,), name="numbers")
    seen = Flatten()(MaxPool(2)(Conv2D(4, 3, activation="relu")(picture)))
    model = Model({"picture": picture, "numbers": numbers}, Dense(1)(Concatenate()([seen, numbers])))
    model.compile("adam", "mse", ["mae"])
    data = {"numbers": DRAW.random((30, 3)), "picture": DRAW.integers(0, 255, (30, 8, 8, 1), np.uint8)}
    history = model.fit(data, data["numbers"].sum(axis=1), epochs=3, validation_split=0.2, verbose=0)
    assert "val_Loss" in history.rows[-1] and len(history.rows) == 3
