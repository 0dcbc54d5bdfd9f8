"""A model cut in two or more: the parts train as the whole, bit for bit, with every rule and wherever the cut is."""

import numpy as np
import pytest

import nn
from nn.gradient_descent import ADAMOptimizer
from nn.model import Fragment, Model
from tests.contract.nn_rows import RULES
from tests.nn.model.models import classifier, samples

X, Y = samples()


def deep(rule=None):
    """Return four layers with weights, dropout on both sides of the middle, and a softmax that the loss contains."""
    model = nn.model.SequentialModel([-1, 8])
    for _ in range(3):
        model.add(nn.layer.Dense(12, activation=nn.activation.Tanh()))
        model.add(nn.layer.Dropout(0.3))
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(rule or ADAMOptimizer(0.01))
    return model


class Residual(Model):
    """A branch around two layers, a layer used twice behind it, and a variable of its own."""

    def __init__(self):
        super().__init__([-1, 8])
        self.first = nn.layer.Dense(8, activation=nn.activation.Tanh(), name="first")
        self.inner, self.outer = nn.layer.Dense(8, name="inner"), nn.layer.Dense(8, name="outer")
        self.twice = nn.layer.Dense(8, activation=nn.activation.Tanh(), name="twice")
        self.joined = nn.layer.Dropout(0.2, name="joined")
        self.scale = nn.Variable([8], nn.initializer.Constant(0.5))

    def call(self, x):
        x = self.first(x)
        x = self.joined(x + self.outer(self.inner(x)) * self.scale)
        return self.twice(self.twice(x) + 1)


class Tied(Model):
    def __init__(self):
        super().__init__([-1, 8])
        self.shared, self.between = nn.layer.Dense(8, name="shared"), nn.layer.Dropout(0.1, name="between")

    def call(self, x):
        return self.shared(self.between(self.shared(x)))


def regression(model):
    model.setup(nn.loss.MSELoss())
    model.compile(ADAMOptimizer)
    return model


def residual():
    return regression(Residual())


def train(parts, steps, y=Y, gradients_ready=None):
    """Train a model, or a chain of fragments that exchange nothing but activations and gradients, as copies."""
    losses = []
    for step in steps:
        key, rows = (3, 0, step, 0), slice(step * 20 % 100, step * 20 % 100 + 20)
        activations = X[rows]
        for part in parts[:-1]:
            activations = part.forward(activations, key).copy()
        losses.append(parts[-1].compute_gradients(activations, y[rows], gradients_ready, key)[0])
        for before, part in zip(reversed(parts[:-1]), reversed(parts[1:]), strict=True):
            before.backward(part.input_gradient.copy(), gradients_ready)
        for part in parts:
            part.apply_gradients()
    return losses


def weights(*parts):
    return {variable.name: variable.value.tobytes() for part in parts for variable in part.store.everything}


def assert_alike(whole, parts, steps, y=Y):
    assert train(parts, steps, y) == train([whole], steps, y)
    assert weights(*parts) == weights(whole)


@pytest.mark.share(4)
@pytest.mark.parametrize("in_parts", [False, True], ids=["at once", "in parts of the batch"])
@pytest.mark.parametrize("at", ["dense_1", "dropout_1", "dense_2", "dropout_3", 1, 2, 5, 6])
def test_both_halves_equal_the_whole_bit_for_bit(at, in_parts, monkeypatch):
    """Where the whole computes in parts of the batch, the cut goes through stages, and the sums have the same order."""
    for constant, value in {"LARGE": 1, "REREAD": 0, "PART_BYTES": 300}.items() if in_parts else ():
        monkeypatch.setattr(f"nn.plan.stages.{constant}", value)
    whole = deep()
    train([whole], range(3))
    before = weights(whole)
    train(list(whole.split(at)), range(3))
    assert weights(whole) == before, "the halves touch the whole"
    front, back = whole.split(at)
    assert_alike(whole, [front, back], range(3, 12))
    assert np.array_equal(back.predict(front.predict(X)), whole.predict(X))
    assert back.evaluate(front.predict(X), Y) == whole.evaluate(X, Y)


