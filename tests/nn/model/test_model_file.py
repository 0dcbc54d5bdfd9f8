"""Models that come back from files, copies and pickles: whole, independent, refused where anything is wrong with them."""

import copy
import json
import pickle
import struct
from typing import Any

import numpy as np
import pytest

import nn
from nn import registry, tensor_files
from nn.model import Fragment, Model, ModelFileError
from nn.optimizer import OpContainer, PSGDOptimizer
from nn.random import keyed
from tests.contract.nn_rows import LAYERS, RULES
from tests.nn.model.models import Line, classifier, samples

from ...statements import covers

X, Y = samples()


@covers("SUB-43")
def test_a_model_comes_back_whole(tmp_path):
    """Structure, weights, loss, metrics and rule; the file is a safetensors file."""
    model = classifier(seed=3)
    model.compile(OpContainer(PSGDOptimizer, nn.gradient_descent.SGDOptimizer, gd_params=(0.5,)))
    model.save(tmp_path / "m.model")
    again = Model.load(tmp_path / "m.model")
    assert type(again) is nn.model.SequentialModel
    assert np.array_equal(again.store.values, model.store.values)
    assert again.evaluate(X, Y) == model.evaluate(X, Y)
    assert again.summary() == model.summary()
    assert again.seed == 3
    assert (again.op_type, again.rule.learn_rate) == (PSGDOptimizer, 0.5)
    assert again.to_bytes() == model.to_bytes()
    found = pytest.importorskip("safetensors.numpy").load_file(tmp_path / "m.model")
    for variable in model.trainable_variables():
        assert np.array_equal(found[variable.name], variable.value)
    plain = nn.model.SequentialModel([-1, 2], [nn.layer.Dense(2)])
    plain.setup(nn.loss.MSELoss())
    assert Model.from_bytes(plain.to_bytes()).rule is None


