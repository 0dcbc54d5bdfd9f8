"""Layers and variables that training leaves as they are, and batch normalisations among them: Keras's rule, and the option."""

import copy
import json

import numpy as np
import pytest

import nn
from nn import tensor_files
from nn.layer import BatchNorm, Dense, Dropout, Layer
from nn.model import Model, ModelFileError, SequentialModel
from nn.operation import BatchNormalize, MatMul
from tests.nn.model.models import samples

X, Y = samples(40)
MEAN, VARIANCE = np.linspace(-1, 1, 6), np.linspace(0.5, 2, 6)


def ready(*layers, frozen=(), **arguments):
    for place in frozen:
        layers[place].trainable = False
    model = SequentialModel([-1, 8], list(layers), **arguments)
    model.setup(nn.loss.Cross_Entropy_With_Softmax())
    model.compile(nn.gradient_descent.ADAMOptimizer(0.01))
    return model


def stack(*frozen, norm=()):
    """Return three layers with weights, some of them frozen."""
    head = Dense(3, activation=nn.activation.Softmax())
    return ready(Dense(6, activation=nn.activation.Tanh()), *norm, Dense(5), head, frozen=frozen)


class Block(Layer):
    """A normalisation, or a model, within a layer."""

    def __init__(self, norm):
        super().__init__()
        self.norm = norm

    def call(self, x):
        return self.norm(x)


def tuned(freeze_statistics=True, *, within=False, thawed=False):
    """Return a trained base, frozen, and a new head."""
    norm = BatchNorm(momentum=0.5, freeze_statistics=freeze_statistics)
    head = Dense(3, activation=nn.activation.Softmax())
    model = ready(Dense(6), Block(norm) if within else norm, head, frozen=() if thawed else (0, 1), seed=3)
    for variable in model.store.buffers:
        variable.set_value(MEAN if variable.name.endswith("mean") else VARIANCE)
    return model


def names(model):
    return [variable.name for variable in model.trainable_variables()]


def bits(model, trainable=False):
    """Return the bits of what is not trained, or of what is."""
    return {each.name: each.value.tobytes() for each in model.store.everything if each.trainable == trainable}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_frozen_layer_stays_and_the_others_learn_as_in_the_whole(place):
    model, whole = stack(place), stack()
    assert names(model) == [f"dense_{n}/{kind}" for n in (1, 2, 3) if n != place + 1 for kind in ("kernel", "bias")]
    model.set_weights(whole.get_weights())
    assert model.compute_gradients(X, Y)[0] == whole.compute_gradients(X, Y)[0]
    expected = {variable.name: variable.get_gradient() for variable in whole.trainable_variables()}
    assert all(np.array_equal(variable.gradient, expected[variable.name]) for variable in model.trainable_variables())
    before, learning = bits(model), bits(model, trainable=True)
    loss = model.fit(X, Y, epoch=3, verbose=0)["Loss"]
    assert loss[-1] < loss[0]
    assert len(before) == 2 and bits(model) == before
    assert all(value != learning[name] for name, value in bits(model, trainable=True).items())
    assert "Trainable parameters" in model.summary()


@pytest.mark.parametrize("make", [lambda: stack(0, 1), tuned, lambda: tuned(freeze_statistics=False)])
def test_files_copies_and_halves_keep_it(make):
    straight = make()
    straight.fit(X, Y, epoch=1, batch_size=8, verbose=0)
    resumed = Model.from_bytes(straight.to_bytes())
    assert names(resumed) == names(straight)
    assert len(names(resumed)) == 2
    for model in (straight, resumed):
        model.fit(X, Y, epoch=2, batch_size=8, verbose=0)
    assert resumed.to_bytes() == straight.to_bytes()
    assert [layer.trainable for layer in resumed.layers] == [layer.trainable for layer in straight.layers]
    whole, (front, back) = make(), make().split(2)
    loss, _ = whole.compute_gradients(X, Y, key=(0, 0, 0, 0))
    activations = front.forward(X, (0, 0, 0, 0)).copy()
    assert back.compute_gradients(activations, Y, key=(0, 0, 0, 0))[0] == loss
    front.backward(back.input_gradient.copy())
    for model in (whole, front, back):
        model.apply_gradients()
    assert front.store.buffer_values.tobytes() == whole.store.buffer_values.tobytes()
    moved = [weight for half in (front, back) for weight in half.get_weights()]
    assert [weight.tobytes() for weight in moved] == [weight.tobytes() for weight in whole.get_weights()]
    assert names(Model.from_bytes(front.to_bytes())) == names(front)