@pytest.mark.parametrize("row", RULES, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
def test_for_every_rule(row):
    rule = row.build()
    whole = deep(rule)
    train([whole], range(2))
    if rule.clip_norm is None:
        assert_alike(whole, list(whole.split("dense_2")), range(2, 6))
        return
    with pytest.raises(ValueError, match=r"split\(\) needs a rule that the halves can apply apart; 'clip_norm' looks at both"):
        whole.split("dense_2")


def test_the_factor_of_the_loss_goes_with_the_half_that_has_it():
    whole = nn.model.SequentialModel([-1, 8], [nn.layer.Dense(4, name="first"), nn.layer.Dense(3)])
    whole.compile("sgd", "crossentropy_with_softmax", loss_weights=[0.25])
    assert_alike(whole, list(whole.split("first")), range(3))


def test_as_many_parts_as_one_likes_with_names_of_the_whole_and_ids_of_their_own():
    whole = deep()
    front, back = whole.split("dense_1")
    middle, back = back.split("dense_3")
    assert (middle.begin, middle.end, back.begin, back.end) == ("dense_1", "dense_3", "dense_3", None)
    assert_alike(whole, [front, middle, back], range(6))
    names: list[str] = []
    front, back = deep().split(4)
    assert [layer.name for layer in front.graph.layers] == ["dense_1", "dropout_1", "dense_2", "dropout_2"]
    found = [(variable.id, variable.name) for variable in back.trainable_variables()]
    assert found == [(0, "dense_3/kernel"), (1, "dense_3/bias"), (2, "dense_4/kernel"), (3, "dense_4/bias")]
    assert "dropout_3 (Dropout)" in back.summary()
    train([front, back], range(1), gradients_ready=lambda variable: names.append(variable.name))
    assert [name.split("/")[0] for name in names[::2]] == ["dense_4", "dense_3", "dense_2", "dense_1"]


def test_parts_are_saved_and_go_on():
    whole = deep()
    parts = list(whole.split("dropout_2"))
    train(parts, range(3))
    again = [Model.from_bytes(part.to_bytes()) for part in parts]
    assert [type(part) for part in again] == [Fragment, Fragment]
    assert [part.to_bytes() for part in again] == [part.to_bytes() for part in parts]
    assert train(again, range(3, 7)) == train(parts, range(3, 7))
    train([whole], range(7))
    assert weights(*again) == weights(*parts) == weights(whole)


@pytest.mark.parametrize("at", ["first", "joined"])
def test_a_graph_with_branches(at):
    whole = residual()
    parts = list(whole.split(at))
    assert_alike(whole, parts, range(3), y=X)
    again = Model.from_bytes(parts[1].to_bytes(), {"Residual": Residual})
    assert again.to_bytes() == parts[1].to_bytes()


def test_half_without_variables():
    model = regression(nn.model.SequentialModel([-1, 2, 4], [nn.layer.Flatten(), nn.layer.Dense(3)]))
    parts, x, y = model.split("flatten_1"), np.ones((5, 2, 4)), np.ones((5, 3))
    front, back = parts
    back.compute_gradients(front.forward(x), y)
    front.backward(back.input_gradient)
    model.compute_gradients(x, y)
    for each in (*parts, model):
        each.apply_gradients()
    assert weights(*parts) == weights(model)


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("inner", r"behind 'inner' 2 cross the cut: the result of first \(-1, 8\), the result of inner \(-1, 8\)"),
        ("outer", r"behind 'outer' 2 cross the cut: the result of first \(-1, 8\), the result of outer"),
        ("twice", r"split\(\) 'at' must leave a layer behind the cut, but 'twice' gives the output of the model"),
        ("third", r"split\(\) 'at' must be one of the layers first, inner, outer, joined, twice, got 'third'"),
        (0, r"split\(\) 'at' must be a positive integer, got 0"),
        (6, r"split\(\) 'at' must be at most 5, the number of layers, got 6"),
    ],
)
def test_cuts_that_are_none_are_named(at, message):
    with pytest.raises(ValueError, match=message):
        residual().split(at)


def test_mistakes_are_named():
    front, back = classifier().split("dense_1")
    for use, text in (
        (lambda: regression(Tied()).split("between"), "on both sides of the cut: variable shared/kernel, shared/bias"),
        (lambda: nn.model.SequentialModel(layers=[nn.layer.Dense(3)]).split(1), "SequentialModel is not built yet"),
        (lambda: back.input_gradient, "there is no gradient of the input yet"),
        (lambda: front.backward(np.zeros((100, 16))), r"backward\(\) needs a forward\(\) just before"),
        (lambda: front.forward(X) is not None and front.backward(np.zeros((100, 3))),
         r"'gradient' must have the shape \(100, 16\) of the output, got \(100, 3\)"),
        (lambda: front.compute_gradients(X, Y), r"Fragment has no loss yet; call compile\(\) or setup\(\) first"),
        (lambda: back.predict(X), r"'x' must have the model's input shape \(-1, 16\), got \(100, 8\)"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            use()