def test_a_path_of_windows_is_warned_of(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = classifier(seed=3)
    told = (
        r"^save\(\) 'path' 'models\\\\m\.model' is one name here, where folders are separated by '/': write 'models/m\.model'$"
    )
    with pytest.warns(UserWarning, match=told):
        model.save("models\\m.model")
    assert [path.name for path in tmp_path.iterdir()] == ["models\\m.model"]


class Cube(nn.activation.Activation):
    reads_inputs = True

    def forward(self, inputs, out):
        np.power(inputs[0], 3, out=out)

    def derive(self, x, output, gradient, out):
        np.multiply(gradient, 3 * x * x, out=out)


class Scale(nn.layer.Layer, configured=True):
    def __init__(self, start: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        self.start = start

    def build(self, input_shape):
        self.factor = self.add_variable("factor", input_shape[1:], nn.initializer.Constant(self.start))

    def call(self, x):
        return x * self.factor


class NoLayer(nn.initializer.Zeros):
    def __init__(self, start: float, name: str) -> None:
        """Takes the arguments of `Scale`."""


class Dense(nn.layer.Dense):
    """The name of a built-in class, another class."""


class Needy(Line):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor


def ready(model, loss=None):
    model.setup(loss or nn.loss.MSELoss())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    return model


def test_classes_of_ones_own_are_passed_by_the_caller():
    model = ready(nn.model.SequentialModel([-1, 8], [Scale(2.5), nn.layer.Dense(3, activation=Cube())]))
    line = ready(Line())
    line.predict(np.ones((2, 1)))
    own = ready(nn.model.SequentialModel([-1, 8], [Dense(3)]))
    data = model.to_bytes()
    again = Model.from_bytes(data, custom_objects={"Scale": Scale, "Cube": Cube})
    assert np.array_equal(again.predict(X), model.predict(X))
    found = Model.from_bytes(line.to_bytes(), {"Line": Line})
    assert type(found) is Line
    assert np.array_equal(found.predict(X[:, :1]), line.predict(X[:, :1]))
    # a user's class never stands for a built-in one
    assert type(Model.from_bytes(classifier().to_bytes(), {"Dense": Dense}).layers[0]) is nn.layer.Dense
    for content, objects, text in (
        (data, {"Scale": Scale}, r"class 'Cube' is not part of nn; pass it as custom_objects=\{'Cube'"),
        (data, {"Scale": NoLayer, "Cube": Cube}, r"SequentialModel 'layers' must be .*Layer"),
        (own.to_bytes(), None, "class 'Dense' is not part of nn"),
        (line.to_bytes(), None, "class 'Line' is not part of nn"),
    ):
        with pytest.raises(ModelFileError, match=text):
            Model.from_bytes(content, objects)
    needy = ready(Needy(2))
    needy.predict(np.ones((1, 1)))
    with pytest.raises(
        ValueError,
        match=r"get_config\(\) of Needy: the constructor needs the argument 'factor'; class Needy\(.., configured=True\) tells",
    ):
        needy.to_bytes()


class Scaled(nn.layer.Dense, configured=True):
    """Dense layer in the form of Keras: arguments of the base travel as `**further`."""

    def __init__(self, neurons: int, scale: float = 2.0, **further: Any) -> None:
        super().__init__(neurons, **further)
        self.neurons, self.scale = neurons, scale

    def call(self, x: Any) -> nn.Value:
        return super().call(x) * self.scale


def test_arguments_that_are_handed_on_to_the_base_are_in_the_file() -> None:
    """Those that were given, by the name of the base, and no others: the constructor may give some of its own."""
    layer = Scaled(3, activation="tanh", use_bias=False, name="mine")
    assert repr(layer) == "Scaled(neurons=3, scale=2.0, activation=Tanh(), use_bias=False, name='mine')"
    model = ready(nn.model.SequentialModel([-1, 8], [layer]))
    again = Model.from_bytes(model.to_bytes(), {"Scaled": Scaled})
    assert repr(again.layers[0]) == repr(layer) and again.layers[0].name == "mine"
    assert np.array_equal(again.predict(X), model.predict(X))


class Around(Model):
    """One row of the table of layers, and a dense layer behind it."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.layer, self.head = LAYERS[number].applied(), nn.layer.Dense(2, name="head")

    def call(self, x):
        return self.head(nn.layer.Flatten(name="rows")(self.layer(x)))

    def get_config(self):
        return {"number": self.number}


def go_on(model, x, y, seed=None):
    model.fit(x, y, epoch=2, batch_size=4, verbose=0, seed=seed)


def row_name(row):
    return f"{row.kind.__name__} {row.label}".strip()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("number", range(len(LAYERS)), ids=[row_name(row) for row in LAYERS])
@pytest.mark.share(4)
def test_every_layer_goes_on_as_if_it_had_never_been_saved(number, dtype):
    row = LAYERS[number]
    x, y = row.draw(keyed(0, "resume"), (11, *row.sample)), keyed(0, "labels").standard_normal((11, 2))
    straight = Around(number)
    straight.dtype = np.dtype(dtype)
    straight.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError())
    straight.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    go_on(straight, x, y, seed=5)
    content = straight.to_bytes()
    resumed = Model.from_bytes(content, {"Around": Around})
    assert resumed.to_bytes() == content
    assert np.array_equal(resumed.predict(x), straight.predict(x))
    for model in (straight, resumed):
        go_on(model, x, y)
    assert resumed.to_bytes() == straight.to_bytes()
    assert resumed.fit_history().rows == straight.fit_history().rows
    assert resumed.fit_history()["epoch"] == [1, 2, 3, 4]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("row", RULES, ids=row_name)
@pytest.mark.share(3)
def test_every_rule_goes_on_as_if_it_had_never_been_saved(row, dtype):
    straight = classifier(dropout=0.3, dtype=dtype)
    straight.compile(row.build())
    go_on(straight, X, Y, seed=5)
    resumed = Model.from_bytes(straight.to_bytes())
    assert resumed.epochs_trained == 2
    for model in (straight, resumed):
        go_on(model, X, Y)
    assert resumed.to_bytes() == straight.to_bytes()
    assert not np.array_equal(straight.store.values, classifier().store.values)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "of a copy": lambda model: pickle.loads(pickle.dumps(copy.deepcopy(model))),
}
copied = pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES)


def normalised():
    """Return a model with statistics, a frozen layer and dropout."""
    layers = [
        nn.layer.Dense(8, activation=nn.activation.Tanh()),
        nn.layer.BatchNorm(),
        nn.layer.Dropout(0.3),
        nn.layer.Dense(3),
    ]
    layers[0].trainable = False
    return ready(nn.model.SequentialModel([-1, 8], layers), nn.loss.Cross_Entropy_With_Softmax())


@copied
@pytest.mark.parametrize("epochs", [0, 2], ids=["before fit", "after fit"])
@pytest.mark.parametrize("build", [normalised, lambda: classifier(dropout=0.2, dtype="float64")], ids=["normalised", "float64"])
def test_a_copy_trains_on_alone_as_the_original_would(build, epochs, duplicate):
    model = build()
    model.fit(X, Y, until_epoch=epochs, batch_size=16, verbose=0, seed=3)
    model.compute_gradients(X, Y)
    content = model.to_bytes()
    made, loaded = duplicate(model), Model.from_bytes(content)
    assert type(made) is type(model)
    assert made.to_bytes() == content
    assert not np.shares_memory(made.store.values, model.store.values)
    assert np.array_equal(made.store.gradients, model.store.gradients)
    for variable, original in zip(made.store.everything, model.store.everything, strict=True):
        assert variable.name == original.name
        assert np.array_equal(variable.value, original.value)
        assert not np.shares_memory(variable.value, original.value)
    for place, variable in enumerate(made.trainable_variables()):
        assert variable.id == place
        assert np.shares_memory(variable.value, made.store.values)
        assert np.shares_memory(variable.gradient, made.store.gradients)
    for each in (made, loaded):
        each.fit(X, Y, epoch=2, batch_size=16, verbose=0)
    assert made.to_bytes() == loaded.to_bytes()
    assert model.to_bytes() == content, "the original was trained, too"
    model.fit(X, Y, epoch=2, batch_size=16, verbose=0)
    assert model.to_bytes() == made.to_bytes()
    made.store.values[:] = 0
    assert made.predict(X[:1])[0, 0] != model.predict(X[:1])[0, 0]


@copied
def test_models_of_every_making_and_halves_are_copied(duplicate):
    line = ready(Line())
    unbuilt = duplicate(line)
    for model in (line, unbuilt):
        model.fit(np.ones((4, 1)), np.ones((4, 1)), epoch=1, verbose=0)
    assert np.array_equal(unbuilt.store.values, line.store.values)
    assert not duplicate(nn.model.SequentialModel()).built
    deep = ready(nn.model.ResNet20(input_shape=[-1, 8, 8, 1]), nn.loss.Cross_Entropy_With_Softmax())
    images = np.zeros((2, 8, 8, 1))
    assert np.array_equal(duplicate(deep).predict(images), deep.predict(images))
    whole, key = classifier(dropout=0.4), (0, 0, 5, 0)
    front, back = (duplicate(half) for half in whole.split("dropout_1"))
    assert type(front) is type(back) is Fragment
    loss, _ = whole.compute_gradients(X, Y, key=key)
    assert back.compute_gradients(front.forward(X, key), Y, key=key)[0] == loss
    front.backward(back.input_gradient)
    assert np.array_equal(np.concatenate([front.store.gradients, back.store.gradients]), whole.store.gradients)


class Long(Model):
    def call(self, x):
        for _ in range(3000):
            x = x + 1.0
        return x


class Keeper(nn.callback.EarlyStopping):
    """Copies the model after the second epoch."""

    def on_epoch_settled(self, epoch, logs):
        if epoch == 1:
            self.kept = copy.deepcopy(self.model)


def test_what_else_is_copied():
    assert copy.deepcopy(ready(Long([-1, 1]))).predict(np.zeros((1, 1))).item() == 3000  # no deep recursion
    model, keeper = classifier(), Keeper("Loss", patience=99)
    model.fit(X, Y, epoch=4, callbacks=[keeper], verbose=0)  # a copy made during fit is like a file saved then
    assert keeper.kept.callback_states.current()["Keeper"]["best_epoch"] == 2
    keeper.kept.fit(X, Y, epoch=2, callbacks=[Keeper("Loss", patience=99)], verbose=0)
    assert np.array_equal(keeper.kept.store.values, model.store.values)
    assert keeper.kept.callback_states.current() == {}
    other = ready(nn.model.SequentialModel([-1, 8], copy.deepcopy(model.layers)), nn.loss.Cross_Entropy_With_Softmax())
    assert np.array_equal(other.store.values, classifier().store.values)  # drawn anew, by the same keys
    with pytest.raises(ValueError, match="has no value yet"):
        copy.deepcopy(model.layers[0].variables[0]).get_value()


class Statistic(nn.layer.Layer):
    """Keeps a statistic, which it makes before what is trained."""

    def build(self, input_shape):
        self.mean = self.add_buffer("moving_mean", input_shape[1:])
        self.gamma = self.add_variable("gamma", input_shape[1:], nn.initializer.Constant(1.0))

    def call(self, x):
        return (x - self.mean) * self.gamma


class Own(Line):
    def call(self, x):
        return nn.layer.Dense(1)(x) * self.w + self.b


def test_weights_are_copies_in_keras_order_that_another_model_takes():
    weights = ready(
        nn.model.SequentialModel([-1, 8], [nn.layer.Dense(4), Statistic(), nn.layer.Dense(2, use_bias=False)])
    ).get_weights()
    assert [weight.shape for weight in weights] == [(8, 4), (4,), (4,), (4,), (4, 2)]
    assert (weights[2].tolist(), weights[3].tolist()) == ([1, 1, 1, 1], [0, 0, 0, 0])
    own = ready(Own())
    own.predict(np.ones((1, 3)))
    assert [weight.shape for weight in own.get_weights()] == [(1, 1), (1, 1), (3, 1), (1,)]  # the model's own come first
    one, other = classifier(seed=1), classifier(seed=2)
    weights = one.get_weights()
    weights[0][:] += 1
    assert not np.array_equal(weights[0], one.get_weights()[0])
    for form in (np.asarray, lambda weight: weight.astype(np.float64), np.ndarray.tolist):
        other.store.values[:] = 0
        other.set_weights([form(weight) for weight in one.get_weights()])
        assert other.store.values.dtype == np.float32
        assert np.array_equal(other.predict(X), one.predict(X))
    norm = ready(nn.model.SequentialModel([-1, 3], [nn.layer.BatchNorm()]))
    norm.set_weights([np.full(3, number) for number in (2.0, 1.0, 5.0, 4.0)])  # gamma, beta, mean, variance
    x = np.array([[5.0, 7.0, 9.0]])
    np.testing.assert_allclose(norm.predict(x), (x - 5) / np.sqrt(4 + 1e-3) * 2 + 1, rtol=1e-5)
    unbuilt = nn.model.SequentialModel(layers=[nn.layer.Dense(1)])
    for call in (unbuilt.get_weights, lambda: unbuilt.set_weights([])):
        with pytest.raises(ValueError, match=r"SequentialModel is not built yet; call compile\(\) or setup\(\) first"):
            call()


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
def test_weights_that_do_not_fit_are_named_and_nothing_changes(change, error, message):
    model = classifier()
    before = model.store.values.copy()
    with pytest.raises(error, match=message):
        model.set_weights(change([weight + 1 for weight in model.get_weights()]))
    assert np.array_equal(model.store.values, before)


@pytest.fixture(scope="module")
def trained():
    """The configuration and the tensors of a compiled and trained classifier."""
    model = classifier()
    model.fit(X, Y, epoch=1, verbose=0)
    values, metadata = tensor_files.parse(model.to_bytes())
    return json.loads(metadata["config"]), values


def sealed(config, values):
    text = config if isinstance(config, str) else json.dumps(config)
    return tensor_files.dump(values, {"format": "psgd.model/2", "config": text})


def layer_of(config, place):
    return config["model"]["config"]["layers"][place]


def part(**changes):
    return {"whole_shape": [-1, 8], "begin": None, "end": None, **changes}


HUGE = 10**15
FLATTEN = {"class": "layer.Flatten", "config": {}}


@covers("SEC-13")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c, v: c.pop("loss"), r"must have exactly the fields .*; wrong: \['loss'\]"),
        (lambda c, v: c.update(extra=1), r"wrong: \['extra'\]"),
        (lambda c, v: c.update(model=3), "'model' must have 'class' and 'config', got 3"),
        (lambda c, v: c["model"].update({"class": "os.system"}), "no class of nn is registered as 'os.system'"),
        (lambda c, v: c["model"].update({"class": "layer.Dense"}), "expected a class derived from Model"),
        (lambda c, v: c["model"].update({"class": ["a"]}), "no class of nn is registered"),
        (lambda c, v: c["model"]["config"].update(layers=3), r"SequentialModel 'layers' must be .*, got '3'"),
        (lambda c, v: c["model"]["config"].update(layers=[]), "SequentialModel has no layers"),
        (lambda c, v: c["model"]["config"].update(dtype="object"), "cannot be built|'dtype' must be"),
        (lambda c, v: layer_of(c, 0).update({"class": "layer.Layer"}), "no class of nn is registered as 'layer.Layer'"),
        (lambda c, v: layer_of(c, 0).update({"class": "loss.MSELoss"}), "MSELoss: the constructor has no argument"),
        (lambda c, v: layer_of(c, 0)["config"].update(units=0), "Dense 'units' must be a positive integer, got 0"),
        (lambda c, v: layer_of(c, 0)["config"].update(units="8"), "Dense 'units' must be .*int.*, got '8'"),
        (lambda c, v: layer_of(c, 0)["config"].update(units=True), "Dense 'units' must be .*int.*, got 'True'"),
        (lambda c, v: layer_of(c, 0)["config"].update(units=HUGE), r"'dense_1/kernel' must be float32 of shape \(8, 10+\)"),
        (lambda c, v: layer_of(c, 0)["config"].pop("units"), "Dense: the constructor needs the argument 'units'"),
        (lambda c, v: layer_of(c, 0)["config"].update(gamma=1), "Dense: the constructor has no argument 'gamma'"),
        (lambda c, v: layer_of(c, 0)["config"].update(activation=FLATTEN), "Dense 'activation' must be"),
        (lambda c, v: layer_of(c, 0)["config"].update(activation={"class": "x"}), "must have 'class' and 'config'"),
        (lambda c, v: layer_of(c, 0).update(config=[]), r"the configuration of Dense must be an object, got \[\]"),
        (lambda c, v: c.update(loss={"class": "metric.MeanSquareError", "config": {}}), "expected a class derived from Loss"),
        (lambda c, v: c.update(metrics={}), "'metrics' must be a list"),
        (lambda c, v: c.update(seed=-1), "'seed' must be an integer of at least 0, got -1"),
        (lambda c, v: c.update(seed="0"), "'seed' must be an integer"),
        (lambda c, v: c.update(dtype="float16"), "'dtype' must be float32 or float64, got float16"),
        (lambda c, v: c.update(dtype="nonsense"), "model file: .*nonsense"),
        (lambda c, v: c.update(dtype=7), "'dtype' must be a text, got 7"),
        (lambda c, v: c.update(dtype="float64"), "variable 'dense_1/kernel' must be float64"),
        (lambda c, v: c.update(input_shape=[-1, 9]), r"variable 'dense_1/kernel' must be float32 of shape \(9, 16\)"),
        (lambda c, v: c.update(input_shape=[8]), "must begin with -1"),
        (lambda c, v: c.update(epochs=1.5), "'epochs' must be an integer"),
        (lambda c, v: c.update(loss=None), "has no 'loss', which only a part of a model may lack"),
        (lambda c, v: c.update(part={}), "'part' must have 'whole_shape', 'begin' and 'end', got {}"),
        (lambda c, v: c.update(part=part(end=3)), "'part' must name layers"),
        (lambda c, v: c.update(part=part(whole_shape=[8])), "must begin with -1"),
        (lambda c, v: c.update(part=part(whole_shape=7)), "'whole_shape' must be a list of positive integers"),
        (lambda c, v: c.update(part=part(end="x")), "must be one of the layers dense_1, dense_2, got 'x'"),
        (lambda c, v: c.update(part=part(begin="dense_2")), "'dense_2' gives the output of the model"),
        (lambda c, v: c.update(part=part(begin="dense_1", end="dense_1")), "there is nothing between the layers"),
        (lambda c, v: c.update(part=part(end="dense_1")), "variable 'dense_2/(bias|kernel)' is not part of the model"),
        (lambda c, v: c.update(callbacks=[]), r"'callbacks' must hold the states of callbacks, got \[\]"),
        (lambda c, v: c.update(callbacks={"A": 1}), "'callbacks' must hold the states of callbacks"),
        (lambda c, v: c.update(callbacks={"A": {"b": "c"}}), "the state of the callback 'A' must hold numbers"),
        (lambda c, v: v.update({"callback:A:b": np.zeros(2)}), "variable 'callback:A:b' is not part of the model"),
        (lambda c, v: v.update({"history:Loss": np.zeros(2)}), "'history:Loss' must hold pairs of epoch and value"),
        (lambda c, v: v.update({"history:Loss": np.zeros((1, 2))}), "'history:Loss' must count epochs from 1, got 0.0"),
        (lambda c, v: v.update({"history:Loss": np.full((1, 2), np.nan)}), "'history:Loss' must count epochs from 1, got nan"),
        (lambda c, v: c.update(optimizer=[]), "'optimizer' must have 'class', 'rule' and 'state'"),
        (lambda c, v: c.update(optimizer=None), "holds the state of a rule, but no rule"),
        (lambda c, v: c["optimizer"].update({"class": "layer.Dense"}), "expected a class derived from IOptimizer"),
        (lambda c, v: c["optimizer"]["state"].update(step="x"), "the 'state' of a rule must hold numbers"),
        (lambda c, v: c["optimizer"]["state"].pop("step"), "ADAMOptimizer state must hold step"),
        (lambda c, v: c["optimizer"]["rule"]["config"].update(beta1=2), "'beta1' must be a number >= 0 and < 1, got 2"),
        (lambda c, v: v.pop("dense_1/bias"), "variable 'dense_1/bias' is missing"),
        (lambda c, v: v.update(other=np.zeros(2)), "variable 'other' is not part of the model"),
        (lambda c, v: v.update({"dense_1/bias": np.zeros(3, np.float32)}), r"'dense_1/bias' must be float32 of shape \(16,\)"),
        (lambda c, v: v.pop("rule:square"), "ADAMOptimizer state must hold step, momentum, square"),
        (lambda c, v: v.update({"rule:square": v["rule:square"][:-1]}), "'rule:square' does not fit the model's 195"),
        (
            lambda c, v: v.update({name: v[name][:-1] for name in ("rule:square", "rule:momentum")}),
            "'rule:(momentum|square)' does not fit the model's 195 parameters of float32",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(change, message, trained):
    """A forged configuration gives an error that says what is wrong, and nothing large is allocated for it."""
    config, values = copy.deepcopy(trained[0]), dict(trained[1])
    change(config, values)
    with pytest.raises(ModelFileError, match=message):
        Model.from_bytes(sealed(config, values))


def test_what_is_no_model_file_is_refused(tmp_path, trained):
    for text in ("", "[]", "{", '{"a": NaN}', "[" * 100_000, '"x"'):
        with pytest.raises(ModelFileError, match="'config'"):
            Model.from_bytes(sealed(text, {}))
    data, config = classifier().to_bytes(), json.dumps(trained[0])
    for depth in (300, 600, 900, 5000):
        nested = config.replace('"layers": [', f'"layers": [{"[" * depth + "]" * depth},', 1)
        assert nested != config
        with pytest.raises(ModelFileError):
            Model.from_bytes(sealed(nested, trained[1]))
    for wrong in (data[:-1], data[:100], data + b"x", data[:-5] + b"\1" + data[-4:], struct.pack("<Q", 2) + b"{}"):
        with pytest.raises(ModelFileError):
            Model.from_bytes(wrong)
    with pytest.raises(ModelFileError, match=r"'format' must be 'psgd\.model/2', got 'psgd\.tensors/1'"):
        Model.from_bytes(tensor_files.dump({"a": np.zeros(2)}, {}))
    with pytest.raises(FileNotFoundError):
        Model.load(tmp_path / "missing.model")
    (tmp_path / "short.model").write_bytes(b"12345")
    with pytest.raises(
        ModelFileError,
        match=r"^The model file /.*short\.model cannot be used: it is no file of a model or of weights, which has at least",
    ):
        Model.load(tmp_path / "short.model")


MUTANTS = 1500
ODD = [
    None, True, -1, 0, 1, 2**70, 1e308, 0.5, "", "x", "layer.Dense", "custom:Dense", "model.SequentialModel", [], [[]], [-1, 8],
    [-1, 10**12], {}, {"class": "layer.Flatten", "config": {}}, {"class": "model.SequentialModel", "config": {}}, "float64",
    {"class": "initializer.Constant", "config": {"value": "x"}}, {"class": 3, "config": 4}, "\u0000", "é" * 300,
]  # fmt: skip


def places(value):
    """Every (container, key) below a JSON value."""
    found = []
    for key in value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        found += [(value, key), *places(value[key])]
    return found


def mutant(config, generator):
    changed = copy.deepcopy(config)
    for _ in range(int(generator.integers(1, 4))):
        everywhere = places(changed)
        container, key = everywhere[generator.integers(len(everywhere))]
        action = generator.integers(4)
        if action == 0:
            del container[key]
        elif action == 1 and isinstance(container, dict):
            container["odd"] = copy.deepcopy(ODD[generator.integers(len(ODD))])
        elif action == 2:
            other, place = everywhere[generator.integers(len(everywhere))]
            container[key] = copy.deepcopy(other[place]) if place in other or isinstance(other, list) else None
        else:
            container[key] = copy.deepcopy(ODD[generator.integers(len(ODD))])
    return changed


@covers("SEC-13")
def test_changed_configurations_give_a_model_or_a_model_file_error(trained):
    """Never another exception, whatever is changed at random."""
    refused = 0
    for number in range(MUTANTS):
        data = sealed(mutant(trained[0], keyed(0, "mutant", number)), trained[1])
        try:
            assert isinstance(Model.from_bytes(data), Model)
        except ModelFileError:
            refused += 1
    assert MUTANTS / 2 < refused < MUTANTS, "a changed seed, for one, is no damage"


def test_a_layer_in_several_places_is_one_in_the_file() -> None:
    """With one set of variables, and training goes on as that of the original."""
    shared, end = nn.layer.Dense(4, "tanh"), nn.layer.Dense(4)
    model = nn.model.SequentialModel([-1, 4], [shared, nn.layer.Dense(4, "relu"), shared, end, end])
    model.compile("sgd", "mse")
    x, y = np.eye(4, dtype=np.float32), np.ones((4, 4), np.float32)
    model.fit(x, y, epochs=1, verbose=0)
    loaded = Model.from_bytes(model.to_bytes())
    assert isinstance(loaded, nn.model.SequentialModel) and loaded.layers[0] is loaded.layers[2]
    assert loaded.layers[3] is loaded.layers[4] is not loaded.layers[1] and len(loaded.get_weights()) == 6
    for each in (model, loaded):
        each.fit(x, y, epochs=2, verbose=0)
    assert model.to_bytes() == loaded.to_bytes() and np.array_equal(model.predict(x), loaded.predict(x))


@pytest.mark.parametrize("number", [1, -1, True, "0", 10**30, None])
def test_a_reference_to_no_part_of_a_file_is_refused(number: object) -> None:
    """Only what stands before it is there."""
    config = {"layers": [registry.describe(nn.layer.Dense(2)), {"same": number}]}
    with pytest.raises(ValueError, match="'same' must be the number of one of the 1 parts before it"):
        registry.construct(nn.model.SequentialModel, config, {})
