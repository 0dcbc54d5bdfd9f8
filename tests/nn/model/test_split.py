from collections.abc import Callable

import numpy as np
import pytest

import nn
from nn.gradient_descent import ADAMOptimizer
from nn.model import Fragment, Model
from nn.value import Value
from tests.contract.nn_rows import RULES, RuleRow
from tests.nn.model.models import classifier, samples


def deep(rule: nn.gradient_descent.IGradientDescent | None = None, seed: int = 0) -> nn.model.SequentialModel:
    """Return four layers with weights, dropout on both sides of the middle, and a softmax that the loss contains."""
    model = nn.model.SequentialModel([-1, 8], seed=seed)
    for _ in range(3):
        model.add(nn.layer.Dense(12, activation=nn.activation.Tanh()))
        model.add(nn.layer.Dropout(0.3))
    model.add(nn.layer.Dense(3, activation=nn.activation.Softmax()))
    model.setup(nn.loss.Cross_Entropy_With_Softmax(), nn.metric.CategoricalAccuracy())
    model.compile(rule or ADAMOptimizer(0.01))
    return model


def train_whole(model: Model, steps: range, batch: int = 20) -> list[float]:
    x, y = samples()
    losses = []
    for step in steps:
        rows = slice(step * batch % 100, step * batch % 100 + batch)
        losses.append(model.compute_gradients(x[rows], y[rows], key=(3, 0, step, 0))[0])
        model.apply_gradients()
    return losses


def train_parts(parts: list[Fragment], steps: range, batch: int = 20) -> list[float]:
    """Train a chain of fragments that exchange nothing but activations and gradients, as copies."""
    x, y = samples()
    losses = []
    for step in steps:
        key, rows = (3, 0, step, 0), slice(step * batch % 100, step * batch % 100 + batch)
        activations = x[rows]
        for part in parts[:-1]:
            activations = part.forward(activations, key).copy()
        losses.append(parts[-1].compute_gradients(activations, y[rows], key=key)[0])
        gradient = parts[-1].input_gradient.copy()
        for part in reversed(parts[:-1]):
            gradient = part.backward(gradient).copy()
        for part in parts:
            part.apply_gradients()
    return losses


def weights(*parts: Model) -> dict[str, np.ndarray]:
    return {variable.name: variable.get_value() for part in parts for variable in part.store.everything}


