"""How models are built, layer by layer or by `call`: names, order, shapes, and every mistake by name."""

import re

import numpy as np
import pytest

import nn
from nn.layer import Dense, Flatten, MaxPool
from nn.model import Model, SequentialModel
from nn.value import Variable
from tests.nn.model.models import Line, classifier, samples

X, Y = samples()


def ready(model, *metrics, loss=None):
    model.setup(loss or nn.loss.MSELoss(), *metrics)
    model.compile(nn.gradient_descent.SGDOptimizer(0.1))
    return model


def called(call, *shape):
    """Return a model whose `call` is this function."""
    kind = type("Called", (Model,), {"call": lambda self, x: call(x)})
    return ready(kind([-1, *shape]))


def names(model):
    return [variable.name for variable in model.trainable_variables()]


def test_variables_exist_after_setup_in_order_with_names_and_ids():
    model = classifier()
    variables = model.trainable_variables()
    assert [(variable.id, variable.name, variable.shape) for variable in variables] == [
        (0, "dense_1/kernel", (8, 16)),
        (1, "dense_1/bias", (16,)),
        (2, "dense_2/kernel", (16, 3)),
        (3, "dense_2/bias", (3,)),
    ]
    assert model.store.variables == variables
    for variable in variables:
        assert np.shares_memory(variable.value, model.store.values)
        assert np.shares_memory(variable.gradient, model.store.gradients)
    first, again, other = (classifier(seed=seed).store.values for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_names():
    """Given ones are kept; others are numbered in the order of first calls."""
    model = ready(SequentialModel([-1, 4], [Dense(2, name="dense_1"), Dense(2), Dense(2)]))
    assert [layer.name for layer in model.layers] == ["dense_1", "dense_2", "dense_3"]
    assert names(called(lambda x: x * Variable([1]) + Variable([1]), 2)) == ["variable_1", "variable_2"]
    branches = called(lambda x: nn.layer.Add()([Dense(2)(Dense(3)(x)), Dense(2)(x)]), 4)
    shapes = {variable.name: variable.shape for variable in branches.trainable_variables()}
    assert [shapes[f"dense_{number}/kernel"] for number in (1, 2, 3)] == [(4, 3), (3, 2), (4, 2)]


def test_predictions_are_probabilities_although_the_loss_contains_the_softmax():
    model = classifier()
    kernel, bias, head, shift = (variable.get_value() for variable in model.trainable_variables())
    score = np.tanh(X @ kernel + bias) @ head + shift
    expected = np.exp(score) / np.exp(score).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-5)
    np.testing.assert_allclose(model.compute_gradients(X, Y)[1], expected, rtol=1e-5)
    assert model.predict(X).dtype == np.float32
    cross_entropy, gradients = nn.loss.Cross_Entropy_With_Softmax, []
    for activation in (nn.activation.Softmax(), nn.activation.Linear()):  # one that ends in scores learns the same
        model = ready(SequentialModel([-1, 8], [Dense(3, activation=activation)]), loss=cross_entropy())
        gradients.append((model.compute_gradients(X, Y)[0], model.store.gradients.tobytes()))
    assert gradients[0] == gradients[1]

    class Only(nn.layer.Layer):
        def call(self, x):
            return nn.activation.Softmax()(x)

    alone = ready(SequentialModel([-1, 3], [Dense(3), Only()]), loss=cross_entropy())
    assert alone.compute_gradients(np.zeros((1, 3)), [1])[1].sum() == pytest.approx(1)


def test_float64_on_request():
    model = classifier(dtype="float64")
    assert model.store.values.dtype == model.predict(X).dtype == np.float64
    model.fit(X, Y, epoch=1, verbose=0)
    assert model.store.values.dtype == np.float64