def test_both_halves_and_the_order_of_weights_know_it():
    front, back = stack(0, 2).split(2)
    assert (names(front), names(back)) == (["dense_2/kernel", "dense_2/bias"], [])
    assert b'"frozen"' not in stack().to_bytes()
    free, frozen = stack(norm=[BatchNorm()]), stack(0, 1, norm=[BatchNorm()])
    assert [weight.shape for weight in frozen.get_weights()] == [weight.shape for weight in free.get_weights()]
    frozen.set_weights(free.get_weights())
    assert np.array_equal(frozen.predict(X), free.predict(X))


class Half(Dense):
    def build(self, input_shape):
        super().build(input_shape)
        self.kernel.trainable = False


class Shifted(Model):
    def __init__(self):
        super().__init__([-1, 8])
        self.scale, self.shift = nn.Variable([8]), nn.Variable([8])
        self.scale.trainable = False

    def call(self, x):
        return x * self.scale + self.shift


class Inner(Layer):
    """Layers in a list, and one made in `call`."""

    def build(self, input_shape):
        self.parts, self.late = [Dense(8), Dense(8)], []

    def call(self, x):
        for part in self.parts:
            x = part(x)
        if not self.late:
            self.late.append(Dense(8))
        return self.late[0](x)


def test_a_single_variable_of_a_layer_or_of_a_model_and_layers_within():
    half = ready(Half(6), Dense(3, activation=nn.activation.Softmax()))
    assert names(half) == ["half_1/bias", "dense_1/kernel", "dense_1/bias"]
    assert [weight.shape for weight in half.get_weights()] == [(8, 6), (6,), (6, 3), (3,)]
    model = Shifted()
    model.setup(nn.loss.MSELoss())
    assert names(model) == names(Model.from_bytes(model.to_bytes(), {"Shifted": Shifted})) == ["shift"]
    inner = Inner()
    assert names(ready(Dense(8), inner, Dense(3), frozen=[1])) == [
        f"dense_{number}/{kind}" for number in (1, 5) for kind in ("kernel", "bias")
    ]
    assert not inner.trainable
    layer = Dense(3)
    layer(nn.Placeholder([-1, 8]))
    for trainable in (False, True):  # before setup it may thaw again
        layer.trainable = trainable
        assert {variable.trainable for variable in layer.variables} == {trainable}


@pytest.mark.parametrize("within", [False, True])
def test_a_frozen_normalisation_is_the_function_it_was(within):
    model = tuned(within=within)
    before = bits(model)
    losses = model.fit(X, Y, epoch=5, batch_size=8, verbose=0)["Loss"]
    assert losses[-1] < losses[0]
    assert len(before) == 6
    assert bits(model) == before
    # training and prediction see the same values, so that they agree on the loss
    assert model.compute_gradients(X, Y)[0] == pytest.approx(model.evaluate(X, Y)["Loss"], rel=1e-6)


def test_the_option_lets_its_statistics_move():
    model = tuned(freeze_statistics=False)
    before = bits(model)
    model.fit(X, Y, epoch=5, batch_size=8, verbose=0)
    moved = {name for name, value in bits(model).items() if value != before[name]}
    assert moved == {"batchnorm_1/moving_mean", "batchnorm_1/moving_variance"}
    losses = []  # its outputs in training are those of one that is trained
    for other in (tuned(freeze_statistics=False), tuned(), tuned(thawed=True)):
        other.set_weights(model.get_weights())
        losses.append(other.compute_gradients(X, Y)[0])
    assert losses[0] == losses[2] != losses[1]
    trained = tuned(thawed=True)
    before = trained.store.buffer_values.copy()
    trained.fit(X, Y, epoch=1, batch_size=8, verbose=0)
    assert not np.isclose(trained.store.buffer_values, before).any()


def test_gradients_of_what_lies_in_front_are_those_of_fixed_statistics():
    dense, norm = Dense(6), BatchNorm()
    norm.trainable = False
    model = SequentialModel([-1, 8], [dense, norm], dtype="float64")
    model.setup(nn.loss.MSELoss())
    norm.moving_mean.set_value(MEAN)
    norm.moving_variance.set_value(VARIANCE)
    value, _ = model.compute_gradients(X, np.zeros((len(X), 6)))
    slope = 1 / np.sqrt(VARIANCE + norm.epsilon)
    output = (X @ dense.kernel.value + dense.variables[1].value - MEAN) * slope
    assert value == pytest.approx((output**2).mean(), rel=1e-6)
    np.testing.assert_allclose(dense.kernel.gradient, X.T @ (2 * output * slope / output.size), rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("freeze_statistics", "count"), [(True, 1), (False, 2)])