def same(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("at", ["dense_1", "dropout_1", "dense_2", "dropout_3", 1, 2, 5, 6])
def test_both_halves_equal_the_whole_bit_for_bit(at: str | int) -> None:
    whole = deep()
    train_whole(whole, range(3))
    front, back = whole.split(at)
    expected = train_whole(whole, range(3, 12))
    assert train_parts([front, back], range(3, 12)) == expected
    assert same(weights(front, back), weights(whole))
    x, y = samples()
    assert np.array_equal(back.predict(front.predict(x)), whole.predict(x))
    assert back.evaluate(front.predict(x), y) == whole.evaluate(x, y)


@pytest.mark.parametrize("at", ["dense_1", "dropout_1", "dense_2", 5])
def test_also_where_the_whole_computes_in_parts_of_the_batch(at: str | int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut goes through stages; the halves add up the gradients of the same parts in the same order."""
    for constant, value in {"LARGE": 1, "REREAD": 0, "PART_BYTES": 300}.items():
        monkeypatch.setattr(f"nn.plan.stages.{constant}", value)
    test_both_halves_equal_the_whole_bit_for_bit(at)


@pytest.mark.parametrize("row", RULES, ids=lambda row: f"{row.kind.__name__} {row.label}".strip())
def test_for_every_rule(row: RuleRow) -> None:
    rule = row.build()
    whole = deep(rule)
    train_whole(whole, range(2))
    if rule.clip_norm is not None:
        with pytest.raises(
            ValueError, match=r"split\(\) needs a rule that the halves can apply apart; 'clip_norm' looks at both"
        ):
            whole.split("dense_2")
        return
    front, back = whole.split("dense_2")
    assert train_whole(whole, range(2, 6)) == train_parts([front, back], range(2, 6))
    assert same(weights(front, back), weights(whole))


def test_as_many_parts_as_one_likes() -> None:
    whole = deep()
    front, back = whole.split("dense_1")
    middle, back = back.split("dense_3")
    assert (middle.begin, middle.end, back.begin, back.end) == ("dense_1", "dense_3", "dense_3", None)
    assert train_whole(whole, range(6)) == train_parts([front, middle, back], range(6))
    assert same(weights(front, middle, back), weights(whole))


def test_the_parts_have_the_names_of_the_whole_and_ids_of_their_own() -> None:
    front, back = deep().split(4)
    assert [(variable.id, variable.name) for variable in back.trainable_variables()] == [
        (0, "dense_3/kernel"),
        (1, "dense_3/bias"),
        (2, "dense_4/kernel"),
        (3, "dense_4/bias"),
    ]
    assert [layer.name for layer in front.graph.layers] == ["dense_1", "dropout_1", "dense_2", "dropout_2"]
    assert "dropout_3 (Dropout)" in back.summary()


def test_the_halves_do_not_touch_the_whole() -> None:
    whole = deep()
    before = weights(whole)
    train_parts(list(whole.split("dense_2")), range(2))
    assert same(weights(whole), before)


def test_parts_are_saved_and_go_on() -> None:
    whole = deep()
    parts = list(whole.split("dropout_2"))
    train_parts(parts, range(3))
    again = [Model.from_bytes(part.to_bytes()) for part in parts]
    assert [type(part) for part in again] == [Fragment, Fragment]
    assert [part.to_bytes() for part in again] == [part.to_bytes() for part in parts]
    expected = train_parts(parts, range(3, 7))
    assert train_parts([part for part in again if isinstance(part, Fragment)], range(3, 7)) == expected
    assert same(weights(*again), weights(*parts))
    train_whole(whole, range(7))
    assert same(weights(*again), weights(whole))


def test_gradients_are_announced_on_the_way() -> None:
    x, y = samples(10)
    front, back = deep().split("dense_2")
    names: list[str] = []
    tell: Callable[[nn.Variable], None] = lambda variable: names.append(variable.name)  # noqa: E731
    activations = front.forward(x, (0, 0, 0, 0))
    back.compute_gradients(activations, y, tell, (0, 0, 0, 0))
    front.backward(back.input_gradient, tell)
    assert [name.split("/")[0] for name in names[::2]] == ["dense_4", "dense_3", "dense_2", "dense_1"]


class Residual(Model):
    """A branch around two layers, a layer used twice behind it, and a variable of its own."""

    def __init__(self) -> None:
        super().__init__([-1, 8])
        self.first = nn.layer.Dense(8, activation=nn.activation.Tanh(), name="first")
        self.inner = nn.layer.Dense(8, name="inner")
        self.outer = nn.layer.Dense(8, name="outer")
        self.twice = nn.layer.Dense(8, activation=nn.activation.Tanh(), name="twice")
        self.joined = nn.layer.Dropout(0.2, name="joined")
        self.scale = nn.Variable([8], nn.initializer.Constant(0.5))

    def call(self, x: Value) -> Value:
        x = self.first(x)
        x = self.joined(x + self.outer(self.inner(x)) * self.scale)
        return self.twice(self.twice(x) + 1)


def residual() -> Residual:
    model = Residual()
    model.setup(nn.loss.MSELoss())
    model.compile(ADAMOptimizer)
    return model


@pytest.mark.parametrize("at", ["first", "joined"])
def test_a_graph_with_branches(at: str) -> None:
    whole = residual()
    x, _ = samples()
    front, back = whole.split(at)
    for step in range(3):
        key = (0, 0, step, 0)
        loss = whole.compute_gradients(x, x, key=key)[0]
        assert back.compute_gradients(front.forward(x, key), x, key=key)[0] == loss
        front.backward(back.input_gradient)
        for model in (whole, front, back):
            model.apply_gradients()
    assert same(weights(front, back), weights(whole))
    again = Model.from_bytes(back.to_bytes(), {"Residual": Residual})
    assert again.to_bytes() == back.to_bytes()


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
def test_cuts_that_are_none_are_named(at: str | int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        residual().split(at)


def test_a_layer_on_both_sides_is_named() -> None:
    class Tied(Model):
        def __init__(self) -> None:
            super().__init__([-1, 8])
            self.shared, self.between = nn.layer.Dense(8, name="shared"), nn.layer.Dropout(0.1, name="between")

        def call(self, x: Value) -> Value:
            return self.shared(self.between(self.shared(x)))

    model = Tied()
    model.setup(nn.loss.MSELoss())
    with pytest.raises(ValueError, match="on both sides of the cut: variable shared/kernel, shared/bias"):
        model.split("between")


def test_mistakes_are_named() -> None:
    x, y = samples(10)
    front, back = classifier().split("dense_1")
    with pytest.raises(ValueError, match="there is no gradient of the input yet"):
        back.input_gradient  # noqa: B018
    with pytest.raises(ValueError, match=r"backward\(\) needs a forward\(\) just before"):
        front.backward(np.zeros((10, 16)))
    front.forward(x)
    with pytest.raises(ValueError, match=r"'gradient' must have the shape \(10, 16\) of the output, got \(10, 3\)"):
        front.backward(np.zeros((10, 3)))
    with pytest.raises(ValueError, match=r"Fragment has no loss yet; call setup\(\) first"):
        front.compute_gradients(x, y)
    with pytest.raises(ValueError, match=r"'x' must have the model's input shape \(-1, 16\), got \(10, 8\)"):
        back.predict(x)
    unbuilt = nn.model.SequentialModel(layers=[nn.layer.Dense(3)])
    with pytest.raises(ValueError, match="SequentialModel is not built yet"):
        unbuilt.split(1)


def test_half_without_variables() -> None:
    model = nn.model.SequentialModel([-1, 2, 4], [nn.layer.Flatten(), nn.layer.Dense(3)])
    model.setup(nn.loss.MSELoss())
    model.compile(ADAMOptimizer)
    front, back = model.split("flatten_1")
    x, y = np.ones((5, 2, 4)), np.ones((5, 3))
    back.compute_gradients(front.forward(x), y)
    front.backward(back.input_gradient)
    front.apply_gradients()
    back.apply_gradients()
    model.compute_gradients(x, y)
    model.apply_gradients()
    assert same(weights(front, back), weights(model))