def test_the_input_shape_may_come_with_the_data_and_a_second_setup_keeps_the_weights():
    model = ready(SequentialModel(layers=[Dense(3)]), nn.metric.CategoricalAccuracy())
    assert not model.built
    model.evaluate(X, np.eye(3)[Y])
    assert model.input_shape == (-1, 8)
    assert len(model.trainable_variables()) == 2
    model.fit(X, np.eye(3)[Y], epoch=1, verbose=0)
    weights = model.store.values.copy()
    model.setup(nn.loss.MSELoss())
    assert np.array_equal(model.store.values, weights)
    assert set(model.evaluate(X, np.eye(3)[Y])) == {"Loss"}


def test_summary(capsys):
    """It is printed; its text is returned, which an interpreter or a notebook does not show again."""
    text = classifier(dropout=0.5).summary()
    assert capsys.readouterr().out == f"{text}\n"
    assert repr(text) == "<summary of SequentialModel>"
    lines = text.splitlines()
    assert lines[0] == "SequentialModel"
    assert "dense_1 (Dense)      (-1, 16)             144" in lines
    assert "dropout_1 (Dropout)  (-1, 16)               0" in lines
    assert "Trainable parameters: 195 (780 bytes as float32)" in lines


def test_linear_regression_by_operators_trains():
    model, x = ready(Line(), nn.metric.MeanSquareError()), np.linspace(-1, 1, 200).reshape(-1, 1)
    model.fit(x, 3 * x - 2, epoch=60, batch_size=20, verbose=0)
    assert model.w.get_value().item() == pytest.approx(3, abs=1e-3)
    assert model.b.get_value().item() == pytest.approx(-2, abs=1e-3)
    assert model.evaluate(x, 3 * x - 2)["mse"] < 1e-5
    assert [(variable.id, variable.name) for variable in model.trainable_variables()] == [(0, "w"), (1, "b")]
    assert "w (Variable)" in model.summary()


class Twins(Model):
    """Two inputs' halves through one shared layer, and variables in a list."""

    def __init__(self):
        super().__init__(input_shape=[-1, 4])
        self.shared, self.scales = Dense(4, activation=nn.activation.Tanh()), [Variable([4]), Variable([4])]

    def call(self, x):
        return self.shared(x * self.scales[0]) + self.shared(self.shared(x) * self.scales[1])

    def trainable_variables(self):
        return [*self.shared.variables, *reversed(self.scales)]


class Frozen(Line):
    def trainable_variables(self):
        return [self.b]


class Stray(Line):
    def trainable_variables(self):
        return [self.w, self.b, Variable([1], name="stray")]


def test_trainable_variables_decides_what_is_trained_and_the_order_of_ids():
    model = ready(Twins())
    assert [variable.id for variable in model.store.variables] == [0, 1, 2, 3]
    assert model.store.variables == [*model.shared.variables, model.scales[1], model.scales[0]]
    assert names(model)[:2] == ["dense_1/kernel", "dense_1/bias"]
    frozen, x = ready(Frozen()), np.ones((4, 1))
    frozen.compute_gradients(x, x)
    before = frozen.w.get_value()
    frozen.fit(x, 5 * x, epoch=2, verbose=0)
    assert np.array_equal(frozen.w.get_value(), before)
    assert frozen.store.values.size == 1
    again = Model.from_bytes(frozen.to_bytes(), {"Frozen": Frozen})  # what is left out is saved
    assert np.array_equal(again.predict(x), frozen.predict(x))