def test_backward_ends_where_nothing_is_trained(freeze_statistics, count, monkeypatch):
    """A frozen base costs no backward pass."""
    model, passed = tuned(freeze_statistics), []
    for kind in (MatMul, BatchNormalize):
        backward = kind.backward
        monkeypatch.setattr(kind, "backward", lambda *a, backward=backward: (passed.append(a[0]), backward(*a)))
    model.compute_gradients(X, Y)
    assert len(passed) == count


def rewritten(model, change):
    """Return the file of a model after a change of its configuration."""
    values, metadata = tensor_files.parse(model.to_bytes())
    return tensor_files.dump(values, {"format": metadata["format"], "config": change(metadata["config"])})


def test_a_file_from_before_the_option_is_read():
    option = ',"freeze_statistics":true'
    assert tuned(thawed=True).to_bytes().count(option.replace('"', '\\"').encode()) == 1
    norm = Model.from_bytes(rewritten(tuned(thawed=True), lambda config: config.replace(option, ""))).graph.layers[1]
    assert isinstance(norm, BatchNorm)
    assert norm.freeze_statistics


def marked():
    """Return a model that is set up, of which a layer was frozen since."""
    model = stack()
    model.layers[0].trainable = False
    return model


def test_what_is_frozen_or_thawed_later_holds_from_the_next_compile_on():
    """The values stay, a file keeps it, and training is that of a model that was frozen at once."""
    model, at_once = marked(), stack(0)
    at_once.set_weights(model.get_weights())
    for each in (model, at_once):
        each.compile("adam", nn.loss.Cross_Entropy_With_Softmax())
        each.fit(X, Y, epoch=2, verbose=0)
    assert all(map(np.array_equal, model.get_weights(), at_once.get_weights()))
    assert names(model) == names(Model.from_bytes(model.to_bytes())) == names(at_once)
    model.trainable = True
    model.compile("adam", nn.loss.Cross_Entropy_With_Softmax())
    assert names(model) == names(stack())
    before = bits(model, trainable=True)
    model.fit(X, Y, epoch=1, verbose=0)
    assert all(bits(model, trainable=True)[name] != value for name, value in before.items())


def test_a_layer_that_is_thawed_in_a_frozen_model_is_trained():
    model = stack()
    model.trainable = False
    model.layers[2].trainable = True
    model.compile("adam", nn.loss.Cross_Entropy_With_Softmax())
    assert model.trainable and names(model) == ["dense_3/kernel", "dense_3/bias"]
    early = SequentialModel([-1, 8], [Dense(6), Dense(3)])
    early.trainable = False  # before there is a graph
    early.setup("mse")
    assert names(early) == [] and not early.trainable
    early.layers[1].trainable = True
    early.setup("mse")
    assert names(early) == ["dense_2/kernel", "dense_2/bias"]


def state(model, name, variable):
    """Return the part of a rule's array that belongs to a variable."""
    place = [each.name for each in model.store.variables].index(variable)
    start = sum(each.value.size for each in model.store.variables[:place])
    return model.rule.state_dict()[name][start : start + model.store.variables[place].value.size]


@pytest.mark.parametrize("again", [lambda model: model.setup(model.loss), lambda model: model.compile(model.rule)])
def test_what_stays_trained_keeps_the_state_of_its_rule(again):
    model = stack()
    model.compile(nn.gradient_descent.MovingAverage(nn.gradient_descent.ADAMOptimizer(0.01), 0.5))
    model.fit(X, Y, epoch=2, verbose=0)
    kept = state(model, "rule.square", "dense_3/kernel").copy()
    moving = state(model, "average", "dense_3/bias").copy()
    model.layers[0].trainable = False
    again(model)
    assert model.rule.step == 2 and model.rule.rule.step == 2
    assert kept.any() and np.array_equal(state(model, "rule.square", "dense_3/kernel"), kept)
    assert np.array_equal(state(model, "average", "dense_3/bias"), moving)
    fixed = model.get_weights()[0]
    model.fit(X, Y, epoch=1, verbose=0)
    kept = state(model, "rule.square", "dense_2/kernel").copy()
    model.layers[0].trainable, model.layers[2].trainable = True, False
    again(model)
    # What is new has the state of a first step, and a mean begins with the parameters.
    assert np.array_equal(state(model, "rule.square", "dense_2/kernel"), kept)
    assert not state(model, "rule.momentum", "dense_1/kernel").any()
    assert np.array_equal(state(model, "average", "dense_1/kernel"), fixed.ravel())
    model.fit(X, Y, epoch=1, verbose=0)
    assert not np.array_equal(model.get_weights()[0], fixed)


