"""Layers and variables that training leaves as they are."""

import json
from typing import Any

import numpy as np
import pytest

import nn
from nn import tensor_files
from nn.layer import BatchNorm, Dense, Dropout, Layer
from nn.model import Model, ModelFileError, SequentialModel
from nn.value import Value
from tests.nn.model.models import samples

X, Y = samples(40)


def stack(*frozen: int, norm: bool = False) -> SequentialModel:
    """Return three layers with weights, some of them frozen."""
    layers: list[Layer] = [Dense(6, activation=nn.activation.Tanh()), Dense(5), Dense(3, activation=nn.activation.Softmax())]
    if norm:
        layers[1:1] = [BatchNorm()]
    for place in frozen:
        layers[place].trainable = False
    model = SequentialModel([-1, 8], layers)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    return model


def names(model: Model) -> list[str]:
    return [variable.name for variable in model.trainable_variables()]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_frozen_layer_stays_and_the_others_learn(place: int) -> None:
    model = stack(place)
    assert names(model) == [f"dense_{n}/{kind}" for n in (1, 2, 3) if n != place + 1 for kind in ("kernel", "bias")]
    before = {variable.name: variable.get_value() for variable in model.store.everything}
    loss = model.fit(X, Y, epoch=3, verbose=0)["Loss"]
    assert loss[-1] < loss[0]
    for variable in model.store.everything:
        assert np.array_equal(variable.value, before[variable.name]) == (not variable.trainable), variable.name
    assert "Trainable parameters" in model.summary()


def test_the_gradients_of_the_others_are_those_of_the_whole() -> None:
    whole, part = stack(), stack(1)
    part.set_weights(whole.get_weights())
    assert part.compute_gradients(X, Y)[0] == whole.compute_gradients(X, Y)[0]
    expected = {variable.name: variable.get_gradient() for variable in whole.trainable_variables()}
    for variable in part.trainable_variables():
        assert np.array_equal(variable.gradient, expected[variable.name])


def test_a_file_keeps_what_is_frozen() -> None:
    straight = stack(0, 1)
    straight.fit(X, Y, epoch=1, batch_size=8, verbose=0)
    resumed = Model.from_bytes(straight.to_bytes())
    assert names(resumed) == ["dense_3/kernel", "dense_3/bias"]
    for model in (straight, resumed):
        model.fit(X, Y, epoch=2, batch_size=8, verbose=0)
    assert resumed.to_bytes() == straight.to_bytes()
    assert b'"frozen"' not in stack().to_bytes()


def test_the_order_of_the_weights_does_not_depend_on_it() -> None:
    free, frozen = stack(norm=True), stack(0, 1, norm=True)
    shapes = [weight.shape for weight in free.get_weights()]
    assert [weight.shape for weight in frozen.get_weights()] == shapes
    frozen.set_weights(free.get_weights())
    assert np.array_equal(frozen.predict(X), free.predict(X))
    single = stack_with_frozen_kernel()
    assert [weight.shape for weight in single.get_weights()] == [(8, 6), (6,), (6, 3), (3,)]


def stack_with_frozen_kernel() -> SequentialModel:
    class Half(Dense):
        def build(self, input_shape: Any) -> None:
            super().build(input_shape)
            self.kernel.trainable = False

    model = SequentialModel([-1, 8], [Half(6), Dense(3, activation=nn.activation.Softmax())])
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    return model


def test_a_single_variable_of_a_layer_or_of_a_model() -> None:
    assert names(stack_with_frozen_kernel()) == ["half_1/bias", "dense_1/kernel", "dense_1/bias"]

    class Shifted(Model):
        def __init__(self) -> None:
            super().__init__([-1, 8])
            self.scale, self.shift = nn.Variable([8]), nn.Variable([8])
            self.scale.trainable = False

        def call(self, x: Value) -> Value:
            return x * self.scale + self.shift

    model = Shifted()
    model.setup(nn.loss.MSELoss())
    assert names(model) == ["shift"]
    assert names(Model.from_bytes(model.to_bytes(), {"Shifted": Shifted})) == ["shift"]


class Inner(Layer):
    """Layers in a list, and one made in `call`."""

    def build(self, input_shape: Any) -> None:
        self.parts = [Dense(8), Dense(8)]
        self.late: list[Layer] = []

    def call(self, x: Value) -> Value:
        for part in self.parts:
            x = part(x)
        if not self.late:
            self.late.append(Dense(8))
        return self.late[0](x)


def test_freezing_reaches_layers_within_and_those_only() -> None:
    inner, outer = Inner(), Dense(3)
    inner.trainable = False
    model = SequentialModel([-1, 8], [Dense(8), inner, outer])
    model.setup(nn.loss.MSELoss())
    assert names(model) == ["dense_1/kernel", "dense_1/bias", "dense_5/kernel", "dense_5/bias"]
    with pytest.raises(ValueError, match="Inner 'inner_1' belongs to a model that is set up"):
        inner.trainable = True
    assert not inner.trainable


def test_both_halves_of_a_model_keep_it() -> None:
    model = stack(0, 2)
    front, back = model.split(2)
    assert names(front) == ["dense_2/kernel", "dense_2/bias"]
    assert names(back) == []
    assert names(Model.from_bytes(front.to_bytes())) == names(front)


def test_a_layer_may_thaw_before_setup() -> None:
    layer = Dense(3)
    layer(nn.Placeholder([-1, 8]))
    layer.trainable = False
    assert not any(variable.trainable for variable in layer.variables)
    layer.trainable = True
    assert all(variable.trainable for variable in layer.variables)


def test_after_setup_it_is_too_late_and_the_error_says_what_to_do() -> None:
    model = stack()
    advice = r"'trainable' cannot change: build another model, set 'trainable' there before setup\(\), and give it the weights"
    with pytest.raises(ValueError, match=f"Dense 'dense_1' belongs to a model that is set up, so its {advice}"):
        model.layers[0].trainable = False
    with pytest.raises(ValueError, match=f"Variable 'dense_1/kernel' belongs to a model that is set up, so its {advice}"):
        model.store.variables[0].trainable = False
    with pytest.raises(TypeError, match="Dropout 'trainable' must be an instance of bool, got int 0"):
        Dropout(0.5).trainable = 0  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("frozen", "message"),
    [
        (["dense_9/kernel"], "'dense_9/kernel' cannot be frozen: the model has no trainable variable of this name"),
        ("dense_1/kernel", "'frozen' must be a list of names, got dense_1/kernel"),
        ([3], r"'frozen' must be a list of names, got \[3\]"),
        (None, "'frozen' must be a list of names, got None"),
    ],
)
def test_forged_files_are_refused(frozen: object, message: str) -> None:
    values, metadata = tensor_files.parse(stack().to_bytes())
    config = {**json.loads(metadata["config"]), "frozen": frozen}
    with pytest.raises(ModelFileError, match=message):
        Model.from_bytes(tensor_files.dump(values, {"format": metadata["format"], "config": json.dumps(config)}))