def test_errors_while_building_name_the_layer_as_the_model_would():
    for first, unnamed in ((MaxPool(2), 2), (MaxPool(2, name="maxpool_1"), 3)):
        pools = [MaxPool(2) for _ in range(unnamed)]
        with pytest.raises(ValueError, match=r"^MaxPool 'maxpool_3': "):
            ready(SequentialModel([-1, 4, 4, 1], [first, *pools]))
        assert [layer.given_name for layer in pools] == [""] * unnamed
    rows = ready(SequentialModel(layers=[Dense(1)]))
    with pytest.raises(ValueError, match=r"Dense 'dense_1': .* \(for samples of one number each give x\[:, None\]\)"):
        rows.fit(np.zeros(5), np.zeros(5), verbose=0)
    rows.fit(np.zeros((5, 1)), np.zeros(5), epoch=1, verbose=0)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (
            np.zeros((5, 7)),
            r"SequentialModel 'x' must have the model's input shape \(-1, 8\), got \(5, 7\): axis 1 must have length 8, got 7",
        ),
        (np.zeros(8), r"got \(8,\): a single sample needs an axis in front, x\[None\]"),
        (np.zeros((2, 8, 8, 1)), r"got \(2, 8, 8, 1\): expected 2 axes, got 4"),
        (np.zeros((0, 8)), r"'x' must hold at least one sample, got shape \(0, 8\)"),
        (np.array([["a"] * 8]), "'x' must hold numbers, got texts"),
    ],
)
def test_wrong_samples_are_named(x, message):
    model = classifier()
    for call in (
        model.predict,
        *(lambda x, use=use: use(x, [0]) for use in (model.fit, model.evaluate, model.compute_gradients)),
    ):
        with pytest.raises(ValueError, match=message):
            call(x)


def flat(*shape):
    return ready(SequentialModel([-1, *shape], [Flatten(), Dense(1)]))


class Nothing(nn.layer.Layer):
    def call(self, x):
        """Forget to return."""


class Lazy(nn.layer.Layer):
    def __init__(self):
        """Forget the base class."""

    def call(self, x):
        return x


class Idle(Line):
    def __init__(self):
        """Forget the base class."""