def test_a_model_within_another_is_frozen_after_both_were_set_up():
    x, inner = nn.Input([-1, 8]), nn.Input([-1, 8])
    base = Model(inner, BatchNorm(momentum=0.5)(Dense(6, "tanh")(inner)), name="base")
    base.compile("sgd", "mse")
    whole = Model(x, Dense(3, "softmax", name="head")(base(x)))
    whole.compile("adam", "categorical_crossentropy")
    whole.fit(X, Y, epochs=2, verbose=0)
    head = state(whole, "square", "head/kernel").copy()
    base.trainable = False
    with pytest.raises(
        ValueError, match=r"fit\(\) of Functional needs another compile\(\) or setup\(\): 'dense_1/kernel' was frozen"
    ):
        whole.fit(X, Y, verbose=0)
    whole.setup("categorical_crossentropy")
    assert names(whole) == ["head/kernel", "head/bias"] and np.array_equal(state(whole, "square", "head/kernel"), head)
    before = base.get_weights()
    losses = whole.fit(X, Y, epochs=3, verbose=0)["Loss"]
    assert all(map(np.array_equal, base.get_weights(), before)) and losses[-1] < losses[0]
    # The base itself was set up as one that learns, and goes on: statistics and all.
    base.train_on_batch(X, np.zeros((len(X), 6)))
    assert not any(map(np.array_equal, base.get_weights(), before))
    assert np.array_equal(whole.get_weights()[0], base.get_weights()[0])


class Twofold(Model):
    """Two layers of a class of one's own."""

    def __init__(self):
        super().__init__([-1, 8])
        self.first, self.second = Dense(6), Dense(5)

    def call(self, x):
        return self.second(self.first(x))


def functional():
    x = nn.Input([-1, 8])
    return Model(x, Dense(5)(Dense(6)(x)))


@pytest.mark.parametrize("make", [lambda: SequentialModel([-1, 8], [Dense(6), Dense(5)]), Twofold, functional])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("around", ["functional", "sequential", "layer"])
def test_a_model_that_is_not_built_is_frozen_within_another(make, when, around):
    base = make()
    if when == "before":
        base.trainable = False
    x = nn.Input([-1, 8])
    if around == "functional":
        model = Model(x, Dense(3)(base(x)))
    elif around == "sequential":
        model = SequentialModel([-1, 8], [base, Dense(3)])
    else:
        model = Model(x, Dense(3)(Block(base)(x)))
    if when == "after":
        base.trainable = False
    model.compile("sgd", "mse")
    before = {variable.name: variable.get_value() for variable in model.store.everything}
    model.train_on_batch(np.ones((4, 8)), np.ones((4, 3)))
    moved = [v.name for v in model.store.everything if (v.get_value() != before[v.name]).any()]
    assert moved == names(model)
    assert [variable.shape for variable in model.trainable_variables()] == [(5, 3), (3,)]
    assert not base.trainable


def test_a_part_of_a_model_within_another_is_thawed():
    """The whole trains layers of the base, not side by side in it; the base goes on with the first of them, and its state."""
    x, inner = nn.Input([-1, 8]), nn.Input([-1, 8])
    hidden = Dense(5, "relu", name="b")(Dense(6, "tanh", name="a")(inner))
    base = Model(inner, Dense(4, "relu", name="c")(BatchNorm(name="n")(hidden)))
    base.compile("adam", "mse")
    base.fit(X, X[:, :4], epochs=1, verbose=0)
    moments = state(base, "square", "c/kernel").copy()
    whole = Model(x, Dense(3, "softmax", name="head")(base(x)))
    base.trainable = False
    whole.compile("adam", "categorical_crossentropy")
    for name in ("c", "a"):
        base.get_layer(name).trainable = True
        whole.setup("categorical_crossentropy")
        before = bits(whole, trainable=False)
        whole.fit(X, Y, epochs=1, verbose=0)
        assert bits(whole, trainable=False) == before
        assert all(map(np.array_equal, base.get_weights(), whole.get_weights()))
    assert names(whole) == ["a/kernel", "a/bias", "c/kernel", "c/bias", "head/kernel", "head/bias"]
    other = copy.deepcopy(base)
    assert np.array_equal(other.predict(X), base.predict(X)) and names(other) == names(base) == ["c/kernel", "c/bias"]
    assert np.array_equal(state(base, "square", "c/kernel"), moments)
    base.train_on_batch(X, X[:, :4])
    assert all(map(np.array_equal, base.get_weights(), whole.get_weights()))
    assert np.array_equal(Model.from_bytes(base.to_bytes()).predict(X), base.predict(X))
    base.trainable = True  # and no part of it any more: all of it, in both
    whole.setup("categorical_crossentropy")
    base.setup("mse")
    assert names(whole)[:8] == names(base) and len(names(base)) == 8
    whole.fit(X, Y, epochs=1, verbose=0)
    assert all(map(np.array_equal, base.get_weights(), whole.get_weights()))


