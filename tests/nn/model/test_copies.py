"""`copy.deepcopy` and `pickle` of models: independent, and as good as the original."""

import copy
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import nn
from nn.model import Model
from tests.nn.model.models import Line, classifier, samples

X, Y = samples(60)

COPIES: dict[str, Callable[[Model], Model]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),  # type: ignore[no-any-return]
    "of a copy": lambda model: pickle.loads(pickle.dumps(copy.deepcopy(model))),  # type: ignore[no-any-return]
}

copied = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


def normalised() -> nn.model.SequentialModel:
    """Return a model with statistics, a frozen layer and dropout."""
    frozen = nn.layer.Dense(8, activation=nn.activation.Tanh())
    frozen.trainable = False
    layers = [frozen, nn.layer.BatchNorm(), nn.layer.Dropout(0.3), nn.layer.Dense(3, activation=nn.activation.Softmax())]
    model = nn.model.SequentialModel([-1, 8], layers)
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    return model


@copied
@pytest.mark.parametrize("epochs", [0, 2], ids=["before fit", "after fit"])
@pytest.mark.parametrize("build", [normalised, lambda: classifier(dropout=0.2, dtype="float64")], ids=["normalised", "float64"])
def test_a_copy_trains_on_alone_as_the_original_would(
    build: Callable[[], Model], epochs: int, duplicate: Callable[[Model], Model]
) -> None:
    model = build()
    model.fit(X, Y, epoch=epochs, batch_size=16, verbose=0, seed=3)
    content = model.to_bytes()
    made, loaded = duplicate(model), Model.from_bytes(content)
    assert type(made) is type(model)
    assert made.to_bytes() == content
    for each in (made, loaded):
        each.fit(X, Y, epoch=2, batch_size=16, verbose=0)
    assert made.to_bytes() == loaded.to_bytes()
    assert model.to_bytes() == content, "the original was trained, too"
    model.fit(X, Y, epoch=2, batch_size=16, verbose=0)
    assert model.to_bytes() == made.to_bytes()


@copied
def test_values_and_gradients_of_a_copy_are_parts_of_its_own_store(duplicate: Callable[[Model], Model]) -> None:
    model = normalised()
    model.compute_gradients(X, Y)
    made = duplicate(model)
    assert not np.shares_memory(made.store.values, model.store.values)
    assert np.array_equal(made.store.gradients, model.store.gradients)
    for variable, original in zip(made.store.everything, model.store.everything, strict=True):
        assert variable.name == original.name
        assert np.array_equal(variable.value, original.value)
        assert not np.shares_memory(variable.value, original.value)
    for variable in made.store.variables:
        assert np.shares_memory(variable.value, made.store.values)
        assert np.shares_memory(variable.gradient, made.store.gradients)
    assert [variable.id for variable in made.trainable_variables()] == [0, 1, 2, 3]
    made.store.values[:] = 0
    assert made.predict(X[:1])[0, 0] != model.predict(X[:1])[0, 0]


@copied
def test_models_of_every_making(duplicate: Callable[[Model], Model]) -> None:
    line = Line()
    line.setup(nn.loss.MSELoss())
    line.compile(nn.gradient_descent.SGDOptimizer(0.1))
    unbuilt = duplicate(line)
    for model in (line, unbuilt):
        model.fit(np.ones((4, 1)), np.ones((4, 1)), epoch=1, verbose=0)
    assert np.array_equal(unbuilt.store.values, line.store.values)
    empty = duplicate(nn.model.SequentialModel())
    assert not empty.built
    deep = nn.model.ResNet20(input_shape=[-1, 8, 8, 1])
    deep.setup(nn.loss.Cross_Entropy_With_Softmax())
    images = np.zeros((2, 8, 8, 1))
    assert np.array_equal(duplicate(deep).predict(images), deep.predict(images))


@copied
def test_halves_of_a_model(duplicate: Callable[[Model], Model]) -> None:
    whole = classifier(dropout=0.4)
    front, back = (duplicate(half) for half in whole.split("dropout_1"))
    key = (0, 0, 5, 0)
    loss, _ = whole.compute_gradients(X, Y, key=key)
    assert isinstance(front, nn.model.Fragment)
    assert isinstance(back, nn.model.Fragment)
    assert back.compute_gradients(front.forward(X, key), Y, key=key)[0] == loss
    front.backward(back.input_gradient)
    gradients = np.concatenate([front.store.gradients, back.store.gradients])
    assert np.array_equal(gradients, whole.store.gradients)


def test_a_chain_of_many_operations_is_no_deep_recursion() -> None:
    class Long(nn.model.Model):
        def call(self, x: nn.Value) -> nn.Value:
            for _ in range(3000):
                x = x + 1.0
            return x

    model = Long([-1, 1])
    model.setup(nn.loss.MSELoss())
    assert copy.deepcopy(model).predict(np.zeros((1, 1))).item() == 3000


class Keeper(nn.callback.EarlyStopping):
    """Copies the model after the second epoch."""

    kept: Model

    def on_epoch_settled(self, epoch: int, logs: Mapping[str, float]) -> None:
        if epoch == 1:
            self.kept = copy.deepcopy(self.model)


def test_a_copy_made_during_fit_is_like_a_file_saved_then() -> None:
    model, keeper = classifier(), Keeper("Loss", patience=99)
    model.fit(X, Y, epoch=4, callbacks=[keeper], verbose=0)
    states: dict[str, Any] = dict(keeper.kept.callback_states.current())
    assert states["Keeper"]["best_epoch"] == 2
    keeper.kept.fit(X, Y, epoch=2, callbacks=[Keeper("Loss", patience=99)], verbose=0)
    assert np.array_equal(keeper.kept.store.values, model.store.values)
    assert keeper.kept.callback_states.current() == {}


def test_a_layer_that_is_copied_serves_another_model() -> None:
    model = classifier()
    layers = copy.deepcopy(model.layers)
    other = nn.model.SequentialModel([-1, 8], layers)
    other.setup(nn.loss.Cross_Entropy_With_Softmax())
    assert np.array_equal(other.store.values, model.store.values)  # drawn anew, by the same keys
    with pytest.raises(ValueError, match="has no value yet"):
        copy.deepcopy(model.layers[0].variables[0]).get_value()