NO_LOSS = r"ValueError: .*SequentialModel has no loss yet; call compile\(\) or setup\(\) first"
NOT_BUILT = r"ValueError: .*SequentialModel is not built yet; call compile\(\) or setup\(\) first"
UNREADY, READY = SequentialModel([-1, 8], [Dense(3)]), SequentialModel([-1, 8], [Dense(3)])
READY.setup(nn.loss.Cross_Entropy_With_Softmax())
ONE_OUTPUT = r"ValueError: .*call\(\) must return one output per sample, \(-1, ...\), "
NO_SUPER = r"__init__\(\) must call super\(\).__init__\(\)"


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda: ready(SequentialModel([-1, 8])), "ValueError: .*SequentialModel has no layers"),
        (lambda: UNREADY.fit(X, Y), NO_LOSS),
        (lambda: UNREADY.predict(X), NO_LOSS),
        (lambda: UNREADY.evaluate(X, Y), NO_LOSS),
        (lambda: UNREADY.trainable_variables(), NOT_BUILT),
        (lambda: UNREADY.to_bytes(), NOT_BUILT),
        (lambda: ready(SequentialModel(layers=[Dense(3)])).summary(),
         "ValueError: .*SequentialModel is not built yet; without an input_shape it is built from the first data$"),
        (lambda: ready(Line()).summary(),
         r"first data; super\(\).__init__\(input_shape=\[-1, ..\]\) in its constructor gives it one$"),
        (lambda: READY.fit(X, Y, verbose=0), r"ValueError: .*is not compiled; call compile\(\) with a rule"),
        (lambda: READY.add(Dense(3)), r"the model is set up, so Dense cannot be added; add layers before setup\(\)"),
        (lambda: SequentialModel([-1, 8]).add(Flatten),
         r"TypeError: .*'layer' must be an instance of Layer, got the class; write Flatten\(\)"),
        (lambda: READY.setup(nn.loss.MSELoss),
         r"TypeError: .*setup\(\) 'loss' must be an instance of Loss, got the class; write MSELoss\(\)"),
        (lambda: Dense(unit=3), "TypeError: Dense has no argument 'unit', but units, activation, .*; did you mean 'units'?"),
        (lambda: nn.layer.Conv2D(filter=3), "TypeError: Conv2D has no argument 'filter', but kernel, kernel_size, stride, "),
        (lambda: READY.setup("mse", ["mse"]),
         r"TypeError: setup\(\) 'metrics' must be given one by one, got \['mse'\]; write setup\(loss, \*metrics\)"),
        (lambda: READY.setup(nn.loss.MSELoss(), 3), r"TypeError: .*setup\(\) 'metrics' must be an instance of Metric"),
        (lambda: READY.setup(nn.loss.MSELoss(), nn.metric.MeanSquareError(), nn.metric.MeanSquareError()),
         "ValueError: .*must have different names, got Loss, mse, mse"),
        (lambda: SequentialModel([-1, 8], [Dense(3)]).compile("sgd", "crossentropi"),
         r"ValueError: compile\(\) 'loss' must be one of .*; did you mean 'crossentropy'"),
        (lambda: READY.compile(3), r"TypeError: .*compile\(\) 'optimizer' must be an instance of IGradientDescent"),
        (lambda: READY.compile(nn.optimizer.GDOptimizer), "TypeError: .*OpContainer 'gd_type' must be a class"),
        (lambda: SequentialModel([-1, 2], dtype="int32"), "ValueError: .*'dtype' must be float32 or float64, got int32"),
        *((lambda given=given: SequentialModel(given),
           r"TypeError: .*got layers; these are the second argument: write SequentialModel\(layers=")
          for given in ([Dense(1)], Dense(1), [Flatten])),
        (lambda: ready(SequentialModel([-1, 4], [Dense(2, name="a"), Dense(2, name="a")])),
         "ValueError: .*2 layers are named 'a'; names must differ within a model"),
        (lambda: called(lambda x: x * Variable([1], name="w") + Variable([1], name="w"), 2), "2 variables are named 'w'"),
        (lambda: flat(1).predict(np.zeros(9)), r"'x' must have the model's input shape .*, got \(9,\): .*x\[:, None\]"),
        (lambda: flat(4, 4, 1).predict(np.zeros((9, 4, 4))), r"model's input shape .*, got \(9, 4, 4\): .*x\[\.\.\., None\]"),
        (lambda: flat(4, 4).predict(np.zeros((4, 4))), r"'x' must have the model's input shape .*, got \(4, 4\): .*x\[None\]"),
        (lambda: classifier().fit(X, Y[:9]), "ValueError: .*'label' must hold one label for each of the 100 samples, got 9"),
        (lambda: classifier().compute_gradients(X, np.full(100, 5)), r"labels must lie in 0\.\.2 for 3 outputs, got 5\.\.5"),
        (lambda: classifier().fit(X, Y, validation_data=(X, Y[:3]), verbose=0), "for each of the 100 samples, got 3"),
        (lambda: ready(Stray()).predict(np.ones((1, 1))),
         r"ValueError: .*must return different trainable variables that call\(\) uses, got 'stray'"),
        (lambda: called(lambda x: None, 2), rf"{ONE_OUTPUT}got NoneType; is a 'return' missing\?"),
        (lambda: called(lambda x: x, 2), r"ValueError: .*got shape \(-1, 2\)"),
        (lambda: called(lambda x: np.ones((3, 5)) @ Variable([5, 2]), 2), r"ValueError: .*got shape \(3, 2\)"),
        (lambda: called(lambda x: x.reshape(-1, 1) * Variable([1]), 2).compute_gradients(np.ones((3, 2)), np.ones((3, 1))),
         "ValueError: .*must give one output per sample"),
        (lambda: ready(SequentialModel([-1, 2], [Nothing()])),
         r"TypeError: Nothing 'nothing_1': call\(\) must return a value of the graph, got NoneType; is a"),
        (Lazy, f"TypeError: Lazy.{NO_SUPER}"),
        (lambda: Idle().setup(nn.loss.MSELoss()), f"TypeError: Idle.{NO_SUPER}"),
        (lambda: Idle().compile(nn.gradient_descent.SGDOptimizer), f"TypeError: Idle.{NO_SUPER}"),
    ],
)  # fmt: skip
def test_mistakes_are_named(use, text):
    with pytest.raises((TypeError, ValueError)) as caught:
        use()
    assert re.search(text if "Error: " in text else f"ValueError: .*{text}", f"{caught.type.__name__}: {caught.value}")