def test_a_model_that_is_refused_takes_no_variables_from_another():
    """Else the base, whose variables would have moved, could no longer train."""
    x, inner, shared = nn.Input([-1, 8]), nn.Input([-1, 6]), Dense(6, name="d")
    hidden = Dense(6, name="b")(Dense(6, "tanh", name="a")(x))
    base, other = Model(x, hidden), Model(inner, Dense(2)(shared(inner)))
    base.compile("sgd", "mse")
    other.compile("sgd", "mse")
    base.get_layer("b").trainable = False
    whole = Model(x, Dense(3, "softmax")(shared(hidden)))
    with pytest.raises(ValueError, match="would not lie side by side"):
        whole.compile("sgd", "categorical_crossentropy")
    assert not base.store.left and names(base) == ["a/kernel", "a/bias", "b/kernel", "b/bias"]


class Late(nn.callback.Callback):
    """Freezes a layer when an epoch has ended."""

    def __init__(self, then=None):
        super().__init__()
        self.then = then

    def on_epoch_end(self, epoch, logs):
        self.model.layers[0].trainable = False
        if self.then is not None:
            self.then(self.model)


@pytest.mark.parametrize(
    ("then", "text"),
    [
        (None, r"fit\(\) of SequentialModel needs another compile\(\)"),
        (lambda model: model.setup("mse"), r"setup\(\) of SequentialModel cannot change which variables are trained while"),
        (lambda model: model.compile("sgd"), r"compile\(\) of SequentialModel cannot change which variables are trained while"),
    ],
)
def test_a_training_that_runs_goes_on_with_its_variables_or_not_at_all(then, text):
    model = stack()
    rule, loss = model.rule, model.loss
    with pytest.raises(ValueError, match=text):
        model.fit(X, Y, epoch=2, verbose=0, callbacks=[Late(then)])
    assert (model.rule, model.loss, model.epochs_trained, len(names(model))) == (rule, loss, 1, 6)
    model.setup(loss)  # when it has ended
    model.fit(X, Y, epoch=1, verbose=0)
    assert len(names(model)) == 4


def forged(frozen):
    return Model.from_bytes(rewritten(stack(), lambda config: json.dumps({**json.loads(config), "frozen": frozen})))


@pytest.mark.parametrize(
    ("use", "error", "text"),
    [
        (lambda: marked().fit(X, Y, verbose=0), ValueError,
         r"fit\(\) of SequentialModel needs another compile\(\) or setup\(\): 'dense_1/kernel' was frozen after the last one"),
        (lambda: setattr(Dropout(0.5), "trainable", 0), TypeError, "Dropout 'trainable' must be .* bool, got int 0"),
        (lambda: BatchNorm(freeze_statistics=1), TypeError, "BatchNorm 'freeze_statistics' must be .* bool, got int 1"),
        (lambda: forged(["dense_9/kernel"]), ModelFileError,
         "'dense_9/kernel' cannot be frozen: the model has no trainable variable of this name"),
        (lambda: forged("dense_1/kernel"), ModelFileError, "'frozen' must be a list of names, got dense_1/kernel"),
        (lambda: forged([3]), ModelFileError, r"'frozen' must be a list of names, got \[3\]"),
        (lambda: forged(None), ModelFileError, "'frozen' must be a list of names, got None"),
    ],
)  # fmt: skip
def test_what_cannot_be_frozen_or_thawed_is_named(use, error, text):
    with pytest.raises(error, match=text):
        use()
